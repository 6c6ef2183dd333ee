"""What the roles of the chain call istioctl for, read from their tasks: words that must never be there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from mesh_logic.steps import STEPS

from tests.unit.test_roles import flat

ROLES = Path(__file__).resolve().parents[2] / "roles"
ROAD = sorted({role for role, _, _ in STEPS.values()} | {"mesh"})
# A word of istioctl in an argv expression: `, 'tag', 'set', ...`.
WORD = re.compile(r"'([^']*)'")


def calls(role: str) -> list[tuple[str, list[str]]]:
    """Return (task file, literal words of the argv) of each istioctl that a role runs."""
    found = []
    for path in sorted((ROLES / role / "tasks").glob("*.yml")):
        for task in flat(yaml.safe_load(path.read_text(encoding="utf-8")) or []):
            command: Any = task.get("ansible.builtin.command") or {}
            assert "ansible.builtin.shell" not in task, f"{path}: a shell hides what is called"
            argv = str(command.get("argv", ""))
            if "istioctl" in argv:
                found.append((path.name, WORD.findall(argv)))
    return found


def test_the_calls_are_found() -> None:
    assert {words[0] for role in ROAD for _, words in calls(role)} == {"install", "manifest", "tag", "uninstall", "x"}


@pytest.mark.parametrize("role", ROAD)
def test_the_revision_road_never_calls_upgrade(role: str) -> None:  # case E08
    assert [name for name, words in calls(role) if "upgrade" in words] == []


def test_an_uninstall_names_one_revision_and_nothing_else() -> None:  # case I07
    found = [words for role in ROAD for _, words in calls(role) if words[0] == "uninstall"]
    assert len(found) == 1
    for words in found:
        assert words[1] == "--revision"
        assert not {"-f", "--filename", "--purge"} & set(words), "either would take gateways, or everything"
