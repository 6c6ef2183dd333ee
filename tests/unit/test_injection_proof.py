"""What the dry runs mean: go, stop, or one workload first."""

from __future__ import annotations

from typing import Any

import pytest
from mesh_logic.injection_proof import Expected, expected_images, injection_proof

from tests.unit.mesh_stages import NEW, OLD, facts, workload

IMAGE = "docker.io/istio/proxyv2:1.31.0"
OLD_IMAGE = "docker.io/istio/proxyv2:1.30.5"
WEB = {"kind": "Deployment", "namespace": "shop", "name": "web", "revision": NEW}
IMAGES: dict[str, Expected] = {
    NEW: {"tag": "1.31.0", "repositories": ["istio/proxyv2"]},
    OLD: {"tag": "1.30.5", "repositories": ["istio/proxyv2"]},
}


def group(*covers: str, **found: Any) -> dict[str, Any]:
    """Return a group as `mesh_proof` gives it: proven, unless told otherwise."""
    members = list(covers) or ["Deployment shop/web"]
    row = {
        "namespace": "shop",
        "representative": members[0],
        "covers": members,
        "state": "proven",
        "revision": NEW,
        "image": IMAGE,
        "native": True,
        "settings": "",
        "who": "",
        "said": "",
        "pinned": "",
        "own_proxy": "",
        "labels": {},
        "annotations": {},
        "host_network": False,
        "namespace_labels": {"istio.io/rev": NEW},
    }
    return row | found


def proof(*groups: dict[str, Any], **more: Any) -> dict[str, Any]:
    found = {
        "groups": list(groups),
        "tags": {"default": OLD, "prod-stable": OLD},
        "revisions": [OLD, NEW],
        "context_error": "",
        "not_asked": [],
    }
    return found | more


def test_what_is_proven_goes_on() -> None:
    found = injection_proof(proof(group()), [WEB], IMAGES)
    assert found == {"errors": [], "first": [], "warnings": []}


INJECTOR = "webhook rev.namespace.sidecar-injector.istio.io"
BAD_CA = "failed calling webhook: tls: failed to verify certificate: x509: certificate signed by unknown authority"
PINNED = {"pinned": OLD_IMAGE, "image": OLD_IMAGE}
NOTHING = {"state": "wrong", "revision": "", "image": ""}
BY_OLD = {"state": "wrong", "revision": OLD, "image": OLD_IMAGE}

