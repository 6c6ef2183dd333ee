#!/usr/bin/python
"""Read the mesh: control planes, injectors, tags, namespaces, workloads with their proxies, and the journal."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_read
short_description: Read an Istio mesh as compact rows
description:
  - Lists what an upgrade must know in a few paged requests and returns short rows, one per workload.
  - Gives no meaning to what it reads; the filters of this project do.
  - A missing right, a missing API or a time-out is a failure, never an empty list.
  - Never changes anything.
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
  scope:
    description:
      - C(full) reads every workload of the cluster, C(control) only control planes, webhooks, namespaces and journal.
    type: str
    choices: [full, control]
    default: full
  namespaces:
    description: With C(scope=full), read workloads of these namespaces only; empty means all.
    type: list
    elements: str
    default: []
  select_namespaces:
    description: Label selectors; for each the names of the namespaces that it selects are returned.
    type: list
    elements: str
    default: []
  xds_of:
    description: Revision whose istiod replicas are asked, one by one, which proxies are connected to them.
    type: str
    default: ''
  connections:
    description:
      - Ask every running istiod of every revision for its proxies, and return where that disagrees with the pods.
    type: bool
    default: false
  gateways:
    description: Also return the Gateways of the Gateway API whose pods Istio makes, where the cluster knows that API.
    type: bool
    default: false
  root:
    description: Also return hashes of the root certificates that proxies of the Istio namespace trust.
    type: bool
    default: false
  references_to:
    description: Name of an istiod Service; objects that name it are listed.
    type: str
    default: ''
  prune_selector:
    description: Label selector; the objects that an install with these labels would look at for pruning are listed.
    type: str
    default: ''
author: the project's contributors
"""

EXAMPLES = r"""
- name: Read the mesh
  mesh_read:
    kubeconfig: ~/.kube/config
  register: mesh_facts
"""

RETURN = r"""
control_planes:
  description: One row per istiod Deployment.
  returned: always
  type: list
  elements: dict
roots:
  description: One hash for each root certificate of the mesh; empty where the mesh keeps no ConfigMap with it.
  returned: root is true
  type: list
  elements: str
workloads:
  description: One row per workload that the mesh concerns.
  returned: scope is full
  type: list
  elements: dict
requests:
  description: Number of API requests made.
  returned: always
  type: int
"""

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mesh_api import CONNECTION_SPEC, MeshApi, MeshApiError, Task, connected, labels, meta
from ansible.module_utils.mesh_prunable import ADMISSION, list_prunable
from ansible.module_utils.mesh_roots import read_root_texts
from ansible.module_utils.mesh_rows import (
    assemble,
    calls_istiod,
    control_plane_row,
    deployment_above,
    foreign_row,
    gateway_row,
    namespace_row,
    pod_row,
    replica_set_owner,
    service_row,
    short_hash,
    webhook_row,
    workload_row,
)

JOURNAL = "app.kubernetes.io/managed-by=istio-upgrade"
# path under a namespace -> kind; what can own an injected pod and carries a template.
WORKLOADS = {
    "/apis/apps/v1|deployments": "Deployment",
    "/apis/apps/v1|statefulsets": "StatefulSet",
    "/apis/apps/v1|daemonsets": "DaemonSet",
    "/apis/batch/v1|cronjobs": "CronJob",
    "/apis/batch/v1|jobs": "Job",
}
# Disagreements that are told by name.
TOLD = 50
# Seconds between two looks at connections; a proxy that lost its istiod connects again within one or two.
SETTLE = 3
# In more namespaces than this, one list of the whole cluster is cheaper than one per namespace and kind.
FEW = 5
# ReplicaSets that are asked for one by one; more of them are listed.
SINGLY = 10
REPLICA_SETS = "/apis/apps/v1|replicasets"
# A Deployment gives this label to each ReplicaSet it makes, and keeps up to eleven of them.
NOT_OF_DEPLOYMENTS = "!pod-template-hash"
PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
VALIDATORS = ("istiod-default-validator", "istio-validator")
GATEWAY_API = "gateway.networking.k8s.io"
# Controllers of the GatewayClasses whose Gateways get pods from istiod (pkg/config/constants, 1.31).
MANAGED = ("istio.io/gateway-controller", "istio.io/mesh-controller")
REFERENCING = ("virtualservices", "destinationrules", "gateways", "serviceentries")


