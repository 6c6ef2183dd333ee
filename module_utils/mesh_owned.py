"""Which pods belong to a workload, and how they are told in a result."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.mesh_api import MeshApi, meta
from ansible.module_utils.mesh_rollout import Move
from ansible.module_utils.mesh_rows import deployment_by_name, pod_row, replica_set_owner

# Kinds that own their pods themselves; a Deployment owns them through a ReplicaSet.
DIRECT = ("StatefulSet", "DaemonSet", "ReplicaSet", "Job")
SHOWN = ("name", "image", "revision", "ready", "terminating", "native")


def read_pods(api: MeshApi, namespace: str, moves: list[Move]) -> dict[str, list[dict[str, Any]]]:
    """Return the live pods of some workloads of one namespace as rows, by the workload's ref; one or two requests.

    Each row has the pod's `uid` too: pods of a StatefulSet come back under the same name.
    """
    listed = api.list(f"/api/v1/namespaces/{namespace}/pods")
    rows = [row for row in (pod_row(p) | {"uid": str(meta(p).get("uid", ""))} for p in listed) if row["live"]]
    found: dict[str, list[dict[str, Any]]] = {move.ref: [] for move in moves}
    unclear: list[dict[str, Any]] = []
    for row in rows:
        ref = f"{row['owner_kind']} {namespace}/{row['owner_name']}"
        if row["owner_kind"] == "ReplicaSet" and ref not in found:
            name = deployment_by_name(row)
            ref = f"Deployment {namespace}/{name}" if name else ""
        (found.get(ref, []) if ref else unclear).append(row)
    if unclear and any(move.kind not in DIRECT for move in moves):
        owners = set_owners(api, namespace)
        for row in unclear:
            found.get(owners.get(row["owner_name"], ""), []).append(row)
    return found


def set_owners(api: MeshApi, namespace: str) -> dict[str, str]:
    """Return the refs of what owns the ReplicaSets of a namespace, by their names."""
    found = {}
    for item in api.list(f"/apis/apps/v1/namespaces/{namespace}/replicasets", metadata_only=True):
        (_namespace, name), (kind, above, _api) = replica_set_owner(item)
        if above:
            found[name] = f"{kind} {namespace}/{above}"
    return found


def stale_pods(move: Move, pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the pods that another revision injected and that are not on their way out (case B13)."""
    return [p for p in pods if p["proxy"] and not p["terminating"] and p["revision"] != move.revision]


def kept_by_partition(move: Move, pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the pods that a StatefulSet's partition keeps as they are: those with a lower ordinal."""
    if not move.partition:
        return []
    return [p for p in pods if (end := p["name"].rpartition("-")[2]).isdigit() and int(end) < move.partition]


def summed(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return pods counted by (image, revision, ready, terminating, native), each with the name of one of them."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for pod in pods:
        key = tuple(pod[name] for name in SHOWN[1:])
        groups.setdefault(key, {name: pod[name] for name in SHOWN} | {"pods": 0})["pods"] += 1
    return list(groups.values())
