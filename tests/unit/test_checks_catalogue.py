"""Every check is seen once to find what it is for and once to find nothing; a check without both fails here."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mesh_logic.checks.all_checks import CHECKS, GROUPS
from mesh_logic.checks.catalogue import by_id
from mesh_logic.checks.judge import judge
from mesh_logic.errors import MeshError
from mesh_logic.findings import find_all
from mesh_logic.gates import start_errors
from mesh_logic.versions import check_skew

from tests.unit.checks_world import NEW, OLD, TODAY, World, certificate
from tests.unit.mesh_stages import drop_tag, row_of, set_tag

ROOT = Path(__file__).resolve().parents[2]
Break = Callable[[World], Any]
CNI = "  components:\n    cni:\n      enabled: true\n"
K8S_GATEWAY = {"group": "gateway.networking.k8s.io", "class": "istio", "name": "public"}


def validators(world: World, **changes: Any) -> None:
    """Change the entry of the default validator."""
    for row in world.facts["validators"]:
        if row["name"] == "istiod-default-validator":
            row["entries"][0] |= changes


def no_default(world: World) -> None:
    """Take the default tag away, as in a mesh that never had one."""
    drop_tag(world.facts, "default")


def left_over(world: World) -> None:
    """Leave the injector of a revision whose istiod was deleted."""
    row = copy.deepcopy(world.injector())
    row |= {"name": "istio-sidecar-injector-1-24-2", "revision": "1-24-2", "tag": ""}
    for entry in row["entries"]:
        entry["service"] = "istiod-1-24-2"
    world.facts["injectors"].append(row)


def overlap(world: World) -> None:
    """Add a second webhook for the same tag."""
    world.facts["injectors"].append(world.injector() | {"name": "my-own-injector"})


def gateway_alone(world: World) -> None:
    """Add a Gateway that only a default tag would program."""
    no_default(world)
    world.facts["namespaces"].append({"name": "edge", "labels": {}, "terminating": False})
    world.add_object("Gateway", None, **{**K8S_GATEWAY, "namespace": "edge"})


def demo(world: World) -> None:
    """Use the profile for showing in production."""
    world.operator("  profile: demo\n")
    world.desired["environment"] = "production"


def evicted(world: World) -> None:
    """Let a workload move by eviction, and a budget refuse it."""
    world.facts["workloads"].append(row_of("shop", "lone", kind="ReplicaSet"))
    budget: dict[str, Any] = {"namespace": "shop", "name": "lone", "revision": None, "selector": {}, "expressions": []}
    world.inspected["budgets"].append(budget | {"allowed": 0, "expected": 1, "holds": ["ReplicaSet shop/lone"]})


def one_replica(world: World) -> None:
    """Give the old istiod one replica, as the lab does."""
    world.facts["control_planes"][0] |= dict.fromkeys(("replicas", "updated", "available", "total"), 1)
    world.inspected["budgets"][0] |= {"allowed": 0, "expected": 1}


def right(**more: Any) -> list[dict[str, Any]]:
    """Return one missing right as `mesh_inspect` tells it."""
    row = {"verbs": ["list"], "group": "admissionregistration.k8s.io", "resource": "mutatingwebhookconfigurations"}
    return [row | {"namespace": "", "steps": ["read", "precheck"], "why": "tags"} | more]


# Check of this package -> how to break a cluster so that it is found. Before that the same cluster has nothing.
BREAKS: dict[str, Break] = {
    "RIGHT_MISSING": lambda w: w.inspected.update(rights=right()),  # case F17
    "RIGHTS_NOT_ASKED": lambda w: w.inspected.update(rights=None),
    "ISTIO_NOT_SUPPORTED": lambda w: w.desired["from"].update(version="1.23.6"),
    "ISTIO_NOT_TRIED": lambda w: w.desired["to"].update(version="1.32.0"),
    "KUBERNETES_TOO_OLD": lambda w: w.facts["cluster"].update(version="v1.31.4-gke.100"),
    "ISTIOD_SINGLE_REPLICA": one_replica,
    "ISTIOD_BUDGET_BLOCKS": one_replica,  # case F09
    "ISTIOD_NO_BUDGET": lambda w: w.inspected["budgets"].clear(),
    "AUTOSCALER_OTHER_TARGET": lambda w: w.inspected["scalers"][0].update(target="Deployment istiod"),  # case F08
    "QUOTA_TIGHT": lambda w: w.inspected["quotas"][0]["hard"].update(pods="3"),
    "NO_NODE_FITS": lambda w: w.inspected["nodes"][0]["allocatable"].update(memory="1900Mi"),
    "SHARED_DAEMON_SET": lambda w: w.inspected["daemon_sets"][0].update(revision=OLD),
    "TAG_AMBIGUOUS": lambda w: set_tag(w.facts, "prod-stable", NEW, only="services"),
    "TAG_DANGLING": lambda w: set_tag(w.facts, "prod-stable", "1-24-2"),  # case C05
    "INJECTORS_OVERLAP": overlap,  # case H02
    "CA_BUNDLE_EMPTY": lambda w: w.injector()["entries"][0].update(ca=""),  # case H08
    "WEBHOOK_NO_ENDPOINTS": lambda w: w.inspected["endpoints"].update({f"istiod-{OLD}": 0}),  # case I10
    "WEBHOOK_LEFT_OVER": left_over,  # cases I11, H05
    "REVISION_LEFT_OVER": lambda w: w.inspected["leftovers"][0].update(revision="1-24-2"),
    "DEFAULT_TAG_MISSING": no_default,  # case H03
    "DEFAULT_VALIDATOR_MISSING": no_default,
    "DEFAULT_VALIDATOR_DISAGREES": lambda w: validators(w, service="istiod-revision-tag-default"),
    "VALIDATOR_ASLEEP": lambda w: validators(w, failure_policy="Ignore"),
    "GATEWAYS_FOLLOW_TAG": lambda w: w.add_object("Gateway", "prod-stable", **K8S_GATEWAY),  # case H06
    "GATEWAY_WITHOUT_DEFAULT": gateway_alone,  # case H07
    "OBJECT_OLD_REVISION": lambda w: w.add_object("VirtualService", OLD),
    "OBJECT_TAG_LABEL": lambda w: w.add_object("VirtualService", "prod-stable"),
    "OBJECT_UNKNOWN_REVISION": lambda w: w.add_object("VirtualService", "1-24-2"),
    "ENVOY_FILTERS": lambda w: w.add_object("EnvoyFilter", None),
    "WASM_PLUGINS": lambda w: w.add_object("WasmPlugin", None, group="extensions.istio.io"),
    "OPERATOR_OBJECT": lambda w: w.inspected["operators"].append(
        {"kind": "IstioOperator", "namespace": "istio-system", "name": "installed-state"}
    ),
    "NAMESPACE_KEPT": lambda w: w.inspected["owners"].append({"kind": "Namespace", "name": "canary", "by": "Argo CD"}),
    "TAG_KEPT": lambda w: w.inspected["owners"].append(
        {"kind": "MutatingWebhookConfiguration", "name": "istio-revision-tag-prod-stable", "by": "Flux (mesh)"}
    ),
    "BUDGET_BLOCKS_EVICTION": evicted,
    "CNI_IN_FILE": lambda w: w.operator(CNI),
    "OPERATOR_FIELD_UNKNOWN": lambda w: w.operator("  meshConfig:\n    accessLogfile: /dev/stdout\n"),
    "TRACING_WITHOUT_PROVIDER": lambda w: w.operator("  meshConfig:\n    enableTracing: true\n"),
    "PROFILE_DEMO": demo,
    "VALUES_OVER_FIELD": lambda w: w.operator("  values:\n    global:\n      hub: hub.example/istio\n"),
    "DISCOVERY_LEAVES_OUT": lambda w: w.operator(
        "  meshConfig:\n    discoverySelectors:\n    - matchLabels: {tier: first}\n"
    ),
    "CA_EXPIRED": lambda w: w.inspected["ca_bundles"].update({"85683ca08b19": certificate(-1)}),
    "CA_EXPIRES_SOON": lambda w: w.inspected["ca_bundles"].update({"85683ca08b19": certificate(29)}),
    "ROOT_MISSING": lambda w: w.inspected["roots"].pop("shop"),
    "ROOTS_DIFFER": lambda w: w.inspected["roots"].update(shop="another"),
}


def waiver(**more: str) -> dict[str, str]:
    return {"id": "ENVOY_FILTERS", "resource": "", "reason": "known", "expires": ""} | more


def skew(new: str) -> list[str]:
    try:
        check_skew("1.30.5", new, 2)
    except MeshError:
        return ["VERSION_SKEW"]
    return []


def judged(**more: str) -> list[str]:
    world = World()
    BREAKS["ENVOY_FILTERS"](world)
    return [row["id"] for row in judge(world.found(), [waiver(**more)], TODAY)["findings"]]


def ca_after(ca: str) -> list[str]:
    world = World("after_install")
    world.inspected["ca_bundles"] = {}
    for row in world.facts["injectors"]:
        for entry in row["entries"]:
            entry["ca"] = ca if row["revision"] == NEW else "85683ca08b19"
    return [row["id"] for row in world.found_after()]


def starts(phrase: str, breaking: Break) -> list[str]:
    world = World()
    breaking(world)
    return [phrase for error in start_errors(world.facts, world.desired) if phrase in error]


# Check that is asked elsewhere or of more than one world -> (what is found where it is wrong, and where it is right).
ANSWERS: dict[str, tuple[list[str], list[str]]] = {
    "WAIVER_EXPIRED": (judged(expires="2026-11-30"), judged(expires=TODAY)),
    "WAIVER_UNUSED": (judged(resource="VirtualService x/y"), judged()),
    "CA_DIFFERS": (ca_after("another"), ca_after("85683ca08b19")),
    "VERSION_SKEW": (skew("1.34.0"), skew("1.31.0")),
}
TRUTHS = ("TRUTH_DISAGREES", "TRUTH_DISAGREES_MUCH")
STARTS: dict[str, tuple[str, Break]] = {
    "REVISION_VERSION": ("it runs Istio", lambda w: w.facts["control_planes"][0].update(image="i/pilot:1.29.0")),
    "OTHER_CLUSTER": ("another cluster", lambda w: w.desired.update(cluster_uid="other")),
}


def test_a_production_cluster_has_nothing_that_blocks_or_warns() -> None:
    """Severities must not cry wolf: no waiver is needed where nothing is wrong."""
    assert World().found() == []
    assert World("after_install").found_after() == []


def test_the_lab_is_not_stopped() -> None:
    world = World()
    one_replica(world)
    verdict = judge(world.found(), [], TODAY)
    assert verdict["blockers"] == []
    assert {row["id"] for row in verdict["findings"]} == {"ISTIOD_SINGLE_REPLICA", "ISTIOD_BUDGET_BLOCKS"}


@pytest.mark.parametrize("code", sorted(BREAKS))
def test_each_check_finds_what_it_is_for(code: str) -> None:
    assert code not in World().ids()
    world = World()
    BREAKS[code](world)
    found = [row for row in world.found() if row["id"] == code]
    assert found, world.ids()
    for row in found:
        assert row["severity"] == CHECKS[code].severity
        assert row["resource"]
        assert row["text"]
        assert not re.search(r"[{}]", row["todo"]), "the remedy is a command that can be run"


@pytest.mark.parametrize("code", sorted(ANSWERS))
def test_each_answer_is_right_both_ways(code: str) -> None:
    wrong, right_ = ANSWERS[code]
    assert code in wrong
    assert code not in right_


@pytest.mark.parametrize("code", sorted(STARTS))
def test_each_check_of_the_start_is_asked_there(code: str) -> None:
    phrase, breaking = STARTS[code]
    assert starts(phrase, breaking)
    assert not starts(phrase, lambda _world: None)


def test_no_check_lacks_a_failing_and_a_passing_test() -> None:
    here = {code for code, check in CHECKS.items() if check.asked != "workloads"}
    assert {*BREAKS, *ANSWERS, *STARTS} == here
    elsewhere = (ROOT / "tests" / "unit" / "test_findings.py").read_text(encoding="utf-8")
    told = {code for code, check in CHECKS.items() if check.asked == "workloads"}
    assert {code for code in told if f'"{code}"' not in elsewhere} <= set(TRUTHS)


@pytest.mark.parametrize("code", TRUTHS)
def test_what_istiods_say_is_found_both_ways(code: str) -> None:  # case C10
    world = World()
    truth = {"count": 2, "disagreements": [{"namespace": "shop", "pod": "web-1", "why": "connected to no istiod"}]}
    assert code not in [row["id"] for row in find_all(world.facts, world.desired)]
    assert code in [row["id"] for row in find_all(world.facts | {"truth": truth}, world.desired)]


def test_findings_of_workloads_are_in_the_catalogue_as_they_are_asked() -> None:
    source = (ROOT / "filter_plugins" / "mesh_logic" / "findings.py").read_text(encoding="utf-8")
    told = set(re.findall(r'finding\(\s*"([A-Z_]+)", "(block|warn|info)"', source))
    listed = {(code, check.severity) for code, check in CHECKS.items() if check.asked == "workloads"}
    assert told == listed


def test_ids_and_pages() -> None:
    assert all(re.fullmatch(r"[A-Z]+(_[A-Z]+)*", code) for code in CHECKS)
    page = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    headings = {f"docs/checks.md#{title.lower()}" for title in re.findall(r"^### ([A-Z_]+)$", page, re.MULTILINE)}
    assert {check.anchor for check in CHECKS.values()} == headings
    assert sum(len(group) for group in GROUPS.values()) == len(CHECKS)


def test_two_checks_with_one_id_are_refused() -> None:
    check = next(iter(CHECKS.values()))
    with pytest.raises(ValueError, match="two checks are called"):
        by_id([check, check])
