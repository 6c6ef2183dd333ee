"""All meaning in one place: parse, resolve, predict, decide. Pure: no I/O and no Ansible import.

The thin filter files beside this package put its folder on ``sys.path`` and expose its functions.
"""
