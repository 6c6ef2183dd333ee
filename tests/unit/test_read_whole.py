"""The whole read over HTTP, against a server with pages: how many requests it makes, and that nothing is lost."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import mesh_read  # type: ignore[import-not-found] # mypy reads library/ in a run of its own
import pytest
from ansible.module_utils.mesh_api import PAGE_SIZE, MeshApi, MeshApiError

from tests.unit.test_mesh_api import kubeconfig
from tests.unit.test_mesh_rows import pod

SPACES, DEPLOYMENTS, PODS = 60, 600, 1200


def pods() -> list[dict[str, Any]]:
    """Return two pods for each Deployment."""
    found = []
    for number in range(PODS):
        own = f"web-{number // 2}"
        owner = {"kind": "ReplicaSet", "name": f"{own}-67ff", "apiVersion": "apps/v1", "controller": True}
        labels = {"pod-template-hash": "67ff"}
        where = {"namespace": f"ns-{number // 2 % SPACES}", "name": f"{own}-67ff-{number}"}
        found.append(pod(metadata=where | {"labels": labels, "ownerReferences": [owner]}))
    return found


def deployments() -> list[dict[str, Any]]:
    return [
        {"metadata": {"namespace": f"ns-{n % SPACES}", "name": f"web-{n}"}, "spec": {"replicas": 2, "template": {}}}
        for n in range(DEPLOYMENTS)
    ]


class Cluster(http.server.ThreadingHTTPServer):
    """Gives its objects in pages; a list whose name is in `refused` is forbidden."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects = {
            "/api/v1/pods": pods(),
            "/apis/apps/v1/deployments": deployments(),
            "/api/v1/namespaces": [{"metadata": {"name": f"ns-{n}"}} for n in range(SPACES)],
        }
        self.refused = ""
        self.asked: list[str] = []


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers lists."""

    server: Cluster

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.server.asked.append(url.path)
        start = int(parse_qs(url.query).get("continue", ["0"])[0])
        items = self.server.objects.get(url.path, [])
        more = {"continue": str(start + PAGE_SIZE)} if start + PAGE_SIZE < len(items) else {}
        body = {"kind": "List", "apiVersion": "v1", "metadata": more, "items": items[start : start + PAGE_SIZE]}
        refused = bool(self.server.refused) and url.path.endswith(self.server.refused)
        data = json.dumps({"message": "forbidden"} if refused else body, separators=(",", ":")).encode()
        self.send_response(403 if refused else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = Cluster()
    threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


@pytest.fixture
def read(cluster: Cluster, tmp_path: Path) -> Any:
    api = MeshApi(str(kubeconfig(tmp_path, f"http://127.0.0.1:{cluster.server_port}")), request_timeout=5)
    params = {key: spec.get("default") for key, spec in mesh_read.SPEC.items()}
    return lambda **options: mesh_read.run(SimpleNamespace(params=params | options, check_mode=False), api)


def test_requests_are_pages_and_a_few_more(cluster: Cluster, read: Any) -> None:
    found = read()
    pages = -(-PODS // PAGE_SIZE) + -(-DEPLOYMENTS // PAGE_SIZE)
    assert found["requests"] == len(cluster.asked) == pages + 11
    assert found["pods_read"] == PODS
    assert len(found["workloads"]) == DEPLOYMENTS
    assert {(group["pods"], group["ready"]) for row in found["workloads"] for group in row["proxies"]} == {(2, True)}
    assert found["loose_pods"] == []


@pytest.mark.parametrize("plural", ["pods", "deployments", "jobs", "namespaces"])
def test_a_list_that_is_refused_is_no_empty_list(cluster: Cluster, read: Any, plural: str) -> None:  # case G18
    cluster.refused = f"/{plural}"
    with pytest.raises(MeshApiError, match=f"/{plural} on .*HTTP 403, forbidden.*lacks that right"):
        read()


def test_the_refused_list_of_replica_sets_is_no_empty_list(cluster: Cluster, read: Any) -> None:  # case G18
    for number in range(mesh_read.SINGLY + 1):
        owner = {"kind": "ReplicaSet", "name": f"blue-{number}", "controller": True}
        where = {"namespace": "ns-1", "name": f"blue-{number}-x", "ownerReferences": [owner]}
        cluster.objects["/api/v1/pods"].append(pod(metadata=where))
    cluster.refused = "replicasets"
    with pytest.raises(MeshApiError, match=r"/replicasets on .*HTTP 403"):
        read()
