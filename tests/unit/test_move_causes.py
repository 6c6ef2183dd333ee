"""What the mover says and does when something stands in the way; each case was seen red before it was mended."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from ansible.module_utils import mesh_mover
from ansible.module_utils.mesh_api import MeshApiError
from ansible.module_utils.mesh_mover import Bounds, Mover
from ansible.module_utils.mesh_rollout import Move, explain

from tests.unit.test_mesh_mover import KINDS, NEW, Clock, Cluster, ready


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(mesh_mover, "time", found)
    return found


def mover(cluster: Cluster, clock: Clock, moves: list[Move] | None = None, **bounds: Any) -> Any:
    clock.on_sleep.append(cluster.tick)
    api: Any = cluster
    every = moves or [Move(KINDS[plural], space, name, NEW) for plural, space, name in cluster.items]
    return Mover(api, every, Bounds(**bounds))


def waiting(reason: str) -> dict[str, Any]:
    status = {"containerStatuses": [{"name": "istio-proxy", "state": {"waiting": {"reason": reason}}}]}
    return {"phase": "Pending"} | status


# --- causes ------------------------------------------------------------------------------------------------


def warning(kind: str, name: str, said: str, at: str = "1") -> dict[str, Any]:
    involved = {"kind": kind, "name": name}
    return {"type": "Warning", "involvedObject": involved, "reason": "Failed", "message": said, "lastTimestamp": at}


def replica_set(name: str, of: str, revision: int) -> dict[str, Any]:
    controller = {"kind": "Deployment", "name": of, "controller": True}
    noted = {"deployment.kubernetes.io/revision": str(revision)}
    return {"metadata": {"name": name, "ownerReferences": [controller], "annotations": noted}}


class Told:
    """An API that only has events and ReplicaSets."""

    def __init__(self, events: list[dict[str, Any]], sets: list[dict[str, Any]]) -> None:
        self.lists = {"events": events, "replicasets": sets}

    def list(self, path: str, _selector: str = "", metadata_only: bool = False) -> list[dict[str, Any]]:
        assert metadata_only or path.endswith("events")
        return self.lists[path.rpartition("/")[2]]


def test_the_events_are_those_of_the_newest_replica_set_and_of_nobody_else() -> None:  # case G09
    events = [
        warning("Pod", "web-new1-aaaaa", "of the new pod", "3"),
        warning("ReplicaSet", "web-new1", "of the new set", "2"),
        warning("Pod", "web-old1-aaaaa", "of an old pod", "9"),
        warning("Pod", "web-admin-set1-aaaaa", "of another Deployment", "8"),
        warning("StatefulSet", "web", "of another kind", "7"),
    ]
    sets = [
        replica_set("web-old1", "web", 9),
        replica_set("web-new1", "web", 10),
        replica_set("web-admin-set1", "x", 11),
    ]
    api: Any = Told(events, sets)
    said = explain(api, Move("Deployment", "shop", "web", NEW, failure="gave up"))
    events_said = "web-new1: Failed: of the new set | web-new1-aaaaa: Failed: of the new pod"
    assert said == f"Deployment shop/web: gave up. Events: {events_said}"


@pytest.mark.parametrize(
    ("kind", "name", "mine"),
    [
        ("StatefulSet", "db-0", True),
        ("StatefulSet", "db-slow-0", False),
        ("DaemonSet", "db-x2x4x", True),
        ("DaemonSet", "db-x2x4x-more", False),
        ("Kafka", "db-zone-a-1", True),
    ],
)
def test_whose_pod_an_event_is_about(kind: str, name: str, mine: bool) -> None:  # case G09
    api: Any = Told([warning("Pod", name, "words")], [])
    assert ("words" in explain(api, Move(kind, "shop", "db", NEW, failure="gave up"))) is mine


def test_a_cause_that_healed_does_not_count_for_the_next_one(clock: Clock) -> None:  # case G10
    cluster = Cluster(lag=10_000)
    found = mover(cluster, clock, timeout=300, stuck_after=20)

    def one_after_the_other() -> None:
        for number, pod in enumerate(cluster.pods["ns-0"]):
            bad = 1008 <= clock.now < 1024 if number == 0 else 1024 <= clock.now < 1036
            pod["status"] = waiting("ErrImagePull") if bad else ready(True)
        if clock.now > 1040:
            cluster.ticks["deployments", "ns-0", "app-0"] = 1

    clock.on_sleep.insert(0, one_after_the_other)
    found.run()
    assert [m.failure for m in found.failed] == []
    assert len(found.done) == 1


def test_a_cause_that_changes_its_name_goes_on(clock: Clock) -> None:  # case G10
    cluster = Cluster(lag=10_000)
    found = mover(cluster, clock, timeout=300, stuck_after=20)

    def in_turns() -> None:
        reason = "ErrImagePull" if int(clock.now / 7) % 2 else "ImagePullBackOff"
        cluster.pods["ns-0"][0]["status"] = waiting(reason)

    clock.on_sleep.insert(0, in_turns)
    found.run()
    assert "ImagePull" in found.failed[0].failure
    assert clock.now < 1060


@pytest.mark.parametrize(
    ("plural", "missing", "age", "stops"),
    [
        ("statefulsets", 1, 60, True),
        ("daemonsets", 1, 60, True),
        ("statefulsets", 0, 60, False),
        ("statefulsets", 1, -60, False),
    ],
    ids=["stateful-set", "daemon-set", "all-are-there", "of-before"],
)
def test_pods_that_cannot_be_created_are_only_in_events(  # cases G08, B04
    clock: Clock, plural: str, missing: int, age: int, stops: bool
) -> None:
    cluster = Cluster(spaces=0, lag=10_000)
    cluster.add(plural, "ns-0", "db")["status"]["desiredNumberScheduled"] = 2
    del cluster.pods["ns-0"][:missing]
    words = 'create Pod db-1 failed: pods "db-1" is forbidden: exceeded quota: small'
    at = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    selectors: list[str] = []

    def asked(method: str, path: str, query: Any) -> Any:
        assert (method, path) == ("GET", "/api/v1/namespaces/ns-0/events")
        selectors.append(query["fieldSelector"])
        return {"items": [{"message": words, "lastTimestamp": at}, {"message": "older", "lastTimestamp": "2020"}]}

    def rolls() -> None:
        cluster.items[plural, "ns-0", "db"]["status"] |= {"observedGeneration": 9, "updatedReplicas": 1}

    cluster.request = asked  # type: ignore[assignment]
    cluster.tick = rolls  # type: ignore[method-assign]
    found = mover(cluster, clock, timeout=120, stuck_after=20)
    found.run()
    assert (found.failed[0].failure == f"FailedCreate: {words}") is stops
    assert (clock.now < 1060) is stops
    assert all(
        s == f"involvedObject.kind={KINDS[plural]},involvedObject.name=db,reason=FailedCreate" for s in selectors
    )
    assert bool(selectors) is bool(missing)


# --- restarts ----------------------------------------------------------------------------------------------


def test_a_restart_whose_answer_was_lost_and_which_is_complete_is_not_made_twice(clock: Clock) -> None:
    cluster = Cluster(lag=1)
    found = mover(cluster, clock)
    stored, lost = cluster.merge_patch, [True]

    def patched(path: str, body: dict[str, Any]) -> Any:
        answer = stored(path, body)
        if lost:
            lost.clear()
            raise MeshApiError("no answer", 0)
        return answer

    cluster.merge_patch = patched  # type: ignore[method-assign]
    found.run()
    assert [path for verb, path in cluster.asked if verb == "PATCH"] == [found.done[0].path]
    assert found.done[0].restarted


def test_a_workload_that_was_paused_meanwhile_is_told_at_once(clock: Clock) -> None:  # case G01
    cluster = Cluster(each=2, lag=10_000)
    stored = cluster.merge_patch

    def patched(path: str, body: dict[str, Any]) -> Any:
        cluster.items["deployments", "ns-0", "app-0"]["spec"]["paused"] = True
        return stored(path, body)

    cluster.merge_patch = patched  # type: ignore[method-assign]
    found = mover(cluster, clock, [Move("Deployment", "ns-0", "app-0", NEW)], timeout=300)
    found.run()
    assert "is paused" in found.failed[0].failure
    assert "kubectl rollout resume" in found.failed[0].failure
    assert clock.now < 1010


def test_only_what_is_moved_is_kept_in_memory(clock: Clock) -> None:
    cluster = Cluster(spaces=20, each=5)
    every = [Move("Deployment", f"ns-{n}", "app-0", NEW) for n in range(10)]
    found = mover(cluster, clock, every)
    found.run()
    assert set(found.objects) == {m.ref for m in every}


# --- evictions and the rescue ------------------------------------------------------------------------------


def alone(clock: Clock, answers: list[MeshApiError], **bounds: Any) -> tuple[Cluster, Any]:
    """Return a cluster that answers the first evictions and deletions with errors, and its mover."""
    cluster = Cluster(spaces=0)
    cluster.add("replicasets", "ns-0", "alone")
    request = cluster.request

    def asked(method: str, path: str, body: Any = None) -> Any:
        if answers:
            cluster._count(method, path)
            raise answers.pop(0)
        return request(method, path, body)

    cluster.request = asked  # type: ignore[method-assign]
    return cluster, mover(cluster, clock, [Move("ReplicaSet", "ns-0", "alone", NEW, how="evict")], **bounds)


def test_an_eviction_that_was_not_answered_is_asked_for_again(clock: Clock) -> None:
    answers = [MeshApiError("no answer", 0), MeshApiError("overloaded", 503, "overloaded")]
    _cluster, found = alone(clock, answers)
    found.run()
    assert [m.failure for m in found.failed] == []
    assert len(found.done) == 1


def test_an_eviction_that_never_works_names_its_cause(clock: Clock) -> None:
    words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    _cluster, found = alone(clock, [MeshApiError(words, 500, words)] * 1000, timeout=40)
    found.run()
    assert words in found.failed[0].failure


def test_a_budget_that_allows_nothing_is_not_asked_all_the_time(clock: Clock) -> None:
    cluster, found = alone(clock, [MeshApiError("refused", 429, "violates budget")] * 1000, timeout=120)
    found.run()
    assert "violates budget" in found.failed[0].failure
    assert cluster.requests < 80


def test_evictions_and_deletions_name_the_very_pod(clock: Clock) -> None:
    cluster, found = alone(clock, [])
    bodies: list[Any] = []
    request = cluster.request
    for number, pod in enumerate(cluster.pods["ns-0"]):
        pod["metadata"]["uid"] = f"uid-{number}"

    def asked(method: str, path: str, body: Any = None) -> Any:
        bodies.append(body)
        return request(method, path, body)

    cluster.request = asked  # type: ignore[method-assign]
    found.run()
    assert [b["deleteOptions"]["preconditions"] for b in bodies] == [{"uid": "uid-0"}, {"uid": "uid-1"}]


@pytest.mark.parametrize("status", [404, 409])
def test_a_pod_that_went_by_itself_ends_no_rescue(clock: Clock, status: int) -> None:
    cluster = Cluster(spaces=0, lag=100)
    cluster.add("statefulsets", "ns-0", "db")
    cluster.pods["ns-0"][1]["status"] = ready(False)

    def asked(method: str, path: str, body: Any = None) -> Any:
        cluster._count(method, path)
        cluster.pods["ns-0"][1]["status"] = ready(True)
        raise MeshApiError("not there", status)

    cluster.request = asked  # type: ignore[method-assign]
    found = mover(cluster, clock, [Move("StatefulSet", "ns-0", "db", NEW, how="rescue")])
    found.run()
    assert len(found.done) == 1
    assert found.done[0].kept == []


def test_the_rescue_leaves_what_a_partition_keeps(clock: Clock) -> None:
    cluster = Cluster(spaces=0, lag=40)
    cluster.add("statefulsets", "ns-0", "db", {"updateStrategy": {"rollingUpdate": {"partition": 1}}})
    cluster.pods["ns-0"][0]["status"] = ready(False)
    found = mover(cluster, clock, [Move("StatefulSet", "ns-0", "db", NEW, how="rescue")])
    found.run()
    assert [path for verb, path in cluster.asked if verb == "DELETE"] == []
