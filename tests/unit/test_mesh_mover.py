"""The mover against a small cluster in memory: bounds, waiting, causes, evictions, and how many requests it takes."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

import mesh_move  # type: ignore[import-not-found] # mypy reads library/ in a run of its own
import pytest
from ansible.module_utils import mesh_mover, mesh_owned
from ansible.module_utils.mesh_api import MeshApiError
from ansible.module_utils.mesh_mover import Bounds, Mover
from ansible.module_utils.mesh_rollout import RESTARTED_FOR, Move

OLD, NEW = "1-30-5", "1-31-0"
KINDS = {"deployments": "Deployment", "statefulsets": "StatefulSet", "daemonsets": "DaemonSet"}


class Clock:
    """Time that only passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.on_sleep: list[Any] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for call in self.on_sleep:
            call()


class Cluster:
    """Deployments with two pods each. A restarted one rolls: after `lag` polls its pods are new."""

    def __init__(self, spaces: int = 1, each: int = 1, lag: int = 2) -> None:
        self.lag, self.requests = lag, 0
        self.asked: list[tuple[str, str]] = []
        self.items: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.pods: dict[str, list[dict[str, Any]]] = {}
        self.labels: dict[str, dict[str, str]] = {}
        self.ticks: dict[tuple[str, str, str], int] = {}
        self.budget: dict[str, int] = {}
        self.trouble: list[int] = []
        self.gives = NEW
        for space in range(spaces):
            for number in range(each):
                self.add("deployments", f"ns-{space}", f"app-{number}")

    def add(self, plural: str, space: str, name: str, spec: dict[str, Any] | None = None) -> dict[str, Any]:
        self.labels.setdefault(space, {"istio.io/rev": NEW})
        owner = name if plural != "deployments" else f"{name}-1"
        self.pods.setdefault(space, [])
        for number in range(2):
            self.pods[space].append(pod(space, f"{name}-{number}", owner, plural, OLD))
        item = {
            "metadata": {"namespace": space, "name": name, "generation": 5},
            "spec": {"replicas": 2, "template": {"metadata": {}}} | (spec or {}),
            "status": counters(5, 2),
        }
        self.items[plural, space, name] = item
        return item

    def _count(self, verb: str, path: str) -> None:
        self.requests += 1
        self.asked.append((verb, path))
        if self.trouble:
            raise MeshApiError("the API server is away", self.trouble.pop(0))

    def get(self, path: str) -> Any:
        self._count("GET", path)
        parts = path.split("/")
        return copy.deepcopy(self.items.get((parts[-2], parts[-3], parts[-1])))

    def list(self, path: str, _selector: str = "", metadata_only: bool = False) -> list[dict[str, Any]]:
        self._count("LIST", path)
        parts = path.split("/")
        space, plural = parts[-2] if "namespaces" in parts[:-1] else "", parts[-1]
        if plural == "namespaces":
            assert metadata_only
            return [{"metadata": {"name": n, "labels": found}} for n, found in self.labels.items()]
        if plural == "pods":
            return copy.deepcopy(self.pods.get(space, []))
        if plural == "replicasets":
            return [
                {"metadata": {"namespace": there, "name": f"{name}-1", "ownerReferences": [owner("Deployment", name)]}}
                for kind, there, name in self.items
                if kind == "deployments" and there == space
            ]
        if plural in ("events", "poddisruptionbudgets"):
            return []
        return [
            copy.deepcopy(i) for (kind, there, _n), i in self.items.items() if kind == plural and space in ("", there)
        ]

    def merge_patch(self, path: str, body: dict[str, Any]) -> Any:
        self._count("PATCH", path)
        parts = path.split("/")
        key = (parts[-2], parts[-3], parts[-1])
        item = self.items[key]
        item["metadata"]["generation"] += 1
        item["spec"]["template"]["metadata"]["annotations"] = body["spec"]["template"]["metadata"]["annotations"]
        self.ticks[key] = self.lag
        return copy.deepcopy(item)

    def request(self, method: str, path: str, body: Any = None) -> Any:
        self._count(method, path)
        parts = path.split("/")
        space, name = parts[4], parts[6]
        if method == "POST":
            assert body["kind"] == "Eviction"
            if self.budget.get(space, 99) <= 0:
                raise MeshApiError("refused", 429, "Cannot evict pod as it would violate the pod's disruption budget.")
        victim = next(p for p in self.pods[space] if p["metadata"]["name"] == name)
        self.pods[space].remove(victim)
        fresh = copy.deepcopy(victim)
        fresh["metadata"] |= {"name": f"{name}-new", "annotations": {"istio.io/rev": self.gives}}
        fresh["status"] = ready(True)
        self.pods[space].append(fresh)
        return {}

    def tick(self) -> None:
        """Let every rollout go on by one poll."""
        for key, left in list(self.ticks.items()):
            item, (plural, space, name) = self.items[key], key
            item["status"] = counters(item["metadata"]["generation"], 2 if left <= 1 else 0)
            self.ticks[key] = left - 1
            if left <= 1:
                del self.ticks[key]
                prefix = name if plural != "deployments" else f"{name}-1"
                for one in self.pods[space]:
                    if one["metadata"]["ownerReferences"][0]["name"] == prefix:
                        one["metadata"]["annotations"] = {"istio.io/rev": self.gives}


