"""How Ansible walks the waves of playbooks/fleet.yml: the real playbook and role, with steps that only say they ran."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from mesh_logic.steps import STEPS

from tests.unit.mesh_stages import FIXTURES, wants

ROOT = Path(__file__).resolve().parents[2]

# Stand-ins for the project's modules and for the roles of the steps; action plugins, since they start no process.
PLUGIN = """\
import json, os
from ansible.plugins.action import ActionBase
class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        given, host = self._task.args, task_vars["inventory_hostname"]
        BODY
"""
READ = """
        facts = json.load(open(FACTS))
        facts["cluster"] = dict(facts["cluster"], uid=given["kubeconfig"])
        return dict(facts, changed=False, roots=["0a1b"])
"""
WRITE = """
        os.makedirs(given["evidence_dir"], exist_ok=True)
        for name, text in given["files"].items():
            open(os.path.join(given["evidence_dir"], name), "w").write(text)
        return dict(changed=True)
"""
STEP = """
        said = host + " " + given["step"]
        with open(given["trace"], "a") as trace:
            trace.write(said + "\\n")
        if said == given["broken"]:
            return dict(failed=True, msg="The cow was not milked.")
        plan = dict(state="todo", finished=given["step"] == "report")
        return dict(changed=False, ansible_facts=dict(mesh_plan=plan, mesh_facts=given["facts"]))
"""
ROLE = """\
- stand_in:
    step: STEP
    facts: "{{ __fleet_facts }}"
    trace: "{{ trace }}"
    broken: "{{ broken | default('') }}"
"""
INPUTS = """\
- ansible.builtin.set_fact:
    mesh_desired: >-
      {{ wanted | combine({'connection': {'kubeconfig': uid | default(inventory_hostname), 'context': ''},
      'evidence_dir': inventory_hostname}) }}
"""


@dataclass
class Walk:
    """What a run of the stand-ins left."""

    rc: int
    text: str
    trace: list[str]
    rows: list[dict[str, str]]

    def row(self, host: str) -> tuple[str, str]:
        """Return (step, outcome) of a cluster."""
        return next((r["step"], r["outcome"]) for r in self.rows if r["cluster"] == host)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Lay out a folder with the real playbook, the real role fleet and filters, and stand-ins for all else."""
    (tmp_path / "roles").mkdir()
    (tmp_path / "action_plugins").mkdir()
    (tmp_path / "roles" / "fleet").symlink_to(ROOT / "roles" / "fleet")
    (tmp_path / "filter_plugins").symlink_to(ROOT / "filter_plugins")
    (tmp_path / "fleet.yml").write_text((ROOT / "playbooks" / "fleet.yml").read_text(encoding="utf-8"))
    stage = repr(str(FIXTURES / "facts" / "start.json"))
    for name, body in {"mesh_read": READ.replace("FACTS", stage), "mesh_journal": WRITE, "stand_in": STEP}.items():
        (tmp_path / "action_plugins" / f"{name}.py").write_text(PLUGIN.replace("BODY", body.strip()))
    stubs = {role: ROLE.replace("STEP", step) for step, (role, _, _) in STEPS.items()}
    stubs["mesh"] = INPUTS
    for role, text in stubs.items():
        tasks = tmp_path / "roles" / role / "tasks"
        tasks.mkdir(parents=True)
        (tasks / ("inputs.yml" if role == "mesh" else "main.yml")).write_text(text)
    return tmp_path


def walk(house: Path, *options: str, **extra: object) -> Walk:
    """Run the playbook on clusters a to c."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    hosts: dict[str, dict[str, str]] = {name: {} for name in "abc"}
    hosts["c"] = {"uid": str(extra.pop("uid_of_c", "c"))}
    inventory = {"all": {"hosts": hosts, "vars": local | {"trace": str(house / "trace"), "wanted": wants()}}}
    (house / "hosts.yml").write_text(yaml.safe_dump(inventory))
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml", "fleet.yml", *options]
    command += ["-e", json.dumps({"fleet_dir": str(house / "sum"), **extra})]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "PYTHONDONTWRITE"))}
    done = subprocess.run(command, cwd=house, env=env, capture_output=True, text=True, check=False, timeout=120)
    trace = (house / "trace").read_text().splitlines() if (house / "trace").exists() else []
    summary = house / "sum" / "fleet.json"
    rows = json.loads(summary.read_text())["clusters"] if summary.exists() else []
    return Walk(done.returncode, done.stdout + done.stderr, trace, rows)


def test_the_first_bad_cluster_stops_the_fleet(house: Path) -> None:
    done = walk(house, broken="b canary")
    assert done.rc == 2
    assert done.trace == [*(f"a {step}" for step in STEPS), "b precheck", "b install", "b canary"]
    assert [done.row(host) for host in "abc"] == [("report", "upgraded"), ("canary", "failed"), ("", "not touched")]
    assert "1 of 3 clusters are upgraded." in (house / "sum" / "fleet.md").read_text()
    assert next(r["reason"] for r in done.rows if r["cluster"] == "b") == "The cow was not milked"
    assert "b failed in the step canary, and no further wave of clusters begins." in done.text
    assert re.search(r"b +1\.30\.5 +1\.31\.0 +canary +failed +The cow was not milked", done.text)


def test_the_others_of_a_wave_end_their_step_and_begin_no_further_one(house: Path) -> None:
    done = walk(house, broken="a canary", mesh_fleet_serial=2)
    assert done.rc == 2
    assert sorted(done.trace) == sorted(f"{h} {s}" for h in "ab" for s in ("precheck", "install", "canary"))
    assert [done.row(host) for host in "abc"] == [("canary", "failed"), ("canary", "held"), ("", "not touched")]


def test_clusters_that_do_not_go_together_stop_it_before_the_first(house: Path) -> None:
    done = walk(house, uid_of_c="b")
    assert done.rc == 2
    assert done.trace == []
    assert "No cluster was changed. These clusters cannot be upgraded as one fleet:" in done.text
    assert "clusters b and c: they are one and the same" in done.text


def test_a_check_run_shows_every_cluster_and_writes_nothing(house: Path) -> None:
    done = walk(house, "--check")
    assert done.rc == 0, done.text
    assert done.trace == [f"{host} {step}" for host in "abc" for step in STEPS]
    assert done.rows == []
    assert re.search(r"c +1\.30\.5 +1\.31\.0 +report +checked", done.text)