def _in(namespace: str, prefix_and_plural: str) -> str:
    prefix, plural = prefix_and_plural.split("|")
    return f"{prefix}/namespaces/{namespace}/{plural}" if namespace else f"{prefix}/{plural}"


def read_control(api: MeshApi, istio: str) -> dict[str, Any]:
    """Return control planes, webhooks, Services, namespaces, the cluster's identity and the journal."""
    version = api.request("GET", "/version")
    namespaces = api.list("/api/v1/namespaces")
    cluster = next((meta(n).get("uid", "") for n in namespaces if meta(n).get("name") == "kube-system"), "")
    deployments = api.list(f"/apis/apps/v1/namespaces/{istio}/deployments", "app=istiod")
    journal = {}
    for item in api.list(f"/api/v1/namespaces/{istio}/configmaps", JOURNAL):
        try:
            record = json.loads((item.get("data") or {}).get("record") or "")
        except json.JSONDecodeError as error:
            raise MeshApiError(
                f"The journal ConfigMap {istio}/{meta(item)['name']} holds no record: {error}. It was changed by "
                "something else. Next: restore it, or delete it if this upgrade is to start over."
            ) from None
        journal[meta(item)["name"]] = record
    return {
        "cluster": {"uid": cluster, "version": version.get("gitVersion", ""), "server": api.server},
        "istio_namespace": istio,
        "control_planes": [control_plane_row(d) for d in deployments],
        **read_webhooks(api),
        "services": [service_row(s) for s in api.list(f"/api/v1/namespaces/{istio}/services", "istio.io/rev")],
        "namespaces": [namespace_row(n) for n in namespaces],
        "journal": journal,
    }


def read_root(api: MeshApi, istio: str) -> list[str]:
    """Return a hash of each certificate in the root ConfigMap of the Istio namespace."""
    blocks = [block for text in read_root_texts(api, istio).values() for block in PEM.findall(text)]
    return sorted({short_hash("".join(block.split())) for block in blocks})


def read_webhooks(api: MeshApi) -> dict[str, list[dict[str, Any]]]:
    """Return injectors and validators by Istio's labels and names, and foreign ones that call istiod without them."""
    found: dict[str, list[dict[str, Any]]] = {"injectors": [], "validators": [], "foreign_webhooks": []}
    for key, kind in (("injectors", "MutatingWebhookConfiguration"), ("validators", "ValidatingWebhookConfiguration")):
        for item in api.list(f"{ADMISSION}/{kind.lower()}s"):
            row = webhook_row(item)
            named = row["app"] == "sidecar-injector" if key == "injectors" else row["name"].startswith(VALIDATORS)
            if row["revision"] or named:
                found[key].append(row)
            elif calls_istiod(row):
                found["foreign_webhooks"].append(foreign_row(kind, item))
    return found


