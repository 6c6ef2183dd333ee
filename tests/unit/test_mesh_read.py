"""Reading the mesh, against an API that only has lists: which requests it takes, and what three truths say."""

from __future__ import annotations

import json
from typing import Any

import mesh_read  # type: ignore[import-not-found] # mypy reads library/ in a run of its own
import pytest

from tests.unit.test_mesh_rows import pod


class Lists:
    """Gives the lists and objects it was told, everything else is empty; remembers what it was asked."""

    def __init__(self, **found: list[dict[str, Any]]) -> None:
        self.found, self.asked = found, []  # type: dict[str, list[dict[str, Any]]], list[str]
        self.lists: list[tuple[str, tuple[str, bool]]] = []
        self.clients: dict[str, list[str]] = {}

    def rows(self, path: str, make: Any, selector: str = "", metadata_only: bool = False) -> list[Any]:
        self.asked.append(path)
        self.lists.append((path, (selector, metadata_only)))
        items = self.found.get(path.rsplit("/", 1)[-1], [])
        if selector.startswith("!"):
            items = [item for item in items if selector[1:] not in item["metadata"].get("labels", {})]
        return [make({"metadata": item["metadata"]} if metadata_only else item) for item in items]

    def get(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        plural, name = path.rsplit("/", 2)[-2:]
        return next((item for item in self.found.get(plural, []) if item["metadata"]["name"] == name), None)

    def exec(self, _space: str, name: str, _container: str, _command: list[str]) -> tuple[int, str, str]:
        clients = [{"connectionId": f"{client}-7"} for client in self.clients.get(name, [])]
        return 0, json.dumps({"totalClients": len(clients), "clients": clients}), ""

    def list(self, path: str, selector: str = "", metadata_only: bool = False) -> list[dict[str, Any]]:
        return [{"metadata": {"name": f"istiod-{selector[-1]}"}, "status": {"phase": "Running"}}]


def of(owner: str, name: str, space: str = "shop", hashed: str = "67ff") -> dict[str, Any]:
    owners = [{"kind": "ReplicaSet", "name": owner, "controller": True}]
    labels = {"pod-template-hash": hashed} if hashed else {}
    return pod(metadata={"namespace": space, "name": name, "labels": labels, "ownerReferences": owners})


def deployment(name: str, space: str = "shop") -> dict[str, Any]:
    return {"metadata": {"namespace": space, "name": name}, "spec": {"template": {}}}


def replica_set(name: str, *owner: str) -> dict[str, Any]:
    owners = [{"kind": owner[0], "name": owner[1], "controller": True, "apiVersion": owner[2]}] if owner else []
    return {"metadata": {"namespace": "shop", "name": name, "ownerReferences": owners}, "spec": {"template": {}}}


def read(api: Any, *only: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    found: tuple[dict[str, Any], list[dict[str, Any]]] = mesh_read.read_workloads(api, list(only))
    return found


def test_a_replica_set_whose_name_tells_its_deployment_is_not_asked_for() -> None:
    api = Lists(pods=[of("web-67ff", "web-1"), of("web-67ff", "web-2")], deployments=[deployment("web")])
    found, _pods = read(api)
    assert found["workloads"][0]["proxies"][0]["pods"] == 2
    assert not [path for path in api.asked if "replicasets" in path]
    assert len(api.asked) == 6, "one list for each kind"


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        pytest.param(replica_set("blue-1", "Rollout", "blue", "argoproj.io/v1alpha1"), "Rollout", id="B16-rollout"),
        pytest.param(replica_set("blue-1"), "ReplicaSet", id="of-its-own"),
        pytest.param(replica_set("blue-1", "Deployment", "web", "apps/v1"), "Deployment", id="adopted"),
    ],
)
def test_a_replica_set_whose_name_does_not_tell_is_asked_for(item: dict[str, Any], kind: str) -> None:
    api = Lists(pods=[of("blue-1", "blue-1-x", hashed="")], deployments=[deployment("web")], replicasets=[item])
    found, _pods = read(api)
    owner = next(row for row in found["workloads"] if row["proxies"])
    assert owner["kind"] == kind
    assert "/apis/apps/v1/namespaces/shop/replicasets/blue-1" in api.asked


