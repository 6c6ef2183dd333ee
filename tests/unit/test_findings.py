"""What is worth knowing before a restart; each finding is seen once where it is and once where it is not."""

from __future__ import annotations

from typing import Any

import pytest
from mesh_logic.findings import SHOWN, find_all, lines

from tests.unit.mesh_stages import NEW, OLD, STAGES, drop_tag, facts, namespace, row_of, wants

GOOD: dict[str, Any] = {"replicas": 2, "pre_stop": True, "readiness": True, "partition": 0, "max_unavailable": "25%"}


def mesh(row: dict[str, Any] | None = None, **labels: str) -> dict[str, Any]:
    """Return the start with one more namespace and workload, and nothing else that could be found."""
    found = facts("start")
    found["workloads"] = [row_of("pay", "app", **GOOD) | (row or {})]
    found["loose_pods"] = []
    namespace(found, "pay").update(
        {key.replace("_", "-"): value for key, value in labels.items()} or {"istio.io/rev": "prod-stable"}
    )
    return found


# What the lab's own small workloads really are.
QUIET = {"SINGLE_REPLICA", "NO_PRE_STOP"}


def ids(found: dict[str, Any], **more: Any) -> list[str]:
    return [f["id"] for f in find_all(found, wants(), **more)]


def test_a_tidy_mesh_has_nothing_to_say() -> None:
    assert ids(mesh()) == []


@pytest.mark.parametrize(
    ("labels", "code"),
    [
        pytest.param({"istio-injection": "enabled", "istio.io/rev": NEW}, "NAMESPACE_BOTH_LABELS", id="D01"),
        pytest.param({"istio-injection": "disabled", "istio.io/rev": "prod-stable"}, "NAMESPACE_DISABLED", id="D02"),
        pytest.param({"istio-injection": "true", "istio.io/rev": "default"}, "NAMESPACE_BAD_VALUE", id="D05"),
        pytest.param({"istio.io/rev": "1-24-2"}, "NAMESPACE_UNKNOWN_REVISION", id="names-nothing"),
        pytest.param({"istio.io/rev": OLD}, "", id="names-a-revision"),
        pytest.param({"istio-injection": "enabled"}, "", id="default-exists"),
        pytest.param({}, "NAMESPACE_WITHOUT_LABEL", id="injected-by-its-own-labels"),
    ],
)
def test_namespaces(labels: dict[str, str], code: str) -> None:
    found = mesh()
    there = namespace(found, "pay")
    there.clear()
    there.update(labels)
    told = [code for code in ids(found) if code.startswith("NAMESPACE")]
    assert told == ([code] if code else [])


@pytest.mark.parametrize(
    "labels", [{"istio-injection": "enabled"}, {"istio.io/rev": "default"}], ids=["H03-enabled", "H03-by-name"]
)
def test_without_a_default_tag_its_namespaces_get_nothing(labels: dict[str, str]) -> None:
    found = mesh()
    drop_tag(found, "default")
    there = namespace(found, "pay")
    there.clear()
    there.update(labels)
    assert set(ids(found)) & {"NAMESPACE_WITHOUT_DEFAULT", "NAMESPACE_UNKNOWN_REVISION"}


def test_a_namespace_whose_only_proxy_is_a_bare_pod() -> None:
    found = mesh({"proxies": []})
    namespace(found, "pay").clear()
    found["loose_pods"] = [loose()]
    assert set(ids(found)) == {"NAMESPACE_WITHOUT_LABEL", "BARE_POD"}
    found["loose_pods"] = [loose(live=False)]
    assert ids(found) == ["ENDED_PODS"]


def test_the_recorded_upgrade_has_no_false_alarm() -> None:
    for stage in STAGES:
        assert {f["id"] for f in find_all(facts(stage), wants()) if f["severity"] == "warn"} <= QUIET, stage


GROUP = row_of("pay", "app")["proxies"][0]
# A gateway of the Gateway API: files/kube-gateway.yaml, 1.31.
MADE_BY_ISTIOD = {
    "template_annotations": {"istio.io/rev": OLD},
    "template_labels": {"sidecar.istio.io/inject": "false"},
    "gateway": True,
}
PINNED = {"template_annotations": {"sidecar.istio.io/proxyImage": "m/proxyv2:1.29.0"}}


