"""The client, against a small HTTP server on the loopback: a refusal is an error with words, never an answer."""

from __future__ import annotations

import gc
import gzip
import http.server
import json
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from ansible.module_utils import mesh_api
from ansible.module_utils.mesh_api import MeshApi, MeshApiError

PODS = "/api/v1/pods"
TOKEN = "a-secret-token"
Answer = tuple[int, Any]


class Server(http.server.ThreadingHTTPServer):
    """Gives the answers it was told to, in order, the last one for ever; remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[Answer] = []
        self.asked: list[dict[str, Any]] = []

    def next_answer(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers every method alike."""

    server: Server

    def reply(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        url = urlsplit(self.path)
        self.server.asked.append(
            {
                "method": self.command,
                "path": url.path,
                "query": {k: v[0] for k, v in parse_qs(url.query).items()},
                "headers": {k.lower(): v for k, v in self.headers.items()},
                "body": self.rfile.read(length).decode(),
            }
        )
        status, body = self.server.next_answer()
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        if "gzip" in self.headers.get("Accept-Encoding", ""):  # as the API server does with large answers
            data = gzip.compress(data)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PATCH = do_POST = reply

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()


def kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "config"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.fixture
def api(server: Server, tmp_path: Path) -> Any:
    return MeshApi(str(kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}")), request_timeout=5)


def page(*names: str, token: str = "") -> Answer:
    return 200, {
        "kind": "PodList",
        "metadata": {"continue": token},
        "items": [{"metadata": {"name": n}} for n in names],
    }


def names(items: list[dict[str, Any]]) -> list[str]:
    return [i["metadata"]["name"] for i in items]


def status(code: int, message: str) -> Answer:
    return code, {"kind": "Status", "status": "Failure", "message": message, "code": code}


def test_a_list_is_read_page_by_page(api: Any, server: Server) -> None:
    server.answers = [page("a", "b", token="t 1"), page("c", token="t2"), page("d")]
    assert names(api.list(PODS, "app=web")) == ["a", "b", "c", "d"]
    assert [r["query"].get("continue") for r in server.asked] == [None, "t 1", "t2"]
    assert {(r["query"]["labelSelector"], r["query"]["limit"]) for r in server.asked} == {("app=web", "500")}
    assert {r["headers"]["authorization"] for r in server.asked} == {f"Bearer {TOKEN}"}
    assert api.requests == 3


def test_pages_gives_the_same_and_metadata_only_asks_for_it(api: Any, server: Server) -> None:
    server.answers = [page("a", token="t"), page("b")]
    assert names(api.list(PODS, metadata_only=True)) == ["a", "b"]
    assert "PartialObjectMetadataList" in server.asked[0]["headers"]["accept"]


def test_a_list_that_expires_is_read_anew_and_whole(api: Any, server: Server) -> None:
    server.answers = [page("old", token="t"), status(410, "expired"), page("a", token="u"), page("b")]
    assert names(api.list(PODS)) == ["a", "b"]
    assert [r["query"].get("continue") for r in server.asked] == [None, "t", None, "u"]


def test_a_list_that_always_expires_ends(api: Any, server: Server) -> None:
    server.answers = [status(410, "expired")]
    with pytest.raises(MeshApiError, match="HTTP 410"):
        api.list(PODS)
    assert len(server.asked) == 3


class Tracked(dict[str, Any]):
    """An object of a page that can be seen to go."""


def test_no_more_than_one_page_of_objects_is_alive(api: Any, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [page(*(f"{number}-{n}" for n in range(5)), token=f"t{number}") for number in range(7)]
    server.answers = [*pages, page("last")]
    alive, most = [0], [0]
    loads = json.loads

    def gone() -> None:
        alive[0] -= 1

    def tracked(data: bytes) -> Any:
        found = loads(data)
        found["items"] = [Tracked(item) for item in found["items"]]
        for item in found["items"]:
            weakref.finalize(item, gone)
        alive[0] += len(found["items"])
        most[0] = max(most[0], alive[0])
        return found

    monkeypatch.setattr(mesh_api.json, "loads", tracked)
    assert len(api.rows(PODS, lambda item: item["metadata"]["name"])) == 36
    assert (most[0], alive[0]) == (5, 0)
    assert api.requests == 8, "one request for each page"


def written(body: dict[str, Any] | str, kind: str = "PodList") -> Answer:
    """Return a list as the API server writes those of its own kinds."""
    whole = {"kind": kind, "apiVersion": "v1", **body} if isinstance(body, dict) else body
    return 200, whole if isinstance(whole, str) else json.dumps(whole, separators=(",", ":")) + "\n"


def objects(*names: str) -> list[dict[str, Any]]:
    return [{"metadata": {"name": name, "labels": {"a": 'b"],}'}}} for name in names]


def test_of_a_page_one_object_is_alive(api: Any, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers = [
        written({"metadata": {"continue": "t"}, "items": objects(*"abcde")}),
        written({"metadata": {}, "items": objects(*"fg")}),
    ]
    alive, most = [0], [0]
    decode = mesh_api.DECODER.raw_decode

    def gone() -> None:
        alive[0] -= 1

    class Decoder:
        def raw_decode(self, text: str, at: int) -> tuple[Any, int]:
            item, end = decode(text, at)
            if "metadata" not in item:  # the metadata of the list
                return item, end
            found = Tracked(item)
            weakref.finalize(found, gone)
            alive[0] += 1
            most[0] = max(most[0], alive[0])
            return found, end

    monkeypatch.setattr(mesh_api, "DECODER", Decoder())
    assert api.rows(PODS, lambda item: item["metadata"]["name"]) == list("abcdefg")
    assert (most[0], alive[0]) == (1, 0)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        pytest.param({"metadata": {}, "items": []}, [], id="none"),
        pytest.param({"metadata": {}, "items": None}, [], id="null"),
        pytest.param({"metadata": {}, "items": objects("a", "b")}, ["a", "b"], id="two"),
        pytest.param({"items": objects("a"), "metadata": {}}, ["a"], id="custom-kinds-metadata-last"),
        pytest.param({"metadata": {}, "items": objects("a"), "more": 1}, "does not end", id="something-behind"),
        pytest.param(
            '{"kind":"L","apiVersion":"x/v1","metadata":{},"items":[{"metadata":{"name":"a"}} ,\n', "", id="cut"
        ),
        pytest.param('{"kind":"L","apiVersion":"x/v1","metadata":{},"items":[{"a":1}', "does not end", id="cut-end"),
        pytest.param('{"kind":"L","apiVersion":"x/v1","metadata":{},"items":[{"a":1}]', "does not end", id="cut-last"),
        pytest.param('{"kind":"L","apiVersion":"x/v1","metadata":{},"items":[', "", id="cut-at-once"),
        pytest.param('{"kind":"L","apiVersion":"x/v1","metadata":{"a', "", id="cut-before"),
        pytest.param(
            '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure"}', "not a list", id="no-list"
        ),
    ],
)
def test_every_way_to_write_a_page(api: Any, server: Server, body: Any, found: list[str] | str) -> None:  # case G18
    server.answers = [written(body)]
    if isinstance(found, list):
        assert names(api.list(PODS)) == found
    else:
        with pytest.raises(MeshApiError, match=f"GET {PODS} on .*(not JSON: .*{found}|{found})"):
            api.list(PODS)


def test_bytes_that_are_no_text_are_refused(api: Any, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers = [page("a")]
    monkeypatch.setattr(
        api, "_send", lambda *_a, **_k: b'{"kind":"L","apiVersion":"v1","metadata":{},"items":[{"a":"\xff"}]}'
    )
    with pytest.raises(MeshApiError, match="not JSON"):
        api.list(PODS)


def test_a_mistake_of_who_takes_the_objects_is_told_as_it_is(api: Any, server: Server) -> None:
    server.answers = [written({"metadata": {}, "items": objects("a")})]
    with pytest.raises(ValueError, match="invalid literal for int"):
        api.rows(PODS, lambda item: int(item["metadata"]["name"]))


def test_a_page_that_is_asked_for_early_and_expires_gives_nothing_twice(api: Any, server: Server) -> None:
    made: list[str] = []

    def make(item: dict[str, Any]) -> str:
        made.append(item["metadata"]["name"])
        return made[-1]

    server.answers = [page("a", token="t"), page("b", token="u"), status(410, "expired")]
    server.answers += [page("a", token="t"), page("b", token="u"), page("c")]
    assert api.rows(PODS, make) == ["a", "b", "c"]
    assert made == ["a", "b", "a", "b", "c"], "the first two rounds are thrown away"


def test_what_only_looks_like_a_token_is_not_one(api: Any, server: Server) -> None:
    item = {"metadata": {"name": "b", "labels": {"continue": "x"}}}
    body = json.dumps({"metadata": {}, "items": [item]}, separators=(",", ":"))
    server.answers = [page("a", token="t"), (200, body), status(410, "x is no token")]
    assert names(api.list(PODS)) == ["a", "b"]


def test_the_token_of_the_list_wins_over_what_looks_like_one(api: Any, server: Server) -> None:
    item = {"metadata": {"name": "a", "labels": {"continue": "x"}}}
    body = json.dumps({"items": [item], "metadata": {"continue": "t"}}, separators=(",", ":"))
    server.answers = [(200, body), page("b")]
    assert names(api.list(PODS)) == ["a", "b"]
    assert {r["query"].get("continue") for r in server.asked} == {None, "x", "t"}


def test_a_token_behind_the_objects_is_found(api: Any, server: Server) -> None:
    filler = {"metadata": {"name": "a", "annotations": {"note": "x" * 5000}}}
    body = json.dumps({"items": [filler], "metadata": {"continue": "t"}}, separators=(",", ":"))
    server.answers = [(200, body), page("b")]
    assert names(api.list(PODS)) == ["a", "b"]
    assert [r["query"].get("continue") for r in server.asked] == [None, "t"]


def test_the_next_page_is_under_way_while_one_is_decoded(api: Any, server: Server) -> None:
    first = json.dumps(page("a", token="t")[1], separators=(",", ":"))
    server.answers = [(200, first), page("b")]

    def make(item: dict[str, Any]) -> int:
        for _turn in range(200):
            if len(server.asked) == 2:
                break
            time.sleep(0.01)
        return len(server.asked)

    assert api.rows(PODS, make) == [2, 2]


def test_the_collector_of_cycles_rests_only_while_a_list_is_read(api: Any, server: Server) -> None:
    server.answers = [page("a")]
    assert api.rows(PODS, lambda _item: gc.isenabled()) == [False]
    assert gc.isenabled()
    server.answers = [status(403, "no")]
    with pytest.raises(MeshApiError):
        api.list(PODS)
    assert gc.isenabled()


def test_the_collector_rests_until_the_last_of_several_lists_is_read() -> None:
    with mesh_api.collector_paused():
        with mesh_api.collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with mesh_api.collector_paused():
            pass
        assert not gc.isenabled(), "it is left as it was"
    finally:
        gc.enable()


@pytest.mark.parametrize("items", [None, []])
def test_an_empty_list(api: Any, server: Server, items: Any) -> None:
    server.answers = [(200, {"metadata": {}, "items": items})]
    assert api.list(PODS) == []


# id, answer, what the message says, status
REFUSALS: list[tuple[str, Answer, list[str], int]] = [
    (
        "F17-403",
        status(403, 'pods is forbidden: User "x" cannot list'),
        ["cannot list", "lacks that right"],
        403,
    ),
    (
        "F16-404",
        status(404, "the server could not find it"),
        ["HTTP 404", "does not exist on this server"],
        404,
    ),
    ("500", status(500, "etcd is slow"), ["etcd is slow", "overloaded or one of its webhooks"], 500),
    ("504", status(504, "time-out"), ["HTTP 504", "try again"], 504),
    ("409", status(409, "conflict"), ["HTTP 409, conflict - the API server refused it"], 409),
    ("401", status(401, "Unauthorized"), ["carried no accepted credentials", "kubernetes client"], 401),
    (
        "F18-anonymous",
        status(403, 'pods is forbidden: User "system:anonymous" cannot list'),
        ["carried no accepted credentials", "Python"],
        403,
    ),
    ("plain-text", (502, "<html>\nBad   Gateway</html>"), ["HTTP 502, <html> Bad Gateway</html>"], 502),
    ("list-body", (400, ["x"]), ["HTTP 400"], 400),
    ("empty-body", (503, ""), ["HTTP 503, Service Unavailable"], 503),
    ("not-json", (200, "hello"), ["answered something that is not JSON"], 0),
    ("not-a-list", (200, {"kind": "Pod", "items": "x"}), ["is not a list: kind Pod"], 0),
]


@pytest.mark.parametrize(("answer", "parts", "code"), [pytest.param(*r[1:], id=r[0]) for r in REFUSALS])
def test_a_refusal_is_never_an_empty_list(
    api: Any, server: Server, answer: Answer, parts: list[str], code: int
) -> None:
    server.answers = [answer]
    with pytest.raises(MeshApiError) as caught:
        api.list(PODS)
    text = str(caught.value)
    for part in [*parts, f"GET {PODS} on http://127.0.0.1"]:
        assert part in text
    assert caught.value.status == code
    assert TOKEN not in text
    assert "\n" not in text


def test_a_refusal_on_a_later_page_loses_the_list(api: Any, server: Server) -> None:
    server.answers = [page("a", token="t"), status(403, "no")]
    with pytest.raises(MeshApiError, match="HTTP 403"):
        api.list(PODS)


def test_get_returns_none_on_404_only(api: Any, server: Server) -> None:
    server.answers = [(200, {"kind": "Pod"})]
    assert api.get(f"{PODS}/a") == {"kind": "Pod"}
    server.answers = [status(404, "not found")]
    assert api.get(f"{PODS}/a") is None
    for code in (401, 403, 410, 500, 503):
        server.answers = [status(code, "no")]
        with pytest.raises(MeshApiError, match=f"HTTP {code}"):
            api.get(f"{PODS}/a")


def test_a_merge_patch_sends_null(api: Any, server: Server) -> None:  # cases D09, D10
    body = {"metadata": {"labels": {"istio-injection": None}}}
    server.answers = [(200, {"kind": "Namespace"})]
    assert api.merge_patch("/api/v1/namespaces/canary", body) == {"kind": "Namespace"}
    api.merge_patch("/api/v1/namespaces/canary", body, dry_run=True)
    real, dry = server.asked
    assert (real["method"], real["headers"]["content-type"]) == ("PATCH", "application/merge-patch+json")
    assert json.loads(real["body"]) == body
    assert real["query"] == {}
    assert dry["query"] == {"dryRun": "All"}


@pytest.mark.parametrize("code", [403, 409, 422])
def test_a_refused_change_is_an_error(api: Any, server: Server, code: int) -> None:
    server.answers = [status(code, "denied by a webhook")]
    with pytest.raises(MeshApiError, match=r"PATCH /x on .*denied by a webhook"):
        api.merge_patch("/x", {})
    with pytest.raises(MeshApiError, match=r"POST /x on .*denied by a webhook"):
        api.request("POST", "/x", body={})


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_an_unreachable_cluster(tmp_path: Path) -> None:
    lost = MeshApi(str(kubeconfig(tmp_path, f"http://127.0.0.1:{free_port()}")), request_timeout=1)
    with pytest.raises(MeshApiError, match=r"no answer\. Next: check that the cluster is up") as caught:
        lost.list(PODS)
    assert caught.value.status == 0


def test_a_certificate_that_is_not_accepted_is_explained(api: Any) -> None:
    text = str(api._unreachable(OSError("[SSL: CERTIFICATE_VERIFY_FAILED] missing key usage")))
    assert "certificate-authority" in text
    assert "keyUsage" in text


@pytest.mark.parametrize(
    ("text", "context", "why"),
    [
        pytest.param(None, "", "No usable kubeconfig at ", id="missing-file"),
        pytest.param("", "", "No usable kubeconfig at ", id="empty-file"),
        pytest.param("a: [b", "", "No usable kubeconfig at ", id="not-yaml"),
        pytest.param("good", "elsewhere", "context 'elsewhere'", id="missing-context"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used(tmp_path: Path, text: str | None, context: str, why: str) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")
    if text is None:
        path.unlink()
    elif text != "good":
        path.write_text(text, encoding="utf-8")
    with pytest.raises(MeshApiError) as caught:
        MeshApi(str(path), context)
    assert why in str(caught.value)
    assert "Next: set mesh_kubeconfig and mesh_context" in str(caught.value)


def test_a_merged_kubeconfig(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # case F15
    good = kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}")
    other = tmp_path / "other"
    other.write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []})
    )
    monkeypatch.setenv("KUBECONFIG", f"{good}:{other}")
    server.answers = [(200, {"kind": "Pod"})]
    assert MeshApi(request_timeout=5).get(f"{PODS}/a") == {"kind": "Pod"}


def test_a_python_without_kubernetes_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_api, "IMPORT_ERROR", "Traceback\nModuleNotFoundError: No module named 'kubernetes'\n")
    with pytest.raises(MeshApiError, match="No module named 'kubernetes'") as caught:
        MeshApi("x")
    assert "ansible_playbook_python" in str(caught.value)


class Task:
    """What a module's code knows of its task."""

    def __init__(self, path: Path) -> None:
        self.params: dict[str, Any] = {"kubeconfig": str(path), "context": "", "request_timeout": 5}
        self.check_mode = False


def test_an_error_of_the_work_is_a_failed_task_with_its_words(api: Any, server: Server, tmp_path: Path) -> None:
    server.answers = [status(403, "no")]
    task = Task(tmp_path / "config")
    found = mesh_api.outcome(task, lambda _task, connection: {"items": connection.list(PODS)})
    assert (found["failed"], found["status"]) == (True, 403)
    assert "lacks that right" in found["msg"]
    server.answers = [page("a")]
    found = mesh_api.outcome(task, lambda _task, connection: {"items": connection.list(PODS)})
    assert "failed" not in found
    assert names(found["items"]) == ["a"]


def test_objects_without_metadata() -> None:  # case B11
    for item in ({}, {"metadata": None}, {"metadata": {"labels": None, "annotations": None}}):
        assert mesh_api.labels(item) == {}
        assert mesh_api.annotations_of(item) == {}
