"""The scale mesh at a small size on the lab: what is counted holds at any size, so it is asserted; time is not."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lab import ROOT, kubectl
from tests.tools import scale_mesh
from tests.tools.scale_mesh import KUBECONFIG, Size, connect
from tests.tools.scale_move import Counted, move, stale
from tests.tools.scale_read import run_module

pytestmark = [pytest.mark.lab, pytest.mark.more]

NAMESPACES = 50
MOVED = 10


@pytest.fixture(scope="module")
def mesh(lab: None) -> Iterator[Size]:
    """Fifty namespaces of simulated pods, injected by an istiod that is there; they go when the tests are done."""
    playbook = [str(Path(sys.executable).parent / "ansible-playbook"), "--inventory", "localhost,"]
    done = subprocess.run(
        [*playbook, "lab/playbooks/scale.yml"],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    planes = json.loads(kubectl("get", "deployments", "-n", "istio-system", "-l", "app=istiod", "-o", "json"))["items"]
    revision = planes[0]["metadata"]["labels"]["istio.io/rev"]
    size = Size(NAMESPACES, "little", revision)
    try:
        scale_mesh.make(connect(), size)
        yield size
    finally:
        scale_mesh.remove(connect(), size)


def of_mesh(facts: dict[str, Any], size: Size) -> list[dict[str, Any]]:
    """Return the rows of the simulated workloads."""
    return [row for row in facts["workloads"] if row["namespace"] in set(size.names)]


def test_read_finds_every_proxy_in_few_requests(mesh: Size) -> None:
    facts = run_module("mesh_read", connect())
    rows = of_mesh(facts, mesh)
    groups = [group for row in rows for group in row["proxies"]]
    assert sum(group["pods"] for group in groups) == mesh.pods
    assert {group["revision"] for group in groups} == {mesh.revision}
    assert all(group["native"] and group["ready"] for group in groups)
    assert {row["kind"] for row in rows} == {"Deployment", "StatefulSet", "DaemonSet"}
    assert facts["requests"] <= math.ceil(facts["pods_read"] / 500) + 30


def test_read_needs_little_memory(mesh: Size) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.tools.scale_read", "mesh"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["result"]["proxies"] >= mesh.pods
    assert found["peak_mib"] <= 300


def test_nothing_stale_is_no_write(mesh: Size) -> None:
    api = Counted(str(KUBECONFIG))
    rows = stale(api, mesh.names)
    again = move(api, rows)
    assert rows == []
    assert again.writes == 0


def test_moves_all_at_once_in_few_requests(mesh: Size) -> None:
    api = Counted(str(KUBECONFIG))
    facts = run_module("mesh_read", api)
    rows = [
        {key: row[key] for key in ("kind", "namespace", "name")} | {"revision": mesh.revision}
        for row in of_mesh(facts, mesh)
        if row["namespace"] in mesh.names[:MOVED]
    ]
    moved = move(api, rows)
    assert len(moved.workloads) == len(rows) >= MOVED * scale_mesh.DEPLOYMENTS
    assert all(row["restarted"] and not row["failure"] for row in moved.workloads)
    assert moved.writes == len(rows), "each workload is restarted once, by one write"
    assert moved.requests / len(rows) <= 6