@pytest.mark.parametrize(
    ("row", "code"),
    [
        pytest.param({"template_labels": {"istio.io/rev": NEW}}, "TEMPLATE_LABEL_LOSES", id="D03"),
        pytest.param({"template_annotations": {"istio.io/rev": NEW}}, "TEMPLATE_ANNOTATION", id="D04"),
        pytest.param({"template_labels": {"sidecar.istio.io/inject": "yes"}}, "TEMPLATE_BAD_VALUE", id="no-flag"),
        pytest.param(PINNED, "PINNED_IMAGE", id="B05"),
        pytest.param(PINNED | {"gateway": True}, "PIN_IGNORED", id="B06"),
        pytest.param({"host_network": True}, "HOST_NETWORK", id="B08"),
        pytest.param({"managed_by": "Kafka/main"}, "LEFT_TO_A_PERSON", id="B15"),
        pytest.param({"kind": "Rollout"}, "LEFT_TO_A_PERSON", id="B16"),
        pytest.param({"paused": True}, "LEFT_TO_A_PERSON", id="G01"),
        pytest.param({"kind": "StatefulSet", "strategy": "OnDelete"}, "LEFT_TO_A_PERSON", id="G04"),
        pytest.param({"kind": "StatefulSet", "partition": 1}, "PARTITION", id="partition"),
        pytest.param({"replicas": 0, "proxies": []}, "NO_REPLICAS", id="G03-no-replicas"),
        pytest.param({"ended": 2}, "ENDED_PODS", id="B12"),
        pytest.param({"strategy": "Recreate"}, "RESTART_TAKES_ALL", id="recreate"),
        pytest.param({"kind": "StatefulSet", "replicas": 1}, "RESTART_TAKES_ALL", id="one-pod-that-goes-first"),
        pytest.param({"max_unavailable": "2"}, "RESTART_TAKES_ALL", id="both-unavailable"),
        pytest.param({"max_unavailable": "100%"}, "RESTART_TAKES_ALL", id="all-unavailable"),
        pytest.param({"replicas": 1}, "SINGLE_REPLICA", id="single"),
        pytest.param({"pre_stop": False}, "NO_PRE_STOP", id="no-pre-stop"),
        pytest.param({"proxies": [GROUP | {"image": "auto"}]}, "NOT_INJECTED", id="B07"),
        pytest.param({"proxies": [GROUP | {"image": "m/proxy:to-use-in-prod"}]}, "UNKNOWN_VERSION", id="A11"),
        pytest.param({"proxies": [GROUP | {"image": "m/proxyv2:1.29.0"}]}, "IMAGE_DISAGREES", id="C11"),
    ],
)
def test_workloads(row: dict[str, Any], code: str) -> None:
    assert ids(mesh(row)) == [code]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"template_labels": {"istio.io/rev": "prod-stable"}}, id="D03-same-label"),
        pytest.param(MADE_BY_ISTIOD, id="D04-gateway-of-istiod"),
        pytest.param({"max_unavailable": "1"}, id="one-of-two"),
        pytest.param({"kind": "StatefulSet", "max_unavailable": ""}, id="two-pods-in-turn"),
        pytest.param({"kind": "DaemonSet", "replicas": 1, "max_unavailable": "1"}, id="node-by-node"),
        pytest.param({"proxies": [GROUP | {"image": "m/proxyv2:1.30.5-distroless"}]}, id="A06-variant"),
        pytest.param({"proxies": [GROUP | {"image": "m/proxyv2:1.29.0", "terminating": True}]}, id="B13-goes"),
    ],
)
def test_what_is_no_finding(row: dict[str, Any]) -> None:
    assert ids(mesh(row)) == []


def test_a_pinned_proxy_is_old_by_its_pin_and_no_failed_restart() -> None:  # case B05
    found = mesh(PINNED | {"proxies": [GROUP | {"image": "m/proxyv2:1.29.0"}]})
    assert ids(found) == ["PINNED_IMAGE", "OLD_BY_PIN"]
    gateway = mesh(PINNED | {"gateway": True, "proxies": [GROUP | {"image": "m/proxyv2:1.29.0"}]})
    assert ids(gateway) == ["PIN_IGNORED", "IMAGE_DISAGREES"], "case B06"


