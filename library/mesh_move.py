#!/usr/bin/python
"""Restart workloads with a bound, wait for all of them together, and say which proxies came up."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_move
short_description: Restart workloads so that they get the proxy of a revision
description:
  - Restarts each listed workload at most once, no more than C(concurrency) at a time, and waits until the rollout is
    complete and no old pod is left.
  - A rollout towards the same revision that is already under way is waited for, not restarted.
  - Workloads are followed by one watch for each kind (their collections are listed where the account may not watch), so
    that waiting costs few requests; pods are looked at when a rollout is complete, or when it makes no progress.
  - Who makes the list decides what is stale; a workload in it whose pods are all new is restarted all the same.
  - Fails with the real cause (events, waiting reasons), not with a time-out alone.
options:
  kubeconfig:
    description: Path of the kubeconfig; empty means the usual lookup.
    type: str
    default: ''
  context:
    description: Context of the kubeconfig; empty means the current one.
    type: str
    default: ''
  request_timeout:
    description: Seconds for one request.
    type: int
    default: 60
  workloads:
    description:
      - List of kind, namespace, name and the revision that must inject them.
      - C(how) may be C(restart) (Deployment, StatefulSet, DaemonSet), C(evict) (pods one by one, budgets obeyed),
        C(restart_at) (Argo Rollout) or C(rescue) (restart, and delete the pod on which a StatefulSet is stuck).
      - C(api_version) is needed for kinds that Kubernetes does not bring itself.
    type: list
    elements: dict
    required: true
  concurrency:
    description: How many may roll at the same time.
    type: int
    default: 8
  timeout:
    description: Seconds for one workload.
    type: int
    default: 300
  stuck_after:
    description: Seconds that an image pull or crash loop may last before the run stops.
    type: int
    default: 30
  max_failed:
    description: Workloads that may fail before nothing new is started and the task fails.
    type: int
    default: 0
  expected_labels:
    description: Namespace to the labels, null for absent, that it must have before and after each restart.
    type: dict
    default: {}
  stop_file:
    description:
      - A file on the controller; once it is there nothing new is started, what rolls is let through, and the task fails
        with C(stopped). Empty means that nobody can ask.
    type: str
    default: ''
  wave:
    description: Name of the wave, for the lines of progress.
    type: str
    default: ''
author: the project's contributors
"""

EXAMPLES = r"""
- name: Restart the shop
  mesh_move:
    workloads:
      - {kind: Deployment, namespace: shop, name: web, revision: 1-31-0}
"""

RETURN = r"""
moved:
  description: Per workload what happened, with its pods counted by image, revision, ready, terminating and native.
  returned: always
  type: list
  elements: dict
failures:
  description: Workloads that did not come up (kind, namespace, name, cause), at most max_failed unless the task failed.
  returned: always
  type: list
  elements: dict
not_started:
  description: Workloads that were not touched because of the failures.
  returned: always
  type: list
  elements: str
stopped:
  description: Present and true where C(stop_file) kept workloads from being started.
  returned: when it was
  type: bool
kept:
  description: What was left as it is or done by consent, such as pods that a partition keeps.
  returned: always
  type: list
  elements: str
"""

import functools
import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mesh_api import CONNECTION_SPEC, MeshApi, MeshApiError, Task, connected
from ansible.module_utils.mesh_mover import Bounds, Mover
from ansible.module_utils.mesh_rollout import Move, explain
from ansible.module_utils.mesh_watch import Watches

RESTARTED = ("Deployment", "StatefulSet", "DaemonSet")
HOWS = ("restart", "evict", "restart_at", "rescue")
# Failed workloads whose events are read; the others say their cause only.
EXPLAINED = 5


def wrong_pods(moves: list[Move]) -> list[str]:
    """Return the pods that a complete rollout left on another revision than the one asked for."""
    return [
        f"{m.ref}, pod {p['name']}: injected by {p['revision'] or 'nothing'}, expected {m.revision}"
        for m in moves
        for p in m.pods
        if not p["terminating"] and p["revision"] != m.revision
    ]


