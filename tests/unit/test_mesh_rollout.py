"""Restarts and rollouts, against an API that is only a dict."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible.module_utils import mesh_rollout
from ansible.module_utils.mesh_api import MeshApiError

DONE: dict[str, dict[str, Any]] = {
    "Deployment": {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2},
    "StatefulSet": {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2},
    "DaemonSet": {"desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2},
}
UNSEEN = "the controller has not seen the change yet"


def workload(kind: str = "Deployment", spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """Return a workload whose rollout is complete, unless told otherwise; None takes a counter away."""
    counters = DONE[kind] | {"observedGeneration": 5} | status
    return {
        "metadata": {"namespace": "shop", "name": "web", "uid": "u", "generation": 5},
        "spec": {"replicas": 2, "template": {"metadata": {}}} | (spec or {}),
        "status": {k: v for k, v in counters.items() if v is not None},
    }


# id, kind, spec, changed counters, what is left
ROLLOUTS: list[tuple[str, str, dict[str, Any], dict[str, Any], str]] = [
    ("deployment-done", "Deployment", {}, {}, ""),
    ("G05-unseen", "Deployment", {}, {"observedGeneration": 4}, UNSEEN),
    ("G05-unseen-stateful-set", "StatefulSet", {}, {"observedGeneration": 4}, UNSEEN),
    ("G05-unseen-daemon-set", "DaemonSet", {}, {"observedGeneration": None}, UNSEEN),
    ("deployment-updating", "Deployment", {}, {"updatedReplicas": 1}, "1 of 2 pods are new"),
    ("deployment-old-left", "Deployment", {}, {"replicas": 3}, "1 old pods are still there"),
    ("deployment-available", "Deployment", {}, {"availableReplicas": None}, "0 of 2 pods are available"),
    (
        "G03-zero-replicas",
        "Deployment",
        {"replicas": 0},
        {"replicas": None, "updatedReplicas": None, "availableReplicas": None},
        "",
    ),
    (
        "replicas-null-is-one",
        "Deployment",
        {"replicas": None},
        {"replicas": 1, "updatedReplicas": None},
        "0 of 1 pods are new",
    ),
    ("stateful-set-done", "StatefulSet", {}, {}, ""),
    ("stateful-set-updating", "StatefulSet", {}, {"updatedReplicas": None}, "0 of 2 pods are new"),
    ("stateful-set-ready", "StatefulSet", {}, {"readyReplicas": 1}, "1 of 2 pods are ready"),
    (
        "stateful-set-partition",
        "StatefulSet",
        {"updateStrategy": {"rollingUpdate": {"partition": 1}}},
        {"updatedReplicas": 1},
        "",
    ),
    ("stateful-set-null-strategy", "StatefulSet", {"updateStrategy": {"rollingUpdate": None}}, {}, ""),
    ("daemon-set-done", "DaemonSet", {}, {}, ""),
    ("daemon-set-updating", "DaemonSet", {}, {"updatedNumberScheduled": 1}, "1 of 2 pods are new"),
    ("daemon-set-available", "DaemonSet", {}, {"numberAvailable": None}, "0 of 2 pods are available"),
    (
        "G03-daemon-set-nowhere",
        "DaemonSet",
        {},
        {"desiredNumberScheduled": 0, "updatedNumberScheduled": None, "numberAvailable": None},
        "",
    ),
]


@pytest.mark.parametrize(("kind", "spec", "status", "left"), [pytest.param(*r[1:], id=r[0]) for r in ROLLOUTS])
def test_what_a_rollout_waits_for(kind: str, spec: dict[str, Any], status: dict[str, Any], left: str) -> None:
    assert mesh_rollout.rollout_left(kind, workload(kind, spec, **status)) == left


def test_a_status_that_is_missing_is_not_done() -> None:
    assert mesh_rollout.rollout_left("Deployment", {"metadata": {"generation": 1}}) == UNSEEN


GAVE_UP = {
    "type": "Progressing",
    "status": "False",
    "reason": "ProgressDeadlineExceeded",
    "message": "gave up",
}


def test_a_deadline_of_this_rollout_counts_and_an_earlier_one_does_not() -> None:  # cases G09, G05
    assert mesh_rollout.deadline_exceeded(workload(conditions=[GAVE_UP])) == "gave up"
    assert mesh_rollout.deadline_exceeded(workload(conditions=[GAVE_UP], observedGeneration=4)) == ""
    assert mesh_rollout.deadline_exceeded(workload()) == ""


def test_why_pods_cannot_be_created() -> None:  # cases G08, B04
    condition = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "exceeded quota",
    }
    assert mesh_rollout.create_failure(workload(conditions=[condition])) == "FailedCreate: exceeded quota"
    assert mesh_rollout.create_failure(workload(conditions=[condition | {"status": "False"}])) == ""


class FakeApi:
    """Holds one workload; a patch makes a new generation unless told not to."""

    def __init__(self, item: dict[str, Any] | None, grows: bool = True) -> None:
        self.item, self.grows = copy.deepcopy(item), grows
        self.patches: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.budgets: list[dict[str, Any]] = []

    def get(self, path: str) -> dict[str, Any] | None:
        assert path.endswith("/namespaces/shop/rollouts/web")
        return copy.deepcopy(self.item)

    def merge_patch(self, _path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.patches.append(body)
        assert self.item is not None
        stored = copy.deepcopy(self.item)
        if "template" in body["spec"]:
            stored["spec"]["template"]["metadata"]["annotations"] = body["spec"]["template"]["metadata"]["annotations"]
        else:
            stored["spec"] |= body["spec"]
            stored["metadata"]["annotations"] = body["metadata"]["annotations"]
        if self.grows:
            stored["metadata"]["generation"] += 1
        self.item = stored
        return stored

    def list(self, path: str, metadata_only: bool = False) -> list[dict[str, Any]]:
        if path.endswith("/replicasets"):
            assert metadata_only
            controller = {"kind": "Deployment", "name": "web", "controller": True}
            return [{"metadata": {"name": "web-1", "ownerReferences": [controller]}}]
        return self.events if path.endswith("/events") else self.budgets


def move(revision: str = "1-31-0") -> Any:
    return mesh_rollout.Move("Deployment", "shop", "web", revision)


def noted(revision: str) -> dict[str, Any]:
    return {"template": {"metadata": {"annotations": {mesh_rollout.RESTARTED_FOR: revision}}}}


def test_a_restart_makes_a_new_generation() -> None:
    api, item = FakeApi(workload()), move()
    mesh_rollout.restart(api, item, api.item)
    assert (item.restarted, item.generation) == (True, 6)
    annotations = api.patches[0]["spec"]["template"]["metadata"]["annotations"]
    assert annotations[mesh_rollout.RESTARTED_FOR] == "1-31-0"


def test_two_restarts_at_once_differ() -> None:  # cases G07, G17
    api = FakeApi(workload())
    for revision in ("1-30-5", "1-31-0"):
        mesh_rollout.restart(api, move(revision), api.item)
    stamps = [p["spec"]["template"]["metadata"]["annotations"][mesh_rollout.RESTARTED_AT] for p in api.patches]
    assert stamps[0] != stamps[1]


def test_a_paused_workload_is_refused() -> None:  # case G01
    api = FakeApi(workload(spec={"paused": True}))
    with pytest.raises(MeshApiError, match=r"is paused.*kubectl rollout resume -n shop deployment/web"):
        mesh_rollout.restart(api, move(), api.item)
    assert api.patches == []


def test_a_patch_that_changes_nothing_is_refused() -> None:  # case G17
    with pytest.raises(MeshApiError, match="its generation stayed 5: nothing would restart"):
        mesh_rollout.restart(FakeApi(workload(), grows=False), move(), workload())


def test_a_workload_that_is_gone_is_refused() -> None:
    with pytest.raises(MeshApiError, match="Deployment shop/web is gone"):
        mesh_rollout.restart(FakeApi(None), move(), None)


@pytest.mark.parametrize(
    ("revision", "status", "patches"),
    [
        pytest.param("1-31-0", {"updatedReplicas": 1}, 0, id="under-way-is-waited-for"),
        pytest.param("1-31-0", {}, 1, id="a-complete-one-is-over"),
        pytest.param("1-30-5", {"updatedReplicas": 1}, 1, id="towards-another-revision"),
    ],
)
def test_a_run_that_is_taken_up_again(revision: str, status: dict[str, Any], patches: int) -> None:
    api, item = FakeApi(workload(spec=noted(revision), **status)), move()
    mesh_rollout.restart(api, item, api.item)
    assert len(api.patches) == patches
    assert item.restarted is bool(patches)
    assert item.generation == 5 + patches


def test_a_failure_comes_with_the_newest_warnings() -> None:  # case G09
    api, one = FakeApi(workload()), move()
    one.failure = "gave up"
    api.events = [
        {
            "type": "Warning",
            "involvedObject": {"kind": "Pod", "name": "web-1-abcde"},
            "reason": "R2",
            "message": "m2",
            "lastTimestamp": "2",
        },
        {
            "type": "Warning",
            "involvedObject": {"kind": "ReplicaSet", "name": "web-1"},
            "reason": "R1",
            "message": "m1",
            "lastTimestamp": "1",
        },
        {"type": "Normal", "involvedObject": {"name": "web-1"}, "reason": "no", "message": ""},
        {"type": "Warning", "involvedObject": {"name": "db-1"}, "reason": "no", "message": ""},
    ]
    said = "Deployment shop/web: gave up. Events: web-1: R1: m1 | web-1-abcde: R2: m2"
    assert mesh_rollout.explain(api, one) == said
    api.events = []
    assert mesh_rollout.explain(api, one) == "Deployment shop/web: gave up"


def test_a_blocked_eviction_names_the_budgets_that_allow_nothing() -> None:
    api, one = FakeApi(workload()), mesh_rollout.Move("ReplicaSet", "shop", "web", "1-31-0", how="evict")
    one.failure = "not finished"
    api.budgets = [
        {"metadata": {"name": "tight"}, "status": {"disruptionsAllowed": 0}},
        {"metadata": {"name": "loose"}, "status": {"disruptionsAllowed": 1}},
        {"metadata": {"name": "new"}},
    ]
    assert mesh_rollout.explain(api, one) == (
        "ReplicaSet shop/web: not finished. PodDisruptionBudgets that allow nothing now: tight, new"
    )


def test_an_argo_rollout_is_restarted_through_its_own_field_once() -> None:  # case B16
    api = FakeApi({"metadata": {"generation": 1}, "spec": {}})
    one = mesh_rollout.Move("Rollout", "shop", "web", "1-31-0", how="restart_at", api_version="argoproj.io/v1alpha1")
    old = [{"created": "2026-01-01T00:00:00Z"}]
    mesh_rollout.restart_at(api, one, old)
    assert one.restarted
    assert one.path == "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/web"
    again = mesh_rollout.Move("Rollout", "shop", "web", "1-31-0", how="restart_at", api_version="argoproj.io/v1alpha1")
    mesh_rollout.restart_at(api, again, old)
    assert len(api.patches) == 1, "a run that was killed after the patch waits for it"
    mesh_rollout.restart_at(api, again, [{"created": "2999-01-01T00:00:00Z"}])
    assert len(api.patches) == 2, "pods born old after it need another one"