@pytest.mark.parametrize(
    ("row", "labels", "told"),
    [
        ({"host_network": True}, {"istio-injection": "disabled"}, False),
        ({"host_network": True, "template_labels": {"sidecar.istio.io/inject": "true"}}, {}, True),
        ({"host_network": True}, {}, False),
    ],
)
def test_host_network_matters_where_injection_is_asked_for(
    row: dict[str, Any], labels: dict[str, str], told: bool
) -> None:  # case B08
    found = mesh(row | {"proxies": []})
    there = namespace(found, "pay")
    there.clear()
    there.update(labels)
    assert ("HOST_NETWORK" in ids(found)) is told


@pytest.mark.parametrize(
    ("asked", "code"),
    [("1-24-2", "TEMPLATE_UNKNOWN_REVISION"), (OLD, "TEMPLATE_PINS_REVISION"), ("prod-stable", "")],
)
def test_what_a_template_asks_for_in_a_namespace_without_labels(asked: str, code: str) -> None:
    found = mesh({"template_labels": {"istio.io/rev": asked}})
    namespace(found, "pay").clear()
    assert [told for told in ids(found) if told.startswith("TEMPLATE")] == ([code] if code else [])


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({"istio-injection": "enabled"}, True),
        ({"istio.io/rev": "default"}, True),
        ({"istio.io/rev": "prod-stable"}, False),
    ],
)
def test_what_the_default_tag_hands_over(labels: dict[str, str], told: bool) -> None:  # case D07
    found = mesh()
    there = namespace(found, "pay")
    there.clear()
    there.update(labels)
    texts = [f["text"] for f in find_all(found, wants()) if f["id"] == "DEFAULT_TAG_MOVES"]
    assert texts == ([f"moving it from {OLD} to {NEW} changes the injector of 1 namespaces: pay"] if told else [])
    assert "DEFAULT_TAG_MOVES" not in [f["id"] for f in find_all(found, wants(mesh_tags=["prod-stable"]))]


def loose(**changes: Any) -> dict[str, Any]:
    pod = {
        "namespace": "pay",
        "name": "bare",
        "image": "proxyv2:1.30.5",
        "revision": OLD,
        "live": True,
        "terminating": False,
    }
    return pod | {"owner_kind": "", "owner_name": ""} | changes


@pytest.mark.parametrize(
    ("pod", "code"),
    [
        (loose(), "BARE_POD"),
        (loose(image="auto", revision=""), "NOT_INJECTED"),
        (loose(live=False), "ENDED_PODS"),
    ],
    ids=["bare", "B07-auto", "B12-ended"],
)
def test_pods_of_nobody(pod: dict[str, Any], code: str) -> None:
    found = mesh()
    found["loose_pods"] = [pod]
    assert ids(found) == [code]


def test_the_third_truth_is_told_by_name() -> None:  # case C10
    told = [{"namespace": "pay", "pod": "app-1", "why": "connected to none"}]
    found = mesh() | {"truth": {"disagreements": told, "count": 1}}
    assert [f["resource"] for f in find_all(found, wants())] == ["Pod pay/app-1"]
    many = mesh() | {"truth": {"disagreements": told, "count": 70}}
    assert [f["text"][:18] for f in find_all(many, wants())] == ["connected to none", "70 proxies in all "]


@pytest.mark.parametrize(
    ("fresh", "revision", "code"),
    [
        pytest.param("new", OLD, ["OUTDATED_SETTINGS"], id="older"),
        pytest.param("same", OLD, [], id="the-same"),
        pytest.param("new", NEW, [], id="of-another-revision-it-moves-anyway"),
    ],
)
def test_settings_that_only_a_restart_renews(fresh: str, revision: str, code: list[str]) -> None:
    group = GROUP | {"settings": "same", "revision": revision, "image": f"m/proxyv2:{revision.replace('-', '.')}"}
    found = mesh({"proxies": [group]})
    assert ids(found, fresh={"Deployment pay/app": fresh}) == code
    assert ids(found) == [], "nothing is compared that was not asked"
    assert ids(mesh({"proxies": [GROUP]}), fresh={"Deployment pay/app": "new"}) == [], "facts of before know none"


def test_many_of_a_kind_are_counted() -> None:
    found = mesh()
    found["workloads"] = [row_of("pay", f"app-{n}", **(GOOD | {"replicas": 1})) for n in range(20)]
    told = lines(find_all(found, wants()))
    assert len(told) == SHOWN + 1
    assert told[-1] == "SINGLE_REPLICA: and 15 more"
    assert ". Next: " in told[0]
