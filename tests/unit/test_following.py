"""Which namespaces are asked about after a tag moved, and what their dry runs mean."""

from __future__ import annotations

from typing import Any

import pytest
from mesh_logic.following import ASKED, following, following_proof
from mesh_logic.injection_proof import expected_images
from mesh_logic.plan import step_plan

from tests.unit.mesh_stages import NEW, OLD, facts, namespace, wants

Facts = dict[str, Any]


def planned(found: Facts, step: str = "move_tags") -> list[dict[str, Any]]:
    actions: list[dict[str, Any]] = step_plan(found, wants(), step)["actions"]
    return actions


def change(plan: list[dict[str, Any]], do: str, target: str, to: str = "") -> dict[str, Any]:
    return next(a for a in plan if (a["do"], a["object"]) == (do, target) and to in ("", a["to"]))


def names(found: Facts, plan: list[dict[str, Any]], item: dict[str, Any]) -> dict[str, str]:
    return {pod["namespace"]: pod["revision"] for pod in following(found, plan, item)["pods"]}


def test_namespaces_follow_their_tag_with_or_without_pods() -> None:
    found = facts("after_canary")
    namespace(found, "empty", **{"istio.io/rev": "prod-stable"})
    namespace(found, "plain", **{"istio-injection": "enabled"})
    namespace(found, "both", **{"istio-injection": "enabled", "istio.io/rev": "prod-stable"})  # case D01
    namespace(found, "bad", **{"istio-injection": "true", "istio.io/rev": "prod-stable"})  # case D05
    namespace(found, "pinned", **{"istio.io/rev": OLD})
    namespace(found, "kube-system")["istio.io/rev"] = "prod-stable"
    namespace(found, "going", **{"istio.io/rev": "prod-stable"})
    found["namespaces"][-1]["terminating"] = True
    plan = planned(found)
    assert names(found, plan, change(plan, "set_tag", "prod-stable")) == {"empty": NEW, "shop": NEW}
    assert names(found, plan, change(plan, "set_tag", "default")) == {"both": NEW, "plain": NEW}
    # the canary gets its label back in between, and follows the tag from then on
    assert names(found, plan, change(plan, "set_labels", "canary")) == {"canary": NEW}


def test_in_a_drill_they_follow_both_ways() -> None:
    found = facts("after_move_tags")
    namespace(found, "empty", **{"istio.io/rev": "prod-stable"})
    plan = planned(found, "rollback_drill")
    for side in (OLD, NEW):
        item = change(plan, "set_tag", "prod-stable", side)
        assert names(found, plan, item) == {"canary": side, "empty": side, "shop": side}


def test_of_very_many_the_ones_that_nothing_else_asks_about_come_first() -> None:
    found = facts("after_canary")
    for number in range(ASKED + 9):
        namespace(found, f"z-{number:03}", **{"istio.io/rev": "prod-stable"})
    plan = planned(found)
    asked = following(found, plan, change(plan, "set_tag", "prod-stable"))
    assert (len(asked["pods"]), asked["count"]) == (ASKED, ASKED + 10)
    assert "shop" in asked["left_out"], "its workloads are restarted, and proven by their own templates"
    groups = [answered(pod) for pod in asked["pods"]]
    said = following_proof({"groups": groups}, asked, expected_images(found))
    assert said["errors"] == []
    assert said["warnings"] == [
        "50 of 60 namespaces that follow were asked what a new pod would get; not asked are shop, z-050, z-051, z-052, "
        "z-053 and more"
    ]


def answered(pod: dict[str, str], **more: Any) -> dict[str, Any]:
    """Return a group of `mesh_proof` for a bare pod."""
    ref = f"Pod {pod['namespace']}/{pod['name']}"
    version = pod["revision"].replace("-", ".")
    return {
        "namespace": pod["namespace"],
        "representative": ref,
        "covers": [ref],
        "state": "proven",
        "revision": pod["revision"],
        "image": f"docker.io/istio/proxyv2:{version}",
        "who": "",
        "said": "",
        "pinned": "",
        "own_proxy": "",
        "labels": {},
        "annotations": {},
        "host_network": False,
        "namespace_labels": {"istio.io/rev": "prod-stable"},
    } | more


TAGS = {"tags": {"prod-stable": OLD}, "revisions": [OLD, NEW]}


@pytest.mark.parametrize(
    ("more", "error", "warning"),
    [
        pytest.param({}, "", "", id="proven"),
        pytest.param(
            {"state": "wrong", "revision": OLD, "image": "docker.io/istio/proxyv2:1.30.5"},
            f"a new pod would be injected by revision {OLD}, expected revision {NEW}",
            "",
            id="old-revision",
        ),
        pytest.param({"state": "wrong", "revision": "", "image": ""}, "would get no proxy at all", "", id="no-proxy"),
        pytest.param({"image": "docker.io/istio/proxyv2:1.30.5"}, "whose istiod is 1.31.0", "", id="old-image"),
        pytest.param(
            {"state": "wrong", "who": "webhook rev.sidecar-injector.istio.io", "said": "x509: unknown"},
            "Istio's own injector failed",
            "",
            id="H08-injector-fails",
        ),
        pytest.param(
            {"state": "inconclusive", "who": "ResourceQuota q", "said": "exceeded quota: q"},
            "",
            "namespace shop: what a new pod would get is not proven: ResourceQuota q refused the dry run",
            id="quota",
        ),
    ],
)
def test_what_a_dry_run_of_a_bare_pod_means(more: Facts, error: str, warning: str) -> None:
    found = facts("after_canary")
    plan = planned(found)
    asked = following(found, plan, change(plan, "set_tag", "prod-stable"))
    proof = {"groups": [answered(asked["pods"][0], **more)], **TAGS}
    verdict = following_proof(proof, asked, expected_images(found))
    assert error in " ".join(verdict["errors"])
    assert bool(error) == bool(verdict["errors"])
    assert warning in " ".join(verdict["warnings"])
    assert bool(warning) == bool(verdict["warnings"])


def test_a_namespace_that_no_dry_run_covers_is_an_error() -> None:
    found = facts("after_canary")
    plan = planned(found)
    asked = following(found, plan, change(plan, "set_tag", "prod-stable"))
    assert "no dry run covers it" in following_proof({"groups": []}, asked, expected_images(found))["errors"][0]
