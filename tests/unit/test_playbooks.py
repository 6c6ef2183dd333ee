"""The playbooks follow the order of the steps, which exists once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from mesh_logic.steps import STEPS

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"


def load(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((PLAYBOOKS / name).read_text(encoding="utf-8"))
    return found


def test_upgrade_imports_the_steps_in_order_and_in_the_short_form() -> None:
    # AWX finds a playbook by the short word import_playbook
    imports = load("upgrade.yml")
    assert [play["import_playbook"] for play in imports] == [playbook for _, playbook, _ in STEPS.values()]
    assert {tuple(sorted(play)) for play in imports} == {("import_playbook", "name")}


def test_the_fleet_walks_the_same_steps_in_the_same_order() -> None:
    # across imported playbooks serial gives no waves: every cluster would be installed before the first canary
    look, walk = load("fleet.yml")
    steps = [task for task in walk["tasks"] if task.get("vars")]
    assert [task["vars"] for task in steps] == [{"fleet_step": step} for step in STEPS]
    assert {tuple(task["ansible.builtin.include_role"].values()) for task in steps} == {("fleet", "step")}
    assert [task["name"] for task in steps] == [play["name"] for play in load("upgrade.yml")]
    assert [task["ansible.builtin.include_role"] for task in walk["tasks"] if task not in steps] == [
        {"name": "fleet", "tasks_from": "close"}
    ]
    assert walk["tasks"][-1] not in steps
    assert walk["serial"] == "{{ mesh_fleet_serial | default(1) }}"
    assert "serial" not in look, "all clusters are looked at before the first one changes"
    assert [play["max_fail_percentage"] for play in (look, walk)] == [0, 0]


def test_no_task_runs_once_for_all_clusters() -> None:
    # case J04: one host is one cluster; a result of the first must never stand for the others
    files = [*PLAYBOOKS.glob("*.yml"), *(PLAYBOOKS.parent / "roles").glob("*/tasks/*.yml")]
    assert len(files) > 20
    assert [f.name for f in files if "run_once" in f.read_text(encoding="utf-8")] == []


def test_a_playbook_finds_its_roles_and_plugins_from_any_folder() -> None:
    # also where ansible.cfg is another one, as under molecule; bad input stops before any cluster is asked
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"),
        f"--inventory={PLAYBOOKS.parent / 'inventories' / 'lab' / 'hosts.yml'}",
        "--extra-vars=mesh_environment=''",
        str(PLAYBOOKS / "precheck.yml"),
    ]
    env = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
    done = subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "mesh_environment: this inventory variable is not set. Next:" in done.stdout
    assert "WARNING" not in done.stderr, done.stderr


@pytest.mark.parametrize(("role", "playbook"), [pytest.param(r, p, id=p) for r, p, _ in STEPS.values()])
def test_each_playbook_runs_the_role_of_its_step(role: str, playbook: str) -> None:
    plays = load(playbook)
    assert len(plays) == 1
    assert plays[0]["gather_facts"] is False
    assert plays[0]["hosts"] == "all"
    assert [t["ansible.builtin.include_role"] for t in plays[0]["tasks"]] == [{"name": role}]


@pytest.mark.parametrize("folder", ["filter_plugins", "library", "module_utils", "action_plugins", "roles"])
def test_plugins_are_found_from_any_folder(folder: str) -> None:
    link = PLAYBOOKS / folder
    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert link.resolve() == (PLAYBOOKS.parent / folder).resolve()


def test_no_play_ends_itself() -> None:
    # meta: end_play would end one play only, the next import still runs
    roles = PLAYBOOKS.parent / "roles"
    for path in [*PLAYBOOKS.glob("*.yml"), *roles.glob("*/tasks/*.yml")]:
        assert "end_play" not in path.read_text(encoding="utf-8"), path.name
