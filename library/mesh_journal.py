#!/usr/bin/python
"""Write one step's record into the cluster and its evidence lines into the evidence folder."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_journal
short_description: Record a step in the cluster and in the evidence folder
description:
  - Stores a record as JSON in a ConfigMap of the Istio namespace, so that every step can be proven and resumed
    from the cluster alone, and writes evidence files beside it.
  - Reads the record back. Writes only what differs. Writes nothing in check mode.
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
  name:
    description: Name of the ConfigMap; empty writes evidence files only.
    type: str
    default: ''
  record:
    description: The record, any JSON object.
    type: dict
    default: {}
  keep:
    description: Leave a record that is already there as it is (01-before is written once per upgrade).
    type: bool
    default: false
  evidence_dir:
    description: Folder of the evidence files; made when missing.
    type: path
    default: ''
  files:
    description: Evidence file names with their whole text.
    type: dict
    default: {}
author: the project's contributors
"""

EXAMPLES = r"""
- name: Record the canary step
  mesh_journal:
    name: istio-upgrade-1-31-0-canary
    record:
      step: canary
      state: done
    evidence_dir: evidence/lab
    files:
      04-mixed.txt: |
        client_proxy=1.31.0
"""

RETURN = r"""
written:
  description: What was written, or would be in check mode.
  returned: always
  type: list
  elements: str
"""

import json
import os
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mesh_api import CONNECTION_SPEC, MeshApi, MeshApiError, Task, connected

LABELS = {"app.kubernetes.io/managed-by": "istio-upgrade"}


def record_kept(task: Task, api: MeshApi) -> dict[str, str]:
    """Return the evidence of a record that is there and is to be kept, or {}."""
    if not (task.params["keep"] and task.params["name"]):
        return {}
    found = api.get(f"/api/v1/namespaces/{task.params['istio_namespace']}/configmaps/{task.params['name']}")
    return json.loads(((found or {}).get("data") or {}).get("record") or "{}").get("evidence") or {}


def store_record(task: Task, api: MeshApi) -> list[str]:
    """Create or update the ConfigMap; returns what was (or would be) written."""
    istio, name = task.params["istio_namespace"], task.params["name"]
    text = json.dumps(task.params["record"], sort_keys=True, ensure_ascii=False)
    collection = f"/api/v1/namespaces/{istio}/configmaps"
    found = api.get(f"{collection}/{name}")
    if found is not None and (found.get("data") or {}).get("record") == text:
        return []
    if not task.check_mode:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": LABELS},
            "data": {"record": text},
        }
        if found is None:
            api.request("POST", collection, body=body)
        else:
            api.merge_patch(f"{collection}/{name}", body)
        again = api.get(f"{collection}/{name}") or {}
        if (again.get("data") or {}).get("record") != text:
            raise MeshApiError(
                f"The journal ConfigMap {istio}/{name} does not hold what was just written: something else changes it. "
                "Next: find the other run or controller that writes it, then run again."
            )
    return [f"ConfigMap {istio}/{name}"]


def store_files(folder: str, files: dict[str, str], check_mode: bool) -> list[str]:
    """Write evidence files whose text differs, each in one move so that no half file is ever seen."""
    written = []
    for name, text in sorted(files.items()):
        path = os.path.join(folder, name)
        try:
            if os.path.exists(path):
                with open(path, encoding="utf-8") as stream:
                    if stream.read() == text:
                        continue
            if not check_mode:
                os.makedirs(folder, exist_ok=True)
                with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, delete=False) as fresh:
                    fresh.write(text)
                os.chmod(fresh.name, 0o644)
                os.replace(fresh.name, path)
        except OSError as error:
            raise MeshApiError(
                f"Evidence file {path} cannot be written: {error.strerror}. The cluster's journal holds its lines. "
                "Next: make mesh_evidence_dir writable and run playbooks/report.yml."
            ) from None
        written.append(path)
    return written


def run(task: Task, api: MeshApi) -> dict[str, Any]:
    """Store the record, then the files."""
    kept = record_kept(task, api)
    written = [] if kept or not task.params["name"] else store_record(task, api)
    written += store_files(task.params["evidence_dir"], kept or task.params["files"], task.check_mode)
    return {"changed": bool(written), "written": written}


SPEC: dict[str, Any] = CONNECTION_SPEC | {
    "istio_namespace": {"type": "str", "default": "istio-system"},
    "name": {"type": "str", "default": ""},
    "record": {"type": "dict", "default": {}},
    "keep": {"type": "bool", "default": False},
    "evidence_dir": {"type": "path", "default": ""},
    "files": {"type": "dict", "default": {}},
}


def main() -> None:
    """Entry point, where the task runs in a Python of its own (see action_plugins/in_process.py)."""
    connected(AnsibleModule(argument_spec=SPEC, supports_check_mode=True), run)


if __name__ == "__main__":
    main()
