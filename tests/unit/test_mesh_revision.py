"""Waiting for a revision: what a time-out says beside the time (case F07)."""

from __future__ import annotations

from typing import Any

import mesh_revision  # type: ignore[import-not-found] # mypy reads library/ in a run of its own
import pytest
from ansible.module_utils.mesh_api import MeshApiError

NAME = "istiod-1-31-0"


def event(kind: str, name: str, reason: str, message: str, severity: str = "Warning") -> dict[str, Any]:
    return {
        "type": severity,
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": kind, "name": name},
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }


class Api:
    """An istiod that no node takes, with some events beside it."""

    def __init__(self, events: list[dict[str, Any]] | MeshApiError) -> None:
        self.events = events

    def list(self, path: str, *_selector: str, **_how: bool) -> list[dict[str, Any]]:
        plural = path.rsplit("/", 1)[1]
        if plural == "events":
            if isinstance(self.events, MeshApiError):
                raise self.events
            return self.events
        owner = {"kind": "Deployment", "name": NAME, "controller": True}
        found: dict[str, list[dict[str, Any]]] = {
            "deployments": [{"metadata": {"name": NAME}, "spec": {"replicas": 1}, "status": {}}],
            "replicasets": [{"metadata": {"name": f"{NAME}-6d5f", "ownerReferences": [owner]}}],
        }
        return found.get(plural, [])


class Task:
    def __init__(self) -> None:
        self.params = {"istio_namespace": "istio-system", "revision": "1-31-0", "state": "ready", "timeout": 0}


def test_a_time_out_names_what_the_cluster_says_about_the_new_istiod() -> None:  # case F07
    api = Api(
        [
            event("Pod", f"{NAME}-6d5f-abcde", "FailedScheduling", "no node matches the selector"),
            event("Pod", f"{NAME}-6d5f-abcde", "Scheduled", "fine", "Normal"),
            event("Pod", "istiod-1-30-5-777f-abcde", "Unhealthy", "of another revision"),
        ]
    )
    with pytest.raises(MeshApiError) as caught:
        mesh_revision.run(Task(), api)
    said = str(caught.value)
    assert said.startswith(f"Revision 1-31-0 is not ready after 0 s: Deployment {NAME}: ")
    assert f". Events: {NAME}-6d5f-abcde: FailedScheduling: no node matches the selector. Next: " in said
    assert "another revision" not in said
    assert "fine" not in said


def test_events_that_cannot_be_read_do_not_hide_what_is_missing() -> None:  # case F07
    with pytest.raises(MeshApiError) as caught:
        mesh_revision.run(Task(), Api(MeshApiError("events is forbidden", 403)))
    assert f"Deployment {NAME}: " in str(caught.value)
    assert "Its events cannot be read: events is forbidden" in str(caught.value)
