"""One way to read the pods of the scale mesh, in a process of its own so that its memory is its own.

`python -m tests.tools.scale_read bare|mesh|typed` prints {"result", "seconds", "peak_mib"} as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

from tests.tools.scale_mesh import KUBECONFIG, connect  # makes the next one importable

from ansible.module_utils.mesh_api import MeshApi  # isort: skip

PAGE = 500


def run_module(name: str, api: MeshApi, **params: Any) -> dict[str, Any]:
    """Run one of the project's modules in this process, its other options at their defaults."""
    module = __import__(name)
    defaults = {key: spec.get("default") for key, spec in module.SPEC.items()}
    task = SimpleNamespace(params=defaults | params, check_mode=False, tell=lambda line: print(f"  {line}", flush=True))
    result: dict[str, Any] = module.run(task, api)
    return result


def bare() -> int:
    """Read every pod with raw HTTP and json, page by page, and keep nothing; returns how many."""
    http = connect()._client
    pods, token = 0, ""
    while True:
        query = {"limit": PAGE} | ({"continue": token} if token else {})
        headers = {"Accept": "application/json"}
        http.update_params_for_auth(headers, [], ["BearerToken"], "/api/v1/pods", "GET", None)
        url = f"{http.configuration.host}/api/v1/pods?{urlencode(query)}"
        answer = http.rest_client.request("GET", url, headers=headers)
        page = json.loads(answer.read())
        if answer.status != 200:
            sys.exit(f"GET {url}: HTTP {answer.status}, {page.get('message')}")
        pods += len(page["items"])
        token = page["metadata"].get("continue")
        if not token:
            return pods


def typed() -> int:
    """Read every pod with the client's typed API, page by page; returns how many."""
    from kubernetes import client, config  # noqa: PLC0415 - its models must not weigh on the other readers

    config.load_kube_config(str(KUBECONFIG))
    core = client.CoreV1Api()
    pods, token = 0, None
    while True:
        page = core.list_pod_for_all_namespaces(limit=PAGE, _continue=token)
        pods += len(page.items)
        token = page.metadata._continue
        if not token:
            return pods


def mesh() -> dict[str, Any]:
    """Read the whole mesh with the project's module."""
    found = run_module("mesh_read", connect())
    return {
        "pods": found["pods_read"],
        "requests": found["requests"],
        "workloads": len(found["workloads"]),
        "proxies": sum(group["pods"] for row in found["workloads"] for group in row["proxies"]),
    }


READERS = {"bare": bare, "typed": typed, "mesh": mesh}


def main() -> None:
    """Run one reader and print what it took."""
    if sys.argv[1] == "typed":
        from kubernetes import client  # noqa: F401, PLC0415 - importing it is not reading
    started = time.monotonic()
    result = READERS[sys.argv[1]]()
    seconds = time.monotonic() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"result": result, "seconds": seconds, "peak_mib": peak}))


if __name__ == "__main__":
    main()
