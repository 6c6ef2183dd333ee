"""What istioctl prunes, and one way to list it: what an install would look at, and what a removal takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.module_utils.mesh_api import MeshApi

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
# API path -> kind (operator/pkg/uninstall/prune.go, NamespacedResources and ClusterResources, 1.31).
PRUNABLE = {
    "/apis/apps/v1/deployments": "Deployment",
    "/apis/apps/v1/daemonsets": "DaemonSet",
    "/api/v1/services": "Service",
    "/api/v1/configmaps": "ConfigMap",
    "/api/v1/secrets": "Secret",
    "/api/v1/serviceaccounts": "ServiceAccount",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings": "RoleBinding",
    "/apis/rbac.authorization.k8s.io/v1/roles": "Role",
    "/apis/policy/v1/poddisruptionbudgets": "PodDisruptionBudget",
    "/apis/autoscaling/v2/horizontalpodautoscalers": "HorizontalPodAutoscaler",
    f"{ADMISSION}/mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
    f"{ADMISSION}/validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": "ClusterRole",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": "ClusterRoleBinding",
}


def list_prunable(
    api: MeshApi, selector: str, make: Callable[[str, dict[str, Any]], dict[str, str]]
) -> list[dict[str, str]]:
    """Return `make(kind, metadata of the object)` for every object of these kinds that a label selector takes."""
    return [
        make(kind, item) for path, kind in PRUNABLE.items() for item in api.list(path, selector, metadata_only=True)
    ]
