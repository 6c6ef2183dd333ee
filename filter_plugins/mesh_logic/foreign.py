"""Webhooks that carry no label of Istio and call an istiod all the same: copied by hand, or made by another tool.

In: `foreign_webhooks` of the facts, rows of `mesh_rows.foreign_row`. Source of what a selector asks for: manifests/
charts/istio-control/istio-discovery/templates/revision-tags-mwc.yaml (1.24-1.31).
"""

from __future__ import annotations

from typing import Any

from mesh_logic.errors import MeshError
from mesh_logic.injection import INJECT, INJECTION, REV


def names_claimed(row: dict[str, Any]) -> list[str]:
    """Return the revision and tag names that a foreign injector answers for; [] where it injects nothing."""
    found = set()
    for claim in row["claims"]:
        ((label, value),) = claim.items()
        if label == REV:
            found.add(value)
        elif (label, value) in ((INJECTION, "enabled"), (INJECT, "true")):
            found.add("default")
    return sorted(found)


def overlapping(facts: dict[str, Any]) -> list[str]:
    """Return foreign injectors that answer for the same pods as another injector, foreign or Istio's (case H02)."""
    rows = facts.get("foreign_webhooks") or []
    claims: dict[str, set[str]] = {}
    for row in facts["injectors"]:
        if not all(entry["deactivated"] for entry in row["entries"]):
            claims.setdefault(row["tag"] or row["revision"] or "default", set()).add(row["name"])
    for row in rows:
        for name in names_claimed(row):
            claims.setdefault(name, set()).add(row["name"])
    found = []
    for row in rows:
        for name in names_claimed(row):
            others = sorted(claims[name] - {row["name"]})
            if others:
                why = (
                    f"it carries no label of Istio, calls {' and '.join(called(row))}, and answers for {REV}={name} as "
                    f"{' and '.join(others)} does: which of them injects a pod is chance"
                )
                todo = f"kubectl delete {row['kind'].lower()} {row['name']}, once you know what made it"
                found.append(str(MeshError(f"{row['kind']} {row['name']}", why, todo)))
    return found


def called(row: dict[str, Any]) -> list[str]:
    """Return the Services that a webhook sends its requests to."""
    return sorted({entry["service"] for entry in row["entries"] if entry["service"]})


def calling(facts: dict[str, Any], service: str) -> list[dict[str, Any]]:
    """Return the foreign webhooks, of both kinds, that name a Service."""
    return [row for row in facts.get("foreign_webhooks") or [] if service and service in called(row)]
