"""What an install is given: tag, document, prune selector; and what the file renders."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from mesh_logic import install
from mesh_logic.errors import MeshError

from tests.unit.mesh_stages import NEW, OPERATOR, facts, wants


def running(image: str) -> dict[str, Any]:
    found = facts("start")
    found["control_planes"][0]["image"] = image
    return found


@pytest.mark.parametrize(
    ("image", "given", "tag"),
    [
        pytest.param("docker.io/istio/pilot:1.30.5", "", "1.31.0", id="plain"),
        pytest.param("docker.io/istio/pilot:1.30.5-distroless", "", "1.31.0-distroless", id="variant-kept"),
        pytest.param("hub.example/pilot:1.30.5-corp.2-distroless", "", "1.31.0-corp.2-distroless", id="vendor-kept"),
        pytest.param("hub.example/pilot:latest", "", "1.31.0", id="A08-latest"),
        pytest.param("docker.io/istio/pilot:1.30.5-distroless", "1.31.0", "1.31.0", id="given"),
    ],
)
def test_target_tag(image: str, given: str, tag: str) -> None:
    assert install.target_tag(running(image), wants(mesh_to_tag=given)) == tag


def test_revision_tag() -> None:
    assert install.revision_tag(facts("after_install"), NEW) == "1.31.0"
    assert install.revision_tag(facts("start"), NEW) == ""


def test_the_document_of_an_install() -> None:
    found = install.install_document(facts("start"), wants(), OPERATOR)
    spec = yaml.safe_load(found["text"])["spec"]
    assert spec == {"hub": "docker.io/istio", "profile": "minimal", "revision": NEW, "tag": "1.31.0"}
    assert found["overlaid"] == ['spec.revision set to "1-31-0"', 'spec.tag set to "1.31.0"']
    assert found["owner"] == "control-plane"


@pytest.mark.parametrize(
    ("more", "image", "hub"),
    [
        pytest.param("", "registry.example:5000/istio/pilot:1.30.5", "registry.example:5000/istio", id="mirror"),
        pytest.param("  hub: docker.io/istio\n", "mirror.example/pilot:1.30.5", "docker.io/istio", id="own-hub"),
        pytest.param("  values: {global: {hub: a.example}}\n", "mirror.example/pilot:1.30.5", None, id="hub-in-values"),
        pytest.param("", "mirror.example/other:1.30.5", None, id="renamed-image"),
    ],
)
def test_the_registry_of_the_old_istiod_is_kept(more: str, image: str, hub: str | None) -> None:
    text = OPERATOR.replace("  hub: docker.io/istio\n", more)
    found = install.install_document(running(image), wants(), text)
    assert yaml.safe_load(found["text"])["spec"].get("hub") == hub
    assert any(note.startswith("spec.hub") for note in found["overlaid"]) is (not more and hub is not None)


def test_a_foreign_revision_is_refused_here_too() -> None:
    with pytest.raises(MeshError, match="neither the old nor the new"):
        install.install_document(facts("start"), wants(), OPERATOR + "  revision: 1-29-0\n")


def test_prune_selector() -> None:
    """An installer's own default tag carries the labels of the revision, and one that spares it."""
    base = (
        "operator.istio.io/component,install.operator.istio.io/owning-resource-not-pruned!=true,"
        f"operator.istio.io/managed=Reconcile,operator.istio.io/version=1.31.0,istio.io/rev={NEW}"
    )
    assert install.prune_selector(wants(), "") == base
    assert install.prune_selector(wants(), "control-plane") == (
        f"{base},install.operator.istio.io/owning-resource=control-plane"
    )


RENDERED = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: istiod-1-31-0, namespace: istio-system}
---
# only a comment
---
kind: ClusterRole
metadata: {name: reader}
---
kind: Deployment
metadata: {name: istio-ingressgateway, namespace: istio-system}
"""


def test_rendered_objects_and_gateways() -> None:
    found = install.rendered_objects(RENDERED)
    assert found == [
        {"kind": "Deployment", "namespace": "istio-system", "name": "istiod-1-31-0"},
        {"kind": "ClusterRole", "namespace": "", "name": "reader"},
        {"kind": "Deployment", "namespace": "istio-system", "name": "istio-ingressgateway"},
    ]
    assert install.gateways_rendered(found) == ["Deployment istio-system/istio-ingressgateway"]  # case F13


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("", "rendered no object", id="empty"),
        pytest.param("---\n---\n", "rendered no object", id="separators"),
        pytest.param("a: [b", "not YAML", id="broken"),
    ],
)
def test_an_error_is_never_an_empty_list(text: str, why: str) -> None:
    with pytest.raises(MeshError, match=why):
        install.rendered_objects(text)


def test_owner_name() -> None:
    assert install.owner_name({"metadata": {"name": "x"}}) == "x"
    assert install.owner_name({"metadata": None}) == ""
