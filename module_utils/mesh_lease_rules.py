"""What a Lease says and what to write into it (coordination.k8s.io/v1). No request is made here."""

from __future__ import annotations

import datetime
from typing import Any

from ansible.module_utils.mesh_api import annotations_of, meta

MANAGED = {"app.kubernetes.io/managed-by": "istio-upgrade"}
REASON = "istio-upgrade/reason"
TOOK_OVER = "istio-upgrade/took-over"
# Seconds by which the clocks of two controllers may differ before an old Lease is taken for expired unseen.
SKEW = 30


def now() -> datetime.datetime:
    """Return the time of now, in UTC."""
    return datetime.datetime.now(datetime.UTC)


def stamp(at: datetime.datetime) -> str:
    """Return a time as the API's MicroTime."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def holder_of(lease: dict[str, Any] | None) -> str:
    """Return who holds a Lease; "" where nobody does."""
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")


def expired(lease: dict[str, Any], at: datetime.datetime) -> bool:
    """Tell whether a Lease was renewed so long ago that its holder is gone, whatever the clocks say."""
    spec = lease.get("spec") or {}
    try:
        renewed = datetime.datetime.fromisoformat(str(spec.get("renewTime")).replace("Z", "+00:00"))
    except ValueError:
        return True  # who never renewed it holds nothing
    return at > renewed + datetime.timedelta(seconds=(spec.get("leaseDurationSeconds") or 0) + SKEW)


def described(lease: dict[str, Any]) -> str:
    """Return a held Lease as words: who, why, since when, last renewed."""
    spec = lease.get("spec") or {}
    return (
        f"{holder_of(lease)} ({annotations_of(lease).get(REASON) or 'no reason given'}, "
        f"since {spec.get('acquireTime')}, last renewed {spec.get('renewTime')})"
    )


def taken(  # noqa: PLR0917 - the parts of a Lease
    lease: dict[str, Any] | None, name: str, holder: str, reason: str, seconds: int, at: datetime.datetime
) -> dict[str, Any]:
    """Return the Lease object that gives it to `holder`; the old one's resourceVersion lets only one writer win."""
    transitions = ((lease or {}).get("spec") or {}).get("leaseTransitions") or 0
    notes = {REASON: reason, TOOK_OVER: described(lease) if lease and holder_of(lease) else ""}
    head: dict[str, Any] = {"name": name, "annotations": notes, "labels": MANAGED}
    if lease:
        head["resourceVersion"] = meta(lease).get("resourceVersion")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": head,
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "acquireTime": stamp(at),
            "renewTime": stamp(at),
            "leaseTransitions": transitions + 1,
        },
    }


def renewed(lease: dict[str, Any], at: datetime.datetime) -> dict[str, Any]:
    """Return the merge patch that renews a Lease which was just read."""
    return {"metadata": {"resourceVersion": meta(lease).get("resourceVersion")}, "spec": {"renewTime": stamp(at)}}


def released(lease: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch that gives a Lease back; the object stays, with who had it last."""
    return {
        "metadata": {"resourceVersion": meta(lease).get("resourceVersion")},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
    }
