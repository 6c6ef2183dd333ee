"""The chain on the lab, the way AWX runs it: planned, stopped half-way, resumed, repeated, rebuilt from the journal."""

from __future__ import annotations

import json
import shutil
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lab import CACHE, KUBECONFIG, LAB_INVENTORY, ROOT, Run, kubectl, lab_reset, living_state

pytestmark = pytest.mark.lab

EVIDENCE = {
    "01-before.txt": "web_proxy=1.30.5\nclient_proxy=1.30.5\nprod_stable=1-30-5\n",
    "04-mixed.txt": "client_proxy=1.31.0\nweb_proxy=1.30.5\ncode=200\n",
    "05-tags.txt": "prod_stable=1-31-0\ndefault=1-31-0\nweb_proxy=1.31.0\nclient_proxy=1.31.0\ncode=200\n",
    "06-rollback.txt": "after_rollback=1.30.5\nafter_forward=1.31.0\n",
    "07-uninstall.txt": "old_istiod_left=no\nold_injector_left=no\nweb_proxy=1.31.0\nclient_proxy=1.31.0\ncode=200\n",
}
REPORT = [
    "old_revision=1-30-5",
    "new_revision=1-31-0",
    "mixed_versions_code=200",
    "rollback_version=1.30.5",
    "old_injector_left=no",
]
JOURNAL = ["before", "precheck", "install", "canary", "move-tags", "rollback-drill", "uninstall"]


def planned(run: Run) -> list[dict[str, object]]:
    """Return the actions that a check run planned, step by step."""
    found = []
    for result in run.results("ansible.builtin.set_fact"):
        found += result.get("ansible_facts", {}).get("mesh_plan", {}).get("actions", [])
    return found


def recorded() -> list[dict[str, object]]:
    """Return the actions that a real run recorded in the cluster's journal, in order."""
    found = []
    for step in JOURNAL:
        text = kubectl(
            "get",
            "configmap",
            "-n",
            "istio-system",
            f"istio-upgrade-1-30-5-to-1-31-0-{step}",
            "-o",
            "jsonpath={.data.record}",
        )
        found += json.loads(text).get("actions", [])
    return found


@pytest.fixture(scope="module", autouse=True)
def starting_point(lab: None) -> None:
    """Both tests begin at the starting point; the first one leaves it as it is."""
    lab_reset()


# Every bad input of a run is told at once, so each run here has several: variables, then a part of each message.
BAD_INPUT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "what the inventory says": (
        {
            "mesh_environment": "",
            "mesh_from_version": 1.3,
            "mesh_to_revision": "1.31.0",
            "mesh_istioctl_to": "/nowhere/istioctl",
            "mesh_operator_file": "/nowhere/operator.yaml",
            "mesh_soak_before_uninstall": "an hour",
        },
        [
            "mesh_environment: this inventory variable is not set",
            "quote it",
            'use "1-31-0"',  # case E01
            '"/nowhere/istioctl": does not exist',
            '"/nowhere/operator.yaml": No such file',
            "mesh_soak_before_uninstall",
        ],
    ),
    "what the controller has": (
        {
            "mesh_from_version": "1.31.0",
            "mesh_from_revision": "old",
            "mesh_istioctl_from": "{{ mesh_operator_file }}",
            "mesh_operator_file": "{{ inventory_dir }}/hosts.yml",
        },
        ["there is nothing to upgrade", "is not executable", "not IstioOperator"],  # the last is case F12
    ),
    "an older target, another istioctl": (
        {"mesh_from_version": "1.32.0", "mesh_istioctl_from": "{{ mesh_istioctl_to }}"},
        ["the target is older", "it is istioctl 1.31.0, and 1.32.0 is needed"],  # the first is case E09
    ),
    "a cluster that is not there": ({"mesh_kubeconfig": "/nowhere/kubeconfig"}, ["No usable kubeconfig at /nowhere"]),
    "what the cluster has": (
        {
            "mesh_from_revision": "1-29-9",
            "mesh_tags": ["prod-stabel", "default"],
            "mesh_drill": {},
            "mesh_canary_namespaces": ["canray"],
        },
        [
            "it is not installed; revisions in the cluster: 1-30-5",
            "no such tag in the cluster; tags: default, prod-stable",
            '"canray": no such namespace in the cluster',  # case D11
        ],
    ),
}


