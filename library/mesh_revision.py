#!/usr/bin/python
"""Wait until a revision's control plane really serves, or is really gone."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_revision
short_description: Wait for an Istio revision to be ready or gone
description:
  - C(ready) means that the istiod Deployment is complete, every entry of its injector has a CA bundle, and a pod
    created as a server-side dry run comes back with a proxy of this very revision.
  - C(absent) means that Deployment, pods, injector and validators of the revision are gone; istioctl returns earlier.
  - Changes nothing; waits.
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
    description: The revision; C(default) is the one installed without a revision.
    type: str
    required: true
  state:
    description: What to wait for.
    type: str
    choices: [ready, absent]
    default: ready
  timeout:
    description: Seconds to wait.
    type: int
    default: 300
author: the project's contributors
"""

EXAMPLES = r"""
- name: Wait for the new control plane
  mesh_revision:
    revision: 1-31-0
"""

RETURN = r"""
proxy_image:
  description: The proxy image that the dry-run pod got; empty when no namespace allowed the try.
  returned: state is ready
  type: str
proof:
  description: How readiness was proven, or why the dry run was inconclusive.
  returned: always
  type: str
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mesh_api import CONNECTION_SPEC, MeshApi, MeshApiError, Task, connected, labels, meta
from ansible.module_utils.mesh_rollout import STUCK, Move, rollout_left, warnings_of
from ansible.module_utils.mesh_rows import find_proxy, injected_revision, pod_row, webhook_row

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
# The injector leaves these alone (pkg/kube/inject/inject.go, IgnoredNamespaces).
NEVER_INJECTED = {"kube-system", "kube-public", "kube-node-lease", "local-path-storage"}


def of_revision(items: list[dict[str, Any]], revision: str) -> list[dict[str, Any]]:
    """Return the webhook rows that belong to a revision itself, not to a tag (case H09: by label, not by name)."""
    rows = [webhook_row(i) for i in items]
    return [r for r in rows if r["revision"] == revision and not r["tag"]]


def dry_run_pod(api: MeshApi, namespace: str, revision: str) -> dict[str, Any]:
    """Create a pod as a server-side dry run, asking for a revision by label; returns it as it would be stored."""
    asked = {"sidecar.istio.io/inject": "true"} if revision == "default" else {"istio.io/rev": revision}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "istio-upgrade-dry-run-", "labels": asked},
        "spec": {"containers": [{"name": "app", "image": "istio-upgrade/never-pulled"}]},
    }
    created: dict[str, Any] = api.request("POST", f"/api/v1/namespaces/{namespace}/pods", {"dryRun": "All"}, body)
    return created


def prove_injection(api: MeshApi, istio: str, revision: str) -> tuple[bool, str, str]:
    """Return (proven or inconclusive, proxy image, words).

    The pod label decides only in a namespace without injection labels, so the try is made in such a one.
    """
    refused = "no namespace without injection labels"
    found = api.list("/api/v1/namespaces")
    free = [
        meta(n)["name"]
        for n in found
        if not {"istio-injection", "istio.io/rev"} & set(labels(n)) and meta(n)["name"] not in NEVER_INJECTED
    ]
    for namespace in sorted(free, key=lambda n: (n != istio, n))[:3]:
        try:
            pod = dry_run_pod(api, namespace, revision)
        except MeshApiError as error:
            if "sidecar-injector.istio.io" in error.body or error.status in (0, 500):
                return False, "", f"the injector did not answer: {error.body or error}"
            refused = f"dry run in {namespace} refused by something else: {error.body}"
            continue
        proxy, _native = find_proxy(pod)
        if proxy is None:
            return False, "", f"a dry-run pod in {namespace} came back without a proxy"
        got = injected_revision(pod)
        if got != revision:
            return False, "", f"a dry-run pod in {namespace} was injected by {got!r}, expected {revision!r}"
        return True, str(proxy.get("image")), f"a dry-run pod in {namespace} was injected by {got}"
    return True, "", f"inconclusive: {refused}"


def not_ready(api: MeshApi, istio: str, revision: str) -> tuple[str, dict[str, Any]]:
    """Return (what is still missing or "", what was seen)."""
    selector = "app=istiod,istio.io/rev=" + revision
    deployments = api.list(f"/apis/apps/v1/namespaces/{istio}/deployments", selector)
    if len(deployments) != 1:
        return f"{len(deployments)} istiod Deployments of revision {revision}", {}
    left = rollout_left("Deployment", deployments[0])
    if left:
        pods = [pod_row(p) for p in api.list(f"/api/v1/namespaces/{istio}/pods", selector)]
        waiting = [f"pod {p['name']}: {p['waiting']}" for p in pods if p["waiting"].split(": ")[-1] in STUCK]
        return "; ".join([f"Deployment {meta(deployments[0])['name']}: {left}", *waiting]), {}
    injectors = of_revision(api.list(f"{ADMISSION}/mutatingwebhookconfigurations"), revision)
    if len(injectors) != 1:
        return f"{len(injectors)} injectors (MutatingWebhookConfigurations) of revision {revision}", {}
    if not all(e["ca"] for e in injectors[0]["entries"]):
        return f"injector {injectors[0]['name']} has no caBundle yet", {}
    if all(e["deactivated"] for e in injectors[0]["entries"]):
        return "", {"proxy_image": "", "proof": "inconclusive: its own injector is deactivated by the default tag"}
    proven, image, words = prove_injection(api, istio, revision)
    return ("" if proven else words), {"proxy_image": image, "proof": words}


def not_gone(api: MeshApi, istio: str, revision: str) -> tuple[str, dict[str, Any]]:
    """Return (what is still there or "", what was seen)."""
    selector = "app=istiod,istio.io/rev=" + revision
    left = [
        f"Deployment {meta(d)['name']}" for d in api.list(f"/apis/apps/v1/namespaces/{istio}/deployments", selector)
    ]
    left += [f"Pod {meta(p)['name']}" for p in api.list(f"/api/v1/namespaces/{istio}/pods", selector)]
    for plural, kind in (
        ("mutatingwebhookconfigurations", "injector"),
        ("validatingwebhookconfigurations", "validator"),
    ):
        left += [f"{kind} {r['name']}" for r in of_revision(api.list(f"{ADMISSION}/{plural}"), revision)]
    return ", ".join(left), {"proof": f"no Deployment, pod, injector or validator of revision {revision} is left"}


def said_about(api: MeshApi, istio: str, revision: str) -> str:
    """Return the newest warnings about a revision's istiod, as the end of a sentence, or "" (case F07)."""
    try:
        found = api.list(f"/apis/apps/v1/namespaces/{istio}/deployments", "app=istiod,istio.io/rev=" + revision)
        said = [line for d in found for line in warnings_of(api, Move("Deployment", istio, meta(d)["name"], revision))]
    except MeshApiError as error:  # what is missing must not get lost over its cause
        return f". Its events cannot be read: {error}"
    return f". Events: {' | '.join(said)}" if said else ""


