"""A mesh of simulated pods, injected by the real istiod: kwok nodes, namespaces and workloads, made in bulk.

kwok plays nodes and kubelets (`make lab-scale` runs it); every other part is real. Made once and reused while the size
fits.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ansible.module_utils

ROOT = Path(__file__).resolve().parents[2]
ansible.module_utils.__path__.append(str(ROOT / "module_utils"))
sys.path[:0] = [str(ROOT / "filter_plugins"), str(ROOT / "library")]

from ansible.module_utils.mesh_api import MeshApi, MeshApiError  # noqa: E402 - only importable after the lines above

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "istio-upgrade-lab"
LAB_NAME = os.environ.get("LAB_NAME", "istio-upgrade")
KUBECONFIG = CACHE / "clusters" / LAB_NAME / "kubeconfig"
OPERATOR = ROOT / "inventories" / "lab" / "files" / "istio-operator.yaml"
OLD, NEW = "1-30-5", "1-31-0"
SCRATCH = "lab.istio-upgrade/scratch"  # namespaces that lab-reset removes
SIMULATED = "lab.istio-upgrade/simulated"  # nodes that kwok plays (lab/roles/scale)
PLURALS = {"Deployment": "deployments", "StatefulSet": "statefulsets", "DaemonSet": "daemonsets"}
# Five Deployments of two pods in each namespace; in every tenth a StatefulSet, in every twentieth a DaemonSet more.
DEPLOYMENTS, REPLICAS, SETS_EVERY, DAEMONS_EVERY = 5, 2, 10, 20
PODS_PER_NODE = 1000
# Seconds from a pod's readiness until it counts as available.
READY_AFTER = 3
REQUESTS_AT_ONCE = 16


@dataclass
class Size:
    """How large the mesh is: its namespaces; everything else follows."""

    namespaces: int
    prefix: str = "scale"
    revision: str = OLD
    names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        """Name the namespaces."""
        self.names = [f"{self.prefix}-{number:04d}" for number in range(self.namespaces)]

    @property
    def pods(self) -> int:
        """How many pods it has when all are there."""
        sets, daemons = math.ceil(self.namespaces / SETS_EVERY), math.ceil(self.namespaces / DAEMONS_EVERY)
        return (self.namespaces * DEPLOYMENTS + sets) * REPLICAS + daemons

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes that hold them, with room for a second pod of each while they roll."""
        return [f"{self.prefix}-node-{n}" for n in range(math.ceil(2 * self.pods / PODS_PER_NODE))]


def connect() -> MeshApi:
    """Return a connection to the scale cluster."""
    return MeshApi(str(KUBECONFIG))


def say(text: str) -> None:
    """Print one line at once."""
    print(text, flush=True)


def node(name: str, version: str) -> dict[str, Any]:
    """Return a node that kwok plays; nothing real may land there.

    istiod injects a native sidecar only where every node's kubelet is new enough for it, so the version must be a real
    one, or the simulated nodes would change what all of the cluster gets.
    """
    room = {"cpu": "4000", "memory": "8Ti", "pods": str(PODS_PER_NODE)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {SIMULATED: "true", "kubernetes.io/hostname": name}},
        "spec": {"taints": [{"key": SIMULATED, "value": "true", "effect": "NoSchedule"}]},
        "status": {"allocatable": room, "capacity": room, "nodeInfo": {"kubeletVersion": version}},
    }


def workload(kind: str, name: str, host: str) -> dict[str, Any]:
    """Return one workload that runs on simulated nodes only; a DaemonSet on one of them."""
    selector = {"kubernetes.io/hostname": host} if kind == "DaemonSet" else {SIMULATED: "true"}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": selector,
            "tolerations": [{"key": SIMULATED, "operator": "Exists"}],
            "containers": [{"name": "app", "image": "simulated/app:1"}],
        },
    }
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": name}}, "template": template}
    # a simulated pod is ready at once; one with a real proxy takes this long at the least
    spec["minReadySeconds"] = READY_AFTER
    if kind != "DaemonSet":
        spec["replicas"] = REPLICAS
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def workloads_of(number: int, nodes: list[str]) -> list[dict[str, Any]]:
    """Return the workloads of the namespace with this number."""
    found = [workload("Deployment", f"app-{n}", "") for n in range(DEPLOYMENTS)]
    found += [workload("StatefulSet", "db", "")] if number % SETS_EVERY == 0 else []
    return found + ([workload("DaemonSet", "agent", nodes[number % len(nodes)])] if number % DAEMONS_EVERY == 0 else [])


def in_bulk(work: Callable[[Any], Any], items: Iterable[Any]) -> None:
    """Do one request per item, several at a time; the first failure is raised."""
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        list(pool.map(work, items))