def owner(kind: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "name": name, "controller": True}


def ready(yes: bool) -> dict[str, Any]:
    return {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": str(yes)}],
        "containerStatuses": [{"name": "istio-proxy", "ready": yes}],
    }


def pod(space: str, name: str, owned_by: str, plural: str, revision: str, **more: Any) -> dict[str, Any]:
    kind = {"deployments": "ReplicaSet"}.get(plural) or KINDS.get(plural, "ReplicaSet")
    metadata = {
        "namespace": space,
        "name": name,
        "annotations": {"istio.io/rev": revision},
        "ownerReferences": [owner(kind, owned_by)],
        "labels": {"pod-template-hash": "1"} if plural == "deployments" else {},
    }
    return {
        "metadata": metadata | more,
        "spec": {"containers": [{"name": "istio-proxy", "image": "proxyv2:1"}]},
        "status": ready(True),
    }


def counters(seen: int, new: int) -> dict[str, Any]:
    return {
        "observedGeneration": seen,
        "replicas": 2,
        "updatedReplicas": new,
        "availableReplicas": 2,
        "readyReplicas": 2,
    }


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(mesh_mover, "time", found)
    monkeypatch.setattr(mesh_move, "Watches", lambda _api: None)
    return found


def mover(cluster: Cluster, clock: Clock, moves: list[Move] | None = None, **bounds: Any) -> Any:
    clock.on_sleep.append(cluster.tick)
    api: Any = cluster
    every = moves or [Move(KINDS[plural], space, name, NEW) for plural, space, name in cluster.items]
    return Mover(api, every, Bounds(**bounds))


def writes(cluster: Cluster) -> list[str]:
    return [path for verb, path in cluster.asked if verb not in ("GET", "LIST")]


def test_everything_moves_once_and_its_pods_are_counted(clock: Clock) -> None:  # case B17
    cluster = Cluster(spaces=2, each=2)
    cluster.add("statefulsets", "ns-0", "db")
    cluster.add("daemonsets", "ns-1", "agent")
    cluster.items["daemonsets", "ns-1", "agent"]["status"] |= {"desiredNumberScheduled": 0}
    found = mover(cluster, clock)
    found.run()
    assert sorted(m.ref for m in found.done) == sorted(m.ref for m in found.done)
    assert len(found.done) == 6
    assert len(writes(cluster)) == len(set(writes(cluster))) == 6
    web = next(m for m in found.done if m.kind == "Deployment")
    assert [(p["revision"], p["pods"]) for p in web.pods] == [(NEW, 2)]


