"""One run at a time: who may take the Lease, who waits, who is refused, and what happens to a killed run's."""

from __future__ import annotations

import datetime
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import mesh_lease  # type: ignore[import-not-found] # mypy reads library/ in a run of its own
import pytest
from ansible.module_utils.mesh_api import MeshApiError
from ansible.module_utils.mesh_lease_rules import TOOK_OVER, expired, holder_of, now, released, renewed, stamp, taken

PATH = "/apis/coordination.k8s.io/v1/namespaces/istio-system/leases/istio-upgrade"


class Store:
    """One Lease with the API server's compare-and-set on resourceVersion."""

    def __init__(self, lease: dict[str, Any] | None = None) -> None:
        self.lease, self.version, self.writes = lease, 1, 0

    def get(self, path: str) -> Any:
        assert path == PATH
        return self.lease

    def request(self, method: str, path: str, body: dict[str, Any]) -> Any:
        if method == "POST":
            assert PATH.startswith(path + "/")
            if self.lease is not None:
                raise MeshApiError("exists", 409)
        else:
            self._compare(body)
        return self._store(body)

    def merge_patch(self, path: str, body: dict[str, Any]) -> Any:
        assert path == PATH
        assert self.lease is not None
        self._compare(body)
        spec = self.lease["spec"] | body["spec"]
        return self._store({**self.lease, "spec": spec})

    def _compare(self, body: dict[str, Any]) -> None:
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise MeshApiError("conflict", 409)

    def _store(self, body: dict[str, Any]) -> Any:
        self.version, self.writes = self.version + 1, self.writes + 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return self.lease


@dataclass
class Task:
    """A task without a controller: nothing is forked."""

    params: dict[str, Any]
    check_mode: bool = False
    told: list[str] = field(default_factory=list)

    def tell(self, line: str) -> None:
        self.told.append(line)


def task(holder: str = "lab/one", **changes: Any) -> Task:
    defaults = {name: spec.get("default") for name, spec in mesh_lease.SPEC.items()}
    return Task(defaults | {"holder": holder, "reason": "step canary"} | changes)


def held(seconds: int = 60, ago: float = 0, holder: str = "lab/other 1") -> dict[str, Any]:
    at = now() - datetime.timedelta(seconds=ago)
    lease: dict[str, Any] = taken(None, "istio-upgrade", holder, "step install", seconds, at)
    lease["metadata"]["resourceVersion"] = "1"
    return lease


@pytest.mark.parametrize(
    ("ago", "over"),
    [
        pytest.param(0, False, id="fresh"),
        pytest.param(80, False, id="within-what-clocks-may-differ"),
        pytest.param(91, True, id="over"),
    ],
)
def test_when_a_lease_is_over(ago: float, over: bool) -> None:
    assert expired(held(ago=ago), now()) is over


def test_a_lease_without_a_time_holds_nothing() -> None:
    assert expired({"spec": {"holderIdentity": "x"}}, now())


def test_times_are_micro_times() -> None:
    assert stamp(datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.UTC)) == "2026-01-02T03:04:05.000006Z"


def test_take_and_give_back() -> None:
    store: Any = Store()
    first = mesh_lease.run(task(), store)
    assert first["holder"].startswith("lab/one ")
    assert (first["took_over"], first["waited"], first["changed"]) == ("", False, False)
    assert mesh_lease.run(task(first["holder"], state="released"), store)["had"] is True
    assert holder_of(store.lease) == ""
    assert mesh_lease.run(task(first["holder"], state="released"), store)["had"] is False
    second = mesh_lease.run(task(), store)
    assert second["holder"] != first["holder"], "each taking has a name of its own"
    assert store.lease["spec"]["leaseTransitions"] == 2


def test_check_mode_holds_nothing() -> None:
    store: Any = Store()
    checked = task()
    checked.check_mode = True
    assert mesh_lease.run(checked, store)["holder"] == ""
    assert store.writes == 0


def test_a_killed_runs_lease_is_taken_over_and_named() -> None:
    store: Any = Store(held(ago=1000))
    got = mesh_lease.run(task(), store)
    assert "lab/other 1 (step install, since" in got["took_over"]
    assert store.lease["metadata"]["annotations"][TOOK_OVER] == got["took_over"]


def test_a_lease_that_nobody_renews_is_waited_out_with_a_countdown() -> None:
    store: Any = Store(held(seconds=2))
    waiting = task()
    got = mesh_lease.run(waiting, store)
    assert got["waited"] is True
    assert "lab/other 1" in got["took_over"]
    assert "free in 2 s" in waiting.told[0]


def test_a_lease_that_is_renewed_is_refused_at_once() -> None:
    store: Any = Store(held(seconds=60))
    timer = threading.Timer(0.3, lambda: store.merge_patch(PATH, renewed(store.lease, now())))
    timer.start()
    with pytest.raises(MeshApiError, match=r"Another run works on this mesh: Lease istio-system/leases/istio-upgrade"):
        mesh_lease.run(task(), store)
    assert holder_of(store.lease) == "lab/other 1"


def test_a_lease_that_is_given_back_meanwhile_is_taken() -> None:
    store: Any = Store(held(seconds=60))
    timer = threading.Timer(0.3, lambda: store.merge_patch(PATH, released(store.lease)))
    timer.start()
    got = mesh_lease.run(task(), store)
    assert (got["waited"], got["took_over"]) == (True, "")


def test_of_two_that_are_equally_fast_one_is_refused() -> None:
    store: Any = Store()
    write = store.request

    def lose(method: str, path: str, body: dict[str, Any]) -> Any:
        store.request = write
        write("POST", path, {**body, "spec": body["spec"] | {"holderIdentity": "lab/faster 7"}})
        return write(method, path, body)

    store.request = lose
    with pytest.raises(MeshApiError, match=r"Another run was faster: .*lab/faster 7"):
        mesh_lease.run(task(), store)


def test_the_process_beside_renews_and_gives_back_when_the_run_is_gone() -> None:
    store: Any = Store(held(holder="lab/one 1", ago=50))
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as run:
        beside = threading.Thread(target=mesh_lease.keep, args=(store, "istio-system", "lab/one 1", run.pid, 1))
        beside.start()
        beside.join(1.5)
        assert beside.is_alive()
        assert holder_of(store.lease) == "lab/one 1"
        assert store.writes >= 1, "it was renewed"
        run.kill()
    beside.join(5)
    assert not beside.is_alive()
    assert holder_of(store.lease) == ""


def test_the_process_beside_leaves_a_lease_that_is_no_longer_its_own() -> None:
    store: Any = Store(held(holder="lab/two 2"))
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as run:
        mesh_lease.keep(store, "istio-system", "lab/one 1", run.pid, 1)
        run.kill()
    assert holder_of(store.lease) == "lab/two 2"
    assert store.writes == 0


def test_a_process_that_ended_or_another_one_with_its_number_is_no_controller() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        ended.wait()
    assert mesh_lease.life_of(ended.pid) == ""