def delete(api: MeshApi, path: str) -> None:
    """Delete an object, unless it is gone."""
    try:
        api.request("DELETE", path)
    except MeshApiError as error:
        if error.status != 404:
            raise


def create(api: MeshApi, path: str, body: dict[str, Any]) -> None:
    """Create an object, unless it is there."""
    try:
        api.request("POST", path, body=body)
    except MeshApiError as error:
        if error.status != 409:
            raise


def make(api: MeshApi, size: Size) -> None:
    """Make the mesh, or what is missing of it, and wait until every pod is ready; another size is removed first."""
    there = existing(api, size)
    if there and (set(there) != set(size.names) or any(there.values())):
        say(f"removing a mesh of {len(there)} namespaces")
        remove(api, size)
    started = time.monotonic()
    version = api.request("GET", "/version")["gitVersion"]
    in_bulk(lambda name: create(api, "/api/v1/nodes", node(name, version)), size.nodes)
    labels = {"istio.io/rev": size.revision, SCRATCH: "true", SIMULATED: size.prefix}
    body = {"apiVersion": "v1", "kind": "Namespace"}
    in_bulk(
        lambda name: create(api, "/api/v1/namespaces", body | {"metadata": {"name": name, "labels": labels}}),
        size.names,
    )
    label(api, size.names, size.revision)
    jobs = [
        (f"/apis/apps/v1/namespaces/{name}/{PLURALS[item['kind']]}", item)
        for number, name in enumerate(size.names)
        for item in workloads_of(number, size.nodes)
    ]
    in_bulk(lambda job: create(api, *job), jobs)
    say(f"{len(jobs)} workloads are there after {time.monotonic() - started:.0f} s")
    wait_ready(api, size)


def existing(api: MeshApi, size: Size) -> dict[str, bool]:
    """Return the names of the simulated namespaces that are there, and whether each is on its way out."""
    listed = api.list("/api/v1/namespaces", f"{SIMULATED}={size.prefix}", metadata_only=True)
    return {item["metadata"]["name"]: "deletionTimestamp" in item["metadata"] for item in listed}


def remove(api: MeshApi, size: Size, seconds: int = 900) -> None:
    """Remove the simulated namespaces and nodes, and wait until the namespaces are gone."""
    in_bulk(lambda name: delete(api, f"/api/v1/namespaces/{name}"), existing(api, size))
    started = time.monotonic()
    while left := existing(api, size):
        if time.monotonic() - started > seconds:
            sys.exit(f"{len(left)} namespaces, such as {min(left)}, are not gone after {seconds} s")
        time.sleep(2)
    nodes = [item["metadata"]["name"] for item in api.list("/api/v1/nodes", f"{SIMULATED}=true", metadata_only=True)]
    mine = [name for name in nodes if name.startswith(f"{size.prefix}-node-")]
    in_bulk(lambda name: delete(api, f"/api/v1/nodes/{name}"), mine)


def ready_pods(api: MeshApi, size: Size) -> int:
    """Return how many simulated pods are ready and stay."""

    def one(pod: dict[str, Any]) -> bool:
        metadata, status = pod["metadata"], pod.get("status") or {}
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or [])
        mine: bool = metadata["namespace"].startswith(f"{size.prefix}-")
        return mine and ready and "deletionTimestamp" not in metadata

    return sum(api.rows("/api/v1/pods", one))


def wait_ready(api: MeshApi, size: Size, seconds: int = 1800) -> None:
    """Wait until exactly the pods are there that belong there, all ready."""
    started, told = time.monotonic(), 0.0
    while (there := ready_pods(api, size)) != size.pods:
        now = time.monotonic()
        if now - started > seconds:
            sys.exit(f"{there} pods are ready after {seconds} s, expected {size.pods}. Next: kubectl get pods -A")
        if now - told > 15:
            told = now
            say(f"  {there} of {size.pods} pods are ready, {now - started:.0f} s")
        time.sleep(2)


def label(api: MeshApi, names: list[str], revision: str) -> None:
    """Hand namespaces to a revision."""
    body = {"metadata": {"labels": {"istio.io/rev": revision}}}
    in_bulk(lambda name: api.merge_patch(f"/api/v1/namespaces/{name}", body), names)


def install_new() -> None:
    """Install the new revision beside the old one."""
    command = [str(CACHE / "current" / "istioctl-1.31.0"), "install", "--filename", str(OPERATOR)]
    command += ["--set", f"revision={NEW}", "--set", "tag=1.31.0", "--skip-confirmation"]
    done = subprocess.run(
        [*command, "--kubeconfig", str(KUBECONFIG)], capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode:
        sys.exit(f"istioctl install failed ({done.returncode}): {done.stdout} {done.stderr}")
