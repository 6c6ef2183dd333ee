#!/usr/bin/python
"""Ansible module: take everything of Istio, the demo and the scratch namespaces off a lab cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_wipe
short_description: Take everything of Istio off a lab cluster
description:
  - Deletes Istio's webhooks, custom resource definitions, cluster roles and gateway classes, the named
    namespaces and those with the scratch label, and takes Istio's labels off the namespaces that stay.
  - Only for clusters that the lab made.
options:
  kubeconfig:
    type: path
    required: true
    description: Kubeconfig of the cluster.
  namespaces:
    type: list
    elements: str
    required: true
    description: Namespaces to delete.
  scratch_label:
    type: str
    required: true
    description: Namespaces with this label are deleted too.
  timeout:
    type: int
    default: 120
    description: Seconds to wait until all of it is gone.
author: [The istio-upgrade authors]
"""
EXAMPLES = r"""
- name: Start from nothing
  lab_wipe:
    kubeconfig: /tmp/kubeconfig
    namespaces: [istio-system, shop, canary]
    scratch_label: lab.istio-upgrade/scratch=true
"""
RETURN = r"""
deleted:
  description: Number of deleted objects by kind.
  type: dict
  returned: always
"""

import time  # noqa: E402
from collections import Counter  # noqa: E402
from fnmatch import fnmatch  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.mesh_api import MeshApi, MeshApiError  # noqa: E402

ISTIO_LABELS = ("istio.io/rev", "istio-injection", "istio.io/dataplane-mode", "istio.io/tag")
NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Lists without a namespace, webhooks first since they could refuse everything else, and how Istio's objects are told
# from others. A plain path, because discovery leaves kinds out while the API server is busy, and says nothing of it.
CLUSTER_LISTS = {
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": "istio*",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": "istio*",
    DEFINITIONS: "*.istio.io",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": "istio*",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": "istio*",
    "/apis/gateway.networking.k8s.io/v1/gatewayclasses": "istio*",
}


class Wiper:
    """Deletes in bulk and waits once, for all of it; counts what went over all its tries."""

    def __init__(self, api: MeshApi, deadline: float) -> None:
        """Keep the connection and the time.monotonic() at which waiting ends."""
        self.api = api
        self.deadline = deadline
        self.deleted: Counter[str] = Counter()

    def all(self, named: list[str], scratch_label: str) -> None:
        """Delete everything, the mark of a complete starting point first."""
        self.delete("configmaps", "/api/v1/namespaces/kube-system/configmaps/lab-start")
        for path, pattern in CLUSTER_LISTS.items():
            for name in self.names(path, pattern):
                self.delete(path.rpartition("/")[2], f"{path}/{name}")
        self.namespaces(named, scratch_label)
        while left := self.names(DEFINITIONS, CLUSTER_LISTS[DEFINITIONS]):  # the old version must bring its own
            self.wait(f"custom resource definitions {left}")

    def names(self, path: str, pattern: str = "*") -> list[str]:
        """Return the names in a list that match; none where the cluster does not serve the list."""
        items = (self.api.get(path) or {}).get("items") or []
        return [name for item in items if fnmatch(name := str(item["metadata"]["name"]), pattern)]

    def delete(self, kind: str, path: str) -> None:
        """Delete one object that may be gone already."""
        try:
            self.api.request("DELETE", path)
        except MeshApiError as error:
            if error.status != 404:
                raise
        else:
            self.deleted[kind] += 1

    def namespaces(self, named: list[str], scratch_label: str) -> None:
        """Delete namespaces, without waiting for the grace periods of their pods; unlabel the others."""
        key, _, value = scratch_label.partition("=")
        gone = set[str]()
        for item in self.api.list(NAMESPACES):
            name, labels = item["metadata"]["name"], item["metadata"].get("labels") or {}
            if name in named or labels.get(key) == value:
                gone.add(name)
            elif any(label in labels for label in ISTIO_LABELS):
                self.api.merge_patch(f"{NAMESPACES}/{name}", {"metadata": {"labels": dict.fromkeys(ISTIO_LABELS)}})
        for name in sorted(gone):
            self.delete("namespaces", f"{NAMESPACES}/{name}")
        while gone := gone & set(self.names(NAMESPACES)):
            for name in gone:
                self.api.request("DELETE", f"{NAMESPACES}/{name}/pods", {"gracePeriodSeconds": 0})
            self.wait(f"namespaces {sorted(gone)}")

    def wait(self, what: str) -> None:
        """Wait half a second, or raise when the time is up."""
        if time.monotonic() > self.deadline:
            raise TimeoutError(f"{what} are still there: look at their finalizers, or make lab-down and lab.")
        time.sleep(0.5)


def wipe(options: dict[str, Any]) -> Counter[str]:
    """Delete all of it, again from the start where the API server was in trouble; returns what was deleted, by kind.

    A busy API server answers 409, 429 or 500, or drops a connection.

    Raises:
        MeshApiError: no usable kubeconfig.
        TimeoutError: not all is gone in time; it says what is left or what the API server said last.
    """
    wiper = Wiper(MeshApi(options["kubeconfig"]), time.monotonic() + options["timeout"])
    while True:
        try:
            wiper.all(options["namespaces"], options["scratch_label"])
        except MeshApiError as error:
            if time.monotonic() > wiper.deadline:
                raise TimeoutError(f"The API server did not let everything be deleted: {error}") from None
            time.sleep(2)
        else:
            return wiper.deleted


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "namespaces": {"type": "list", "elements": "str", "required": True},
            "scratch_label": {"type": "str", "required": True},
            "timeout": {"type": "int", "default": 120},
        }
    )
    try:
        deleted = wipe(module.params)
    except (MeshApiError, TimeoutError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(deleted), deleted=dict(deleted))


if __name__ == "__main__":
    main()