def run(task: Task, api: MeshApi) -> dict[str, Any]:
    """Poll until the state holds or the time is over."""
    options = task.params
    look = not_ready if options["state"] == "ready" else not_gone
    deadline = time.monotonic() + options["timeout"]
    while True:
        missing, seen = look(api, options["istio_namespace"], options["revision"])
        if not missing:
            return {"changed": False, "revision": options["revision"], **seen}
        if time.monotonic() > deadline:
            if options["state"] == "ready":
                missing += said_about(api, options["istio_namespace"], options["revision"])
            raise MeshApiError(
                f"Revision {options['revision']} is not {options['state']} after {options['timeout']} s: {missing}. "
                f"Next: kubectl get deploy,pods,events -n {options['istio_namespace']}; nothing else was changed."
            )
        time.sleep(0.5)


SPEC: dict[str, Any] = CONNECTION_SPEC | {
    "istio_namespace": {"type": "str", "default": "istio-system"},
    "revision": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["ready", "absent"], "default": "ready"},
    "timeout": {"type": "int", "default": 300},
}


def main() -> None:
    """Entry point, where the task runs in a Python of its own (see action_plugins/in_process.py)."""
    connected(AnsibleModule(argument_spec=SPEC, supports_check_mode=True), run)


if __name__ == "__main__":
    main()
