"""Checks in their details: what is named, and what is left alone."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from mesh_logic.checks.certificates import expiries
from mesh_logic.checks.control_planes import quantity
from mesh_logic.checks.operator_settings import selects
from mesh_logic.checks.rights import first
from mesh_logic.checks.run import account_steps, questions
from mesh_logic.errors import MeshError
from mesh_logic.steps import STEPS

from tests.unit.checks_world import NEW, OLD, World, certificate
from tests.unit.mesh_stages import row_of, set_tag, wants

GATEWAY = {"group": "gateway.networking.k8s.io", "class": "istio", "name": "public", "namespace": "edge"}


def texts(world: World, code: str) -> list[str]:
    return [f"{row['resource']}: {row['text']}" for row in world.found() if row["id"] == code]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("100m", "0.1"),
        ("2", "2"),
        ("1Gi", "1073741824"),
        ("1.5Gi", "1610612736"),
        ("500M", "500000000"),
        ("2k", "2000"),
    ],
)
def test_quantities(text: str, number: str) -> None:
    assert str(quantity(text).normalize()) == str(quantity(number).normalize())


@pytest.mark.parametrize("text", ["", "some", "1Q", "1mm"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(MeshError, match="no quantity"):
        quantity(text)


@pytest.mark.parametrize(
    ("version", "target", "stops"),
    [
        ("v1.32.0", "1.31.0", False),
        ("v1.31.9-eks-1", "1.31.0", True),
        ("v1.30+", "1.31.0", True),
        ("v1.30.1", "1.29.0", False),
        ("v1.29.1", "1.40.0", True),
        ("nightly", "1.31.0", False),
    ],
)
def test_the_oldest_kubernetes(version: str, target: str, stops: bool) -> None:
    world = World()
    world.facts["cluster"]["version"] = version
    world.desired["to"] = world.desired["to"] | {"version": target}
    assert bool(texts(world, "KUBERNETES_TOO_OLD")) is stops


def test_the_quota_says_what_is_missing() -> None:
    world = World()
    world.inspected["quotas"][0] |= {"hard": {"requests.cpu": "4", "pods": "3"}, "used": {"requests.cpu": "3500m"}}
    assert texts(world, "QUOTA_TIGHT") == [
        "ResourceQuota istio-system/some: a second istiod does not fit: requests.cpu (3500m of 4 used, 1 more needed)"
    ]


def test_no_room_is_asked_for_what_is_there_already() -> None:
    world = World("after_install")
    world.inspected["nodes"] = []
    assert texts(world, "NO_NODE_FITS") == []


def test_a_dangling_tag_names_who_uses_it() -> None:  # case C05
    world = World()
    set_tag(world.facts, "prod-stable", "1-24-2")
    assert texts(world, "TAG_DANGLING") == [
        "Tag prod-stable: it points to 1-24-2, which is not installed: no pod can start in canary, shop"
    ]
    assert texts(world, "WEBHOOK_LEFT_OVER") == [], "told once, as a tag"


def test_a_dead_service_is_told_once_with_its_webhooks() -> None:  # case I10
    world = World()
    world.inspected["endpoints"] = {}
    (text,) = texts(world, "WEBHOOK_NO_ENDPOINTS")
    assert text.startswith(f"Service istio-system/istiod-{OLD}: it has no ready endpoint, and 5 webhooks call it: ")


def test_an_injector_that_was_switched_off_disturbs_nobody() -> None:  # case H02
    world = World()
    row = world.injector("default") | {"name": "istio-sidecar-injector", "tag": "", "revision": ""}
    row["entries"] = [entry | {"deactivated": True, "ca": ""} for entry in row["entries"]]
    world.facts["injectors"].append(row)
    assert world.ids() == []
    row["entries"] = [entry | {"deactivated": False} for entry in row["entries"]]
    assert "INJECTORS_OVERLAP" in world.ids()


def test_a_tag_with_the_name_of_a_revision_overlaps() -> None:  # case E03
    world = World()
    world.facts["injectors"].append(world.injector() | {"name": "istio-revision-tag-x", "tag": OLD})
    assert len(texts(world, "INJECTORS_OVERLAP")) == 1


def test_webhooks_elsewhere_are_not_judged() -> None:
    world = World()
    for entry in world.injector()["entries"]:
        entry |= {"service": "", "service_namespace": "", "url": "https://istiod.example/inject", "ca": ""}
    assert world.ids() == []


@pytest.mark.parametrize(
    ("gateway", "namespace", "follows"),
    [
        ("prod-stable", "", "prod-stable"),
        (None, "prod-stable", "prod-stable"),
        (None, "", "default"),
        (OLD, "prod-stable", ""),
    ],
)
def test_gateways_follow_their_label_then_their_namespace_then_default(
    gateway: str | None, namespace: str, follows: str
) -> None:  # case H06
    world = World()
    labels = {"istio.io/rev": namespace} if namespace else {}
    world.facts["namespaces"].append({"name": "edge", "labels": labels, "terminating": False})
    world.add_object("Gateway", gateway, **GATEWAY)
    world.add_object("Gateway", "prod-stable", **{**GATEWAY, "name": "foreign", "class": "nginx"})
    told = texts(world, "GATEWAYS_FOLLOW_TAG")
    at_once = "restarts 1 Gateways at that moment: edge/public"
    assert told == ([f"Tag {follows}: moving it {at_once}"] if follows else [])
    assert "OBJECT_OLD_REVISION" not in world.ids(), "a Gateway of the Gateway API may name a revision or a tag"


def test_objects_of_the_new_and_of_another_revision_are_left_alone() -> None:
    world = World("after_install")
    world.add_object("VirtualService", NEW)
    world.add_object("VirtualService", None)
    assert [code for code in world.ids() if code.startswith("OBJECT")] == []


def test_an_object_of_the_whole_cluster_has_a_command_without_namespace() -> None:
    world = World()
    world.add_object("GatewayClass", OLD, namespace="", name="mine", group="gateway.networking.k8s.io")
    (row,) = [r for r in world.found() if r["id"] == "OBJECT_OLD_REVISION"]
    assert row["todo"] == "kubectl label gatewayclass.gateway.networking.k8s.io mine istio.io/rev-"


def test_only_what_the_run_changes_is_held_against_gitops() -> None:
    world = World()
    world.inspected["owners"] = [
        {"kind": "Namespace", "name": "shop", "by": "Argo CD (shop)"},
        {"kind": "MutatingWebhookConfiguration", "name": f"istio-sidecar-injector-{OLD}", "by": "Flux (mesh)"},
    ]
    assert world.ids() == []


def test_a_budget_holds_up_evictions_only() -> None:
    world = World()
    budget: dict[str, Any] = {"namespace": "shop", "name": "web", "revision": None, "selector": {}, "expressions": []}
    world.inspected["budgets"].append(budget | {"allowed": 0, "expected": 2, "holds": ["ReplicaSet shop/web-5d4"]})
    assert world.ids() == [], "a rollout does not ask budgets"
    world.desired["consents"] = [{"resource": "Deployment shop/web", "allow": "evict", "reason": "r"}]
    (text,) = texts(world, "BUDGET_BLOCKS_EVICTION")
    assert "Deployment shop/web" in text


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("  profile: openshift\n", True),
        ("  profile: openshift\n  components:\n    cni:\n      enabled: false\n", False),
        ("  profile: minimal\n  values:\n    pilot:\n      cni:\n        enabled: true\n", False),
    ],
)
def test_cni_in_the_file(lines: str, found: bool) -> None:
    world = World()
    world.operator(lines)
    assert ("CNI_IN_FILE" in world.ids()) is found


@pytest.mark.parametrize(
    ("lines", "environment"),
    [
        ("  profile: demo\n", "lab"),
        ("  meshConfig:\n    enableTracing: true\n    defaultProviders:\n      tracing: [zipkin]\n", "production"),
        ("  meshConfig:\n    enableTracing: false\n", "production"),
        ("  values:\n    pilot:\n      env:\n        A: b\n", "production"),
        (
            "  meshConfig:\n    discoverySelectors:\n    - matchLabels: {tier: first}\n"
            "    - matchLabels: {tier: shop}\n",
            "p",
        ),
        ("  meshConfig:\n    discoverySelectors: []\n", "production"),
    ],
)
def test_operator_files_in_order(lines: str, environment: str) -> None:
    world = World()
    world.operator(lines)
    world.desired["environment"] = environment
    assert world.ids() == []


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Near"}]}, False),
    ],
)
def test_label_selectors(selector: dict[str, Any], chosen: bool) -> None:
    assert selects(selector, {"a": "1"}) is chosen


def test_a_mesh_without_root_config_maps_is_left_alone() -> None:
    world = World()
    world.inspected["roots"] = {}
    assert world.ids() == []


def test_the_certificate_that_lasts_keeps_a_bundle_alive() -> None:
    both = certificate(-1) + certificate(400)
    assert len(expiries(both)) == 2
    world = World()
    world.inspected["ca_bundles"] = {"85683ca08b19": both, "odd": "no certificate"}
    assert world.ids() == []
    assert all(end.tzinfo == datetime.UTC for end in expiries(both))


def test_an_expired_ca_names_its_webhooks() -> None:
    world = World()
    world.inspected["ca_bundles"] = {"85683ca08b19": certificate(-1)}
    (text,) = texts(world, "CA_EXPIRED")
    assert "istio-revision-tag-default" in text
    assert "2026-11-30" in text


def lacking(*steps: str) -> dict[str, Any]:
    row = {"verbs": ["list"], "group": "", "resource": "pods/exec", "namespace": "istio-system", "why": "asking istiod"}
    return {"rights": [row | {"steps": list(steps)}], "incomplete": "403"}


def test_missing_rights_are_all_that_is_told_where_nothing_could_be_read() -> None:  # case F17
    world = World()
    world.inspected = lacking("read", "uninstall")
    (row,) = world.found()
    assert row["id"] == "RIGHT_MISSING"
    assert row["text"] == (
        "the account may not list them in namespace istio-system (asking istiod); needed by: uninstall"
    )
    assert row["todo"].endswith("kubectl auth can-i list pods --subresource=exec -n istio-system")


def test_the_first_question_stops_only_where_not_even_reading_is_allowed() -> None:
    assert first(lacking("uninstall"), wants()) == []
    (message,) = first(lacking("read", "uninstall"), wants())
    assert message.startswith("RIGHT_MISSING pods/exec: the account may not list them")
    assert first({"rights": None}, wants()) == []


def test_steps_whose_rights_are_asked() -> None:
    assert account_steps(wants()) == list(STEPS)
    assert account_steps(wants(mesh_stop_after="canary")) == ["precheck", "install", "canary"]
    assert account_steps(wants(), ["precheck"]) == ["precheck"]


def test_what_mesh_inspect_is_asked() -> None:
    world = World()
    assert questions(world.facts, world.desired) == {
        "mesh_namespaces": ["canary", "shop"],
        "probe_namespaces": ["canary"],
        "evicted_namespaces": [],
        "features": [],
    }
    world.facts["workloads"].append(row_of("pay", "lone", kind="ReplicaSet"))
    asked = questions(world.facts, world.desired)
    assert (asked["evicted_namespaces"], asked["features"]) == (["pay"], ["evict"])