# id, what the dry run found, parts of the message
WRONG: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "D01-both-labels",
        BY_OLD | {"namespace_labels": {"istio-injection": "enabled", "istio.io/rev": NEW}},
        [
            f"injected by revision {OLD}, expected revision {NEW}",
            f"tag default points to {OLD}",
            f"namespace label istio.io/rev={NEW} is ignored because of istio-injection=enabled; remove",
            "kubectl get namespace shop --show-labels",
        ],
    ),
    (
        "D03-namespace-beats-pod",
        BY_OLD | {"namespace_labels": {"istio.io/rev": OLD}, "labels": {"istio.io/rev": NEW}},
        [f"namespace label istio.io/rev={OLD} wins; change the namespace label"],
    ),
    (
        "D03-prediction-against-truth",
        BY_OLD | {"namespace_labels": {"istio.io/rev": NEW}},
        [
            f"the labels predict revision {NEW}, the dry run shows otherwise",
            f"mutatingwebhookconfigurations -l istio.io/rev={NEW}",
        ],
    ),
    (
        "no-such-revision",
        NOTHING | {"namespace_labels": {"istio.io/rev": "1-99-0"}},
        ["would get no proxy at all", 'no tag and no revision is called "1-99-0"'],
    ),
    (
        "D04-annotation",
        NOTHING | {"namespace_labels": {}, "annotations": {"istio.io/rev": NEW}},
        ["neither namespace nor pod asks for injection", f"annotation istio.io/rev={NEW} selects nothing"],
    ),
    (
        "D05-bad-value",
        NOTHING | {"namespace_labels": {"istio-injection": "true"}},
        ["neither enabled nor disabled", "would get no proxy at all"],
    ),
    ("B08-host-network", NOTHING | {"host_network": True}, ["the pod uses the host network"]),
    (
        "B07-placeholder",
        NOTHING | {"image": "auto", "own_proxy": "auto", "namespace_labels": {}},
        ["would keep the placeholder image auto"],
    ),
    (
        "placeholder-although-injected",
        {"state": "wrong", "image": "auto", "own_proxy": "auto"},
        ["would keep the placeholder image auto"],
    ),
    (
        "manual-injection",
        BY_OLD | {"own_proxy": OLD_IMAGE},
        ["the template itself holds a container istio-proxy", "istioctl kube-inject"],
    ),
    (
        "F06-injector-dead",
        NOTHING | {"who": INJECTOR, "said": "failed calling webhook: context deadline exceeded"},
        [INJECTOR, "also when asked again", "context deadline exceeded", "kubectl get pods -A -l app=istiod"],
    ),
    (
        "H08-empty-ca-bundle",
        NOTHING | {"who": INJECTOR, "said": BAD_CA},
        ["caBundle of the webhook is empty or of another CA", "clientConfig.caBundle", "GitOps"],
    ),
    (
        "B05-pinned",
        PINNED,
        ["its proxy image is pinned", f"holds {OLD_IMAGE}", "expected 1.31.0, found 1.30.5", "at its source"],
    ),
    (
        "B06-pin-that-the-template-ignores",
        {"pinned": IMAGE, "image": OLD_IMAGE},
        [f"a new pod would run {OLD_IMAGE}, injected by {NEW}", "values.global.proxy.image"],
    ),
    ("wrong-version", {"image": OLD_IMAGE}, [f"a new pod would run {OLD_IMAGE}", "versions differ"]),
    (
        "F10-old-hub",
        {"image": "reg.example/ns/proxyv2:1.31.0"},
        ["from repository reg.example/ns/proxyv2, expected istio/proxyv2", "look at hub"],
    ),
    ("A12-invalid", {"image": "hub.example/hub.example/p:1:2"}, ["not a valid image reference", "Deployment shop/web"]),
]


@pytest.mark.parametrize(("found", "parts"), [pytest.param(*r[1:], id=r[0]) for r in WRONG])
def test_what_is_wrong_stops_before_any_restart(found: dict[str, Any], parts: list[str]) -> None:
    verdict = injection_proof(proof(group(**found)), [WEB], IMAGES)
    (error,) = verdict["errors"]
    assert [part for part in [*parts, "Deployment shop/web", "Next: "] if part not in error] == []
    assert verdict["first"] == []
    assert "\n" not in error


# id, what the dry run found, a part of the warning
FINE: list[tuple[str, dict[str, Any], str]] = [
    ("A11-no-version", {"image": "mirror.example/proxy:to-use-in-prod", "pinned": ""}, "version unknown"),
    ("A11-digest", {"image": f"istio/proxyv2@sha256:{'a' * 64}"}, "version unknown"),
    ("pinned-to-the-right-one", {"image": "x.example/p:1.31.0", "pinned": "x.example/p:1.31.0"}, "pinned to x.example"),
    ("variant", {"image": "istio/proxyv2:1.31.0-distroless"}, ""),
    ("short-name-of-the-same-hub", {"image": "istio/proxyv2:1.31.0"}, ""),
]


@pytest.mark.parametrize(("found", "word"), [pytest.param(*r[1:], id=r[0]) for r in FINE])
def test_what_may_go_on_with_a_word(found: dict[str, Any], word: str) -> None:
    images: dict[str, Expected] = (
        IMAGES if "mirror" not in found["image"] else {NEW: {"tag": "1.31.0", "repositories": []}}
    )
    verdict = injection_proof(proof(group(**found)), [WEB], images)
    assert verdict["errors"] == []
    assert len(verdict["warnings"]) == bool(word)
    assert word in " ".join(verdict["warnings"])