@pytest.mark.parametrize(("spaces", "each"), [(200, 1), (40, 5), (1, 1)], ids=["wide", "deep", "one"])
def test_requests_per_moved_workload_waiting_included(clock: Clock, spaces: int, each: int) -> None:
    cluster = Cluster(spaces, each, lag=10)
    found = mover(cluster, clock, concurrency=64, labels={"ns-0": {"istio.io/rev": NEW}})
    found.run()
    total = spaces * each
    assert len(found.done) == total
    assert cluster.requests / total <= (6 if total > 1 else 20)


def test_no_more_than_allowed_roll_at_once(clock: Clock) -> None:
    cluster = Cluster(each=7)
    found = mover(cluster, clock, concurrency=3)
    most = []
    clock.on_sleep.append(lambda: most.append(len(found.rolling)))
    found.run()
    assert max(most) == 3
    assert len(found.done) == 7


def test_nothing_to_move_ends_at_once(clock: Clock) -> None:  # case G15
    cluster = Cluster()
    api: Any = cluster
    Mover(api, [], Bounds()).run()
    assert cluster.requests == 0


def test_a_rollout_that_is_under_way_is_not_started_again(clock: Clock) -> None:
    cluster = Cluster()
    item = cluster.items["deployments", "ns-0", "app-0"]
    item["spec"]["template"]["metadata"]["annotations"] = {RESTARTED_FOR: NEW}
    item["status"]["updatedReplicas"] = 1
    cluster.ticks["deployments", "ns-0", "app-0"] = 2
    found = mover(cluster, clock)
    found.run()
    assert (len(found.done), writes(cluster)) == (1, [])
    assert not found.done[0].restarted


# --- what stops it -----------------------------------------------------------------------------------------


def test_a_failure_stops_new_ones_and_the_rolling_ones_end(clock: Clock) -> None:
    cluster = Cluster(each=4)
    cluster.items["deployments", "ns-0", "app-1"]["spec"]["paused"] = True  # case G01
    found = mover(cluster, clock, concurrency=2)
    found.run()
    assert [m.name for m in found.done] == ["app-0"]
    assert [m.name for m in found.failed] == ["app-1"]
    assert "kubectl rollout resume" in found.failed[0].failure
    assert [m.name for m in found.waiting] == ["app-2", "app-3"]


def test_a_budget_of_failures_lets_the_others_go_on(clock: Clock) -> None:
    cluster = Cluster(each=4)
    cluster.items["deployments", "ns-0", "app-1"]["spec"]["paused"] = True
    found = mover(cluster, clock, max_failed=1)
    found.run()
    assert [m.name for m in found.done] == ["app-0", "app-2", "app-3"]


def test_a_workload_that_is_gone_or_deleted_fails(clock: Clock) -> None:
    cluster = Cluster(each=2)
    del cluster.items["deployments", "ns-0", "app-0"]
    found = mover(cluster, clock, [Move("Deployment", "ns-0", f"app-{n}", NEW) for n in (0, 1)], max_failed=5)
    clock.on_sleep.insert(0, cluster.items.clear)
    clock.on_sleep.remove(cluster.tick)
    found.run()
    assert "is gone since the mesh was read" in found.failed[0].failure
    assert found.failed[1].failure == "it was deleted while it rolled"


def test_a_rollout_has_a_limit(clock: Clock) -> None:  # case G15
    cluster = Cluster(lag=10_000)
    found = mover(cluster, clock, timeout=60)
    found.run()
    assert found.failed[0].failure == "not finished after 60 s: 0 of 2 pods are new"


