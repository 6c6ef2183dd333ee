"""What the removal of a revision takes, what it must leave, and what is left of it. Rows come from `mesh_objects`."""

from __future__ import annotations

from typing import Any

from mesh_logic.errors import MeshError

# `istioctl uninstall --revision` takes the objects of that revision with one of these components
# (operator/pkg/uninstall/prune.go and operator/pkg/component, 1.31).
TAKEN = ("Pilot", "IngressGateways", "EgressGateways", "Cni", "Ztunnel")
CONTROL_PLANE = "Pilot"

Row = dict[str, str]


def named(row: Row) -> str:
    """Return kind, namespace and name as people write them."""
    return f"{row['kind']} {row['namespace'] + '/' if row['namespace'] else ''}{row['name']}"


def takes(objects: list[Row], revision: str) -> list[Row]:
    """Return what `istioctl uninstall --revision` would delete."""
    return [row for row in objects if row["revision"] == revision and row["component"] in TAKEN]


def takes_words(objects: list[Row], revision: str) -> list[str]:
    """Return the same as words."""
    return sorted(named(row) for row in takes(objects, revision))


def takes_more(objects: list[Row], revision: str) -> list[str]:
    """Return, as refusals, what the removal would take beyond the revision's own control plane.

    A shared node agent or a gateway that was last installed with this revision carries its label; a tag's objects too,
    where an installer made them and they still point to it.
    """
    return [
        str(
            MeshError(
                named(row),
                f"istioctl uninstall --revision {revision} would delete it ({row['component']}"
                f"{', tag ' + row['tag'] if row['tag'] else ''}), and it is more than a control plane",
                "move the tag first" if row["tag"] else "install it with a file of its own and another revision first",
            )
        )
        for row in takes(objects, revision)
        if row["component"] != CONTROL_PLANE or row["tag"] or row["kind"] == "DaemonSet"
    ]


def lost(before: dict[str, Any], after: dict[str, Any], revision: str) -> list[str]:
    """Return what vanished though the removal of `revision` should have left it: objects of others, shared accounts.

    A tag's objects may have been made anew under the same name, and accounts of the old revision may go (case I09).
    """
    taken = {named(row) for row in takes(before["objects"], revision)}
    there = {named(row) for row in after["objects"]}
    gone = [named(r) for r in before["objects"] if named(r) not in there | taken and r["kind"] != "Lease"]
    own = {row["name"] for row in takes(before["objects"], revision) if row["kind"] == "ServiceAccount"}
    accounts = [f"ServiceAccount {name}" for name in before["accounts"] if name not in {*after["accounts"], *own}]
    return sorted({*gone, *accounts}) + sorted(after["rights"] or [])


def left(after: dict[str, Any], revision: str) -> dict[str, list[str]]:
    """Return what is left of a removed revision: {expected, other}.

    Expected are istiod's own Leases, and what is not per revision but carries the label of the last install (component
    Base). The rest is for a person to look at; nothing is deleted here.
    """
    rows = [
        row
        for row in after["objects"]
        if row["revision"] == revision or (row["kind"] == "Lease" and row["name"].endswith(f"-{revision}"))
    ]
    expected = [row for row in rows if row["kind"] == "Lease" or row["component"] == "Base"]
    return {
        "expected": sorted(named(row) for row in expected),
        "other": sorted(named(row) for row in rows if row not in expected),
    }
