#!/usr/bin/python
"""Read the objects that hold the settings of one Istio revision: mesh config, injector values, istiod and its HPA."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_settings
short_description: Read what holds the settings of one Istio revision
description:
  - Returns the few objects of one control plane that settings can be read from, shortened to those parts.
  - Gives no meaning to what it reads; the filters of this project do.
  - The mesh ConfigMap and the istiod Deployment must be there, a missing one is a failure. An injector ConfigMap,
    a ConfigMap with the Helm values (Istio writes one since 1.26), an autoscaler or a disruption budget may be absent.
  - Never changes anything.
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
  other_components:
    description: Also list gateways and node agents that istioctl installed; they are not part of a revision.
    type: bool
    default: false
author: the project's contributors
"""

EXAMPLES = r"""
- name: Read the settings of the running revision
  mesh_settings:
    revision: 1-30-5
"""

RETURN = r"""
revision:
  description: The revision that was read.
  returned: always
  type: str
objects:
  description: Kind, namespace, name, labels and the parts of each object that hold settings.
  returned: always
  type: list
  elements: dict
others:
  description: Kind, namespace and name of gateways and node agents, as text.
  returned: other_components is true
  type: list
  elements: str
requests:
  description: Number of API requests made.
  returned: always
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mesh_api import CONNECTION_SPEC, MeshApi, MeshApiError, Task, connected, labels, meta

# ConfigMap (before the revision's suffix) -> the keys that hold settings; the injection templates are left out
CONFIG_MAPS = {
    "istio": ("mesh", "meshNetworks"),
    "istio-sidecar-injector": ("values",),
    "values": ("original-values", "merged-values"),
}
BESIDE = {
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
}


def reduced(kind: str, item: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """Return an object with what identifies it and the given parts only."""
    found = {"namespace": meta(item).get("namespace", ""), "name": meta(item).get("name", ""), "labels": labels(item)}
    return {"kind": kind, "metadata": found, **parts}


def read_config_maps(api: MeshApi, istio: str, suffix: str) -> list[dict[str, Any]]:
    """Return the ConfigMaps of a revision; only the mesh ConfigMap has to be there."""
    found = []
    for base, keys in CONFIG_MAPS.items():
        name = base + suffix
        item = api.get(f"/api/v1/namespaces/{istio}/configmaps/{name}")
        if item is None and base == "istio":
            raise MeshApiError(
                f"ConfigMap {istio}/{name} does not exist, so the mesh config of that revision cannot be read; nothing "
                f"was assumed. Next: kubectl get configmaps -n {istio} -l istio.io/rev; check mesh_from_revision."
            )
        if item is not None:
            data = item.get("data") or {}
            found.append(reduced("ConfigMap", item, data={key: data[key] for key in keys if key in data}))
    return found


def read_deployment(api: MeshApi, istio: str, suffix: str) -> dict[str, Any]:
    """Return the istiod Deployment of a revision."""
    item = api.get(f"/apis/apps/v1/namespaces/{istio}/deployments/istiod{suffix}")
    if item is None:
        raise MeshApiError(
            f"Deployment {istio}/istiod{suffix} does not exist, so its settings cannot be read. Next: kubectl get "
            f"deployments -n {istio} -l app=istiod; check mesh_from_revision."
        )
    return reduced("Deployment", item, spec=item.get("spec") or {})


def read_others(api: MeshApi) -> list[str]:
    """List what else istioctl installed: workloads of other components than Pilot."""
    selector = "operator.istio.io/component,operator.istio.io/component!=Pilot"
    return [
        f"{kind} {meta(item).get('namespace')}/{meta(item).get('name')}"
        for kind, plural in (("Deployment", "deployments"), ("DaemonSet", "daemonsets"))
        for item in api.list(f"/apis/apps/v1/{plural}", selector, metadata_only=True)
    ]


def run(task: Task, api: MeshApi) -> dict[str, Any]:
    """Read the objects of one revision in six requests."""
    istio, revision = task.params["istio_namespace"], task.params["revision"]
    suffix = "" if revision in ("", "default") else f"-{revision}"
    objects = [*read_config_maps(api, istio, suffix), read_deployment(api, istio, suffix)]
    for kind, path in BESIDE.items():
        objects += [
            reduced(kind, item, spec=item.get("spec") or {})
            for item in api.list(path.format(istio))
            if meta(item).get("name") == f"istiod{suffix}"
        ]
    found: dict[str, Any] = {"changed": False, "revision": revision or "default", "objects": objects}
    # variables and the mesh config may hold secrets: not even -v prints them
    found["_ansible_verbose_override"] = True
    if task.params["other_components"]:
        found["others"] = read_others(api)
    return found | {"requests": api.requests}


SPEC: dict[str, Any] = CONNECTION_SPEC | {
    "istio_namespace": {"type": "str", "default": "istio-system"},
    "revision": {"type": "str", "required": True},
    "other_components": {"type": "bool", "default": False},
}


def main() -> None:
    """Entry point, where the task runs in a Python of its own (see action_plugins/in_process.py)."""
    connected(AnsibleModule(argument_spec=SPEC, supports_check_mode=True), run)


if __name__ == "__main__":
    main()
