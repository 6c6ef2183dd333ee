#!/usr/bin/python
"""List the objects of Istio's revisions, and ask whether an istiod's account still has its rights."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_objects
short_description: List the objects of Istio's revisions
description:
  - Lists every object that carries the label C(istio.io/rev), and the leader locks that carry a revision in their name.
  - Asks with access reviews whether the account of one revision's istiod still has the rights it cannot work without.
  - Reads names and labels only, and changes nothing.
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
  rights_of:
    description: Revision whose istiod account is asked about; empty asks about none.
    type: str
    default: ''
  rights_only:
    description: Ask about the rights and list nothing.
    type: bool
    default: false
author: the project's contributors
"""

EXAMPLES = r"""
- name: List the objects of all revisions
  mesh_objects:
  register: objects
"""

RETURN = r"""
objects:
  description: Kind, namespace, name, revision, component and tag of every object.
  returned: always
  type: list
  elements: dict
accounts:
  description: Service accounts in the Istio namespace, by name.
  returned: always
  type: list
  elements: str
rights:
  description: Missing rights of the account, in words; null where the reviews themselves were refused.
  returned: always
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mesh_api import CONNECTION_SPEC, MeshApi, MeshApiError, Task, connected, labels, meta
from ansible.module_utils.mesh_prunable import list_prunable

# istiod cannot work without these (manifests/charts/istio-control/istio-discovery/templates/clusterrole.yaml, 1.31):
# verb, group, resource, whether in the Istio namespace only.
NEEDED = (
    ("list", "", "pods", False),
    ("list", "", "namespaces", False),
    ("list", "discovery.k8s.io", "endpointslices", False),
    ("list", "networking.istio.io", "virtualservices", False),
    ("patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", False),
    ("update", "admissionregistration.k8s.io", "validatingwebhookconfigurations", False),
    ("create", "authentication.k8s.io", "tokenreviews", False),
    ("update", "", "configmaps", True),
)


def object_row(kind: str, item: dict[str, Any]) -> dict[str, str]:
    """Return what is known of one object."""
    found = labels(item)
    return {
        "kind": kind,
        "namespace": meta(item).get("namespace", ""),
        "name": meta(item).get("name", ""),
        "revision": found.get("istio.io/rev", ""),
        "component": found.get("operator.istio.io/component", ""),
        "tag": found.get("istio.io/tag", ""),
    }


def read_objects(api: MeshApi, istio: str) -> list[dict[str, str]]:
    """Return every labelled object, and istiod's own Leases, which carry no label."""
    rows: list[dict[str, str]] = list_prunable(api, "istio.io/rev", object_row)
    leases = api.list(f"/apis/coordination.k8s.io/v1/namespaces/{istio}/leases", metadata_only=True)
    return rows + [
        object_row("Lease", item) for item in leases if meta(item).get("name", "").startswith("istio-gateway-")
    ]


def missing_rights(api: MeshApi, istio: str, revision: str) -> list[str] | None:
    """Return the needed rights that the account of a revision's istiod lacks; None where this cannot be asked."""
    account = "istiod" if revision == "default" else f"istiod-{revision}"
    missing = []
    for verb, group, resource, inside in NEEDED:
        asked = {"verb": verb, "group": group, "resource": resource} | ({"namespace": istio} if inside else {})
        user = f"system:serviceaccount:{istio}:{account}"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{istio}", "system:authenticated"]
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": asked},
        }
        try:
            answer = api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=body)
        except MeshApiError as error:
            if error.status == 403:
                return None
            raise
        if not (answer.get("status") or {}).get("allowed"):
            missing.append(f"{istio}/{account} may not {verb} {resource}{'.' + group if group else ''}")
    return missing


def run(task: Task, api: MeshApi) -> dict[str, Any]:
    """Read what the options ask for."""
    istio, revision = task.params["istio_namespace"], task.params["rights_of"]
    listed = not task.params["rights_only"]
    accounts = api.list(f"/api/v1/namespaces/{istio}/serviceaccounts", metadata_only=True) if listed else []
    return {
        "changed": False,
        "objects": read_objects(api, istio) if listed else [],
        "accounts": sorted(meta(a).get("name", "") for a in accounts),
        "rights": missing_rights(api, istio, revision) if revision else [],
        "requests": api.requests,
    }


SPEC: dict[str, Any] = CONNECTION_SPEC | {
    "istio_namespace": {"type": "str", "default": "istio-system"},
    "rights_of": {"type": "str", "default": ""},
    "rights_only": {"type": "bool", "default": False},
}


def main() -> None:
    """Entry point, where the task runs in a Python of its own (see action_plugins/in_process.py)."""
    connected(AnsibleModule(argument_spec=SPEC, supports_check_mode=True), run)


if __name__ == "__main__":
    main()
