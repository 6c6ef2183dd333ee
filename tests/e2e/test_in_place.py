"""The in-place road on the lab: refused while a condition is missing, then with no request lost."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.e2e.lab import CACHE, KUBECONFIG, LAB_INVENTORY, Run, kubectl, lab_reset, living_state
from tests.e2e.traffic import Traffic

pytestmark = [pytest.mark.lab, pytest.mark.more]

LAB_FILE = LAB_INVENTORY.parent / "files" / "istio-operator.yaml"
PLAIN = {
    "mesh_from_revision": "default",
    "mesh_tags": ["default"],
    "mesh_drill": {"tags": ["default"], "workloads": ["shop/web"]},
}


def install_old(file: Path) -> None:
    """Install the old version without a revision again, from another file."""
    command = [str(CACHE / "current" / "istioctl-1.30.5"), f"--kubeconfig={KUBECONFIG}", "install"]
    command += [f"--filename={file}", "--skip-confirmation", "--set=tag=1.30.5"]
    subprocess.run(command, check=True, timeout=300, capture_output=True, text=True)


def test_a_mesh_is_upgraded_in_place_when_every_condition_holds(play: Callable[..., Run], tmp_path: Path) -> None:
    lab_reset("unrevisioned")
    before = living_state()
    run = play("upgrade_in_place.yml", **PLAIN)
    assert run.status == "failed"
    assert "An in-place upgrade is refused:" in run.messages()
    assert "ISTIOD_SINGLE_REPLICA" in run.messages()
    assert "playbooks/upgrade.yml, the revision road" in run.messages()
    assert living_state() == before, "nothing was changed"

    document = yaml.safe_load(LAB_FILE.read_text(encoding="utf-8"))
    document["spec"]["values"]["pilot"] |= {"autoscaleMin": 2}
    two = tmp_path / "two.yaml"
    two.write_text(yaml.safe_dump(document), encoding="utf-8")
    install_old(two)
    # the autoscaler brings the second one, at its next look
    two_ready = "--for=jsonpath={.status.availableReplicas}=2"
    kubectl("wait", "-n", "istio-system", "deployment/istiod", two_ready, "--timeout=110s")

    before = living_state()
    run = play("upgrade_in_place.yml", "--check", mesh_operator_file=str(two), **PLAIN)
    assert run.status == "successful", run.messages() or run.text[-3000:]
    for word in ("install default", "restart Deployment shop/web", "restart Deployment canary/client"):
        assert word in run.text
    assert living_state() == before, "check mode changes nothing"

    with Traffic() as traffic:
        run = play("upgrade_in_place.yml", mesh_operator_file=str(two), **PLAIN)
        assert run.status == "successful", run.messages() or run.text[-3000:]
    assert not traffic.lost, traffic.words()
    print(traffic.words())
    text = (tmp_path / "evidence" / "in-place.txt").read_text(encoding="utf-8")
    assert text.splitlines() == ["istiod=1.31.0", "web_proxy=1.31.0", "client_proxy=1.31.0", "code=200"]

    run = play("upgrade_in_place.yml", mesh_operator_file=str(two), **PLAIN)
    assert (run.status, run.count("changed")) == ("successful", 0), run.messages()
