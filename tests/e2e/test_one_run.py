"""Waves on the lab, and one run at a time: a second run is refused, a killed one gives its Lease back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lab import LAB_INVENTORY, ROOT, Run, kubectl, lab_reset
from tests.e2e.test_failures import revision_of, tag_targets

pytestmark = pytest.mark.lab

PAY = """\
apiVersion: v1
kind: Namespace
metadata:
  name: pay
  labels: {istio.io/rev: prod-stable, tier: inner, lab.istio-upgrade/scratch: "true"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, namespace: pay}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: IMAGE, command: [sleep, "3600"], imagePullPolicy: IfNotPresent}]
"""
WAVES: list[dict[str, Any]] = [
    {"name": "inner", "selector": "tier=inner", "soak_seconds": 2},
    {"name": "shop", "namespaces": ["shop"], "max_concurrent": 1},
]


def holder() -> str:
    """Return who holds the Lease now."""
    found = kubectl(
        "get",
        "lease",
        "-n",
        "istio-system",
        "-o",
        "jsonpath={.items[?(@.metadata.name=='istio-upgrade')].spec.holderIdentity}",
    )
    return found.strip()


def generation(namespace: str, name: str) -> int:
    """Return how often a Deployment's spec has changed."""
    return int(kubectl("get", "deployment", "-n", namespace, name, "-o", "jsonpath={.metadata.generation}"))


def kill_when(what: Callable[[], bool], playbook: str, **extravars: Any) -> None:
    """Start a playbook and end it with SIGKILL, all of its processes, as soon as something holds."""
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(LAB_INVENTORY), f"playbooks/{playbook}"]
    command += ["-e", json.dumps(extravars)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True) as run:
        try:
            wait_for(what, 90, f"{playbook} never came so far")
            assert holder() != ""
        finally:
            os.killpg(run.pid, signal.SIGKILL)
    wait_for(lambda: holder() == "", 10, "the Lease of a killed run is still held")


def wait_for(what: Callable[[], bool], seconds: float, words: str) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, words
        time.sleep(0.2)


def test_waves_in_order_and_a_second_run_is_refused(play: Callable[..., Run], tmp_path: Path) -> None:
    """Killed in the middle of a wave and taken up again; two waves in order; who comes meanwhile is refused."""
    lab_reset()
    image = kubectl(
        "get", "deploy", "-n", "canary", "client", "-o", "jsonpath={.spec.template.spec.containers[0].image}"
    )
    kubectl("apply", "-f", "-", stdin=PAY.replace("IMAGE", image))
    kubectl("rollout", "status", "-n", "pay", "deployment/app", "--timeout=60s")
    run = play("upgrade.yml", mesh_stop_after="canary")
    assert run.status == "successful", run.messages() or run.text[-3000:]
    assert holder() == "", "a run that has ended holds nothing"

    before = generation("pay", "app"), generation("shop", "web")
    evidence = {"mesh_evidence_dir": str(tmp_path / "evidence")}
    kill_when(lambda: generation("pay", "app") > before[0], "move_tags.yml", mesh_waves=WAVES, **evidence)

    runs: list[Run] = []
    first = threading.Thread(
        target=lambda: runs.append(play("upgrade.yml", mesh_stop_after="move_tags", mesh_waves=WAVES))
    )
    first.start()
    wait_for(lambda: holder() != "", 60, "the first run never took the Lease")
    second = play("upgrade.yml", mesh_stop_after="move_tags", mesh_waves=WAVES)
    first.join(300)
    assert second.status == "failed"
    assert "Another run works on this mesh" in second.messages()
    assert "step move_tags, 1.30.5 to 1.31.0" in second.messages(), "it says what the other one does"
    run = runs[0]
    assert run.status == "successful", run.messages() or run.text[-3000:]
    moved = [[m["namespace"] for m in result["moved"]] for result in run.results("mesh_move")]
    assert [spaces for spaces in moved if spaces][-1] == ["shop"]
    assert (generation("pay", "app"), generation("shop", "web")) == (before[0] + 1, before[1] + 1), "nothing twice"
    assert revision_of("pay", "app") == revision_of("shop", "web") == {"1-31-0"}
    assert set(tag_targets().values()) == {"1-31-0"}
    assert holder() == ""


def test_a_killed_run_gives_its_lease_back_and_the_next_one_goes_on(play: Callable[..., Run], tmp_path: Path) -> None:
    """Goes on where the test above stopped: SIGKILL in the middle of the drill's rollout."""
    before = revision_of("shop", "web")
    evidence = {"mesh_evidence_dir": str(tmp_path / "evidence")}
    kill_when(lambda: revision_of("shop", "web") != before, "rollback_drill.yml", **evidence)
    run = play("upgrade.yml")
    assert run.status == "successful", run.messages() or run.text[-3000:]
    assert revision_of("shop", "web") == {"1-31-0"}
    assert not kubectl("get", "deploy", "-n", "istio-system", "-l", "istio.io/rev=1-30-5", "-o", "name")
