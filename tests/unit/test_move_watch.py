"""Watches: against a small HTTP server on the loopback, and what they save the mover in simulated time."""

from __future__ import annotations

import http.server
import json
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from ansible.module_utils import mesh_mover, mesh_watch
from ansible.module_utils.mesh_api import MeshApi, MeshApiError
from ansible.module_utils.mesh_mover import Bounds, Mover
from ansible.module_utils.mesh_rollout import Move
from ansible.module_utils.mesh_watch import Watches

from tests.unit.test_mesh_api import kubeconfig
from tests.unit.test_mesh_mover import KINDS, NEW, Clock, Cluster

PATH = "/apis/apps/v1/deployments"


class Server(http.server.ThreadingHTTPServer):
    """Lists nothing at version 7; a watch sends what is put into `events`, and ends at None."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.events: queue.Queue[Any] = queue.Queue()
        self.refuses = 0
        self.watched: list[str] = []
        self.lists = 0


class Handler(http.server.BaseHTTPRequestHandler):
    """Plays the part of a list and of a watch, in pieces that end anywhere."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "watch" not in query:
            self.server.lists += 1
            return self.whole(200, {"kind": "DeploymentList", "metadata": {"resourceVersion": "7"}, "items": []})
        self.server.watched.append(query["resourceVersion"][0])
        if self.server.refuses:
            return self.whole(self.server.refuses, {"message": "cannot watch resource"})
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while (event := self.server.events.get()) is not None:
            line = json.dumps(event).encode() + b"\n"
            for piece in (line[:11], line[11:]):
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        return None

    def whole(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield found
    found.events.put(None)
    found.shutdown()
    found.server_close()


@pytest.fixture
def watches(server: Server, tmp_path: Path) -> Iterator[Watches]:
    api = MeshApi(str(kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}")), request_timeout=5)
    found = Watches(api)
    yield found
    found.close()


def event(kind: str, version: int, **more: Any) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"name": "web", "resourceVersion": str(version)}} | more}


