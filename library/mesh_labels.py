#!/usr/bin/python
"""Set or remove labels of one existing namespace, and read them back."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_labels
short_description: Set the injection labels of a namespace
description:
  - Patches labels of a namespace that exists; never creates one (cases D09 and D11).
  - A null value removes the label. The result is read back and compared.
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
  namespace:
    description: Name of the namespace.
    type: str
    required: true
  labels:
    description: Label keys with their wanted values; null removes the key.
    type: dict
    required: true
author: the project's contributors
"""

EXAMPLES = r"""
- name: Point the canary namespace at the new revision
  mesh_labels:
    namespace: canary
    labels:
      istio-injection: null
      istio.io/rev: 1-31-0
"""

RETURN = r"""
before:
  description: Values of the named labels before, null where absent.
  returned: always
  type: dict
after:
  description: Values of the named labels after, null where absent; in check mode what they would be.
  returned: always
  type: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mesh_api import CONNECTION_SPEC, MeshApi, MeshApiError, Task, connected, labels


def run(task: Task, api: MeshApi) -> dict[str, Any]:
    """Patch what differs and read it back."""
    name, wanted = task.params["namespace"], task.params["labels"]
    path = f"/api/v1/namespaces/{name}"
    found = api.get(path)
    if found is None:
        raise MeshApiError(
            f"Namespace {name!r} does not exist, so its labels cannot be set; nothing was created. "
            "Next: check the spelling in mesh_canary_namespaces."
        )
    before = {key: labels(found).get(key) for key in wanted}
    result = {"namespace": name, "before": before, "after": dict(wanted), "changed": before != wanted}
    result["diff"] = {"before": before, "after": dict(wanted)}
    if not result["changed"] or task.check_mode:
        return result
    api.merge_patch(path, {"metadata": {"labels": wanted}})
    again = labels(api.get(path) or {})
    result["after"] = {key: again.get(key) for key in wanted}
    if result["after"] != wanted:
        raise MeshApiError(
            f"Namespace {name!r} has the labels {result['after']} although {wanted} was set: something reverts them, "
            "such as a GitOps controller. Next: change them at its source, then run again."
        )
    return result


SPEC: dict[str, Any] = CONNECTION_SPEC | {
    "namespace": {"type": "str", "required": True},
    "labels": {"type": "dict", "required": True},
}


def main() -> None:
    """Entry point, where the task runs in a Python of its own (see action_plugins/in_process.py)."""
    connected(AnsibleModule(argument_spec=SPEC, supports_check_mode=True), run)


if __name__ == "__main__":
    main()
