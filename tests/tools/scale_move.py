"""Ways to restart the workloads of the scale mesh and wait for them: the project's, the fastest, kubectl's.

Each hands the namespaces to the revision first (not measured), and ends when the rollouts are complete.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from typing import Any

from tests.tools.scale_mesh import CACHE, KUBECONFIG, connect, in_bulk, label
from tests.tools.scale_read import run_module

from ansible.module_utils.mesh_api import MeshApi  # isort: skip
from ansible.module_utils.mesh_rollout import Move, rollout_left, stamps  # isort: skip
from mesh_logic.gates import stale_moves  # isort: skip

KUBECTL = [str(CACHE / "current" / "kubectl"), "--kubeconfig", str(KUBECONFIG)]
KINDS = "deployment,statefulset,daemonset"


class Counted(MeshApi):  # type: ignore[misc] # ansible.module_utils is Any to mypy
    """A connection that counts what it changes."""

    writes = 0

    def _send(self, method: str, *args: Any, **more: Any) -> bytes:
        self.writes += method != "GET"
        sent: bytes = super()._send(method, *args, **more)
        return sent


@dataclass
class Moved:
    """What the project's mover did: workloads moved, seconds, requests (waiting included), writes."""

    workloads: list[dict[str, Any]]
    seconds: float
    requests: int
    writes: int


def stale(api: MeshApi, names: list[str]) -> list[dict[str, str]]:
    """Return the workloads of some namespaces that have to move, as the chain finds them."""
    found: list[dict[str, str]] = stale_moves(run_module("mesh_read", api), {"consents": []}, names)
    return found


def move(api: Counted, rows: list[dict[str, str]]) -> Moved:
    """Move workloads with the project's module, all of them at the same time."""
    requests, writes, started = api.requests, api.writes, time.monotonic()
    result = run_module("mesh_move", api, workloads=rows, concurrency=max(1, len(rows)), timeout=1800)
    seconds = time.monotonic() - started
    return Moved(result["moved"], seconds, api.requests - requests, api.writes - writes)


def by_mover(names: list[str], revision: str) -> Moved:
    """Hand over, find what is stale, move it."""
    api = Counted(str(KUBECONFIG))
    label(api, names, revision)
    return move(api, stale(api, names))


def by_force(names: list[str], revision: str, rows: list[dict[str, Any]]) -> float:
    """Patch everything at once and wait with one list per kind: nothing is faster, and no pod is looked at."""
    api = connect()
    label(api, names, revision)
    moves = [Move(r["kind"], r["namespace"], r["name"], revision) for r in rows]
    body = {"spec": {"template": {"metadata": {"annotations": stamps(revision)}}}}
    started = time.monotonic()
    in_bulk(lambda move: api.merge_patch(move.path, body), moves)
    left = {move.ref: move for move in moves}
    while left:
        time.sleep(0.5)
        for kind in {move.kind for move in left.values()}:
            for item in api.list(Move(kind, "", "", "").collection(everywhere=True)):
                metadata = item["metadata"]
                ref = f"{kind} {metadata['namespace']}/{metadata['name']}"
                if ref in left and not rollout_left(kind, item):
                    del left[ref]
    return time.monotonic() - started


def by_kubectl(names: list[str], revision: str) -> float:
    """Restart and wait with kubectl, one namespace after the other."""
    label(connect(), names, revision)
    started = time.monotonic()
    for name in names:
        for verb in ("restart", "status"):
            command = [*KUBECTL, "rollout", verb, "--namespace", name, KINDS]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return time.monotonic() - started