def until(what: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 5
    while not what():
        assert time.monotonic() < deadline, "never came"
        time.sleep(0.01)


def test_a_collection_is_listed_once_and_then_told(server: Server, watches: Watches) -> None:
    assert watches.open(PATH) is True, "what was there before must be listed"
    assert watches.open(PATH) is False
    for came in (event("ADDED", 8), event("BOOKMARK", 9), event("MODIFIED", 10), event("DELETED", 11)):
        server.events.put(came)
    until(lambda: watches.running[PATH].version == "11")
    told = [(there, item["metadata"]["resourceVersion"]) for there, item in watches.take(PATH)]
    assert told == [(True, "8"), (True, "10"), (False, "11")]
    assert watches.take(PATH) == []
    assert (server.watched, watches.api.requests) == (["7"], 2)


def test_the_next_request_goes_on_where_one_ended(server: Server, watches: Watches) -> None:
    watches.open(PATH)
    until(lambda: server.watched)
    server.events.put(event("BOOKMARK", 20))
    time.sleep(1.1)
    server.events.put(None)
    until(lambda: server.watched == ["7", "20"])
    assert watches.open(PATH) is False


@pytest.mark.parametrize("why", ["expired", "at once", "cut"])
def test_a_watch_that_lost_its_place_is_opened_anew_and_listed(server: Server, watches: Watches, why: str) -> None:
    watches.open(PATH)
    until(lambda: server.watched)
    server.events.put({"type": "ERROR", "object": {"code": 410, "message": "too old"}} if why == "expired" else None)
    if why == "cut":
        until(lambda: watches.running[PATH].answer)  # the server knows of the request before the client has its answer
        watches.running[PATH].answer.shutdown()
    until(lambda: watches.running[PATH].over)
    assert watches.open(PATH) is True
    assert watches.open(PATH) is False
    assert server.lists == 2


def test_who_may_not_watch_lists_each_time(server: Server, watches: Watches) -> None:
    server.refuses = 403
    watches.open(PATH)
    until(lambda: watches.running[PATH].over)
    assert [watches.open(PATH) for _ in range(3)] == [True, True, True]
    assert (len(server.watched), server.lists, watches.take(PATH)) == (1, 1, [])
    assert "cannot watch resource" in watches.refused[PATH]


def test_a_server_that_is_away_is_an_error_of_its_own(server: Server, watches: Watches) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(MeshApiError) as failed:
        watches.open(PATH)
    assert failed.value.status == 0


def test_waiting_ends_with_news(server: Server, watches: Watches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_watch, "PACE", 0)
    watches.open(PATH)
    began = time.monotonic()
    server.events.put(event("MODIFIED", 8))
    watches.wait(5)
    assert time.monotonic() - began < 2
    watches.wait(0.05)
    assert len(watches.take(PATH)) == 1


def test_closing_ends_the_thread(watches: Watches) -> None:
    watches.open(PATH)
    until(lambda: watches.running[PATH].answer)
    watches.close()
    watches.running[PATH]._thread.join(3)
    assert not watches.running[PATH]._thread.is_alive()


# --- what the mover makes of it ----------------------------------------------------------------------------


class Slow(Cluster):
    """A cluster whose rollouts take `lag` seconds, whatever is asked; a list costs a request for each 500 objects."""

    def __init__(self, clock: Clock, spaces: int, each: int, lag: int) -> None:
        super().__init__(spaces, each, lag)
        self.clock, self.ends = clock, dict[tuple[str, str, str], float]()
        self.news: list[tuple[bool, dict[str, Any]]] = []
        clock.on_sleep.append(self.go_on)

    def list(self, path: str, _selector: str = "", metadata_only: bool = False) -> list[dict[str, Any]]:
        found = super().list(path, _selector, metadata_only)
        self.requests += max(1, math.ceil(len(found) / 500)) - 1
        return found

    def merge_patch(self, path: str, body: dict[str, Any]) -> Any:
        stored = super().merge_patch(path, body)
        parts = path.split("/")
        key = parts[-2], parts[-3], parts[-1]
        del self.ticks[key]
        self.ends[key] = self.clock.now + self.lag
        self.tell(key)
        return stored

    def tell(self, key: tuple[str, str, str], there: bool = True) -> None:
        item = self.items[key]
        self.news.append((there, json.loads(json.dumps(item))))

    def go_on(self) -> None:
        over = [key for key, end in self.ends.items() if self.clock.now >= end]
        for key in over:
            del self.ends[key]
            self.ticks[key] = 1
        self.tick()
        for key in over:
            self.tell(key)


class Told:
    """Watches whose events come from a cluster in memory; each lasts 30 simulated seconds."""

    def __init__(self, cluster: Slow) -> None:
        self.cluster, self.known, self.until, self.closed = cluster, set[str](), 0.0, False

    def open(self, path: str) -> bool:
        new = path not in self.known
        self.cluster.requests += 2 * new
        self.known.add(path)
        return new

    def take(self, _path: str) -> list[tuple[bool, dict[str, Any]]]:
        came, self.cluster.news = self.cluster.news, []
        return came

    def wait(self, seconds: float) -> None:
        self.cluster.clock.sleep(seconds)
        if self.cluster.clock.now > self.until:
            self.until = self.cluster.clock.now + 30
            self.cluster.requests += len(self.known)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(mesh_mover, "time", found)
    return found


def told(clock: Clock, spaces: int, each: int, lag: int, **bounds: Any) -> tuple[Slow, Any, Told]:
    cluster = Slow(clock, spaces, each, lag)
    watched = Told(cluster)
    api: Any = cluster
    watches: Any = watched
    every = [Move(KINDS[plural], space, name, NEW) for plural, space, name in cluster.items]
    return cluster, Mover(api, every, Bounds(**bounds), watches=watches), watched


@pytest.mark.parametrize(
    ("spaces", "each", "lag", "concurrency"),
    [(200, 1, 10, 8), (60, 5, 30, 8), (200, 1, 30, 64), (1, 1, 30, 8), (5, 2, 30, 8)],
    ids=["wide", "deep-and-slow", "many-at-once", "one", "few"],
)
def test_requests_per_workload_do_not_grow_with_the_time_it_takes(
    clock: Clock, spaces: int, each: int, lag: int, concurrency: int
) -> None:
    cluster, found, watched = told(clock, spaces, each, lag, concurrency=concurrency)
    found.run()
    total = spaces * each
    assert len(found.done) == total
    assert cluster.requests / total <= (6 if total > 1 else 10)
    assert clock.now - 1000 <= 1.15 * lag * math.ceil(total / concurrency)
    assert watched.closed


def test_what_was_so_before_the_restart_is_not_its_end(clock: Clock) -> None:  # case G05
    cluster, found, _watched = told(clock, 1, 1, 10)
    before = json.loads(json.dumps(cluster.items["deployments", "ns-0", "app-0"]))
    clock.on_sleep.append(lambda: cluster.news.append((True, before)) if clock.now < 1004 else None)
    found.run()
    assert len(found.done) == 1
    assert clock.now >= 1010


@pytest.mark.parametrize(("uid", "failed"), [("u", 1), ("another", 0)])
def test_a_workload_deleted_while_it_rolls(clock: Clock, uid: str, failed: int) -> None:
    cluster, found, _watched = told(clock, 1, 1, 10)
    cluster.items["deployments", "ns-0", "app-0"]["metadata"]["uid"] = "u"
    gone = {"metadata": {"namespace": "ns-0", "name": "app-0", "uid": uid}}
    clock.on_sleep.append(lambda: cluster.news.append((False, gone)) if clock.now == 1001.0 else None)
    found.run()
    assert len(found.failed) == failed


def test_after_trouble_everything_is_listed_again(clock: Clock) -> None:
    cluster, found, watched = told(clock, 3, 2, 10)
    opened = watched.open

    def away(path: str) -> bool:
        if clock.now == 1002.0:
            clock.now += 0.5
            cluster.news.clear()  # what happens now is told to nobody
            cluster.ends = dict.fromkeys(cluster.ends, clock.now)
            cluster.go_on()
            cluster.news.clear()
            raise MeshApiError("the API server is away", 503)
        return opened(path)

    watched.open = away  # type: ignore[method-assign]
    found.run()
    assert len(found.done) == 6
    assert clock.now < 1010


@pytest.mark.parametrize(
    ("spaces", "path"), [(1, "/apis/apps/v1/namespaces/ns-0/deployments"), (2, "/apis/apps/v1/deployments")]
)
def test_one_namespace_is_followed_alone(clock: Clock, spaces: int, path: str) -> None:
    _cluster, found, watched = told(clock, spaces, 1, 2)
    found.run()
    assert watched.known == {path}