MANY = mesh_read.SINGLY + 1


def sets_asked(api: Lists) -> list[tuple[str, bool]]:
    """Return (selector, metadata only) of each list of ReplicaSets."""
    return [how for path, how in api.lists if path.endswith("/replicasets")]


def test_many_such_replica_sets_are_listed_without_those_of_deployments() -> None:
    pods = [of(f"r-{n}", f"p-{n}", hashed="") for n in range(MANY)]
    owner = ("Rollout", "blue", "argoproj.io/v1alpha1")
    api = Lists(pods=pods, replicasets=[replica_set(f"r-{n}", *owner) for n in range(MANY)])
    found, _pods = read(api)
    assert sets_asked(api) == [("!pod-template-hash", True)]
    assert [(row["kind"], row["replicas"], row["api_version"]) for row in found["workloads"]] == [
        ("Rollout", MANY, "argoproj.io/v1alpha1")
    ]


def test_templates_of_many_replica_sets_of_their_own_come_from_one_list() -> None:
    sets = [replica_set(f"r-{n}") for n in range(MANY)]
    for item in sets:
        item["spec"]["template"] = {"metadata": {"labels": {"istio.io/rev": "r2"}}}
    api = Lists(pods=[of(f"r-{n}", f"p-{n}", hashed="") for n in range(MANY)], replicasets=sets)
    found, _pods = read(api)
    assert sets_asked(api) == [("!pod-template-hash", True), ("!pod-template-hash", False)]
    assert not [path for path in api.asked if "/replicasets/" in path]
    assert {(row["kind"], row["template_labels"]["istio.io/rev"]) for row in found["workloads"]} == {
        ("ReplicaSet", "r2")
    }
    assert all(row["proxies"][0]["pods"] == 1 for row in found["workloads"])


def test_a_replica_set_of_its_own_is_asked_for_once() -> None:
    api = Lists(pods=[of("r-1", "p-1", hashed=""), of("r-1", "p-2", hashed="")], replicasets=[replica_set("r-1")])
    read(api)
    assert [path for path in api.asked if "replicasets" in path] == ["/apis/apps/v1/namespaces/shop/replicasets/r-1"]


def test_many_orphans_of_deployments_are_found_all_the_same() -> None:
    sets = [replica_set(f"web{n}-67ff") for n in range(MANY)]
    for item in sets:
        item["metadata"]["labels"] = {"pod-template-hash": "67ff"}
    api = Lists(pods=[of(f"web{n}-67ff", f"p-{n}") for n in range(MANY)], replicasets=sets)
    found, _pods = read(api)
    assert {row["kind"] for row in found["workloads"]} == {"ReplicaSet"}
    assert len(found["workloads"]) == MANY


def test_in_a_few_namespaces_replica_sets_are_listed_there() -> None:
    pods = [of(f"r-{n}", f"p-{n}", hashed="") for n in range(MANY)]
    api = Lists(pods=pods, replicasets=[replica_set(f"r-{n}", "Rollout", "blue", "x/v1") for n in range(MANY)])
    read(api, "shop")
    assert all("/namespaces/shop/" in path for path in api.asked)


def test_a_few_namespaces_are_read_alone_and_many_out_of_one_list() -> None:
    pods = [of("web-67ff", f"web-{n}", f"ns-{n}") for n in range(8)]
    api = Lists(pods=pods, deployments=[deployment("web", f"ns-{n}") for n in range(8)])
    read(api, "ns-1")
    assert all("/namespaces/ns-1/" in path for path in api.asked)
    api.asked.clear()
    found, _pods = read(api, *(f"ns-{n}" for n in range(6)))
    assert not [path for path in api.asked if "/namespaces/" in path]
    assert sorted(row["namespace"] for row in found["workloads"]) == [f"ns-{n}" for n in range(6)]


def test_a_namespace_that_is_named_twice_is_read_once() -> None:  # case D06
    api = Lists(pods=[of("web-67ff", "web-1")], deployments=[deployment("web")])
    found, _pods = read(api, "shop", "shop")
    assert [(row["name"], row["proxies"][0]["pods"]) for row in found["workloads"]] == [("web", 1)]