def started_moves(workloads: list[dict[str, Any]]) -> list[Move]:
    """Return the moves that the option `workloads` asks for.

    Raises:
        MeshApiError: an unknown way to move.
    """
    moves = []
    for row in workloads:
        how = row.get("how") or "restart"
        if how not in HOWS or (how in ("restart", "rescue") and row["kind"] not in RESTARTED):
            raise MeshApiError(
                f"{row['kind']} {row['namespace']}/{row['name']} cannot be moved by {how!r}. Next: use one of "
                f"{', '.join(HOWS)}; restart and rescue are for {', '.join(RESTARTED)}."
            )
        moves.append(
            Move(row["kind"], row["namespace"], row["name"], row["revision"], how, str(row.get("api_version") or ""))
        )
    return moves


def run(task: Task, api: MeshApi) -> dict[str, Any]:
    """Move them all, or in check mode say which would be."""
    options, started = task.params, time.monotonic()
    moves = started_moves(options["workloads"])
    nothing: dict[str, Any] = {"failures": [], "not_started": [], "kept": [], "requests": 0}
    if task.check_mode or not moves:
        return {"changed": bool(moves), "moved": [m.row() for m in moves], **nothing}
    bounds = Bounds(
        options["concurrency"],
        options["timeout"],
        options["stuck_after"],
        options["max_failed"],
        options["expected_labels"],
        options["wave"],
    )
    asked = functools.partial(os.path.exists, options["stop_file"])  # "" exists nowhere
    mover = Mover(api, moves, bounds, task.tell, Watches(api), stop=asked)
    mover.run()
    causes = [explain(api, m) for m in mover.failed[:EXPLAINED]]
    causes += [f"{m.ref}: {m.failure}" for m in mover.failed[EXPLAINED:]]
    result = {
        "changed": any(m.restarted for m in moves),
        "moved": [m.row() for m in moves],
        "failures": [
            {"kind": m.kind, "namespace": m.namespace, "name": m.name, "cause": cause}
            for m, cause in zip(mover.failed, causes, strict=True)
        ],
        "not_started": [m.ref for m in mover.waiting],
        "kept": [line for m in moves for line in m.kept],
        "requests": api.requests,
        "seconds": round(time.monotonic() - started, 3),
    }
    if len(mover.failed) > options["max_failed"]:
        left = f" Not started: {', '.join(m.ref for m in mover.waiting)}." if mover.waiting else ""
        raise MeshApiError(
            f"The rollout stopped: {'; '.join(causes)}.{left} Next: mend the cause, then run again; what is done is "
            "kept.",
            result=result,
        )
    wrong = wrong_pods(mover.done)
    if wrong:
        raise MeshApiError(
            f"The rollout is complete but the proxies are not the expected ones: {'; '.join(wrong[:5])}. "
            "Next: look at the labels of the namespace and the pod template; a namespace's istio.io/rev and "
            "istio-injection win over the pod's.",
            result=result,
        )
    if mover.waiting:
        raise MeshApiError(
            f"Stopped as asked: {len(mover.done)} of {len(moves)} workloads have moved and are proven, "
            f"{len(mover.waiting)} were not started, such as {mover.waiting[0].ref}. Next: run the same command again, "
            "it goes on from here.",
            result=result | {"stopped": True},
        )
    return result


SPEC: dict[str, Any] = CONNECTION_SPEC | {
    "workloads": {"type": "list", "elements": "dict", "required": True},
    "concurrency": {"type": "int", "default": 8},
    "timeout": {"type": "int", "default": 300},
    "stuck_after": {"type": "int", "default": 30},
    "max_failed": {"type": "int", "default": 0},
    "expected_labels": {"type": "dict", "default": {}},
    "stop_file": {"type": "str", "default": ""},
    "wave": {"type": "str", "default": ""},
}


def main() -> None:
    """Entry point, where the task runs in a Python of its own (see action_plugins/in_process.py)."""
    connected(AnsibleModule(argument_spec=SPEC, supports_check_mode=True), run)


if __name__ == "__main__":
    main()
