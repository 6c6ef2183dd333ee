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

import importlib  # noqa: E402
import time  # noqa: E402
from collections import Counter  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

ISTIO_LABELS = ("istio.io/rev", "istio-injection", "istio.io/dataplane-mode", "istio.io/tag")
# Kinds without a namespace, and how Istio's objects are told from others.
CLUSTER_KINDS = (
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("gateway.networking.k8s.io/v1", "GatewayClass"),
)


def is_istio(kind: str, name: str) -> bool:
    """Tell whether a cluster-wide object belongs to Istio, by its name."""
    if kind == "CustomResourceDefinition":
        return name.endswith(".istio.io")
    return name.startswith("istio")


class Wiper:
    """Deletes in bulk and waits once, for all of it."""

    def __init__(self, client: Any, timeout: int) -> None:
        """Keep the dynamic client."""
        self.client = client
        self.deadline = time.monotonic() + timeout
        self.deleted: Counter[str] = Counter()

    def all(self, named: list[str], scratch_label: str) -> None:
        """Delete everything, the mark of a complete starting point first."""
        self.delete(self.resource("v1", "ConfigMap"), "ConfigMap", "lab-start", namespace="kube-system")
        self.cluster_objects()
        self.namespaces(named, scratch_label)
        self.wait_cluster_objects()

    def resource(self, version: str, kind: str) -> Any | None:
        """Return the API of a kind, or none where the cluster does not serve it."""
        from kubernetes.dynamic.exceptions import ResourceNotFoundError  # noqa: PLC0415

        try:
            return self.client.resources.get(api_version=version, kind=kind)
        except ResourceNotFoundError:
            return None

    def delete(self, api: Any, kind: str, name: str, **where: Any) -> None:
        """Delete one object that may be gone already."""
        from kubernetes.dynamic.exceptions import NotFoundError  # noqa: PLC0415

        try:
            api.delete(name=name, **where)
        except NotFoundError:
            return
        self.deleted[kind] += 1

    def cluster_objects(self) -> None:
        """Delete what has no namespace: webhooks first, since they could refuse everything else."""
        for version, kind in CLUSTER_KINDS:
            api = self.resource(version, kind)
            for item in api.get().items if api else []:
                if is_istio(kind, item.metadata.name):
                    self.delete(api, kind, item.metadata.name)

    def namespaces(self, named: list[str], scratch_label: str) -> None:
        """Delete namespaces, without waiting for the grace periods of their pods; unlabel the others."""
        api, pods = self.resource("v1", "Namespace"), self.resource("v1", "Pod")
        assert api is not None
        assert pods is not None
        key, _, value = scratch_label.partition("=")
        gone = set[str]()
        for item in api.get().items:
            labels = dict(item.metadata.labels or {})
            name = item.metadata.name
            if name in named or labels.get(key) == value:
                gone.add(name)
            elif any(label in labels for label in ISTIO_LABELS):
                self.unlabel(api, name)
        for name in sorted(gone):
            self.delete(api, "Namespace", name)
        while gone:
            for name in gone:
                for pod in pods.get(namespace=name).items:
                    body = {"gracePeriodSeconds": 0}
                    self.delete(pods, "Pod", pod.metadata.name, namespace=name, body=body)
            time.sleep(0.5)
            gone &= {item.metadata.name for item in api.get().items}
            self.check_time(f"namespaces {sorted(gone)}")

    def unlabel(self, api: Any, name: str) -> None:
        """Take Istio's labels off a namespace that may be gone already."""
        from kubernetes.dynamic.exceptions import NotFoundError  # noqa: PLC0415

        patch = {"metadata": {"labels": dict.fromkeys(ISTIO_LABELS)}}
        try:
            api.patch(name=name, body=patch, content_type="application/merge-patch+json")
        except NotFoundError:
            return

    def wait_cluster_objects(self) -> None:
        """Wait until the custom resource definitions are gone, so that the old version brings its own."""
        api = self.resource("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        assert api is not None
        while left := [i.metadata.name for i in api.get().items if i.metadata.name.endswith(".istio.io")]:
            self.check_time(f"custom resource definitions {left}")
            time.sleep(0.5)

    def check_time(self, what: str) -> None:
        """Raise when the time is up."""
        if time.monotonic() > self.deadline:
            raise TimeoutError(f"{what} are still there: look at their finalizers, or make lab-down and lab.")


def wipe(options: dict[str, Any]) -> Counter[str]:
    """Delete all of it, again from the start where the API server was in trouble; returns what was deleted, by kind.

    A busy API server answers 429 or 500, drops a connection, or serves discovery without a kind that is just going.

    Raises:
        TimeoutError: not all is gone in time; it says what is left and what the API server said last.
    """
    from kubernetes.dynamic.exceptions import DynamicApiError  # noqa: PLC0415
    from urllib3.exceptions import HTTPError  # noqa: PLC0415

    deadline, deleted, said = time.monotonic() + options["timeout"], Counter[str](), ""
    while True:
        left = int(deadline - time.monotonic())
        if left <= 0:
            raise TimeoutError(f"The API server did not let everything be deleted. It said last: {said}")
        try:
            wiper = Wiper(connect(options["kubeconfig"]), left)
            wiper.deleted = deleted
            wiper.all(options["namespaces"], options["scratch_label"])
        except (DynamicApiError, HTTPError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            said = f"{type(error).__name__}: {error}"
            time.sleep(2)
        else:
            return deleted


def connect(kubeconfig: str) -> Any:
    """Return a dynamic client: plain dicts, where the typed models of client 37 are strict."""
    kubernetes: Any = importlib.import_module("kubernetes")
    return kubernetes.dynamic.DynamicClient(kubernetes.config.new_client_from_config(config_file=kubeconfig))


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
    except TimeoutError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(deleted), deleted=dict(deleted))


if __name__ == "__main__":
    main()
