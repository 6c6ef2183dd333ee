#!/usr/bin/python
"""Wait until gateways and node agents that an install changed in place serve again, from one revision."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_in_place
short_description: Wait until gateways and node agents serve from one revision
description:
  - For each Deployment or DaemonSet - its label says the revision, its rollout is complete, its pods that are not on
    their way out run the expected image tag, and every Service that selects them has a ready endpoint.
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
  objects:
    description: Kind, namespace and name of each; other keys are ignored.
    type: list
    elements: dict
    default: []
  revision:
    description: Revision whose istiod they must belong to.
    type: str
    required: true
  tag:
    description: Image tag that their pods must run; empty asks for none.
    type: str
    default: ''
  timeout:
    description: Seconds to wait for all of them.
    type: int
    default: 300
author: the project's contributors
"""

EXAMPLES = r"""
- name: Wait until the gateway is back
  mesh_in_place:
    objects:
      - {kind: Deployment, namespace: istio-system, name: istio-ingressgateway}
    revision: 1-30-5
    tag: 1.30.5
"""

RETURN = r"""
rows:
  description: Object, images, pods, and its Services with their ready endpoints and addresses.
  returned: always
  type: list
  elements: dict
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mesh_api import CONNECTION_SPEC, MeshApi, MeshApiError, Task, connected, labels, meta
from ansible.module_utils.mesh_rollout import PLURALS, rollout_left
from ansible.module_utils.mesh_rows import find_proxy, template_of

SERVICE_NAME = "kubernetes.io/service-name"


def image_of(pod: dict[str, Any]) -> str:
    """Return the image of the proxy, or of the first container where there is none (a node agent)."""
    proxy, _native = find_proxy(pod)
    containers = (pod.get("spec") or {}).get("containers") or [{}]
    return str((proxy or containers[0]).get("image") or "")


def selected_by(services: list[dict[str, Any]], template: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the Services whose selector takes the pods of a template."""
    there = labels(template).items()
    found = []
    for service in services:
        selector = (service.get("spec") or {}).get("selector") or {}
        if selector and selector.items() <= there:
            found.append(service)
    return found


def ready_endpoints(slices: list[dict[str, Any]], service: str) -> int:
    """Return how many ready endpoints a Service has; a condition that is not told counts as ready."""
    return sum(
        1
        for item in slices
        if labels(item).get(SERVICE_NAME) == service
        for endpoint in item.get("endpoints") or []
        if (endpoint.get("conditions") or {}).get("ready") is not False
    )


def service_row(service: dict[str, Any], slices: list[dict[str, Any]]) -> dict[str, Any]:
    """Return name, ready endpoints, and the addresses that must not change meanwhile."""
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    addresses = [str(i.get("ip") or i.get("hostname")) for i in ingress]
    name = meta(service)["name"]
    return {
        "name": name,
        "ready": ready_endpoints(slices, name),
        "addresses": [str((service.get("spec") or {}).get("clusterIP") or ""), *addresses],
    }


def live_pods(api: MeshApi, item: dict[str, Any], namespace: str) -> list[dict[str, Any]]:
    """Return the pods of a workload that are not on their way out."""
    wanted = ((item.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    selector = ",".join(f"{key}={value}" for key, value in sorted(wanted.items()))
    found = api.list(f"/api/v1/namespaces/{namespace}/pods", selector)
    return [pod for pod in found if not meta(pod).get("deletionTimestamp")]


def look(api: MeshApi, row: dict[str, Any], revision: str, tag: str) -> tuple[str, dict[str, Any]]:
    """Return (what is still missing or "", what was seen) of one workload."""
    kind, namespace, name = row["kind"], row["namespace"], row["name"]
    item = api.get(f"/apis/apps/v1/namespaces/{namespace}/{PLURALS[kind]}/{name}")
    if item is None:
        return "it is gone", {}
    has = labels(item).get("istio.io/rev", "")
    if has != revision:
        return f"its revision is {has or 'none'}, expected {revision}", {}
    if left := rollout_left(kind, item):
        return left, {}
    images = sorted({image_of(p) for p in live_pods(api, item, namespace)})
    if wrong := [image for image in images if tag and image.rsplit(":", 1)[-1] != tag]:
        return f"its pods run {', '.join(wrong)}, expected the tag {tag}", {}
    services = selected_by(api.list(f"/api/v1/namespaces/{namespace}/services"), template_of(item))
    slices = api.list(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices") if services else []
    seen = [service_row(service, slices) for service in services]
    if images and (empty := [s["name"] for s in seen if not s["ready"]]):
        return f"Service {', '.join(empty)} has no ready endpoint", {}
    return "", {"object": f"{kind} {namespace}/{name}", "images": images, "services": seen}


def run(task: Task, api: MeshApi) -> dict[str, Any]:
    """Poll until all of them serve or the time is over."""
    options = task.params
    deadline = time.monotonic() + options["timeout"]
    while True:
        looks = [(row, *look(api, row, options["revision"], options["tag"])) for row in options["objects"]]
        missing = [f"{row['kind']} {row['namespace']}/{row['name']}: {why}" for row, why, _seen in looks if why]
        if not missing:
            return {"changed": False, "rows": [seen for _row, _why, seen in looks]}
        if time.monotonic() > deadline:
            raise MeshApiError(
                f"Not everything serves from {options['revision']} after {options['timeout']} s: {'; '.join(missing)}. "
                "Nothing was removed. Next: kubectl describe it; its pods' events say why."
            )
        time.sleep(1)


SPEC: dict[str, Any] = CONNECTION_SPEC | {
    "objects": {"type": "list", "elements": "dict", "default": []},
    "revision": {"type": "str", "required": True},
    "tag": {"type": "str", "default": ""},
    "timeout": {"type": "int", "default": 300},
}


def main() -> None:
    """Entry point, where the task runs in a Python of its own (see action_plugins/in_process.py)."""
    connected(AnsibleModule(argument_spec=SPEC, supports_check_mode=True), run)


if __name__ == "__main__":
    main()
