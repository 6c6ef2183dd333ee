"""The command line of `./upgrade`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from front.run import ROOT, Request, run, steps_by_play
from front.story import BAD

EPILOG = """exit codes: 0 done, 1 error, 2 stopped by a gate or as asked, 3 rolled back, 4 bad input.
Ctrl-C asks the run to stop at its next safe point, a second one kills it. ansible-playbook does the
same without this command."""


class Parser(argparse.ArgumentParser):
    """argparse with this command's exit code for bad input."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and leave."""
        self.exit(BAD, f"{self.prog}: {message}. Next: {self.prog} --help\n")


def environments(inventories: Path) -> list[str]:
    """Return the names that can be asked for."""
    return sorted(p.name for p in inventories.iterdir() if p.is_dir()) if inventories.is_dir() else []


def inventory_of(environment: str, inventories: Path) -> Path:
    """Return what Ansible gets as inventory.

    Raises:
        ValueError: no such environment.
    """
    if environment not in environments(inventories):
        there = ", ".join(environments(inventories)) or "none"
        raise ValueError(f"environment {environment!r}: no such folder in {inventories.name}/; there are: {there}")
    hosts = inventories / environment / "hosts.yml"
    return hosts if hosts.exists() else inventories / environment


def parsed(arguments: Sequence[str], steps: Sequence[str], inventories: Path) -> Request:
    """Return what the arguments ask for; bad ones leave with exit code 4."""
    parser = Parser("upgrade", description="Upgrade the Istio of one environment, step by step.", epilog=EPILOG)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("environment", metavar="ENVIRONMENT", help="a folder in inventories/")
    parser.add_argument("--to", default="", metavar="VERSION", help="the version to go to, instead of the inventory's")
    parser.add_argument("--check", action="store_true", help="change nothing, show what each step would do")
    parser.add_argument(
        "--stop-after", default="", metavar="STEP", choices=["", *steps], help=f"one of {', '.join(steps)}"
    )
    parser.add_argument("--status", action="store_true", help="only show where the upgrade stands")
    parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON object a line")
    found = parser.parse_args(arguments)
    if found.to and not re.fullmatch(r"\d+\.\d+\.\d+", found.to):
        parser.error(f"--to {found.to!r} is no version such as 1.31.0")
    if found.status and (found.check or found.stop_after):
        parser.error("--status reads only: --check and --stop-after have no meaning with it")
    try:
        inventory = inventory_of(found.environment, inventories)
    except ValueError as error:
        parser.error(str(error))
    return Request(found.environment, inventory, found.to, found.stop_after, found.check, found.status, found.as_json)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code."""
    steps = list(steps_by_play().values())
    request = parsed(sys.argv[1:] if arguments is None else arguments, steps, ROOT / "inventories")
    return run(request, sys.stdout)
