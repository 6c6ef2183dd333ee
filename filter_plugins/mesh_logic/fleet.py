"""Several clusters of one inventory: what has to hold between them before the first one changes, and their summary.

Every cluster reads and decides for itself; only what no single cluster can see is decided here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from functools import cmp_to_key
from itertools import combinations
from typing import Any, TypedDict

from mesh_logic.errors import MeshError, kind_of, one_line, shown
from mesh_logic.model import build_view
from mesh_logic.plan import finished
from mesh_logic.steps import STEPS
from mesh_logic.versions import compare_versions, minor_skew, parse_version

# Istio's rule for a pair of revisions; proxies of clusters that share a mesh talk to each other like those of a pair.
SPAN = 2
_BATCH = re.compile(r"[1-9][0-9]*|(?:100|[1-9][0-9]?)%")


class Cluster(TypedDict):
    """What the other clusters have to know about one."""

    host: str
    environment: str
    mesh_id: str
    server: str
    uid: str
    wanted_uid: str
    from_version: str
    to_version: str
    running: list[str]
    roots: list[str]
    evidence_dir: str
    finished: bool


class Failure(TypedDict):
    """Why a cluster stopped the fleet."""

    host: str
    step: str
    reason: str


# One line of the summary.
Row = TypedDict("Row", {"cluster": str, "from": str, "to": str, "step": str, "outcome": str, "reason": str})


def seen(facts: dict[str, Any], desired: dict[str, Any], host: str) -> Cluster:
    """Return what a fleet compares, of one cluster.

    Args:
        facts: result of `mesh_read`, scope control, with `root`.
        desired: result of `read_inputs`, with `evidence_dir`.
        host: name of the cluster in the inventory.
    """
    view = build_view(facts)
    running = {row["version"] for row in view["revisions"].values() if row["version"]}
    return {
        "host": host,
        "environment": desired["environment"],
        "mesh_id": desired["mesh_id"],
        "server": facts["cluster"]["server"],
        "uid": facts["cluster"]["uid"],
        "wanted_uid": desired["cluster_uid"],
        "from_version": desired["from"]["version"],
        "to_version": desired["to"]["version"],
        "running": sorted(running),
        "roots": list(facts["roots"]),
        "evidence_dir": desired["evidence_dir"],
        "finished": finished(view, desired),
    }


def errors(clusters: Sequence[Cluster], serial: object = 1, folder: str = "") -> list[str]:
    """Return why these clusters cannot be upgraded as one fleet, all at once; [] when they can.

    Args:
        clusters: one row per cluster of the run, in the order of the inventory.
        serial: how many clusters a wave has (`mesh_fleet_serial`).
        folder: where the summary goes; "" is beside the evidence of the one environment.
    """
    found = [*_serial(serial), *_duplicates(clusters), *_places(clusters, folder)]
    for mesh_id, members in meshes(clusters).items():
        found += [*_versions(mesh_id, members), *_roots(mesh_id, members)]
    return [str(error) for error in found]


def warnings(clusters: Sequence[Cluster]) -> list[str]:
    """Return what a person should know about clusters that share a mesh, and what could not be compared."""
    found = []
    for mesh_id, members in meshes(clusters).items():
        for row in members:
            if not row["roots"]:
                found.append(
                    MeshError(
                        f"cluster {row['host']}, mesh {shown(mesh_id)}",
                        "it keeps no ConfigMap istio-ca-root-cert, so its root CA was not compared",
                        "compare it by hand with the other clusters of the mesh",
                    )
                )
        for left, right in combinations(members, 2):
            if set(left["roots"]) & set(right["roots"]) and left["roots"] != right["roots"]:
                found.append(
                    MeshError(
                        f"clusters {left['host']} and {right['host']}, mesh {shown(mesh_id)}",
                        f"they share a root certificate, and trust different ones beside it ({_pair(left, right)}): "
                        "so looks a root that is being replaced",
                        "end that change before the upgrade, or know why it takes so long",
                    )
                )
    return [str(error) for error in found]


def meshes(clusters: Iterable[Cluster]) -> dict[str, list[Cluster]]:
    """Return mesh_id -> its clusters, where there is more than one."""
    found: dict[str, list[Cluster]] = {}
    for row in clusters:
        if row["mesh_id"]:
            found.setdefault(row["mesh_id"], []).append(row)
    return {mesh_id: rows for mesh_id, rows in found.items() if len(rows) > 1}


def _serial(value: object) -> list[MeshError]:
    parts = value if isinstance(value, list) else [value]
    plain = [str(part).strip() if isinstance(part, (int, str)) else "" for part in parts]
    wrong = [part for part, text in zip(parts, plain, strict=True) if not _BATCH.fullmatch(text)]
    if parts and not wrong:
        return []
    return [
        MeshError(
            f"mesh_fleet_serial {kind_of(wrong[0] if wrong else value)}",
            "it is no number of clusters from 1 on (0 would be all at once), no percentage, and no list of these",
            "-e mesh_fleet_serial=1",
        )
    ]


def _duplicates(clusters: Sequence[Cluster]) -> list[MeshError]:
    found = []
    for left, right in combinations(clusters, 2):
        what = f"clusters {left['host']} and {right['host']}"
        if left["uid"] == right["uid"]:
            found.append(
                MeshError(
                    what,
                    f"they are one and the same: kube-system has the UID {left['uid']} at {left['server']} and at "
                    f"{right['server']}",
                    "correct mesh_kubeconfig and mesh_context of one of them, or take one out of the inventory",
                )
            )
        elif left["wanted_uid"] and left["wanted_uid"] == right["wanted_uid"]:
            found.append(
                MeshError(
                    what,
                    f"both have mesh_cluster_uid {left['wanted_uid']}, and only one cluster can have it",
                    "give each its own: kubectl get namespace kube-system -o jsonpath={.metadata.uid}",
                )
            )
    return found


def _places(clusters: Sequence[Cluster], folder: str) -> list[MeshError]:
    found = [
        MeshError(
            f"clusters {left['host']} and {right['host']}",
            f"both write their evidence to {left['evidence_dir']}, and one would replace the other's",
            "take mesh_evidence_dir out of the inventory, or put {{ inventory_hostname }} into it",
        )
        for left, right in combinations(clusters, 2)
        if os.path.normpath(left["evidence_dir"]) == os.path.normpath(right["evidence_dir"])
    ]
    names = sorted({row["environment"] for row in clusters})
    if len(names) > 1 and not folder:
        found.append(
            MeshError(
                f"mesh_environment {', '.join(names)}",
                "the summary goes beside the evidence of one environment, and the clusters have several",
                "run one environment at a time with --limit, or say where it goes with -e fleet_dir=<folder>",
            )
        )
    return found


def _versions(mesh_id: str, members: Sequence[Cluster]) -> list[MeshError]:
    """Refuse what would leave proxies too far apart, while the fleet is on its way or after it."""
    found = []
    target = {parse_version(row["to_version"])[:2] for row in members}
    if len(target) > 1:
        goals = ", ".join(f"{row['host']} {row['to_version']}" for row in members)
        found.append(
            MeshError(
                f"mesh {shown(mesh_id)}",
                f"its clusters go to different minors: {goals}",
                "give mesh_to_version one value for all of them",
            )
        )
    every = [(version, row["host"]) for row in members for version in {*row["running"], row["to_version"]}]
    in_order = cmp_to_key(compare_versions)
    oldest = min(every, key=lambda item: in_order(item[0]))
    newest = max(every, key=lambda item: in_order(item[0]))
    if minor_skew(oldest[0], newest[0]) > SPAN:
        found.append(
            MeshError(
                f"mesh {shown(mesh_id)}",
                f"{oldest[0]} in {oldest[1]} and {newest[0]} in {newest[1]} would run at once, and more than {SPAN} "
                "minors lie between them",
                f"bring {oldest[1]} nearer first, alone: --limit {oldest[1]}",
            )
        )
    return found


def _roots(mesh_id: str, members: Sequence[Cluster]) -> list[MeshError]:
    return [
        MeshError(
            f"clusters {left['host']} and {right['host']}, mesh {shown(mesh_id)}",
            f"they have no root certificate in common ({_pair(left, right)}), so their proxies refuse each other",
            "kubectl get configmap -n istio-system istio-ca-root-cert -o yaml in both; install both with intermediates "
            "of one root (secret cacerts), or correct mesh_id",
        )
        for left, right in combinations(members, 2)
        if left["roots"] and right["roots"] and not set(left["roots"]) & set(right["roots"])
    ]


def _pair(left: Cluster, right: Cluster) -> str:
    return f"{', '.join(left['roots'])} and {', '.join(right['roots'])}"


def row(cluster: Cluster, reached: str = "", failure: Failure | None = None, end: str = "", reason: str = "") -> Row:
    """Return the summary's line of one cluster.

    Args:
        cluster: what was seen of it before.
        reached: the last step that ended well in this run, "" for none.
        failure: the first failure of its wave, or nothing.
        end: the state of its walk: "" before, `finished`, `unfinished` or `checked` (a check run) after.
        reason: what keeps an unfinished upgrade from being finished.
    """
    if failure and failure["host"] == cluster["host"]:
        step, outcome, why = failure["step"], "failed", failure["reason"]
    elif failure and end != "finished":
        step, outcome = reached, "held" if reached else "not touched"
        why = f"{failure['host']} failed in {failure['step']}"
    elif end == "checked":
        step, outcome, why = reached, "checked", "a check run changes nothing"
    elif end == "finished" or (not end and cluster["finished"]):
        step, outcome, why = list(STEPS)[-1], "upgraded", ""
    else:
        step, outcome, why = reached, "unfinished" if end else "not touched", reason
    return {
        "cluster": cluster["host"],
        "from": cluster["from_version"],
        "to": cluster["to_version"],
        "step": step,
        "outcome": outcome,
        "reason": one_line(why),
    }


def lines(rows: Sequence[Row]) -> list[str]:
    """Return the summary as a table for a terminal."""
    table = [["cluster", "from", "to", "step reached", "outcome", "reason"], *([*_cells(item)] for item in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(5)]
    return [
        "  ".join([*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[5]]).rstrip()
        for line in table
    ]


def _cells(item: Row) -> tuple[str, ...]:
    return (item["cluster"], item["from"], item["to"], item["step"] or "-", item["outcome"], item["reason"] or "-")


def files(rows: Sequence[Row], environment: str) -> dict[str, str]:
    """Return the summary's two files by name; without a time, so that a run that changes nothing rewrites nothing."""
    table = "".join("| " + " | ".join(text.replace("|", "\\|") for text in _cells(item)) + " |\n" for item in rows)
    count = sum(1 for item in rows if item["outcome"] == "upgraded")
    head = f"# Fleet {environment}\n\n{count} of {len(rows)} clusters are upgraded.\n\n"
    columns = "| cluster | from | to | step reached | outcome | reason |\n|---|---|---|---|---|---|\n"
    data = {"environment": environment, "clusters": list(rows)}
    return {"fleet.md": head + columns + table, "fleet.json": json.dumps(data, indent=2, ensure_ascii=False) + "\n"}
