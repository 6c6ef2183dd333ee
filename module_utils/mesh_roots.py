"""The root certificates that proxies trust, as istiod copies them into each namespace."""

from __future__ import annotations

from ansible.module_utils.mesh_api import MeshApi, meta

ROOT_NAME, ROOT_LABEL, ROOT_KEY = "istio-ca-root-cert", "istio.io/config=true", "root-cert.pem"


def read_root_texts(api: MeshApi, namespace: str = "") -> dict[str, str]:
    """Return namespace -> what its root ConfigMap holds, "" for nothing; of every namespace, or of one.

    It is a list in both cases, which asks for no right beyond the journal's in the Istio namespace.
    """
    path = f"/api/v1/namespaces/{namespace}/configmaps" if namespace else "/api/v1/configmaps"
    return {
        meta(item).get("namespace", ""): (item.get("data") or {}).get(ROOT_KEY, "")
        for item in api.list(path, ROOT_LABEL)
        if meta(item).get("name") == ROOT_NAME
    }
