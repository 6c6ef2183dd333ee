"""What a removal takes and leaves; the rows are those of the lab's own cluster."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from mesh_logic.removal import left, lost, takes_more, takes_words

OLD, NEW = "1-30-5", "1-31-0"


def row(kind: str, name: str, revision: str = OLD, component: str = "Pilot", tag: str = "") -> dict[str, str]:
    space = "" if kind.startswith(("Cluster", "Mutating", "Validating")) else "istio-system"
    return {
        "kind": kind,
        "namespace": space,
        "name": name,
        "revision": revision,
        "component": component,
        "tag": tag,
    }


def plane(revision: str) -> list[dict[str, str]]:
    """Return the objects of one control plane."""
    return [
        row("Deployment", f"istiod-{revision}", revision),
        row("Service", f"istiod-{revision}", revision),
        row("ServiceAccount", f"istiod-{revision}", revision),
        row("MutatingWebhookConfiguration", f"istio-sidecar-injector-{revision}", revision),
        row("ClusterRole", f"istiod-clusterrole-{revision}-istio-system", revision),
        row("Lease", f"istio-gateway-deployment-{revision}", "", ""),
    ]


def cluster() -> dict[str, Any]:
    """Return both control planes, the tags on the new one, and what is shared."""
    shared = [
        row("ServiceAccount", "istio-reader-service-account", NEW, "Base"),
        row("MutatingWebhookConfiguration", "istio-revision-tag-default", NEW, "Pilot", "default"),
        row("Service", "istiod-revision-tag-prod-stable", NEW, "", "prod-stable"),
    ]
    accounts = ["default", "istio-reader-service-account", f"istiod-{OLD}", f"istiod-{NEW}"]
    return {"objects": [*plane(OLD), *plane(NEW), *shared], "accounts": accounts, "rights": []}


def removed() -> dict[str, Any]:
    found = cluster()
    found["objects"] = [r for r in found["objects"] if r["revision"] != OLD]
    found["accounts"].remove(f"istiod-{OLD}")
    return found


def test_a_removal_takes_its_control_plane_and_no_more() -> None:
    words = takes_words(cluster()["objects"], OLD)
    assert len(words) == 5
    assert "Deployment istio-system/istiod-1-30-5" in words
    assert takes_more(cluster()["objects"], OLD) == []


@pytest.mark.parametrize(
    ("more", "words"),
    [
        pytest.param(row("DaemonSet", "istio-cni-node", OLD, "Cni"), "(Cni), and it is more", id="shared-cni"),
        pytest.param(row("DaemonSet", "ztunnel", OLD, "Ztunnel"), "(Ztunnel), and it is more", id="ztunnel"),
        pytest.param(row("Deployment", "istio-ingressgateway", OLD, "IngressGateways"), "more than", id="I08-gateway"),
        pytest.param(
            row("MutatingWebhookConfiguration", "istio-revision-tag-canary", OLD, "Pilot", "canary"),
            "tag canary), and it is more than a control plane. Next: move the tag first",
            id="I01-tag-of-a-chart",
        ),
    ],
)
def test_what_a_removal_may_not_take(more: dict[str, str], words: str) -> None:
    said = takes_more([*cluster()["objects"], more], OLD)
    assert len(said) == 1
    assert words in said[0]


def test_what_must_be_left_is_left() -> None:
    assert lost(cluster(), removed(), OLD) == []


@pytest.mark.parametrize("name", ["istio-reader-service-account", f"istiod-{NEW}"])
def test_a_shared_account_that_went_with_it_is_told(name: str) -> None:  # case I09
    after = removed()
    after["accounts"].remove(name)
    after["objects"] = [r for r in after["objects"] if (r["kind"], r["name"]) != ("ServiceAccount", name)]
    assert any(name in words for words in lost(cluster(), after, OLD))


def test_a_webhook_of_the_other_revision_that_went_with_it_is_told() -> None:
    after = removed()
    after["objects"] = [r for r in after["objects"] if r["name"] != f"istio-sidecar-injector-{NEW}"]
    assert lost(cluster(), after, OLD) == [f"MutatingWebhookConfiguration istio-sidecar-injector-{NEW}"]


def test_rights_that_the_remaining_istiod_lost_are_told() -> None:
    after = removed() | {"rights": ["istio-system/istiod-1-31-0 may not list pods"]}
    assert lost(cluster(), after, OLD) == ["istio-system/istiod-1-31-0 may not list pods"]
    assert lost(cluster(), removed() | {"rights": None}, OLD) == [], "what could not be asked is not lost"


def test_what_is_left_of_it() -> None:
    after = removed()
    assert left(after, OLD) == {"expected": ["Lease istio-system/istio-gateway-deployment-1-30-5"], "other": []}
    stale = copy.deepcopy(row("ValidatingWebhookConfiguration", "istio-validator-1-30-5-istio-system"))
    after["objects"] += [stale, row("ServiceAccount", "istio-reader-service-account", OLD, "Base")]
    found = left(after, OLD)
    assert found["other"] == ["ValidatingWebhookConfiguration istio-validator-1-30-5-istio-system"]  # cases H05, I11
    assert "ServiceAccount istio-system/istio-reader-service-account" in found["expected"]
