"""The in-place road: a control plane without a revision is replaced where it stands, then its proxies are restarted.

istioctl does not ask for what its documentation asks for (`-y` switches the rest off), so the conditions stand here.
"""

from __future__ import annotations

from typing import Any

from mesh_logic.errors import MeshError
from mesh_logic.evidence import code_pairs, lines, proxy_pairs
from mesh_logic.model import build_view, how_moved, image_version, restartable, workload_ref
from mesh_logic.plan import action
from mesh_logic.versions import minor_skew
from mesh_logic.waves import in_waves

STEP = "in_place"
ALONE = "default"  # what an install without a revision is called
PIN = "sidecar.istio.io/proxyImage"
# Warnings on the revision road; here nothing injects while the only istiod is replaced (seed 000).
BLOCKS = ("ISTIOD_SINGLE_REPLICA", "ISTIOD_NO_BUDGET")
ROAD = "take the revision road, playbooks/upgrade.yml, which keeps the old control plane until the new one is proven"


def one_side(desired: dict[str, Any]) -> dict[str, Any]:
    """Return what is wanted with one revision on both sides: it is replaced where it stands."""
    return {**desired, "to": {**desired["to"], "revision": desired["from"]["revision"]}}


def refused(facts: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    """Return every condition of an in-place upgrade that the inputs or the cluster break; [] where it may go on."""
    old, new = desired["from"]["version"], desired["to"]["version"]
    errors = []
    if desired["from"]["revision"] != ALONE:
        why = "it was installed with a revision, and those are upgraded by a new revision beside it (case E08)"
        errors.append(MeshError(f"revision {desired['from']['revision']}", why, ROAD))
    if minor_skew(old, new) > 1:
        why = "an in-place upgrade skips no minor version"
        errors.append(MeshError(f"{old} to {new}", why, f"go by the minor in between, or {ROAD}"))
    row = build_view(facts)["revisions"].get(ALONE)
    if row is None:
        why = "there is no control plane without a revision in the cluster"
        errors.append(MeshError(f"namespace {facts['istio_namespace']}", why, ROAD))
    elif row["version"] not in (old, new):
        why = f"it runs Istio {row['version'] or row['image']}, neither {old} nor {new}"
        errors.append(MeshError(row["deployment"], why, "correct mesh_from_version and mesh_to_version"))
    elif row["helm"]:
        why = "Helm installed it, and istioctl would fight with Helm over every field"
        errors.append(MeshError(row["deployment"], why, "upgrade it with helm upgrade, in place as well"))
    return [str(error) for error in errors]


def blocking(findings: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return findings with those that block on this road as such."""
    return [row | ({"severity": "block"} if row["id"] in BLOCKS else {}) for row in findings]


def in_place_plan(facts: dict[str, Any], desired: dict[str, Any]) -> dict[str, Any]:
    """Return a plan as `mesh_plan` is one, and `for_a_person` (lines) and `refused` (messages).

    Args:
        facts: result of `mesh_read`.
        desired: of `one_side`.

    A proxy is old when its image says another version than the new one; which revision injected it says nothing here.
    """
    errors = refused(facts, desired)
    if errors:
        return _plan([], errors, [])
    view, new = build_view(facts, desired["consents"]), desired["to"]["version"]
    actions = []
    if view["revisions"][ALONE]["version"] != new:
        actions.append(action("install", ALONE, desired["from"]["version"], new, "in place"))
    restarts, left = [], []
    for row in view["workloads"]:
        versions = {
            image_version(p["image"]) for p in row["proxies"] if p["revision"] == ALONE and not p["terminating"]
        }
        if not versions or versions == {new} or row.get("finished"):
            continue
        why = _left(row, versions)
        if why:
            left.append(f"{workload_ref(row)}: {why}")
        else:
            restarts.append(action("restart", workload_ref(row), ALONE, ALONE, f"its proxies are not {new} yet"))
    pods = [p for p in view["loose_pods"] if p["live"] and p["revision"] == ALONE and image_version(p["image"]) != new]
    left += [f"Pod {p['namespace']}/{p['name']}: no restart moves it" for p in pods]
    return _plan(actions + in_waves(restarts, desired["waves"], view["selected"]), [], left)


def _left(row: dict[str, Any], versions: set[str]) -> str:
    """Return why a workload is left to a person, or ""."""
    if row["template_annotations"].get(PIN) and not row["gateway"]:
        return f"its proxy image is pinned ({PIN})"
    if versions == {""}:
        return "its image says no version, so nobody can tell whether it is old"
    if how_moved(row) in ("restart", "rescue"):
        return ""
    return restartable(row) or "it moves by eviction, which follows revisions only"


def _plan(actions: list[dict[str, Any]], errors: list[str], left: list[str]) -> dict[str, Any]:
    return {
        "step": STEP,
        "state": "todo" if actions else "done",
        "finished": not actions,
        "actions": [{**item, "step": STEP} for item in actions],
        "reason": "the control plane and every proxy that can be moved run the new version",
        "refused": errors,
        "for_a_person": left,
    }


def text(facts: dict[str, Any], desired: dict[str, Any], probes: list[dict[str, Any]]) -> str:
    """in-place.txt: the control plane, every proxy, the request."""
    row = build_view(facts)["revisions"].get(ALONE) or {}
    return lines([("istiod", row.get("version") or "none"), *proxy_pairs(facts, desired), *code_pairs(probes)])