PULL = {"containerStatuses": [{"name": "istio-proxy", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}


def test_a_pod_that_cannot_start_is_the_cause(clock: Clock) -> None:  # case G10
    cluster = Cluster(lag=10_000)
    cluster.pods["ns-0"][0]["status"] = {"phase": "Pending"} | PULL
    found = mover(cluster, clock, timeout=300, stuck_after=20)
    found.run()
    assert found.failed[0].failure == "pod app-0-0: istio-proxy: ImagePullBackOff"
    assert clock.now < 1060, "it does not wait for the whole time-out"


def test_a_cause_that_heals_is_forgotten(clock: Clock) -> None:
    cluster = Cluster(lag=40)
    cluster.pods["ns-0"][0]["status"] = {"phase": "Pending"} | PULL
    found = mover(cluster, clock, stuck_after=20)
    clock.on_sleep.append(lambda: clock.now > 1010 and cluster.pods["ns-0"][0].update(status=ready(True)))
    found.run()
    assert len(found.done) == 1


def test_pods_that_cannot_be_created_are_the_cause(clock: Clock) -> None:  # cases G08, B04
    cluster = Cluster(lag=10_000)
    words = "exceeded quota: sidecars"
    found = mover(cluster, clock, stuck_after=20)
    refused = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": words}
    clock.on_sleep.append(lambda: cluster.items["deployments", "ns-0", "app-0"]["status"].update(conditions=[refused]))
    found.run()
    assert found.failed[0].failure == f"FailedCreate: {words}"


def test_old_pods_beside_new_ones_are_waited_for_and_ending_ones_are_not(clock: Clock) -> None:  # case B13
    cluster = Cluster(lag=1)
    late = pod("ns-0", "late", "app-0-1", "deployments", OLD)
    ending = pod("ns-0", "ending", "app-0-1", "deployments", OLD, deletionTimestamp="now")
    found = mover(cluster, clock)

    def born_and_gone() -> None:
        there = cluster.pods["ns-0"]
        if clock.now == 1000.5:
            there += [late, ending]
        elif clock.now > 1003 and late in there:
            there.remove(late)

    clock.on_sleep.append(born_and_gone)
    found.run()
    assert len(found.done) == 1
    assert {p["name"]: p["terminating"] for p in found.done[0].pods} == {"app-0-0": False, "ending": True}


def test_a_revision_that_nobody_asked_for_is_told(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(lag=1)
    cluster.gives = "1-29-0"
    clock.on_sleep.append(cluster.tick)
    with pytest.raises(MeshApiError, match="injected by 1-29-0, expected 1-31-0"):
        mesh_move.run(task([{"kind": "Deployment", "namespace": "ns-0", "name": "app-0", "revision": NEW}]), cluster)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_label_that_something_puts_back_is_a_failure(clock: Clock, when: str) -> None:
    cluster = Cluster()
    found = mover(cluster, clock, labels={"ns-0": {"istio.io/rev": NEW, "istio-injection": None}})
    put_back = {"istio.io/rev": OLD}
    if when == "before":
        cluster.labels["ns-0"] = put_back
    else:
        clock.on_sleep.append(lambda: cluster.labels.update({"ns-0": put_back}))
    found.run()
    assert "label istio.io/rev of namespace ns-0 is '1-30-5', expected '1-31-0'" in found.failed[0].failure
    assert len(writes(cluster)) == (0 if when == "before" else 1)


def test_an_api_server_that_is_away_for_a_moment_stops_nothing(clock: Clock) -> None:
    cluster = Cluster(each=2)
    found = mover(cluster, clock)
    cluster.trouble = [503]
    clock.on_sleep.append(lambda: setattr(cluster, "trouble", [500, 0] if clock.now == 1001.0 else []))
    found.run()
    assert len(found.done) == 2
    assert len(writes(cluster)) == 2


def test_a_restart_whose_answer_was_lost_is_not_made_twice(clock: Clock) -> None:
    cluster = Cluster()
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
    assert (len(found.done), len(writes(cluster))) == (1, 1)


def test_an_api_server_that_stays_away_ends_the_run(clock: Clock) -> None:
    cluster = Cluster()
    found = mover(cluster, clock)
    cluster.trouble = [503] * 1000
    with pytest.raises(MeshApiError, match="away"):
        found.run()
    assert clock.now - 1000 < 2 * mesh_mover.PATIENCE


def test_a_missing_right_ends_the_run_at_once(clock: Clock) -> None:  # case G18
    cluster = Cluster()
    cluster.trouble = [403]
    with pytest.raises(MeshApiError):
        mover(cluster, clock).run()


# --- other ways to move ------------------------------------------------------------------------------------


def test_a_partition_keeps_its_pods_and_says_so(clock: Clock) -> None:
    cluster = Cluster(spaces=0)
    cluster.add("statefulsets", "ns-0", "db", {"updateStrategy": {"rollingUpdate": {"partition": 1}}})
    found = mover(cluster, clock)

    def keep_the_first() -> None:
        cluster.pods["ns-0"][0]["metadata"]["annotations"] = {"istio.io/rev": OLD}

    clock.on_sleep.append(keep_the_first)
    found.run()
    assert len(found.done) == 1
    assert found.done[0].kept == ["StatefulSet ns-0/db: its partition 1 keeps 1 pods as they are, such as db-0"]
    assert [p["name"] for p in found.done[0].pods] == ["db-1"]


def evicted(space: str = "ns-0") -> Move:
    return Move("ReplicaSet", space, "alone", NEW, how="evict")


def test_pods_that_get_other_names_are_not_missed(clock: Clock) -> None:  # case G06
    cluster = Cluster(lag=1)
    found = mover(cluster, clock)

    def rename() -> None:
        for number, one in enumerate(cluster.pods["ns-0"]):
            one["metadata"]["name"] = f"born-{number}-{clock.now}"

    clock.on_sleep.append(rename)
    found.run()
    assert [m.name for m in found.done] == ["app-0"]
    assert found.done[0].pods[0]["name"].startswith("born-")


def test_pods_are_evicted_one_by_one(clock: Clock) -> None:
    cluster = Cluster(spaces=0)
    cluster.add("replicasets", "ns-0", "alone")
    found = mover(cluster, clock, [evicted()])
    found.run()
    assert len(found.done) == 1
    assert [path.split("/")[-2:] for path in writes(cluster)] == [["alone-0", "eviction"], ["alone-1", "eviction"]]
    assert found.done[0].restarted


def test_an_eviction_that_a_budget_forbids_is_waited_for_and_then_named(clock: Clock) -> None:
    cluster = Cluster(spaces=0)
    cluster.add("replicasets", "ns-0", "alone")
    cluster.budget["ns-0"] = 0
    found = mover(cluster, clock, [evicted()], timeout=30)
    found.run()
    assert "the eviction of pod alone-0: Cannot evict pod as it would violate" in found.failed[0].failure
    assert all(p["metadata"]["annotations"]["istio.io/rev"] == OLD for p in cluster.pods["ns-0"])


def test_the_next_pod_waits_for_the_replacement_of_the_one_before(clock: Clock) -> None:
    cluster = Cluster(spaces=0)
    cluster.add("replicasets", "ns-0", "alone")
    found = mover(cluster, clock, [evicted()], timeout=30)
    slow = cluster.request

    def request(method: str, path: str, body: Any = None) -> Any:
        slow(method, path, body)
        cluster.pods["ns-0"][-1]["status"] = ready(False)

    cluster.request = request  # type: ignore[method-assign]
    found.run()
    assert len(writes(cluster)) == 1
    assert "the replacement of an evicted pod" in found.failed[0].failure


def test_with_consent_the_pod_a_stateful_set_is_stuck_on_is_deleted_once(clock: Clock) -> None:
    cluster = Cluster(spaces=0, lag=10_000)
    cluster.add("statefulsets", "ns-0", "db")
    cluster.pods["ns-0"][1]["status"] = ready(False)
    found = mover(cluster, clock, [Move("StatefulSet", "ns-0", "db", NEW, how="rescue")], timeout=40)
    found.run()
    deleted = [path for verb, path in cluster.asked if verb == "DELETE"]
    assert [path.rpartition("/")[2] for path in deleted] == ["db-1"]
    assert "was never ready and was deleted, with consent" in found.failed[0].kept[0]


@pytest.mark.parametrize(
    "labels", [{"pod-template-hash": "1"}, {"pod-template-hash": "2"}, {}], ids=["by-name", "not", "no"]
)
def test_replica_sets_are_listed_only_where_names_do_not_tell(labels: dict[str, str]) -> None:
    api: Any = Cluster()
    for one in api.pods["ns-0"]:
        one["metadata"]["labels"] = labels
    rows = mesh_owned.read_pods(api, "ns-0", [Move("Deployment", "ns-0", "app-0", NEW)])
    assert [p["name"] for p in rows["Deployment ns-0/app-0"]] == ["app-0-0", "app-0-1"]
    assert len(api.asked) == (1 if labels == {"pod-template-hash": "1"} else 2)


def test_a_set_that_was_orphaned_keeps_its_pods() -> None:
    api: Any = Cluster()
    orphan, rest = Move("ReplicaSet", "ns-0", "app-0-1", NEW, how="evict"), Move("Deployment", "ns-0", "app-0", NEW)
    rows = mesh_owned.read_pods(api, "ns-0", [orphan, rest])
    assert {ref: len(found) for ref, found in rows.items()} == {orphan.ref: 2, rest.ref: 0}


def test_pods_of_others_are_nobodys_business() -> None:
    api: Any = Cluster(each=2)
    api.pods["ns-0"].append(pod("ns-0", "bare", "x", "jobs", OLD, ownerReferences=[]))
    rows = mesh_owned.read_pods(api, "ns-0", [Move("Deployment", "ns-0", "app-0", NEW)])
    assert {ref: [p["name"] for p in found] for ref, found in rows.items()} == {
        "Deployment ns-0/app-0": ["app-0-0", "app-0-1"]
    }


# --- the module --------------------------------------------------------------------------------------------


def task(workloads: list[dict[str, Any]], check_mode: bool = False, **options: Any) -> Any:
    params = {name: spec.get("default") for name, spec in mesh_move.SPEC.items()} | {"workloads": workloads} | options
    return type("Task", (), {"params": params, "check_mode": check_mode, "tell": staticmethod(lambda _line: None)})()


ROW = {"kind": "Deployment", "namespace": "ns-0", "name": "app-0", "revision": NEW}


def test_the_module_tells_what_it_let_pass(clock: Clock) -> None:
    cluster = Cluster(each=2)
    cluster.items["deployments", "ns-0", "app-0"]["spec"]["paused"] = True
    clock.on_sleep.append(cluster.tick)
    rows = [ROW, ROW | {"name": "app-1"}]
    result = mesh_move.run(task(rows, max_failed=1), cluster)
    assert [f["name"] for f in result["failures"]] == ["app-0"]
    assert (result["changed"], result["not_started"], result["kept"]) == (True, [], [])
    with pytest.raises(MeshApiError, match=r"The rollout stopped: Deployment ns-0/app-0: .*is paused") as failed:
        mesh_move.run(task(rows), cluster)
    assert failed.value.result["not_started"] == ["Deployment ns-0/app-1"]


def test_check_mode_asks_nothing() -> None:
    cluster = Cluster()
    assert mesh_move.run(task([ROW], check_mode=True), cluster)["changed"] is True
    assert cluster.requests == 0


@pytest.mark.parametrize("row", [ROW | {"how": "delete"}, ROW | {"kind": "Job"}], ids=["unknown-way", "job-restart"])
def test_a_way_that_does_not_fit_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(MeshApiError, match="cannot be moved by"):
        mesh_move.run(task([row]), Cluster())


def test_progress_is_told_when_it_changes_and_not_too_often(clock: Clock) -> None:
    cluster = Cluster(each=20, lag=3)
    found = mover(cluster, clock, concurrency=2)
    told: list[tuple[float, str]] = []
    found.tell = lambda line: told.append((clock.now, line))
    found.run()
    assert told[-1][1] == "20 of 20 moved, 40 of 40 proxies"
    assert all(later - earlier >= 2 for (earlier, _a), (later, _b) in itertools.pairwise(told[:-1]))


def test_a_request_to_stop_lets_through_what_rolls_and_starts_nothing_new(clock: Clock) -> None:
    cluster = Cluster(each=6, lag=3)
    found = mover(cluster, clock, concurrency=2)
    found.stop = lambda: clock.now > 1000.5
    told: list[str] = []
    found.tell = told.append
    found.run()
    assert [m.ref for m in found.done] == ["Deployment ns-0/app-0", "Deployment ns-0/app-1"]
    assert (len(found.waiting), found.failed, found.rolling, found.unproven) == (4, [], [], [])
    assert told[-1] == "2 of 6 moved, 4 of 12 proxies"


def test_what_was_not_started_because_of_a_request_to_stop_is_no_failure(clock: Clock, tmp_path: Path) -> None:
    cluster = Cluster(each=2)
    clock.on_sleep.append(cluster.tick)
    rows = [ROW, ROW | {"name": "app-1"}]
    stop = tmp_path / "stop"
    assert len(mesh_move.run(task(rows, stop_file=str(stop)), cluster)["moved"]) == 2, "nobody asked"
    stop.touch()
    with pytest.raises(MeshApiError, match=r"Stopped as asked: 0 of 2 workloads.*run the same command again") as failed:
        mesh_move.run(task(rows, stop_file=str(stop)), Cluster(each=2))
    assert failed.value.result["stopped"] is True
    assert failed.value.result["failures"] == []
    assert "stopped" not in mesh_move.run(task([], stop_file=str(stop)), Cluster()), "nothing was left to start"


def test_progress_names_the_wave(clock: Clock) -> None:
    cluster = Cluster(each=2, lag=8)
    found = mover(cluster, clock, concurrency=1, wave="inner")
    told: list[str] = []
    found.tell = told.append
    found.run()
    assert told[0].startswith("inner: 0 of 2 moved, 0 of 4 proxies; Deployment ns-0/app-0: ")
    assert told[-1] == "inner: 2 of 2 moved, 4 of 4 proxies"


@pytest.mark.parametrize(
    ("kind", "item", "words"),
    [
        pytest.param("Deployment", {"spec": {}, "status": {}}, "0 of 1 proxies", id="replicas-left-out-mean-one"),
        pytest.param("Deployment", {"spec": {"replicas": 0}, "status": {}}, "0 of 0 proxies", id="scaled-to-zero"),
        pytest.param(
            "Deployment",
            {"spec": {"replicas": 7}, "status": {"observedGeneration": 3, "updatedReplicas": 4}},
            "4 of 7 proxies",
            id="half-way",
        ),
        pytest.param(
            "Deployment",
            {"spec": {"replicas": 7}, "status": {"observedGeneration": 2, "updatedReplicas": 7}},
            "0 of 7 proxies",
            id="status-of-before",
        ),
        pytest.param(
            "DaemonSet",
            {"status": {"observedGeneration": 3, "updatedNumberScheduled": 2, "desiredNumberScheduled": 5}},
            "2 of 5 proxies",
            id="daemonset",
        ),
    ],
)
def test_a_rolling_workload_counts_as_far_as_it_is(kind: str, item: dict[str, Any], words: str, clock: Clock) -> None:
    move = Move(kind, "shop", "web", NEW, restarted=True, generation=3)
    found = mover(Cluster(), clock, [move])
    found.rolling, found.objects = [move], {move.ref: item}
    found.sizes = {move.ref: mesh_mover.size(move, item)}
    assert found.proxies() == words
