#!/usr/bin/python
"""Send real requests from a workload's pod and tell what came back."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_probe
short_description: Send requests through the mesh from a workload
description:
  - Runs curl in the newest ready pod of a workload, so that the request takes the sidecar's way.
  - Exit code and status code must both be right; C(000) is a failure (case G13).
  - Changes nothing, so it also runs in check mode.
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
  probes:
    description: List of name, from (namespace, workload, container), url, expect, timeout_ms.
    type: list
    elements: dict
    required: true
  attempts:
    description: How often a probe is tried before its last answer counts.
    type: int
    default: 3
author: the project's contributors
"""

EXAMPLES = r"""
- name: Send a request from the client to the shop
  mesh_probe:
    probes:
      - name: web
        from: {namespace: canary, workload: client, container: client}
        url: http://web.shop/
        expect: 200
"""

RETURN = r"""
results:
  description: Per probe its name, code, ok, attempts, pod and error.
  returned: always
  type: list
  elements: dict
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mesh_api import CONNECTION_SPEC, MeshApi, MeshApiError, Task, connected, meta
from ansible.module_utils.mesh_rows import pod_row


def pick_pod(api: MeshApi, namespace: str, workload: str) -> dict[str, Any] | None:
    """Return the newest ready pod of a workload that is not being terminated (cases B13, G16)."""
    owners = {
        meta(rs)["name"]
        for rs in api.list(f"/apis/apps/v1/namespaces/{namespace}/replicasets", metadata_only=True)
        if any(o.get("name") == workload for o in meta(rs).get("ownerReferences") or [])
    } | {workload}
    candidates = []
    for pod in api.list(f"/api/v1/namespaces/{namespace}/pods"):
        row = pod_row(pod)
        conditions = {c.get("type"): c.get("status") for c in (pod.get("status") or {}).get("conditions") or []}
        if row["owner_name"] in owners and conditions.get("Ready") == "True" and not row["terminating"]:
            candidates.append(row)
    return max(candidates, key=lambda row: row["created"], default=None)


def send(api: MeshApi, probe: dict[str, Any]) -> dict[str, Any]:
    """Send one request; returns code ("000" when none came), ok and what went wrong."""
    source = probe["from"]
    result: dict[str, Any] = {
        "name": probe["name"],
        "url": probe["url"],
        "code": "000",
        "ok": False,
        "pod": "",
        "error": "",
    }
    pod = pick_pod(api, source["namespace"], source["workload"])
    if pod is None:
        result["error"] = f"no ready pod of {source['namespace']}/{source['workload']} to send from"
        return result
    seconds = max(1, int(probe.get("timeout_ms", 5000)) // 1000)
    command = ["curl", "-sS", "-m", str(seconds), "-o", "/dev/null", "-w", "%{http_code}", probe["url"]]
    container = source.get("container") or source["workload"]
    try:
        rc, out, err = api.exec(source["namespace"], pod["name"], container, command, timeout=seconds + 10)
    except MeshApiError as error:
        return result | {"pod": pod["name"], "error": str(error)}
    code = out.strip()[-3:] or "000"
    expected = str(probe.get("expect", 200))
    ok = rc == 0 and code == expected
    said = f": {' '.join(err.split())[:300]}" if err.strip() else ""
    wrong = "" if ok else f"curl exit code {rc}, status {code}, expected {expected}{said}"
    return result | {"pod": pod["name"], "revision": pod["revision"], "code": code, "ok": ok, "error": wrong}


def run(task: Task, api: MeshApi) -> dict[str, Any]:
    """Send every probe, again after a second where it failed, up to `attempts` times."""
    results = []
    for probe in task.params["probes"]:
        for attempt in range(1, task.params["attempts"] + 1):
            result = send(api, probe)
            result["attempts"] = attempt
            if result["ok"] or attempt == task.params["attempts"]:
                break
            time.sleep(1)
        results.append(result)
    return {"changed": False, "results": results, "failed_probes": [r for r in results if not r["ok"]]}


SPEC: dict[str, Any] = CONNECTION_SPEC | {
    "probes": {"type": "list", "elements": "dict", "required": True},
    "attempts": {"type": "int", "default": 3},
}


def main() -> None:
    """Entry point, where the task runs in a Python of its own (see action_plugins/in_process.py)."""
    connected(AnsibleModule(argument_spec=SPEC, supports_check_mode=True), run)


if __name__ == "__main__":
    main()
