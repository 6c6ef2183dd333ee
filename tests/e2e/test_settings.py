"""Settings of a running mesh survive the upgrade, or it stops before it begins; real istiods, real istioctls."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.e2e.lab import CACHE, KUBECONFIG, LAB_INVENTORY, Run, kubectl, lab_reset, living_state

pytestmark = pytest.mark.lab

LAB_FILE = LAB_INVENTORY.parent / "files" / "istio-operator.yaml"
ACCESS_LOG, EGRESS = "spec.meshConfig.accessLogFile", "spec.meshConfig.outboundTrafficPolicy.mode"


def install_old(file: Path, *flags: str) -> None:
    """Install the old revision again, with flags that no file keeps."""
    command = [str(CACHE / "current" / "istioctl-1.30.5"), f"--kubeconfig={KUBECONFIG}", "install"]
    command += [f"--filename={file}", "--skip-confirmation", "--set=revision=1-30-5", "--set=tag=1.30.5"]
    command += [f"--set={flag}" for flag in flags]
    subprocess.run(command, check=True, timeout=300, capture_output=True, text=True)


def test_a_setting_is_never_lost(play: Callable[..., Run], tmp_path: Path) -> None:
    """seed 000's incident: flags that nobody kept. Case F11."""
    lab_reset()
    # the lab as it is: nothing to lose
    assert play("precheck.yml").status == "successful"
    run = play("install.yml", "--check")
    assert run.status == "successful", run.messages() or run.text[-3000:]
    assert "changed default: spec.values.pilot.env." in run.text

    # accessLogFile and REGISTRY_ONLY run, and the environment's file knows neither
    document = yaml.safe_load(LAB_FILE.read_text(encoding="utf-8"))
    del document["spec"]["meshConfig"]
    poor = tmp_path / "poor.yaml"
    poor.write_text(yaml.safe_dump(document), encoding="utf-8")
    install_old(LAB_FILE, "meshConfig.outboundTrafficPolicy.mode=REGISTRY_ONLY")
    before = living_state()
    run = play("install.yml", mesh_operator_file=str(poor))
    assert run.status == "failed"
    assert "Nothing was installed. Revision 1-31-0 would lose what revision 1-30-5 runs with (2 settings):" in (
        run.messages()
    )
    assert f"add to {poor}: {ACCESS_LOG}: /dev/stdout" in run.messages()
    assert f"add to {poor}: {EGRESS}: REGISTRY_ONLY" in run.messages()
    assert living_state() == before, "nothing was installed"
    waivers = [
        {"id": "SETTING_LOST", "resource": ACCESS_LOG, "reason": "nobody reads them", "expires": ""},
        {"id": "SETTING_LOST", "resource": EGRESS, "reason": "moved to Sidecars", "expires": ""},
    ]
    run = play("install.yml", "--check", mesh_operator_file=str(poor), mesh_waivers=waivers)
    assert run.status == "successful", run.messages()
    assert f"waived (nobody reads them): {ACCESS_LOG}" in run.text

    # the file that the mesh never had: planned, written once, then left alone, never over another one
    out = tmp_path / "rebuilt.yaml"
    run = play("operator_file.yml", "--check", operator_file_out=str(out))
    assert (run.status, run.count("changed"), out.exists()) == ("successful", 1, False), run.messages()
    run = play("operator_file.yml", operator_file_out=str(out))
    assert (run.status, run.count("changed")) == ("successful", 1), run.messages()
    spec = yaml.safe_load(out.read_text(encoding="utf-8"))["spec"]
    assert spec["meshConfig"] == {
        "accessLogFile": "/dev/stdout",
        "outboundTrafficPolicy": {"mode": "REGISTRY_ONLY"},
    }
    assert play("operator_file.yml", operator_file_out=str(out)).count("changed") == 0
    run = play("operator_file.yml", operator_file_out=str(poor))
    assert run.status == "failed"
    assert "it is there and holds something else" in run.messages()
    run = play("operator_file.yml", operator_file_out=str(out), mesh_istioctl_from="{{ mesh_istioctl_to }}")
    assert "it is 1.31.0, and revision 1-30-5 runs 1.30.5" in run.messages()
    assert living_state() == before, "the cluster was only read"

    # with it the new revision gets every setting
    run = play("install.yml", mesh_operator_file=str(out))
    assert run.status == "successful", run.messages() or run.text[-3000:]
    assert "LOST" not in run.text
    mesh = yaml.safe_load(
        kubectl("get", "configmap", "-n", "istio-system", "istio-1-31-0", "-o", "jsonpath={.data.mesh}")
    )
    assert (mesh["accessLogFile"], mesh["outboundTrafficPolicy"]) == ("/dev/stdout", {"mode": "REGISTRY_ONLY"})


def test_settings_that_apply_at_injection_are_refreshed_on_request_only(play: Callable[..., Run]) -> None:
    """seed 000: ProxyConfig in meshConfig.defaultConfig applies at injection only; running proxies keep the old one."""
    lab_reset()
    run = play("refresh.yml")
    assert (run.status, run.count("changed")) == ("successful", 0), run.messages() or run.text[-3000:]
    assert "no proxy has older settings than a new one would get" in run.text

    install_old(LAB_FILE, "meshConfig.defaultConfig.drainDuration=31s")
    run = play("precheck.yml")
    assert run.status == "successful", run.messages()
    assert "info OUTDATED_SETTINGS: Deployment shop/web: 2 of its proxies have older settings" in run.text

    before = living_state()
    run = play("refresh.yml", "--check")
    assert (run.status, run.count("changed")) == ("successful", 1), run.messages()
    assert living_state() == before, "check mode restarts nothing"

    run = play("refresh.yml")
    assert run.status == "successful", run.messages() or run.text[-3000:]
    (asked,) = [r for r in run.results("mesh_move") if r.get("moved")]
    assert {row["name"] for row in asked["moved"] if row["restarted"]} == {"web", "client"}
    settings = kubectl("get", "pods", "-n", "shop", "-l", "app=web", "-o", "yaml")
    assert "31s" in settings

    run = play("refresh.yml")
    assert (run.status, run.count("changed")) == ("successful", 0), run.messages()