def read_workloads(api: MeshApi, only: list[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return (workload rows and loose pods, every pod's row), of all namespaces or of some; two lists at a time."""
    wanted = set(only)
    spaces = sorted(wanted) if 0 < len(wanted) <= FEW else [""]
    workloads: dict[tuple[str, str, str], dict[str, Any]] = {}
    pods: list[dict[str, Any]] = []
    with ThreadPoolExecutor(1) as beside:
        coming = beside.submit(read_owners, api, spaces)
        for namespace in spaces:
            pods += api.rows(_in(namespace, "/api/v1|pods"), pod_row)
        for row in coming.result():
            if not wanted or row["namespace"] in wanted:
                workloads[(row["kind"], row["namespace"], row["name"])] = row
    if wanted:
        pods = [pod for pod in pods if pod["namespace"] in wanted]
    parents, templates = read_parents(api, spaces, pods, workloads)
    found, loose = assemble(workloads, parents, pods)
    rows = [with_template(row, templates) for row in found]
    return {"workloads": rows, "loose_pods": loose, "pods_read": len(pods)}, pods


def read_owners(api: MeshApi, spaces: list[str]) -> list[dict[str, Any]]:
    """Return rows of everything that can own pods and is read whole."""
    rows: list[dict[str, Any]] = []
    for namespace in spaces:
        for path, kind in WORKLOADS.items():
            rows += api.rows(_in(namespace, path), partial(workload_row, kind))
    return rows


def read_parents(
    api: MeshApi,
    spaces: list[str],
    pods: list[dict[str, Any]],
    workloads: dict[tuple[str, str, str], dict[str, Any]],
) -> tuple[dict[tuple[str, str], tuple[str, str, str]], dict[tuple[str, str], dict[str, Any]]]:
    """Return (ReplicaSet -> its owner, ReplicaSet of its own -> its row) for those above injected pods.

    Only ReplicaSets whose names do not tell are asked for: one by one, or of many all those that no Deployment made.
    """
    unknown = {
        (pod["namespace"], pod["owner_name"])
        for pod in pods
        if pod["owner_kind"] == "ReplicaSet" and pod["proxy"] and not deployment_above(pod, workloads)
    }
    if len(unknown) > SINGLY:
        parents = dict(list_sets(api, spaces, replica_set_owner, NOT_OF_DEPLOYMENTS, metadata_only=True))
        if len(unknown - parents.keys()) > SINGLY:  # orphans of Deployments
            parents = dict(list_sets(api, spaces, replica_set_owner, metadata_only=True))
    else:
        parents = {}
    items = read_singly(api, unknown - parents.keys())
    parents |= dict(map(replica_set_owner, items))
    rows = {own: workload_row("ReplicaSet", item) for item in items for own, _owner in (replica_set_owner(item),)}
    alone = {own for own in unknown if own in parents and not parents[own][0]}
    if len(alone - rows.keys()) > SINGLY:
        listed = list_sets(api, spaces, partial(row_if_wanted, alone), NOT_OF_DEPLOYMENTS)
        rows |= {(row["namespace"], row["name"]): row for row in listed if row}
    for item in read_singly(api, alone - rows.keys()):
        rows[replica_set_owner(item)[0]] = workload_row("ReplicaSet", item)
    return parents, rows


def list_sets(
    api: MeshApi, spaces: list[str], make: Callable[[dict[str, Any]], Any], selector: str = "", **how: bool
) -> list[Any]:
    """Return `make(ReplicaSet)` for those of some namespaces."""
    return [row for space in spaces for row in api.rows(_in(space, REPLICA_SETS), make, selector, **how)]


def read_singly(api: MeshApi, wanted: set[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return ReplicaSets by (namespace, name), one request each; those that are gone meanwhile are left out."""
    items = [api.get(f"/apis/apps/v1/namespaces/{space}/replicasets/{name}") for space, name in sorted(wanted)]
    return [item for item in items if item]


def row_if_wanted(wanted: set[tuple[str, str]], item: dict[str, Any]) -> dict[str, Any] | None:
    """Return the row of a ReplicaSet that is wanted; of others nothing is kept."""
    return workload_row("ReplicaSet", item) if replica_set_owner(item)[0] in wanted else None


def with_template(row: dict[str, Any], templates: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    """Return a row; of a ReplicaSet of its own with what its template really asks, where it could be read."""
    own = templates.get((row["namespace"], row["name"])) if row["kind"] == "ReplicaSet" else None
    return own | {key: row[key] for key in ("proxies", "without_proxy", "ended")} if own else row


def concerns_mesh(row: dict[str, Any], labelled: set[str]) -> bool:
    """Tell whether a workload has to do with the mesh: it runs proxies, or something asks for injection."""
    return bool(row["proxies"] or row["namespace"] in labelled or row["template_labels"] or row["template_annotations"])


def _stopped(pod: dict[str, Any], container: str) -> bool:
    """Tell whether a container is told to be not running (waiting or ended), such as in a crash loop."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    state = next((s.get("state") or {} for s in statuses if s.get("name") == container), {})
    return bool(state) and "running" not in state


def read_xds(api: MeshApi, istio: str, revision: str) -> dict[str, Any]:
    """Ask every running replica of a revision's istiod for its connected proxies; a silent replica is a failure.

    Source: istiod's `/debug/connections` (pilot/pkg/xds/debug.go), asked from inside the pod with
    `pilot-discovery request`, which needs no port-forward and works with distroless images. A replica whose process
    does not run (an image that is not there, a crash loop) has no connections and is not asked.
    """
    answers: dict[str, list[str]] = {}
    for pod in api.list(f"/api/v1/namespaces/{istio}/pods", f"app=istiod,istio.io/rev={revision}"):
        if meta(pod).get("deletionTimestamp") or (pod.get("status") or {}).get("phase") != "Running":
            continue
        if _stopped(pod, "discovery"):
            continue
        name = meta(pod)["name"]
        code, out, err = api.exec(
            istio, name, "discovery", ["/usr/local/bin/pilot-discovery", "request", "GET", "/debug/connections"]
        )
        try:
            document = json.loads(out)
            if code or not isinstance(document.get("totalClients"), int):
                raise ValueError(out)
            clients = document.get("clients") or []
        except (ValueError, AttributeError):
            raise MeshApiError(
                f"istiod {istio}/{name} did not say which proxies are connected (exit code {code}): "
                f"{' '.join((err or out).split())[:300]}. An istiod that cannot be asked is not an istiod without "
                f"clients. Next: kubectl logs -n {istio} {name}."
            ) from None
        # connectionId is "<pod>.<namespace>-<number>"
        answers[name] = sorted({str(c.get("connectionId", "")).rsplit("-", 1)[0] for c in clients})
    return {"xds": answers}


def ask_all(api: MeshApi, istio: str, planes: list[dict[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Return revision -> istiod pod -> its connected proxies, as `<pod>.<namespace>`."""
    return {plane["revision"]: read_xds(api, istio, plane["revision"])["xds"] for plane in planes}


def disagreeing(answers: dict[str, dict[str, list[str]]], pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return ready injected proxies that are connected to no istiod of the revision that injected them (case C10)."""
    connected: dict[str, set[str]] = {}
    for revision, replicas in answers.items():
        for clients in replicas.values():
            for client in clients:
                connected.setdefault(client, set()).add(revision)
    found = []
    for pod in pods:
        if not (pod["proxy"] and pod["revision"] and pod["live"] and pod["ready"]) or pod["terminating"]:
            continue
        to = connected.get(f"{pod['name']}.{pod['namespace']}", set())
        if pod["revision"] not in to:
            others = ", ".join(sorted(to))
            why = f"injected by {pod['revision']}, and connected to {'an istiod of ' + others if to else 'no istiod'}"
            row = {"namespace": pod["namespace"], "pod": pod["name"], "injected": pod["revision"]}
            found.append(row | {"image": pod["image"], "connected_to": others, "why": why})
    return found


def read_truth(api: MeshApi, istio: str, planes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> dict[str, Any]:
    """Compare, proxy by proxy, the revision that injected it with the istiods it is connected to (case C10).

    istiod ends every connection after half an hour (its flag keepaliveMaxServerConnectionAge), so in a large mesh
    some proxy is always between two of them, and pods go while they are looked at: only what still disagrees when
    everything is asked a second time counts.

    Returns {asked: revision -> istiod pods, disagreements: at most `TOLD` of {namespace, pod, injected, image,
    connected_to, why}, count: how many there are}.
    """
    answers = ask_all(api, istio, planes)
    found = disagreeing(answers, pods)
    if found:
        time.sleep(SETTLE)
        answers = ask_all(api, istio, planes)
        again = {(item["namespace"], item["pod"]) for item in found}
        suspects = [pod for pod in pods if (pod["namespace"], pod["name"]) in again]
        still = {(item["namespace"], item["pod"]) for item in disagreeing(answers, suspects)}
        found = disagreeing(answers, read_again(api, still))
    asked = {revision: sorted(replicas) for revision, replicas in answers.items()}
    return {"asked": asked, "disagreements": found[:TOLD], "count": len(found)}


def read_again(api: MeshApi, wanted: set[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the rows of pods by (namespace, name) as they are now: one by one, or of many out of one list."""
    if len(wanted) <= SINGLY:
        paths = [f"/api/v1/namespaces/{space}/pods/{name}" for space, name in sorted(wanted)]
        return [pod_row(item) for path in paths if (item := api.get(path))]
    spaces = sorted({space for space, _name in wanted})
    rows: list[dict[str, Any] | None] = []
    for space in spaces if len(spaces) <= FEW else [""]:
        rows += api.rows(
            _in(space, "/api/v1|pods"),
            lambda item: pod_row(item) if (meta(item)["namespace"], meta(item)["name"]) in wanted else None,
        )
    return [row for row in rows if row]


def read_references(api: MeshApi, istio: str, service: str) -> dict[str, Any]:
    """List Istio objects and EndpointSlices made by hand that name an istiod Service."""
    needles = (f'"{service}.{istio}', f'"{service}"')
    found: list[str] = []
    networking = api.served("networking.istio.io")
    if networking:
        for plural in REFERENCING:
            for item in api.list(f"/apis/{networking}/{plural}"):
                if any(n in json.dumps(item.get("spec") or {}) for n in needles):
                    found.append(f"{item.get('kind') or plural} {meta(item).get('namespace')}/{meta(item).get('name')}")
    for item in api.list("/apis/discovery.k8s.io/v1/endpointslices", f"kubernetes.io/service-name={service}"):
        manager = labels(item).get("endpointslice.kubernetes.io/managed-by", "")
        if not manager.startswith(("endpointslice-controller", "endpointslicemirroring")):
            found.append(
                f"EndpointSlice {meta(item).get('namespace')}/{meta(item).get('name')} (managed by {manager or 'hand'})"
            )
    return {"references": sorted(found)}


def read_gateways(api: MeshApi) -> dict[str, Any]:
    """Return the Gateways of Istio's classes; [] where the cluster does not know the Gateway API."""
    version = api.served(GATEWAY_API)
    if not version:
        return {"gateways": []}
    classes = {
        meta(item).get("name")
        for item in api.list(f"/apis/{version}/gatewayclasses")
        if (item.get("spec") or {}).get("controllerName") in MANAGED
    }
    return {"gateways": [row for row in api.rows(f"/apis/{version}/gateways", gateway_row) if row["class"] in classes]}


def prunable_row(kind: str, item: dict[str, Any]) -> dict[str, str]:
    """Return kind, namespace and name of an object that an install would look at for pruning."""
    return {"kind": kind, "namespace": meta(item).get("namespace", ""), "name": meta(item).get("name", "")}


def run(task: Task, api: MeshApi) -> dict[str, Any]:
    """Read what the options ask for."""
    started = time.monotonic()
    options = task.params
    facts: dict[str, Any] = {
        "changed": False,
        "scope": options["scope"],
        **read_control(api, options["istio_namespace"]),
    }
    pods: list[dict[str, Any]] = []
    if options["scope"] == "full":
        found, pods = read_workloads(api, options["namespaces"])
        facts |= found
        labelled = {n["name"] for n in facts["namespaces"] if n["labels"]}
        facts["workloads"] = [w for w in facts["workloads"] if concerns_mesh(w, labelled)]
    facts["selected"] = {
        selector: [meta(n).get("name", "") for n in api.list("/api/v1/namespaces", selector, metadata_only=True)]
        for selector in options["select_namespaces"]
    }
    if options["xds_of"]:
        facts |= read_xds(api, options["istio_namespace"], options["xds_of"])
    if options["connections"] and options["scope"] == "full":
        facts["truth"] = read_truth(api, options["istio_namespace"], facts["control_planes"], pods)
    if options["gateways"]:
        facts |= read_gateways(api)
    if options["root"]:
        facts["roots"] = read_root(api, options["istio_namespace"])
    if options["references_to"]:
        facts |= read_references(api, options["istio_namespace"], options["references_to"])
    if options["prune_selector"]:
        facts["prunable"] = list_prunable(api, options["prune_selector"], prunable_row)
    return facts | {"requests": api.requests, "seconds": round(time.monotonic() - started, 3)}


SPEC: dict[str, Any] = CONNECTION_SPEC | {
    "istio_namespace": {"type": "str", "default": "istio-system"},
    "scope": {"type": "str", "choices": ["full", "control"], "default": "full"},
    "namespaces": {"type": "list", "elements": "str", "default": []},
    "select_namespaces": {"type": "list", "elements": "str", "default": []},
    "xds_of": {"type": "str", "default": ""},
    "connections": {"type": "bool", "default": False},
    "gateways": {"type": "bool", "default": False},
    "root": {"type": "bool", "default": False},
    "references_to": {"type": "str", "default": ""},
    "prune_selector": {"type": "str", "default": ""},
}


def main() -> None:
    """Entry point, where the task runs in a Python of its own (see action_plugins/in_process.py)."""
    connected(AnsibleModule(argument_spec=SPEC, supports_check_mode=True), run)


if __name__ == "__main__":
    main()
