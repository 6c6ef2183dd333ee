"""Facts -> meaning: revisions, tags, and who would inject each workload."""

from __future__ import annotations

from typing import Any

import pytest
from mesh_logic.model import (
    build_view,
    how_moved,
    image_tag,
    image_version,
    is_stale,
    journal_name,
    live_revisions,
    restartable,
    workload_ref,
)

from tests.unit.mesh_stages import NEW, OLD, STAGES, facts, namespace, row_of, set_tag, wants, workload


@pytest.mark.parametrize("stage", STAGES)
def test_a_view_leaves_the_facts_alone(stage: str) -> None:
    found = facts(stage)
    build_view(found)["namespaces"]["shop"]["istio.io/rev"] = "x"
    assert found == facts(stage)


def test_the_meaning_of_a_recorded_stage() -> None:
    view = build_view(facts("after_canary"))
    assert view["tags"] == {"default": OLD, "prod-stable": OLD}
    assert view["ambiguous"] == {}
    assert view["default_injects"] is False
    assert {name: (r["version"], r["ready"], r["injector"]) for name, r in view["revisions"].items()} == {
        OLD: ("1.30.5", True, f"istio-sidecar-injector-{OLD}"),
        NEW: ("1.31.0", True, f"istio-sidecar-injector-{NEW}"),
    }
    assert workload(view, "client")["target"] == NEW
    assert workload(view, "web")["target"] == OLD
    assert workload(view, f"istiod-{OLD}")["target"] is None


def test_an_ambiguous_tag() -> None:
    found = facts("start")
    set_tag(found, "default", NEW, only="services")
    assert build_view(found)["ambiguous"] == {"default": [OLD, NEW]}


@pytest.mark.parametrize(
    ("counters", "ready"),
    [
        pytest.param({}, True, id="complete"),
        pytest.param({"observed": 0}, False, id="G05-not-seen"),
        pytest.param({"updated": 0}, False, id="old-pods"),
        pytest.param({"available": 0}, False, id="F05-not-available"),
        pytest.param({"total": 2}, False, id="surplus"),
        pytest.param({"replicas": 0, "updated": 0, "available": 0, "total": 0}, False, id="G03-scaled-to-zero"),
    ],
)
def test_when_a_revision_serves(counters: dict[str, int], ready: bool) -> None:
    found = facts("start")
    found["control_planes"][0].update(counters)
    assert build_view(found)["revisions"][OLD]["ready"] is ready


@pytest.mark.parametrize(
    ("labels", "template", "target"),
    [
        pytest.param({"istio.io/rev": NEW}, {}, NEW, id="revision"),
        pytest.param({"istio.io/rev": "prod-stable"}, {}, OLD, id="tag"),
        pytest.param({"istio-injection": "enabled", "istio.io/rev": NEW}, {}, OLD, id="D01-both-labels"),
        pytest.param({"istio-injection": "disabled", "istio.io/rev": NEW}, {}, None, id="D02-disabled"),
        pytest.param({"istio.io/rev": OLD}, {"istio.io/rev": NEW}, OLD, id="D03-namespace-wins"),
        pytest.param({"istio-injection": "true", "istio.io/rev": NEW}, {}, None, id="D05-bad-value"),
        pytest.param({}, {"istio.io/rev": NEW}, NEW, id="template-label"),
        pytest.param({}, {"sidecar.istio.io/inject": "true"}, OLD, id="C07-asks-for-default"),
        pytest.param({}, {}, None, id="nothing"),
    ],
)
def test_who_would_inject(labels: dict[str, str], template: dict[str, str], target: str | None) -> None:
    found = facts("after_install")
    namespace(found, "team", **labels)
    found["workloads"].append(row_of("team", "x", "", template_labels=template))
    assert workload(build_view(found), "x")["target"] == target