def proxies(number: int, revision: str = "r1") -> list[dict[str, Any]]:
    """Return pods of one revision, as objects."""
    items = [of("web-67ff", f"web-{n}") for n in range(1, number + 1)]
    for item in items:
        item["metadata"]["annotations"] = {"istio.io/rev": revision}
    return items


def truth(api: Any, items: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = mesh_read.read_truth(
        api, "istio-system", [{"revision": "r1"}, {"revision": "r2"}], [mesh_read.pod_row(item) for item in items]
    )
    return found


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_read, "SETTLE", 0)


def test_three_sources_of_truth() -> None:  # case C10
    items = proxies(5)
    items[4]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    api = Lists(pods=items)
    api.clients = {"istiod-1": ["web-1.shop", "web-2.shop"], "istiod-2": ["web-3.shop", "web-2.shop"]}
    found = truth(api, items)
    assert found["asked"] == {"r1": ["istiod-1"], "r2": ["istiod-2"]}
    assert [(d["pod"], d["connected_to"], d["why"]) for d in found["disagreements"]] == [
        ("web-3", "r2", "injected by r1, and connected to an istiod of r2"),
        ("web-4", "", "injected by r1, and connected to no istiod"),
    ], "web-2 has an old connection beside the right one, web-5 is not ready"
    assert found["count"] == 2


class Settling(Lists):
    """What it says the second time it is asked differs: proxies connected meanwhile, pods are gone."""

    def exec(self, *command: Any) -> tuple[int, str, str]:
        said = super().exec(*command)
        self.clients["istiod-1"] = ["web-1.shop"]
        return said


def test_what_settles_while_it_is_looked_at_is_no_disagreement() -> None:  # case C10
    items = proxies(4)
    items[2]["metadata"]["deletionTimestamp"] = "now"
    api = Settling(pods=items[:3])  # web-1 is connected by the second look, web-2 is not, web-3 ends, web-4 is gone
    rows = proxies(4)
    assert [d["pod"] for d in truth(api, rows)["disagreements"]] == ["web-2"]


def test_many_disagreements_are_counted_and_the_first_told() -> None:
    items = proxies(mesh_read.TOLD + 10)
    api = Lists(pods=items)
    found = truth(api, items)
    assert (len(found["disagreements"]), found["count"]) == (mesh_read.TOLD, mesh_read.TOLD + 10)
    assert api.asked == ["/api/v1/namespaces/shop/pods"], "so many are not asked for one by one"


def test_pods_that_are_gone_are_no_disagreement_however_many() -> None:  # case C10
    items = proxies(mesh_read.SINGLY * 3)
    api = Lists(pods=items[-1:])  # a Job with many pods ended between the list and the question
    assert [d["pod"] for d in truth(api, items)["disagreements"]] == [items[-1]["metadata"]["name"]]


def test_only_what_disagrees_twice_is_read_again() -> None:  # case C10
    items = proxies(3)
    api = Settling(pods=items)  # web-1 is connected by the second look
    truth(api, items)
    assert [path.rsplit("/", 1)[1] for path in api.asked] == ["web-2", "web-3"]


class Kept(Lists):
    """Lists that come as `list` gives them."""

    def list(self, path: str, selector: str = "", metadata_only: bool = False) -> list[dict[str, Any]]:
        return self.rows(path, lambda item: item, selector, metadata_only)


def pem(text: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"


def root(*certificates: str, name: str = "istio-ca-root-cert") -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"root-cert.pem": "".join(map(pem, certificates))}}


def test_root_certificates_count_one_by_one_however_they_are_written() -> None:
    both = mesh_read.read_root(Kept(configmaps=[root("AA\nBB", "CC")]), "istio-system")
    assert both == sorted(
        mesh_read.read_root(Kept(configmaps=[root("AABB")]), "i")
        + mesh_read.read_root(Kept(configmaps=[root("CC")]), "i")
    )
    assert len(both) == 2
    api = Kept(configmaps=[root("AA", name="other"), {"metadata": {"name": "istio-ca-root-cert"}}])
    assert mesh_read.read_root(api, "istio-system") == []
    assert api.lists == [("/api/v1/namespaces/istio-system/configmaps", ("istio.io/config=true", False))]
