"""What is read and asked before an upgrade, against an API that is only a dict of answers."""

from __future__ import annotations

import base64
import importlib
import re
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from ansible.module_utils.mesh_api import MeshApiError
from ansible.module_utils.mesh_rights import NOWHERE, RIGHTS, STEPS, Ask, covers, may, missing_rights, wanted
from ansible.module_utils.mesh_rows import short_hash
from mesh_logic import steps

from tests.unit.checks_world import LASTING

mesh_inspect = importlib.import_module("mesh_inspect")
ROOT = Path(__file__).resolve().parents[2]
ISTIO = "istio-system"
ALL = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
BUILT_IN = {
    "apps": ("deployments", "statefulsets", "daemonsets", "replicasets"),
    "batch": ("jobs", "cronjobs"),
    "policy": ("poddisruptionbudgets",),
    "autoscaling": ("horizontalpodautoscalers",),
    "admissionregistration.k8s.io": ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
    "rbac.authorization.k8s.io": ("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
    "coordination.k8s.io": ("leases",),
    "discovery.k8s.io": ("endpointslices",),
    "authorization.k8s.io": ("subjectaccessreviews",),
    "apiextensions.k8s.io": ("customresourcedefinitions",),
    "networking.istio.io": ("virtualservices", "envoyfilters"),
}


def discovery(groups: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return an aggregated answer; each group has an older version second."""
    items = []
    for group, plurals in groups.items():
        named = [{"resource": p, "responseKind": {"kind": p[:-1].title()}} for p in plurals]
        versions = [{"version": "v1", "resources": named}, {"version": "v1beta1", "resources": named}]
        items.append({"metadata": {"name": group}, "versions": versions})
    return {"kind": "APIGroupDiscoveryList", "items": items}


class FakeApi:
    """Lists by path, rules by namespace; everything is counted."""

    def __init__(self, lists: dict[str, list[dict[str, Any]]] | None = None) -> None:
        self.lists = lists or {}
        self.rules: dict[str, list[dict[str, Any]]] = {NOWHERE: [ALL]}
        self.allowed: Callable[[dict[str, Any]], bool] = lambda _asked: False
        self.groups = BUILT_IN
        self.asked: list[str] = []
        self.refused: tuple[str, ...] = ()
        self.requests = 0
        self.lock = Lock()

    def list(self, path: str, selector: str = "", metadata_only: bool = False) -> list[dict[str, Any]]:
        with self.lock:
            self.requests += 1
            self.asked.append(path + (f"?{selector}" if selector else "") + (" (metadata)" if metadata_only else ""))
        if path.endswith(self.refused or ("nothing",)):
            raise MeshApiError(f"GET {path}: HTTP 403", 403)
        return self.lists.get(path, [])

    def rows(
        self, path: str, make: Callable[[dict[str, Any]], Any], selector: str = "", metadata_only: bool = False
    ) -> Any:
        return [make(item) for item in self.list(path, selector, metadata_only)]

    def request(self, method: str, path: str, body: Any = None, accept: str = "") -> Any:
        with self.lock:
            self.requests += 1
            self.asked.append(f"{method} {path}")
        if path == "/apis":
            return discovery(self.groups)
        if path.endswith(self.refused or ("nothing",)):
            raise MeshApiError(f"POST {path}: HTTP 403", 403)
        if path.endswith("selfsubjectrulesreviews"):
            return {"status": {"resourceRules": self.rules.get(body["spec"]["namespace"], [])}}
        return {"status": {"allowed": self.allowed(body["spec"]["resourceAttributes"])}}


class FakeTask:
    check_mode = False

    def __init__(self, **params: Any) -> None:
        lists = dict.fromkeys(("mesh_namespaces", "probe_namespaces", "evicted_namespaces", "features"), ())
        self.params: dict[str, Any] = {"istio_namespace": ISTIO, "steps": list(STEPS), "rights_only": False}
        self.params |= {key: list(value) for key, value in lists.items()} | params

    def tell(self, line: str) -> None:
        raise AssertionError(line)


def item(name: str, namespace: str = "", labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}} | more


def run(api: FakeApi, **params: Any) -> dict[str, Any]:
    result: dict[str, Any] = mesh_inspect.run(FakeTask(**params), api)
    return result


# the rights


def test_the_steps_are_those_of_the_chain() -> None:
    assert tuple(steps.STEPS) == STEPS
    assert {step for row in RIGHTS for step in row.steps} <= {*STEPS, "read"}
    assert {row.where for row in RIGHTS} == {"cluster", "istio", "mesh", "probes"}


def test_every_kind_that_the_code_asks_for_is_in_the_table() -> None:
    """What stands in a path of the modules must stand in the table, or an account with its rights would fail."""
    source = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("library", "module_utils")
        for path in (ROOT / folder).glob("*.py")
        if path.name != "mesh_rights.py"
    )
    paths = re.findall(r"(?:/apis?/|\{ADMISSION\}/|v1\|)[^\s\"]*", source)
    words = {word for path in paths for word in re.split(r"[/|?]", path)}
    written = {word for word in words if re.fullmatch(r"[a-z]{3,}s", word)} - {"apis", "apps", "namespaces"}
    table = {resource.partition("/")[0] for row in RIGHTS for resource in row.resources}
    reviews = {"selfsubjectrulesreviews", "selfsubjectaccessreviews"}  # Kubernetes grants them to everybody
    assert {"pods", "deployments", "configmaps"} <= written
    assert written - table - reviews == set()


@pytest.mark.parametrize(
    ("rule", "yes"),
    [
        (ALL, True),
        ({"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}, True),
        ({"apiGroups": [""], "resources": ["*/exec"], "verbs": ["create"]}, True),
        ({"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}, False),
        ({"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]}, False),
        ({"apiGroups": [""], "resources": ["*"], "verbs": ["get"]}, False),
        ({**ALL, "resourceNames": ["one"]}, False),
        ({}, False),
    ],
)
def test_what_a_rule_grants(rule: dict[str, Any], yes: bool) -> None:
    assert covers(rule, Ask("create", "", "pods/exec", ISTIO)) is yes


def test_an_account_with_everything_costs_one_question() -> None:
    api = FakeApi()
    served = {(g, p) for g, plurals in BUILT_IN.items() for p in plurals}
    assert missing_rights(api, wanted(STEPS, [], served), ISTIO, ["shop"], ["canary"]) == []
    assert api.requests == 1


def test_what_no_rule_grants_is_asked_by_itself_and_told_once_per_resource() -> None:
    api = FakeApi()
    api.rules = {NOWHERE: [{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}], "shop": [ALL]}
    api.allowed = lambda asked: asked["resource"] != "mutatingwebhookconfigurations"
    rows = wanted(["read"], [], {("admissionregistration.k8s.io", r) for r in BUILT_IN["admissionregistration.k8s.io"]})
    missing = missing_rights(api, rows, ISTIO, ["shop"], [])
    assert missing is not None
    assert [(row["resource"], row["verbs"], row["namespace"]) for row in missing] == [
        ("mutatingwebhookconfigurations", ["list"], "")
    ]
    assert api.requests == 3, "the rules, and one question for each webhook kind"


def test_rights_in_single_namespaces_count_there() -> None:
    api = FakeApi()
    api.rules = {"shop": [ALL]}
    rows = [row for row in wanted(["canary"], [], {("apps", "deployments")}) if row.where == "mesh" and row.group]
    missing = missing_rights(api, rows, ISTIO, ["shop", "pay"], [])
    assert missing is not None
    assert [(row["resource"], row["verbs"], row["namespace"]) for row in missing] == [
        ("deployments", ["get", "patch"], "pay")
    ]


def test_rights_of_features_are_asked_where_they_are_used() -> None:
    served = {(g, p) for g, plurals in BUILT_IN.items() for p in plurals}

    def named(*features: str) -> set[str]:
        return {r for row in wanted(["canary"], features, served) for r in row.resources}

    assert "pods/eviction" not in named()
    assert "pods/eviction" in named("evict")
    assert "subjectaccessreviews" not in {r for row in wanted(["uninstall"], [], served) for r in row.resources}
    assert "httproutes" not in {r for row in wanted(["precheck"], [], served) for r in row.resources}, "not served"


def test_a_cluster_that_does_not_let_it_ask() -> None:
    api = FakeApi()
    api.refused = ("selfsubjectrulesreviews",)
    assert missing_rights(api, wanted(["read"], [], set()), ISTIO, [], []) is None


def test_the_question_names_the_subresource() -> None:
    api = FakeApi()
    api.allowed = lambda asked: (
        asked
        == {
            "verb": "create",
            "group": "",
            "resource": "pods",
            "subresource": "exec",
            "namespace": ISTIO,
        }
    )
    assert may(api, Ask("create", "", "pods/exec", ISTIO))


# what is read


def world() -> FakeApi:
    bundle = base64.b64encode(LASTING.encode()).decode()
    hook = {"webhooks": [{"clientConfig": {"caBundle": bundle}}, {"clientConfig": {}}]}
    kept = {"istio.io/rev": "1-30-5", "kustomize.toolkit.fluxcd.io/name": "mesh"}
    argo = {"metadata": {"name": "shop", "annotations": {"argocd.argoproj.io/tracking-id": "shop:/Namespace:x/shop"}}}
    resources = {"requests": {"cpu": "10m", "memory": "100Mi"}}
    template = {"spec": {"template": {"spec": {"containers": [{"resources": resources}, {}]}}}}
    ready = {"conditions": {"ready": True}}
    admission = "/apis/admissionregistration.k8s.io/v1"
    return FakeApi(
        {
            "/apis/networking.istio.io/v1/virtualservices": [item("web", "shop", {"istio.io/rev": "1-30-5"})],
            "/apis/networking.istio.io/v1/envoyfilters": [item("raw", "shop")],
            "/apis/policy/v1/poddisruptionbudgets": [
                item("istiod", ISTIO, spec={"selector": {"matchLabels": {"app": "istiod"}}}),
                item("open", "shop", status={"disruptionsAllowed": 1, "expectedPods": 2}),
                item("shut", "shop", spec={"selector": {"matchLabels": {"app": "db"}}}, status={"expectedPods": 1}),
            ],
            "/api/v1/namespaces/shop/pods": [
                {"metadata": {"ownerReferences": [{"kind": "StatefulSet", "name": "db", "controller": True}]}}
            ],
            f"/apis/autoscaling/v2/namespaces/{ISTIO}/horizontalpodautoscalers": [
                item("istiod", ISTIO, spec={"scaleTargetRef": {"kind": "Deployment", "name": "istiod"}})
            ],
            f"/api/v1/namespaces/{ISTIO}/resourcequotas": [item("q", ISTIO, status={"hard": {"pods": "2"}})],
            "/api/v1/nodes": [
                item("a", status={"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "2"}}),
                item("b", spec={"taints": [{"effect": "NoSchedule"}]}),
            ],
            f"/apis/apps/v1/namespaces/{ISTIO}/deployments": [item("istiod", ISTIO, {"istio.io/rev": "x"}, **template)],
            f"{admission}/mutatingwebhookconfigurations": [item("hook", "", kept, **hook)],
            "/api/v1/namespaces": [argo, item("pay", "", {"a": "b"})],
            f"/apis/discovery.k8s.io/v1/namespaces/{ISTIO}/endpointslices": [
                item("one", ISTIO, {"kubernetes.io/service-name": "istiod"}, endpoints=[ready, {}]),
                item(
                    "two", ISTIO, {"kubernetes.io/service-name": "down"}, endpoints=[{"conditions": {"ready": False}}]
                ),
            ],
            "/api/v1/configmaps": [
                item("istio-ca-root-cert", "shop", data={"root-cert.pem": "x"}),
                item("other", "shop"),
            ],
            f"/api/v1/namespaces/{ISTIO}/configmaps": [item("istio-x", ISTIO, {"istio.io/rev": "x"})],
            "/apis/apps/v1/daemonsets": [item("istio-cni-node", "kube-system", {"istio.io/rev": "default"})],
        }
    )


def test_what_is_read_becomes_short_rows() -> None:
    found = run(world(), evicted_namespaces=["shop"])
    assert found["rights"] == []
    assert [(o["kind"], o["name"], o["revision"]) for o in found["objects"]] == [
        ("Envoyfilter", "raw", None),
        ("Virtualservice", "web", "1-30-5"),
    ]
    assert [(b["name"], b["allowed"], b["holds"]) for b in found["budgets"]] == [
        ("istiod", 0, []),
        ("shut", 0, ["StatefulSet shop/db"]),
    ]
    assert found["scalers"] == [{"name": "istiod", "revision": None, "target": "Deployment istiod", "min": 1}]
    assert found["quotas"] == [{"name": "q", "hard": {"pods": "2"}, "used": {}}]
    assert [(n["name"], n["open"]) for n in found["nodes"]] == [("a", True), ("b", False)]
    assert found["istiods"] == [{"name": "istiod", "revision": "x", "requests": {"cpu": ["10m"], "memory": ["100Mi"]}}]
    assert found["endpoints"] == {"istiod": 2, "down": 0}
    assert found["roots"] == {"shop": short_hash("x")}
    assert list(found["ca_bundles"].values()) == [LASTING]
    assert found["owners"] == [
        {"kind": "Namespace", "name": "shop", "by": "Argo CD (shop)"},
        {"kind": "MutatingWebhookConfiguration", "name": "hook", "by": "Flux (mesh)"},
    ]
    assert found["leftovers"] == [{"kind": "ConfigMap", "name": "istio-x", "revision": "x"}]
    assert [d["name"] for d in found["daemon_sets"]] == ["istio-cni-node"]
    assert (found["operators"], found["gateway_classes"], found["incomplete"]) == ([], [], "")


def test_what_is_read_costs_few_requests_and_mostly_metadata() -> None:
    api = world()
    found = run(api)
    assert found["requests"] == len(api.asked) - 1 <= 25
    assert found["reviews"] == 1
    assert "/apis/networking.istio.io/v1/virtualservices?istio.io/rev (metadata)" in api.asked
    assert "/apis/networking.istio.io/v1/envoyfilters (metadata)" in api.asked
    assert not [path for path in api.asked if "v1beta1" in path], "the preferred version comes first"


def test_gateways_and_their_classes_are_read_where_they_are_served() -> None:
    api = world()
    group = "gateway.networking.k8s.io"
    api.groups = {**BUILT_IN, group: ("gateways", "gatewayclasses"), "install.istio.io": ("istiooperators",)}
    api.lists |= {
        f"/apis/{group}/v1/gateways": [item("public", "edge", spec={"gatewayClassName": "istio"})],
        f"/apis/{group}/v1/gatewayclasses": [
            item("istio", spec={"controllerName": "istio.io/gateway-controller"}),
            item("nginx", spec={"controllerName": "nginx.org/x"}),
        ],
        "/apis/install.istio.io/v1/istiooperators": [item("installed-state", ISTIO)],
    }
    found = run(api)
    assert found["gateway_classes"] == ["istio"]
    assert [o["class"] for o in found["objects"] if o["name"] == "public"] == ["istio"]
    assert [o["name"] for o in found["operators"]] == ["installed-state"]


def test_rights_alone_read_nothing() -> None:
    api = world()
    found = run(api, rights_only=True)
    assert api.requests == 2
    assert found["rights"] == []
    assert found["incomplete"]


def test_a_right_that_is_missing_is_told_and_not_read_over() -> None:
    api = world()
    api.rules, api.allowed = {}, lambda asked: asked["resource"] != "nodes"
    api.refused = ("/nodes",)
    found = run(api, steps=["precheck"])
    assert [row["resource"] for row in found["rights"]] == ["nodes"]
    assert "HTTP 403" in found["incomplete"]


def test_a_refusal_that_no_review_explains_is_a_failure() -> None:
    api = world()
    api.refused = ("/nodes",)
    with pytest.raises(MeshApiError, match="HTTP 403"):
        run(api)


def test_a_server_without_aggregated_discovery_is_asked_group_by_group() -> None:
    class Older(FakeApi):
        def request(self, method: str, path: str, body: Any = None, accept: str = "") -> Any:
            if path == "/apis":
                newest, older = ({"version": v, "groupVersion": f"apps/{v}"} for v in ("v1", "v1beta1"))
                return {
                    "kind": "APIGroupList",
                    "groups": [{"name": "apps", "preferredVersion": newest, "versions": [older, newest]}],
                }
            return {"resources": [{"name": "deployments", "kind": "Deployment"}, {"name": "deployments/scale"}]}

    assert mesh_inspect.served(Older()) == {("apps", "deployments"): ("v1", "Deployment")}