def test_a_revision_whose_own_version_is_unknown_is_a_warning() -> None:  # case A11
    verdict = injection_proof(proof(group()), [WEB], {NEW: {"tag": "", "repositories": []}})
    assert (verdict["errors"], len(verdict["warnings"])) == ([], 1)


def test_what_is_inconclusive_goes_first_and_alone() -> None:
    api = WEB | {"name": "api"}
    quota = group("Deployment shop/api", "Deployment shop/web", state="inconclusive", who="ResourceQuota q", said="no")
    verdict = injection_proof(proof(quota), [WEB, api], IMAGES)
    assert verdict["errors"] == []
    assert verdict["first"] == [api]
    assert "Deployment shop/api and 1 like it in namespace shop" in verdict["warnings"][0]
    assert "inconclusive: ResourceQuota q" in verdict["warnings"][0]


def test_a_workload_that_nothing_covers_is_an_error() -> None:
    api = WEB | {"name": "api"}
    (error,) = injection_proof(proof(group()), [WEB, api], IMAGES)["errors"]
    assert error.startswith("Deployment shop/api: no dry run covers it")
    dead = group(**NOTHING, who=INJECTOR, said="gone")
    (error,) = injection_proof(proof(dead, not_asked=["Deployment shop/api"]), [WEB, api], IMAGES)["errors"]
    assert "gone" in error


def test_a_covered_workload_that_expects_another_revision_is_seen() -> None:
    api = WEB | {"name": "api", "revision": OLD}
    both = group("Deployment shop/web", "Deployment shop/api")
    (error,) = injection_proof(proof(both), [WEB, api], IMAGES)["errors"]
    assert f"expected revision {OLD}" in error


def test_labels_that_could_not_be_read_are_not_guessed() -> None:
    (error,) = injection_proof(proof(group(**NOTHING), context_error="HTTP 403"), [WEB], IMAGES)["errors"]
    assert "the labels that decide could not be read (HTTP 403)" in error


def test_a_hundred_wrong_groups_do_not_fill_the_screen() -> None:
    names = [f"w{n}" for n in range(100)]
    groups = [group(f"Deployment shop/{n}", **NOTHING) for n in names]
    errors = injection_proof(proof(*groups), [WEB | {"name": n} for n in names], IMAGES)["errors"]
    assert (len(errors), errors[-1]) == (11, "90 more groups of workloads are wrong as well")


# --- what is expected of a revision's proxies ---------------------------------------------------------------


def test_expected_images_come_from_istiod() -> None:
    assert expected_images(facts("after_install")) == IMAGES


def test_a_mesh_that_takes_its_proxies_from_elsewhere_is_known_by_its_running_ones() -> None:
    found = facts("after_install")
    row = workload(found, "web")
    row["proxies"][0]["image"] = "mirror.example/mesh/pxy:1.30.5"
    assert expected_images(found)[NEW]["repositories"] == ["istio/proxyv2", "mirror.example/mesh/pxy"]
    row["template_annotations"]["sidecar.istio.io/proxyImage"] = "mirror.example/mesh/pxy:1.30.5"
    assert expected_images(found)[NEW]["repositories"] == ["istio/proxyv2"], "a pin says nothing about the mesh"


def test_after_a_change_of_the_hub_the_old_one_is_not_expected() -> None:  # case F10
    found = facts("after_install")
    for plane in found["control_planes"]:
        if plane["revision"] == NEW:
            plane["image"] = "reg.example/pilot:1.31.0"
    assert expected_images(found)[NEW] == {"tag": "1.31.0", "repositories": ["reg.example/proxyv2"]}
    assert expected_images(found)[OLD]["repositories"] == ["istio/proxyv2"]


def test_a_control_plane_of_another_name_says_nothing_about_repositories() -> None:
    found = facts("start")
    found["control_planes"][0]["image"] = "vendor.example/mesh-control:1.30.5"
    assert expected_images(found)[OLD] == {"tag": "1.30.5", "repositories": []}
