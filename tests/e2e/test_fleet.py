"""Two real clusters: one that fails keeps the other untouched; then both are upgraded, one after the other."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.lab import CACHE, KUBECONFIG, LAB_INVENTORY, LAB_NAME, Run, kubectl, lab_reset, living_state, make

pytestmark = [pytest.mark.lab, pytest.mark.more]

SECOND = os.environ.get("LAB_SECOND", f"{LAB_NAME}-2")
SECOND_KUBECONFIG = CACHE / "clusters" / SECOND / "kubeconfig"
# Bound to the old revision: OBJECT_OLD_REVISION, which stops the precheck.
BOUND = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: bound, namespace: shop, labels: {istio.io/rev: 1-30-5}}
spec: {hosts: [bound.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}
"""


@pytest.fixture(scope="module")
def second(lab: None) -> Iterator[Path]:
    """Bring up a second cluster beside the lab, and take it down again."""
    try:
        make("lab", f"LAB_NAME={SECOND}", timeout=900)
        yield SECOND_KUBECONFIG
    finally:
        make("lab-down", f"LAB_NAME={SECOND}", timeout=900)


def inventory(folder: Path) -> Path:
    """Write an inventory with both clusters, else like that of the lab."""
    shared = yaml.safe_load((LAB_INVENTORY.parent / "group_vars" / "all.yml").read_text(encoding="utf-8"))
    shared |= {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "mesh_operator_file": str(LAB_INVENTORY.parent / "files" / "istio-operator.yaml"),
    }
    hosts = {"first": {"mesh_kubeconfig": str(KUBECONFIG)}, "second": {"mesh_kubeconfig": str(SECOND_KUBECONFIG)}}
    path = folder / "hosts.yml"
    path.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": shared}}), encoding="utf-8")
    return path


def test_a_bad_cluster_stops_the_fleet_and_a_mended_one_lets_it_go_on(
    play: Callable[..., Run], second: Path, tmp_path: Path
) -> None:
    """Broken in precheck, mended, upgraded, and run once more."""
    lab_reset()
    kubectl("apply", "-f", "-", stdin=BOUND)
    hosts = inventory(tmp_path)

    def run(**extravars: Any) -> Run:
        evidence = str(tmp_path / "evidence" / "{{ inventory_hostname }}")
        return play("fleet.yml", inventory=hosts, mesh_evidence_dir=evidence, fleet_dir=str(tmp_path), **extravars)

    def rows() -> list[tuple[str, str, str]]:
        found = json.loads((tmp_path / "fleet.json").read_text(encoding="utf-8"))["clusters"]
        return [(row["cluster"], row["step"], row["outcome"]) for row in found]

    before = living_state(second)
    broken = run()
    assert broken.status == "failed"
    assert "OBJECT_OLD_REVISION" in broken.messages()
    assert "first failed in the step precheck, and no further wave of clusters begins." in broken.messages()
    assert living_state(second) == before, "the second cluster was not touched"
    assert rows() == [("first", "precheck", "failed"), ("second", "", "not touched")]
    assert kubectl("get", "deployment", "-n", "istio-system", "-o", "name").split() == ["deployment.apps/istiod-1-30-5"]

    # one cluster under two names is found before either is touched
    twice = run(mesh_kubeconfig=str(KUBECONFIG))
    assert "clusters first and second: they are one and the same" in twice.messages()

    kubectl("delete", "serviceentry", "-n", "shop", "bound")
    mended = run()
    assert mended.status == "successful", mended.messages() or mended.text[-3000:]
    assert rows() == [("first", "report", "upgraded"), ("second", "report", "upgraded")]
    assert "2 of 2 clusters are upgraded." in (tmp_path / "fleet.md").read_text(encoding="utf-8")
    order = [e["event_data"]["host"] for e in mended.events if e["event"] == "runner_on_ok" and _installs(e)]
    assert order == ["first", "second"], "the second begins when the first is finished"
    for name, kubeconfig in (("first", KUBECONFIG), ("second", second)):
        istiods = kubectl("get", "deployment", "-n", "istio-system", "-o", "name", kubeconfig=kubeconfig).split()
        assert istiods == ["deployment.apps/istiod-1-31-0"]
        report = (tmp_path / "evidence" / name / "08-report.md").read_text(encoding="utf-8")
        assert "old_revision=1-30-5" in report
        assert "old_injector_left=no" in report

    again = run()
    assert again.status == "successful", again.messages()
    assert again.count("changed") == 0, "a finished fleet is only read"


def _installs(event: dict[str, Any]) -> bool:
    argv = (event["event_data"].get("res", {}).get("cmd")) or []
    return isinstance(argv, list) and "install" in argv
