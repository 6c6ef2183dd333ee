"""Gateways of the Gateway API that follow a tag: istiod replaces their pods the moment it moves, outside of any wave.

In: `gateways` of the facts, rows of `mesh_rows.gateway_row`. Sources: pkg/revisions/tag_watcher.go `IsMine` (the label
of the Gateway, else of its namespace, else the default tag decides which istiod a Gateway belongs to),
pilot/pkg/config/kube/gateway/deploymentcontroller.go (1.31).
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from mesh_logic.errors import MeshError
from mesh_logic.injection import REV

Row = dict[str, Any]


def name_of(row: Row) -> str:
    """Return kind, namespace and name of a Gateway, as `mesh_consents` writes them."""
    return f"Gateway {row['namespace']}/{row['name']}"


def tag_of(row: Row, namespaces: dict[str, dict[str, str]]) -> str:
    """Return the tag or revision that a Gateway follows."""
    asked = row["revision"] if row["revision"] is not None else namespaces.get(row["namespace"], {}).get(REV, "")
    return asked or "default"


def moving(facts: dict[str, Any], actions: list[Row]) -> list[Row]:
    """Return the Gateways that a plan's tag moves restart at once, each with its `tag`.

    Only those whose pods istiod makes: a Gateway with a host name as address brings its own.
    """
    tags = {item["object"] for item in actions if item["do"] == "set_tag"}
    namespaces = {row["name"]: row["labels"] for row in facts["namespaces"]}
    rows = [row | {"tag": tag_of(row, namespaces)} for row in facts["gateways"]]
    return [row for row in rows if row["tag"] in tags and row["managed"]]


def lines(facts: dict[str, Any], actions: list[Row]) -> list[str]:
    """Return, for people, the Gateways that will restart now, and those that were not programmed before."""
    found = []
    for row in moving(facts, actions):
        state = "" if row["programmed"] == "True" else f"; before, its condition Programmed is {row['programmed']}"
        why = f"follows tag {row['tag']}" if row["revision"] else f"names no revision and follows tag {row['tag']}"
        found.append(
            f"{name_of(row)} {why}: it will restart now, when that tag moves, with errors for some seconds{state}"
        )
    return found


def unconfirmed(facts: dict[str, Any], actions: list[Row], consents: list[dict[str, str]]) -> list[str]:
    """Return the Gateways that would restart and that nobody agreed to (case H06)."""
    found = []
    for row in moving(facts, actions):
        name = name_of(row)
        if not any(c["allow"] == "restart" and fnmatchcase(name, c["resource"]) for c in consents):
            todo = (
                f'agree in mesh_consents: {{resource: "{name}", allow: restart, reason: ...}}, or give it a tag of its '
                f"own: kubectl label gateway -n {row['namespace']} {row['name']} {REV}=<tag>"
            )
            why = f"it follows tag {row['tag']} and will restart at once when that moves, in no wave"
            found.append(str(MeshError(name, why, todo)))
    return found


def not_programmed(after: dict[str, Any], before: dict[str, Any], actions: list[Row]) -> list[str]:
    """Return the Gateways that were programmed before a tag moved and are not now (case H07).

    One that is gone counts; one that was not programmed before is not the move's doing.
    """
    now = {name_of(row): row["programmed"] for row in after["gateways"]}
    return [
        str(
            MeshError(
                name,
                f"its condition Programmed was True before tag {row['tag']} moved, and is {now.get(name, 'gone')}",
                f"kubectl describe gateway -n {row['namespace']} {row['name']}",
            )
        )
        for row in moving(before, actions)
        if row["programmed"] == "True" and now.get(name := name_of(row), "gone") != "True"
    ]
