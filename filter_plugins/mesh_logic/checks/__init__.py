"""The checks before an upgrade: a catalogue, small functions from facts to findings, and the judge over waivers.

`catalogue` says what each check is; the other files hold functions (Context -> findings); `run` calls them all.
"""
