"""How an upgrade stands: what is still to happen before it is over."""

from __future__ import annotations

from typing import Any

from mesh_logic.errors import shown
from mesh_logic.model import build_view, record_of
from mesh_logic.plan import finished
from mesh_logic.steps import STEPS


def unfinished(facts: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    """Return what keeps the upgrade from being finished, in short sentences; [] when it is.

    Args:
        facts: result of `mesh_read`, of any scope.
        desired: result of `read_inputs`.
    """
    view = build_view(facts)
    if finished(view, desired):
        return []
    old, new = desired["from"]["revision"], desired["to"]["revision"]
    found = []
    for step in STEPS:
        record = record_of(view, desired, step)
        if record.get("state") == "failed":
            found.append(f"the step {step} failed ({record.get('reason') or 'no reason was recorded'})")
    if new not in view["revisions"]:
        found.append(f"revision {shown(new)} is not installed")
    elif not view["revisions"][new]["ready"]:
        found.append(f"revision {shown(new)} is not ready")
    for tag in desired["tags"]:
        points_at = view["tags"].get(tag)
        if points_at != new:
            found.append(f"tag {shown(tag)} points at {shown(points_at) if points_at else 'nothing'}")
    if old in view["revisions"]:
        found.append(f"the old revision {shown(old)} is still there")
    return found or [f"revision {shown(new)} does not run version {desired['to']['version']}"]
