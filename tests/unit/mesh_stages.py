"""The recorded stages of a real upgrade and the inputs that drove it, as fresh copies to change at will."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from mesh_logic.inputs import read_inputs

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
STAGES = ("start", "after_install", "after_canary", "after_move_tags", "after_rollback_drill", "finished")
OLD, NEW = "1-30-5", "1-31-0"
SHA = "163cff29993e481c8900db33cc3df8f289ee786dd8ff1716bf12c2dc21827da5"
CLUSTER = "4d2c9910-9ddc-4883-98d0-b46897c11cb3"
OPERATOR = """\
apiVersion: install.istio.io/v1alpha1
kind: IstioOperator
metadata:
  name: control-plane
spec:
  hub: docker.io/istio
  profile: minimal
"""
LAB: dict[str, Any] = {
    "mesh_environment": "lab",
    "mesh_kubeconfig": "kubeconfig",
    "mesh_from_version": "1.30.5",
    "mesh_to_version": "1.31.0",
    "mesh_istioctl_from": "istioctl-1.30.5",
    "mesh_istioctl_to": "istioctl-1.31.0",
    "mesh_operator_file": "files/istio-operator.yaml",
    "mesh_tags": ["prod-stable", "default"],
    "mesh_canary_namespaces": ["canary"],
    "mesh_drill": {"tags": ["prod-stable"], "workloads": ["shop/web"]},
    "mesh_evidence_workloads": ["shop/web", "canary/client"],
    "mesh_soak_before_uninstall": 0,
    "mesh_probes": [
        {
            "name": "web",
            "from": {"namespace": "canary", "workload": "client", "container": "client"},
            "url": "http://web.shop/",
            "expect": 200,
        }
    ],
}


def istioctl(version: str, **changes: Any) -> dict[str, Any]:
    """Return what mesh_controller says about an istioctl."""
    output = json.dumps({"clientVersion": {"version": version}})
    return {"path": f"istioctl-{version}", "rc": 0, "output": output, "error": ""} | changes


def controller(**changes: Any) -> dict[str, Any]:
    """Return the result of mesh_controller on a controller where all is well."""
    found: dict[str, Any] = {
        "istioctl": {"from": istioctl("1.30.5"), "to": istioctl("1.31.0")},
        "python": {"executable": "python3", "version": "3.13.1", "error": ""},
        "operator_file": {"path": "files/istio-operator.yaml", "text": OPERATOR, "sha256": SHA, "error": ""},
    }
    return found | changes


def facts(stage: str) -> dict[str, Any]:
    """Return the recorded facts of a stage."""
    found: dict[str, Any] = json.loads((FIXTURES / "facts" / f"{stage}.json").read_text(encoding="utf-8"))
    return found


def wants(**changes: Any) -> dict[str, Any]:
    """Return what the lab wants, with some inputs changed."""
    read = read_inputs(copy.deepcopy(LAB) | changes, controller())
    assert read["errors"] == []
    desired: dict[str, Any] = read["desired"]
    return desired


def workload(found: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a workload's row to change."""
    return next(row for row in found["workloads"] if row["name"] == name)


def row_of(namespace: str, name: str, revision: str = OLD, **changes: Any) -> dict[str, Any]:
    """Return a new workload row with one live proxy; revision "" means none."""
    version = revision.replace("-", ".")
    proxy = {
        "image": f"docker.io/istio/proxyv2:{version}",
        "native": True,
        "pods": 1,
        "ready": True,
        "revision": revision,
        "terminating": False,
    }
    base: dict[str, Any] = {
        "ended": 0,
        "gateway": False,
        "host_network": False,
        "kind": "Deployment",
        "managed_by": "",
        "name": name,
        "namespace": namespace,
        "paused": False,
        "proxies": [proxy] if revision else [],
        "replicas": 1,
        "strategy": "RollingUpdate",
        "template_annotations": {},
        "template_hash": "000000000000",
        "template_labels": {},
        "without_proxy": 0,
    }
    return base | changes


def journal(found: dict[str, Any], step: str) -> dict[str, Any]:
    """Return a step's journal record to change; made when it is not there."""
    record: dict[str, Any] = found["journal"].setdefault(f"istio-upgrade-{OLD}-to-{NEW}-{step}", {})
    return record


def namespace(found: dict[str, Any], name: str, **labels: str) -> dict[str, str]:
    """Return a namespace's labels to change; made when it is not there."""
    for row in found["namespaces"]:
        if row["name"] == name:
            there: dict[str, str] = row["labels"]
            return there
    found["namespaces"].append({"name": name, "labels": dict(labels), "terminating": False})
    return namespace(found, name)


def set_tag(found: dict[str, Any], tag: str, revision: str, only: str = "") -> None:
    """Point a tag to a revision as `istioctl tag set` does: webhook, Service, the validator of `default`."""
    for kind in ("injectors", "services", "validators"):
        for row in found[kind]:
            if row["tag"] == tag and only in ("", kind):
                row["revision"] = revision
                for entry in row.get("entries", []):
                    entry["service"] = f"istiod-{revision}"


def drop_tag(found: dict[str, Any], tag: str) -> None:
    """Take a tag away with all its objects."""
    for kind in ("injectors", "services", "validators"):
        found[kind] = [row for row in found[kind] if row["tag"] != tag]