def test_bad_input_stops_before_anything_changes(play: Callable[..., Run], tmp_path: Path) -> None:
    """Each gives one clear message with the next step, all at once, and the cluster is as before."""
    before = living_state()
    venv.create(tmp_path / "bare")
    bare = {"ansible_python_interpreter": str(tmp_path / "bare" / "bin" / "python")}
    cases = BAD_INPUT | {"a Python without the client": (bare, ["it cannot import the kubernetes client"])}
    for name, (variables, words) in cases.items():
        run = play("precheck.yml", **variables)
        assert run.status == "failed", name
        missing = [part for part in words if part not in run.messages()]
        assert not missing, f"{name}: {missing} not in {run.messages()}"
        assert run.messages().count("Next:") >= len(words), name
    assert living_state() == before
    assert not (tmp_path / "evidence").exists()


def test_the_inventory_of_the_practice_machine(play: Callable[..., Run]) -> None:
    """seed 001: only the new istioctl, and a folder for the evidence; here with the lab's paths in place of its own."""
    before = living_state()
    run = play(
        "upgrade.yml",
        "--check",
        inventory=ROOT / "inventories" / "seed001" / "hosts.yml",
        mesh_kubeconfig=str(KUBECONFIG),
        mesh_istioctl_to=str(CACHE / "current" / "istioctl-1.31.0"),
        mesh_operator_file=str(LAB_INVENTORY.parent / "files" / "istio-operator.yaml"),
    )
    assert run.status == "successful", run.messages() or run.text[-3000:]
    assert "mesh_istioctl_from is not set" in run.text
    assert {a["step"] for a in planned(run)} == {"install", "canary", "move_tags", "rollback_drill", "uninstall"}
    assert living_state() == before


def test_the_whole_chain(play: Callable[..., Run], tmp_path: Path) -> None:
    """Plan it, do half of it, go on, lose the evidence folder and get it back (molecule repeats it, also in check)."""
    evidence = tmp_path / "evidence"

    before = living_state()
    check = play("upgrade.yml", "--check --diff")
    assert (check.status, check.count("failures")) == ("successful", 0), check.text[-3000:]
    assert check.count("changed") > 0, "check mode must say that something would change"
    assert living_state() == before, "check mode changed the cluster (case J01)"
    assert not evidence.exists(), "check mode writes no evidence"
    plan = planned(check)
    assert [a["step"] for a in plan][:1] == ["install"]

    half = play("upgrade.yml", mesh_stop_after="canary")
    assert half.status == "successful", half.text[-3000:]
    assert sorted(p.name for p in evidence.iterdir()) == [
        "01-before.txt",
        "02-precheck.txt",
        "03-install.txt",
        "04-mixed.txt",
    ]
    assert "rc=0" in (evidence / "02-precheck.txt").read_text(encoding="utf-8")
    assert "prod-stable 1-30-5" in (evidence / "03-install.txt").read_text(encoding="utf-8")
    assert kubectl("get", "ns", "canary", "-o", "jsonpath={.metadata.labels.istio\\.io/rev}") == "1-31-0"

    rest = play("upgrade.yml")
    assert rest.status == "successful", rest.text[-3000:]
    for name, text in EVIDENCE.items():
        assert (evidence / name).read_text(encoding="utf-8") == text, name
    report = (evidence / "08-report.md").read_text(encoding="utf-8").splitlines()
    assert report[:5] == REPORT
    assert len([line for line in report if line.startswith("- ")]) >= 4
    assert kubectl("get", "ns", "canary", "-o", "jsonpath={.metadata.labels.istio\\.io/rev}") == "prod-stable"
    assert recorded() == plan, "what check mode planned is not what the real run did"

    kept = {p.name: p.read_text(encoding="utf-8") for p in evidence.iterdir()}
    shutil.rmtree(evidence)
    rebuilt = play("report.yml")
    assert rebuilt.status == "successful", rebuilt.text[-3000:]
    assert {p.name: p.read_text(encoding="utf-8") for p in evidence.iterdir()} == kept
