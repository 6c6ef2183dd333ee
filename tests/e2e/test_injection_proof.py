"""Dry runs against a real API server and a real injector: proven, wrong, and refused by everything that can refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mesh_logic.injection_proof import Expected, injection_proof

from tests.e2e.lab import KUBECONFIG, LAB_INVENTORY, ROOT, kubectl, lab_reset

pytestmark = [pytest.mark.lab, pytest.mark.more]

OLD = "1-30-5"
PIN = {"sidecar.istio.io/proxyImage": "docker.io/istio/proxyv2:1.29.0"}
IMAGES: dict[str, Expected] = {OLD: {"tag": "1.30.5", "repositories": ["istio/proxyv2"]}}
BOUND: dict[str, Any] = {"apiVersion": "admissionregistration.k8s.io/v1"}


def deployment(namespace: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a Deployment without pods: only its template is asked about."""
    labels = {"app": "web"}
    pod = {"containers": [{"name": "web", "image": "istio-upgrade/never-pulled"}]} | spec
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations or {}}, "spec": pod},
        },
    }


def namespace(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    wanted = {"istio.io/rev": "prod-stable", "proof": name} | (labels or {})
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": wanted}}


def inside(kind: str, namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "none", "namespace": namespace}, "spec": spec}


# The injector's own name with a webhook that trusts nobody: what an empty caBundle looks like (case H08).
NO_CA = BOUND | {
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "proof-ca"},
    "webhooks": [
        {
            "name": "rev.namespace.sidecar-injector.istio.io",
            "clientConfig": {"service": {"name": f"istiod-{OLD}", "namespace": "istio-system", "path": "/inject"}},
            "namespaceSelector": {"matchLabels": {"proof": "proof-ca"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}
POLICY = BOUND | {
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "proof-policy"},
    "spec": {
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"proof": "proof-policy"}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ],
        },
        "validations": [{"expression": "has(object.metadata.ownerReferences)", "message": "no bare pods"}],
    },
}
BINDING = BOUND | {
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "proof-policy"},
    "spec": {"policyName": "proof-policy", "validationActions": ["Deny"]},
}
OBJECTS: list[dict[str, Any]] = [
    NO_CA,
    POLICY,
    BINDING,
    namespace("proof-typo", {"istio.io/rev": "1-99-0"}),
    namespace("proof-quota"),
    namespace("proof-limits"),
    namespace("proof-security", {"pod-security.kubernetes.io/enforce": "restricted"}),
    namespace("proof-pinned"),
    namespace("proof-ca"),
    namespace("proof-policy"),
    namespace("proof-account"),
    inside("ResourceQuota", "proof-quota", {"hard": {"pods": "0"}}),
    inside("LimitRange", "proof-limits", {"limits": [{"type": "Container", "max": {"cpu": "1m"}}]}),
    deployment("proof-typo"),
    deployment("proof-quota"),
    deployment("proof-limits"),
    deployment("proof-security"),
    deployment("proof-pinned", PIN),
    deployment("proof-ca"),
    deployment("proof-policy"),
    deployment("proof-account", serviceAccountName="nobody"),
]
NAMESPACES = [o["metadata"]["name"] for o in OBJECTS if o["kind"] == "Namespace"]


@pytest.fixture(scope="module", autouse=True)
def objects(lab: None) -> Iterator[None]:
    """Everything wrong lies in namespaces of its own, so nothing of the lab is touched."""
    lab_reset()
    document = {"apiVersion": "v1", "kind": "List", "items": OBJECTS}
    kubectl("apply", "-f", "-", stdin=json.dumps(document))
    yield
    kubectl("delete", "--wait=true", "--ignore-not-found", "-f", "-", stdin=json.dumps(document))


def prove(workloads: list[dict[str, Any]], kubeconfig: Path = KUBECONFIG) -> dict[str, Any]:
    """Run the module as a task of its own, in check mode, and return its result."""
    options = {"kubeconfig": str(kubeconfig), "workloads": workloads, "patience": 3}
    done = subprocess.run(
        [
            *(str(Path(sys.executable).parent / "ansible"), "all", "-i", str(LAB_INVENTORY), "--check"),
            *("-m", "mesh_proof", "-a", json.dumps(options)),
        ],
        cwd=ROOT,
        env=os.environ
        | {
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    _head, arrow, body = done.stdout.partition("=> ")
    assert arrow, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(body)
    return found


def web(namespace: str) -> dict[str, Any]:
    return {"kind": "Deployment", "namespace": namespace, "name": "web", "revision": OLD}


def test_what_the_dry_runs_show() -> None:
    """Cases B05, D03, G08, H08: one task, one answer for each namespace, nothing stored."""
    workloads = [web(name) for name in ["shop", *NAMESPACES]]
    before = kubectl("get", "pods", "-A", "-o", "name")
    found = prove(workloads)
    assert found["changed"] is False
    groups = {g["namespace"]: g for g in found["groups"]}
    assert {name: g["state"] for name, g in groups.items()} == {
        "shop": "proven",
        "proof-typo": "wrong",
        "proof-quota": "inconclusive",
        "proof-limits": "inconclusive",
        "proof-security": "inconclusive",
        "proof-pinned": "proven",
        "proof-ca": "wrong",
        "proof-policy": "inconclusive",
        "proof-account": "inconclusive",
    }, json.dumps(groups, indent=1)
    assert (groups["shop"]["image"], groups["shop"]["native"]) == ("docker.io/istio/proxyv2:1.30.5", True)
    assert groups["shop"]["settings"]
    assert {name: g["who"] for name, g in groups.items() if g["state"] == "inconclusive"} == {
        "proof-quota": "ResourceQuota none",
        "proof-limits": "LimitRange",
        "proof-security": "PodSecurity restricted:latest",
        "proof-policy": "ValidatingAdmissionPolicy proof-policy",
        "proof-account": "service account proof-account/nobody",
    }
    assert kubectl("get", "pods", "-A", "-o", "name") == before

    verdict = injection_proof(found, workloads, IMAGES)
    errors = {text.split("/")[0].removeprefix("Deployment "): text for text in verdict["errors"]}
    assert set(errors) == {"proof-typo", "proof-pinned", "proof-ca"}
    assert "would get no proxy at all" in errors["proof-typo"]
    assert 'no tag and no revision is called "1-99-0"' in errors["proof-typo"]
    assert "its proxy image is pinned" in errors["proof-pinned"]
    assert "caBundle" in errors["proof-ca"]
    assert sorted(w["namespace"] for w in verdict["first"]) == [
        "proof-account",
        "proof-limits",
        "proof-policy",
        "proof-quota",
        "proof-security",
    ]


def test_an_account_that_may_only_look(tmp_path: Path) -> None:
    """The missing right is named; it is not taken for a refusal of the pod."""
    binding = ("clusterrolebinding", "proof-view", "--clusterrole=view", "--serviceaccount=proof-typo:default")
    kubectl("create", *binding)
    try:
        config = json.loads(kubectl("config", "view", "--raw", "--flatten", "-o", "json"))
        config["users"][0]["user"] = {"token": kubectl("create", "token", "default", "-n", "proof-typo").strip()}
        path = tmp_path / "kubeconfig"
        path.touch(0o600)
        path.write_text(json.dumps(config), encoding="utf-8")
        found = prove([web("shop")], path)
    finally:
        kubectl("delete", "clusterrolebinding", "proof-view")
    assert "groups" not in found
    assert "this account may not create pods in namespace shop" in found["msg"]
