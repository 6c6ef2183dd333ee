"""The roles: argument specs and defaults agree, and every variable carries its role's name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from mesh_logic.steps import STEPS

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(p.name for p in (ROOT / "roles").iterdir() if p.is_dir())
TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "path": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "list": (list,),
    "dict": (dict,),
}


def load(role: str, *parts: str) -> Any:
    path = ROOT.joinpath("roles", role, *parts)
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}


def options(role: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = load(role, "meta", "argument_specs.yml")["argument_specs"]["main"]["options"]
    return found


def test_every_step_has_its_role() -> None:
    assert {role for role, _, _ in STEPS.values()} | {"mesh"} <= set(ROLES)


@pytest.mark.parametrize("role", ROLES)
def test_argument_specs_and_defaults_agree(role: str) -> None:
    defaults = load(role, "defaults", "main.yml")
    assert list(options(role)) == list(defaults)
    assert {name: o["default"] for name, o in options(role).items()} == defaults
    for name, option in options(role).items():
        wrong_bool = option["type"] != "bool" and isinstance(option["default"], bool)
        assert option["type"] == "raw" or isinstance(option["default"], TYPES[option["type"]]), name
        assert option["type"] == "raw" or not wrong_bool, name
        assert option["description"], name


@pytest.mark.parametrize("role", ROLES)
def test_every_variable_carries_its_roles_name(role: str) -> None:
    names = [*load(role, "defaults", "main.yml"), *load(role, "vars", "main.yml")]
    set_facts = re.compile(r"^\s+register: (\S+)", re.MULTILINE)
    for path in (ROOT / "roles" / role / "tasks").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        names += set_facts.findall(text)
        for task in flat(yaml.safe_load(text) or []):
            names += list(task.get("ansible.builtin.set_fact") or {})
            loop_var = (task.get("loop_control") or {}).get("loop_var")
            names += [loop_var] if loop_var else []
            if "vars" in task and not any(key.endswith("include_role") for key in task):
                names += list(task["vars"])
    shared = ("mesh_",)  # what the shared role publishes, and what it is asked with
    wrong = [n for n in names if not n.startswith((f"{role}_", f"__{role}_", *shared))]
    assert wrong == []
    if role != "mesh":
        own = [*load(role, "defaults", "main.yml"), *load(role, "vars", "main.yml")]
        assert [n for n in own if n.startswith("mesh_")] == []


def flat(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return tasks with those of their blocks."""
    found: list[dict[str, Any]] = []
    for task in tasks:
        found.append(task)
        for key in ("block", "rescue", "always"):
            found += flat(task.get(key) or [])
    return found


def test_every_public_variable_reaches_the_input_check() -> None:
    checked = load("mesh", "vars", "main.yml")["__mesh_inputs"]
    public = [name for name, option in options("mesh").items() if option["type"] == "raw"]
    assert list(checked) == public
    assert all(value == f"{{{{ {name} }}}}" for name, value in checked.items())


def test_no_wait_of_a_role_is_endless() -> None:  # case G15
    for role in ROLES:
        for path in (ROOT / "roles" / role / "tasks").glob("*.yml"):
            for task in flat(yaml.safe_load(path.read_text(encoding="utf-8")) or []):
                assert "until" not in task or "retries" in task, f"{path.name}: {task.get('name')}"
