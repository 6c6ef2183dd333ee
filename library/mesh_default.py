#!/usr/bin/python
"""Prove that what follows the `default` tag has followed it: the validator at work, and the leader locks."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_default
short_description: Prove that the validator and the leader locks follow the default tag
description:
  - The validator is proven by two server-side dry runs, of a VirtualService that Istio must refuse and of one that it
    must accept. A dead one whose failure policy is Ignore accepts everything, so its mere presence proves nothing.
  - The leader locks that prefer the default revision must be held by it.
  - Waits a bounded time for both and changes nothing.
options:
  kubeconfig:
    description: Path of the kubeconfig; empty means the usual lookup.
    type: str
    default: ''
  context:
    description: Context of the kubeconfig; empty means the current one.
    type: str
    default: ''
  request_timeout:
    description: Seconds for one request.
    type: int
    default: 60
  istio_namespace:
    description: Namespace of the control planes.
    type: str
    default: istio-system
  revision:
    description: Revision that the default tag points to.
    type: str
    required: true
  timeout:
    description: Seconds to wait for.
    type: int
    default: 60
author: the project's contributors
"""

EXAMPLES = r"""
- name: Prove that the validator follows the default tag
  mesh_default:
    revision: 1-31-0
"""

RETURN = r"""
proof:
  description: What was seen, in words.
  returned: always
  type: list
  elements: str
"""

import json
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mesh_api import CONNECTION_SPEC, MeshApi, MeshApiError, Task, annotations_of, connected, meta

VALIDATORS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
# Prefers the default revision: pilot/pkg/leaderelection (1.24-1.31), its locks are ConfigMaps with this annotation.
LOCKS = ("istio-leader", "istio-namespace-controller-election")
LEADER = "control-plane.alpha.kubernetes.io/leader"


def virtual_service(version: str, host: str) -> dict[str, Any]:
    """Return a VirtualService; with host `*` the CRD's schema takes it and Istio refuses it.

    Source: pkg/config/validation/validation.go, "wildcard host * is not allowed for virtual services bound to the mesh
    gateway" (1.24-1.31).
    """
    return {
        "apiVersion": version,
        "kind": "VirtualService",
        "metadata": {"generateName": "istio-upgrade-dry-run-"},
        "spec": {"hosts": [host], "http": [{"route": [{"destination": {"host": "istio-upgrade.invalid"}}]}]},
    }


def served_version(api: MeshApi) -> str:
    """Return the preferred version of Istio's networking API.

    Raises:
        MeshApiError: the API is not there.
    """
    version: str = api.served("networking.istio.io")
    if version:
        return version
    raise MeshApiError(
        "The API networking.istio.io is not served: Istio's CRDs are missing. Next: install a control plane."
    )


def answers_left(api: MeshApi, istio: str) -> str:
    """Return what the validator answers wrongly, or ""."""
    version = served_version(api)
    path = f"/apis/{version}/namespaces/{istio}/virtualservices"
    try:
        api.request("POST", path, {"dryRun": "All"}, virtual_service(version, "*"))
        return "it accepted a VirtualService that Istio must refuse, so nobody validates"
    except MeshApiError as error:
        if "validation.istio.io" not in error.body or "denied the request" not in error.body:
            return f"the VirtualService it must refuse was refused by something else: {error.body or error}"
    try:
        api.request("POST", path, {"dryRun": "All"}, virtual_service(version, "istio-upgrade.invalid"))
    except MeshApiError as error:
        return f"it refused a good VirtualService: {error.body or error}"
    return ""


def validator_left(api: MeshApi, istio: str) -> str:
    """Return what is wrong with the default validator, or ""."""
    found = [v for v in api.list(VALIDATORS) if meta(v).get("name", "").startswith("istiod-default-validator")]
    if not found:
        return "there is no istiod-default-validator"
    for hook in found[0].get("webhooks") or []:
        if not (hook.get("clientConfig") or {}).get("caBundle"):
            return f"{meta(found[0])['name']} has no caBundle yet"
        if hook.get("failurePolicy") != "Fail":
            return (
                f"{meta(found[0])['name']} still has failurePolicy {hook.get('failurePolicy')}: it would let all pass"
            )
    return answers_left(api, istio)


def locks_left(api: MeshApi, istio: str, revision: str) -> str:
    """Return which leader lock is held by another revision, or "". A lock that was never made is nobody's."""
    for name in LOCKS:
        lock = api.get(f"/api/v1/namespaces/{istio}/configmaps/{name}")
        if lock is None:
            continue
        try:
            record = json.loads(annotations_of(lock).get(LEADER) or "{}")
        except json.JSONDecodeError:
            return f"leader lock {istio}/{name} holds no record"
        key = record.get("holderKey", "")
        if key and key != revision:
            return f"leader lock {istio}/{name} is held by {record.get('holderIdentity')} of revision {key}"
    return ""


def run(task: Task, api: MeshApi) -> dict[str, Any]:
    """Wait until both hold or the time is over."""
    options = task.params
    istio, revision = options["istio_namespace"], options["revision"]
    deadline = time.monotonic() + options["timeout"]
    while left := validator_left(api, istio) or locks_left(api, istio, revision):
        if time.monotonic() > deadline:
            raise MeshApiError(
                f"The default tag points to {revision}, but after {options['timeout']} s: {left}. Next: kubectl get "
                f"validatingwebhookconfiguration istiod-default-validator -o yaml; kubectl logs -n {istio} -l "
                f"istio.io/rev={revision},app=istiod."
            )
        time.sleep(1)
    proof = ["the default validator refused a bad VirtualService and accepted a good one"]
    return {"changed": False, "proof": [*proof, f"the leader locks of the default revision are held by {revision}"]}


SPEC: dict[str, Any] = CONNECTION_SPEC | {
    "istio_namespace": {"type": "str", "default": "istio-system"},
    "revision": {"type": "str", "required": True},
    "timeout": {"type": "int", "default": 60},
}


def main() -> None:
    """Entry point, where the task runs in a Python of its own (see action_plugins/in_process.py)."""
    connected(AnsibleModule(argument_spec=SPEC, supports_check_mode=True), run)


if __name__ == "__main__":
    main()