def test_an_annotation_does_not_choose_a_revision() -> None:  # case D04
    found = facts("after_install")
    found["workloads"].append(row_of("default", "x", "", template_annotations={"istio.io/rev": NEW}))
    assert workload(build_view(found), "x")["target"] is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        pytest.param({}, "", id="deployment"),
        pytest.param({"kind": "StatefulSet"}, "", id="stateful-set"),
        pytest.param({"kind": "DaemonSet"}, "", id="daemon-set"),
        pytest.param({"paused": True}, "it is paused", id="G01-paused"),
        pytest.param({"kind": "StatefulSet", "strategy": "OnDelete"}, "OnDelete", id="G04-on-delete"),
        pytest.param({"kind": "StatefulSet", "managed_by": "Kafka/main"}, "belongs to Kafka/main", id="B15-operator"),
        pytest.param({"kind": "Rollout"}, "Rollout pods are not restarted", id="B16-rollout"),
        pytest.param({"kind": "Job"}, "Job pods are not restarted", id="job"),
    ],
)
def test_what_a_restart_moves(changes: dict[str, Any], why: str) -> None:
    said = restartable(row_of("shop", "x", **changes))
    assert (why in said) if why else (said == "")


@pytest.mark.parametrize(
    ("changes", "allow", "how"),
    [
        pytest.param({"kind": "ReplicaSet"}, "", "evict", id="a-replica-set-of-its-own"),
        pytest.param({"kind": "Job"}, "evict", "evict", id="never-ending-job"),
        pytest.param({"kind": "Job"}, "restart", "", id="a-job-cannot-be-restarted"),
        pytest.param({"paused": True}, "restart", "", id="G01-restart-changes-no-pod"),
        pytest.param({"paused": True}, "evict", "evict", id="G01-evicted"),
        pytest.param({"kind": "StatefulSet", "strategy": "OnDelete"}, "evict", "evict", id="G04-one-by-one"),
        pytest.param(
            {"kind": "StatefulSet", "managed_by": "Kafka/main"}, "restart", "restart", id="B15-operator-agrees"
        ),
        pytest.param({"kind": "Rollout"}, "restart_at", "restart_at", id="B16-own-restart-field"),
        pytest.param({"kind": "Deployment"}, "restart_at", "restart", id="only-a-rollout-has-it"),
        pytest.param({"kind": "StatefulSet"}, "rescue", "rescue", id="stuck-stateful-set"),
    ],
)
def test_how_a_workload_moves(changes: dict[str, Any], allow: str, how: str) -> None:
    found = facts("start")
    found["workloads"] = [row_of("shop", "x-17", **changes)]
    kind = changes.get("kind", "Deployment")
    consents = [{"resource": f"{kind} shop/x-*", "allow": allow, "reason": "agreed"}] if allow else []
    row = build_view(found, consents)["workloads"][0]
    assert how_moved(row) == how
    assert bool(restartable(row)) == (how == "")
    if allow and not how:
        assert f"the consent {allow!r} cannot move it" in restartable(row)


def test_stale_is_a_live_proxy_of_another_revision() -> None:
    row = row_of("shop", "x") | {"target": NEW}
    assert is_stale(row)
    assert live_revisions(row) == [OLD]
    assert not is_stale(row | {"target": OLD})
    assert not is_stale(row | {"target": None})  # who is not to be injected is not stale
    row["proxies"][0]["terminating"] = True
    assert not is_stale(row)  # case B13
    assert workload_ref(row) == "Deployment shop/x"


@pytest.mark.parametrize(
    ("image", "tag", "version"),
    [
        ("registry.example:5000/istio/proxyv2:1.31.0-distroless", "1.31.0-distroless", "1.31.0"),
        ("proxyv2:latest", "latest", ""),
        ("auto", "", ""),
        ("", "", ""),
        ("a b", "", ""),
    ],
)
def test_images_that_say_nothing(image: str, tag: str, version: str) -> None:
    assert (image_tag(image), image_version(image)) == (tag, version)


def test_the_journal_is_of_a_pair() -> None:
    assert journal_name(wants(), "move_tags") == f"istio-upgrade-{OLD}-to-{NEW}-move-tags"
