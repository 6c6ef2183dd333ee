"""What is waited for after gateways went back in place, against an API that is only a dict."""

from __future__ import annotations

import copy
import importlib
from typing import Any

import pytest
from ansible.module_utils.mesh_api import MeshApiError

mesh_in_place = importlib.import_module("mesh_in_place")
OLD = "1-30-5"
GATEWAY = {"kind": "Deployment", "namespace": "istio-system", "name": "gateway"}
APP = {"app": "gateway"}
OBJECT = "/apis/apps/v1/namespaces/istio-system/deployments/gateway"
PODS, SERVICES = "/api/v1/namespaces/istio-system/pods", "/api/v1/namespaces/istio-system/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/istio-system/endpointslices"


def pod(image: str = "docker.io/istio/proxyv2:1.30.5", **meta: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "gateway-1", "labels": APP} | meta,
        "spec": {"containers": [{"name": "istio-proxy", "image": image}]},
    }


def world() -> dict[str, Any]:
    """Return a gateway that serves from the old revision."""
    deployment = {
        "metadata": {"name": "gateway", "generation": 2, "labels": {"istio.io/rev": OLD}},
        "spec": {"replicas": 1, "selector": {"matchLabels": APP}, "template": {"metadata": {"labels": APP}}},
        "status": {"observedGeneration": 2, "updatedReplicas": 1, "replicas": 1, "availableReplicas": 1},
    }
    service = {"metadata": {"name": "gateway"}, "spec": {"selector": APP, "clusterIP": "10.0.0.1"}}
    other = {"metadata": {"name": "istiod"}, "spec": {"selector": {"app": "istiod"}}}
    endpoints = {
        "metadata": {"labels": {"kubernetes.io/service-name": "gateway"}},
        "endpoints": [{"conditions": {"ready": True}}, {"conditions": {"ready": False}}],
    }
    return {OBJECT: deployment, PODS: [pod()], SERVICES: [service, other], SLICES: [endpoints]}


class FakeApi:
    """Answers from a dict."""

    def __init__(self, there: dict[str, Any]) -> None:
        self.there = there

    def get(self, path: str) -> Any:
        return self.there.get(path)

    def list(self, path: str, _selector: str = "") -> Any:
        return self.there[path]


class Task:
    """What the module asks of its task."""

    check_mode = False

    def __init__(self, **params: Any) -> None:
        self.params = {"objects": [GATEWAY], "revision": OLD, "tag": "1.30.5", "timeout": 0} | params


def test_a_gateway_that_serves() -> None:
    (row,) = mesh_in_place.run(Task(), FakeApi(world()))["rows"]
    assert row == {
        "object": "Deployment istio-system/gateway",
        "images": ["docker.io/istio/proxyv2:1.30.5"],
        "services": [{"name": "gateway", "ready": 1, "addresses": ["10.0.0.1"]}],
    }


def changed(path: str, value: Any, *keys: Any) -> dict[str, Any]:
    """Return the world with one value changed, or a whole path replaced."""
    there = copy.deepcopy(world())
    at: Any = there
    for key in (path, *keys)[:-1]:
        at = at[key]
    at[(path, *keys)[-1]] = value
    return there


@pytest.mark.parametrize(
    ("there", "why"),
    [
        pytest.param(changed(OBJECT, None), "it is gone", id="gone"),
        pytest.param(
            changed(OBJECT, "1-31-0", "metadata", "labels", "istio.io/rev"),
            "its revision is 1-31-0, expected 1-30-5",
            id="still-the-new-revision",
        ),
        pytest.param(
            changed(OBJECT, 1, "status", "observedGeneration"),
            "the controller has not seen the change yet",
            id="not-seen",
        ),
        pytest.param(changed(OBJECT, 0, "status", "updatedReplicas"), "0 of 1 pods are new", id="rolling"),
        pytest.param(
            changed(PODS, [pod(image="docker.io/istio/proxyv2:1.31.0")]),
            "its pods run docker.io/istio/proxyv2:1.31.0, expected the tag 1.30.5",
            id="other-image",
        ),
        pytest.param(changed(SLICES, []), "Service gateway has no ready endpoint", id="no-endpoint"),
        pytest.param(
            changed(SLICES, [{"conditions": {"ready": False}}], 0, "endpoints"),
            "Service gateway has no ready endpoint",
            id="endpoint-not-ready",
        ),
    ],
)
def test_a_gateway_that_does_not_serve(there: dict[str, Any], why: str) -> None:
    with pytest.raises(MeshApiError) as error:
        mesh_in_place.run(Task(), FakeApi(there))
    assert f"Deployment istio-system/gateway: {why}" in str(error.value)
    assert "Nothing was removed. Next:" in str(error.value)


def test_a_pod_on_its_way_out_does_not_count() -> None:
    leaving = pod(image="docker.io/istio/proxyv2:1.31.0", deletionTimestamp="2026-01-01T00:00:00Z")
    assert mesh_in_place.run(Task(), FakeApi(changed(PODS, [pod(), leaving])))["changed"] is False


def test_nothing_to_wait_for() -> None:
    assert mesh_in_place.run(Task(objects=[]), FakeApi({}))["rows"] == []
