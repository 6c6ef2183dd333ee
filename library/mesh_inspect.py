#!/usr/bin/python
"""Read, once before an upgrade, what only its checks look at; ask whether the account has every right of the run."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_inspect
short_description: Read what the checks before an upgrade look at
description:
  - Reads what C(mesh_read) does not need at every step. Quotas, nodes, budgets, autoscalers, labels of Istio's objects,
    owners of namespaces and webhooks, root certificates, endpoints of istiod.
  - Asks with reviews of the account's own access whether it has every right that the whole run uses.
  - Gives no meaning to what it reads; the filters of this project do.
  - A missing right, a missing API or a time-out is a failure, never an empty list. An API that the server does not
    serve at all is left out.
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
  mesh_namespaces:
    description: Namespaces whose workloads the run moves; rights are asked for them where they do not hold everywhere.
    type: list
    elements: str
    default: []
  probe_namespaces:
    description: Namespaces that probes are sent from.
    type: list
    elements: str
    default: []
  evicted_namespaces:
    description: Namespaces in which something moves by eviction; budgets there that allow none say whom they hold.
    type: list
    elements: str
    default: []
  steps:
    description: Steps whose rights are asked for; empty asks for none.
    type: list
    elements: str
    default: []
  features:
    description: What the run uses of what not every run does. C(evict) and C(rescue) are known.
    type: list
    elements: str
    default: []
  rights_only:
    description: Ask for rights and read nothing else.
    type: bool
    default: false
author: the project's contributors
"""

EXAMPLES = r"""
- name: Inspect the cluster
  mesh_inspect:
    steps: [precheck, install]
  register: inspected
"""

RETURN = r"""
rights:
  description: Missing rights; null where the server does not let the account ask.
  returned: always
  type: list
  elements: dict
objects:
  description: Istio and Gateway API objects with the label C(istio.io/rev), and all of a few kinds.
  returned: always
  type: list
  elements: dict
owners:
  description: Namespaces and webhooks that something keeps as it wants them.
  returned: always
  type: list
  elements: dict
requests:
  description: Number of API requests made, without the access reviews.
  returned: always
  type: int
"""

import base64
import binascii
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mesh_api import (
    CONNECTION_SPEC,
    MeshApi,
    MeshApiError,
    Task,
    annotations_of,
    connected,
    labels,
    meta,
)
from ansible.module_utils.mesh_rights import OBJECTS, missing_rights, wanted
from ansible.module_utils.mesh_roots import read_root_texts
from ansible.module_utils.mesh_rows import short_hash

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
REVISION = "istio.io/rev"
GATEWAY_API = "gateway.networking.k8s.io"
# Read whole, not only with the label: that they are there is what counts.
ALL_OF = {("networking.istio.io", "envoyfilters"), ("extensions.istio.io", "wasmplugins"), (GATEWAY_API, "gateways")}
# What Istio's GatewayClasses name as their controller (pilot/pkg/features, ManagedGatewayController, 1.31).
CONTROLLER = "istio.io/"
# Key -> whether a label (else an annotation); what Argo CD and Flux write on what they keep as it stands in git.
KEEPERS = {
    "argocd.argoproj.io/instance": "Argo CD",
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
}
CPU_AND_MEMORY = ("cpu", "memory", "pods")
# Leftovers of revisions that are looked for by label, beside webhooks and Services, which `mesh_read` knows.
LEFTOVERS = {"ConfigMap": "/api/v1/namespaces/{}/configmaps"}


# (group, plural) -> (preferred version, kind)
Kinds: TypeAlias = dict[tuple[str, str], tuple[str, str]]


def served(api: MeshApi) -> Kinds:
    """Return (group, plural) -> (preferred version, kind) of what the server serves beside its core group.

    One request where the server knows aggregated discovery (Kubernetes 1.30 and later); else one per group and version.
    """
    answer = api.request("GET", "/apis", accept=AGGREGATED)
    if answer.get("kind") != "APIGroupDiscoveryList":
        return _served_singly(api, answer)
    found: Kinds = {}
    for group in answer.get("items") or []:
        name = meta(group).get("name", "")
        for version in group.get("versions") or []:
            for item in version.get("resources") or []:
                kind = (item.get("responseKind") or {}).get("kind", "")
                found.setdefault((name, item.get("resource", "")), (version.get("version", ""), kind))
    return found


def _served_singly(api: MeshApi, groups: dict[str, Any]) -> Kinds:
    found: Kinds = {}
    paths = [
        (g["name"], v["version"], f"/apis/{v['groupVersion']}")
        for g in groups.get("groups") or []
        for v in [g["preferredVersion"], *(v for v in g["versions"] if v != g["preferredVersion"])]
    ]
    for name, version, path in paths:
        for item in api.request("GET", path).get("resources") or []:
            if "/" not in item.get("name", ""):
                found.setdefault((name, item["name"]), (version, item.get("kind", "")))
    return found


def object_row(kind: str, group: str, item: dict[str, Any]) -> dict[str, Any]:
    """Return one object: its revision label, or null where it has none."""
    return {
        "kind": kind,
        "group": group,
        "namespace": meta(item).get("namespace", ""),
        "name": meta(item).get("name", ""),
        "revision": labels(item).get(REVISION),
        "class": (item.get("spec") or {}).get("gatewayClassName", ""),
    }


def keeper_of(item: dict[str, Any]) -> str:
    """Return what keeps an object as it wants it, such as "Argo CD (shop)", or ""."""
    noted = annotations_of(item) | labels(item)
    for key, tool in KEEPERS.items():
        if noted.get(key):
            return f"{tool} ({noted[key].split(':')[0]})"
    return ""


def read_objects(api: MeshApi, kinds: Kinds) -> list[dict[str, Any]]:
    """Return objects that istiod reads by revision: those with the label, of some kinds all."""
    wanted_kinds = {key: there for key, there in kinds.items() if key[1] in OBJECTS.get(key[0], ())}

    def read(entry: tuple[tuple[str, str], tuple[str, str]]) -> list[dict[str, Any]]:
        (group, plural), (version, kind) = entry
        selector = "" if (group, plural) in ALL_OF else REVISION
        gateways = (group, plural) == (GATEWAY_API, "gateways")  # their class stands in the spec
        found = api.list(f"/apis/{group}/{version}/{plural}", selector, metadata_only=not gateways)
        return [object_row(kind, group, item) for item in found]

    with ThreadPoolExecutor(4) as pool:
        return [row for rows in pool.map(read, sorted(wanted_kinds.items())) for row in rows]


def budget_row(item: dict[str, Any]) -> dict[str, Any]:
    """Return one PodDisruptionBudget."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    return {
        "namespace": meta(item).get("namespace", ""),
        "name": meta(item).get("name", ""),
        "revision": labels(item).get(REVISION),
        "selector": (spec.get("selector") or {}).get("matchLabels") or {},
        "expressions": (spec.get("selector") or {}).get("matchExpressions") or [],
        "allowed": status.get("disruptionsAllowed") or 0,
        "expected": status.get("expectedPods") or 0,
        "holds": [],
    }


def selector_of(row: dict[str, Any]) -> str:
    """Return the label selector of a budget as a list request takes it."""
    terms = [f"{key}={value}" for key, value in sorted(row["selector"].items())]
    for term in row["expressions"]:
        key, values = term.get("key", ""), ",".join(term.get("values") or [])
        how = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        terms.append(how[term.get("operator", "")])
    return ",".join(terms)


def read_budgets(api: MeshApi, istio: str, evicted: set[str]) -> list[dict[str, Any]]:
    """Return the budgets of the Istio namespace and those elsewhere that allow nothing, with whose pods they hold."""
    rows = api.rows("/apis/policy/v1/poddisruptionbudgets", budget_row)
    kept = [r for r in rows if r["namespace"] == istio or (not r["allowed"] and r["expected"])]
    for row in kept:
        if row["namespace"] in evicted and not row["allowed"]:
            selector = selector_of(row)  # "" is all pods of the namespace, as an empty selector of policy/v1 means
            pods = api.list(f"/api/v1/namespaces/{row['namespace']}/pods", selector, metadata_only=True)
            row["holds"] = sorted(
                {
                    f"{owner.get('kind')} {row['namespace']}/{owner.get('name')}"
                    for pod in pods
                    for owner in meta(pod).get("ownerReferences") or []
                    if owner.get("controller")
                }
            )
    return kept


def scaler_row(item: dict[str, Any]) -> dict[str, Any]:
    """Return one HorizontalPodAutoscaler: what it scales."""
    target = (item.get("spec") or {}).get("scaleTargetRef") or {}
    return {
        "name": meta(item).get("name", ""),
        "revision": labels(item).get(REVISION),
        "target": f"{target.get('kind', '')} {target.get('name', '')}",
        "min": (item.get("spec") or {}).get("minReplicas") or 1,
    }


def quota_row(item: dict[str, Any]) -> dict[str, Any]:
    """Return one ResourceQuota: its limits and what is used of them."""
    status = item.get("status") or {}
    return {
        "name": meta(item).get("name", ""),
        "hard": status.get("hard") or (item.get("spec") or {}).get("hard") or {},
        "used": status.get("used") or {},
    }


def node_row(item: dict[str, Any]) -> dict[str, Any]:
    """Return one node: what it can hold, and whether it takes pods now."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    ready = {c.get("type"): c.get("status") for c in status.get("conditions") or []}.get("Ready") == "True"
    hard = [t for t in spec.get("taints") or [] if t.get("effect") in ("NoSchedule", "NoExecute")]
    allocatable = status.get("allocatable") or {}
    return {
        "name": meta(item).get("name", ""),
        "open": bool(ready and not spec.get("unschedulable") and not hard),
        "allocatable": {key: allocatable.get(key, "0") for key in CPU_AND_MEMORY},
    }


def istiod_row(item: dict[str, Any]) -> dict[str, Any]:
    """Return what one istiod Deployment asks for: replicas, and the requests of one pod."""
    template = ((item.get("spec") or {}).get("template") or {}).get("spec") or {}
    asked = [(c.get("resources") or {}).get("requests") or {} for c in template.get("containers") or []]
    return {
        "name": meta(item).get("name", ""),
        "revision": labels(item).get(REVISION) or "default",
        "requests": {key: [a[key] for a in asked if a.get(key)] for key in ("cpu", "memory")},
    }


def webhook_cas(item: dict[str, Any]) -> dict[str, str]:
    """Return hash -> certificate text (PEM) of the CA bundles of a webhook; the hash is the one of `mesh_read`."""
    found = {}
    for hook in item.get("webhooks") or []:
        bundle = (hook.get("clientConfig") or {}).get("caBundle")
        if bundle:
            try:
                found[short_hash(bundle)] = base64.b64decode(bundle, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                found[short_hash(bundle)] = ""
    return found


def read_webhooks(api: MeshApi) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Return (CA bundles by hash, the kept ones of Istio's webhooks)."""
    bundles: dict[str, str] = {}
    owners: list[dict[str, str]] = []
    for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        kind = "MutatingWebhookConfiguration" if plural.startswith("m") else "ValidatingWebhookConfiguration"
        for item in api.list(f"{ADMISSION}/{plural}", REVISION):
            bundles |= webhook_cas(item)
            owners += _owner(kind, item)
    return bundles, owners


def _owner(kind: str, item: dict[str, Any]) -> list[dict[str, str]]:
    keeper = keeper_of(item)
    return [{"kind": kind, "name": meta(item).get("name", ""), "by": keeper}] if keeper else []


def read_namespaces(api: MeshApi) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Return (every namespace with all its labels, the kept ones)."""
    found = api.list("/api/v1/namespaces", metadata_only=True)
    rows = [{"name": meta(n).get("name", ""), "labels": labels(n)} for n in found]
    return rows, [owner for n in found for owner in _owner("Namespace", n)]


def read_endpoints(api: MeshApi, istio: str) -> dict[str, int]:
    """Return Service name -> number of ready endpoints, in the Istio namespace; one without slices is not in it."""
    found: dict[str, int] = {}
    for item in api.list(f"/apis/discovery.k8s.io/v1/namespaces/{istio}/endpointslices"):
        service = labels(item).get("kubernetes.io/service-name", "")
        # a null condition means ready (Kubernetes API discovery/v1, EndpointConditions)
        ready = [e for e in item.get("endpoints") or [] if (e.get("conditions") or {}).get("ready") is not False]
        found[service] = found.get(service, 0) + len(ready)
    return found


def read_roots(api: MeshApi) -> dict[str, str]:
    """Return namespace -> hash of the root certificate that its proxies trust."""
    return {namespace: short_hash(text) for namespace, text in read_root_texts(api).items()}


def read_leftovers(api: MeshApi, istio: str) -> list[dict[str, str]]:
    """Return labelled objects that an earlier revision may have left."""
    return [
        {"kind": kind, "name": meta(item).get("name", ""), "revision": labels(item).get(REVISION, "")}
        for kind, path in LEFTOVERS.items()
        for item in api.list(path.format(istio), REVISION, metadata_only=True)
    ]


def inspect(api: MeshApi, kinds: Kinds, options: dict[str, Any]) -> dict[str, Any]:
    """Return everything but the rights; some lists at a time."""
    istio = options["istio_namespace"]
    jobs: dict[str, Callable[[], Any]] = {
        "objects": lambda: read_objects(api, kinds),
        "budgets": lambda: read_budgets(api, istio, set(options["evicted_namespaces"])),
        "scalers": lambda: api.rows(f"/apis/autoscaling/v2/namespaces/{istio}/horizontalpodautoscalers", scaler_row),
        "quotas": lambda: api.rows(f"/api/v1/namespaces/{istio}/resourcequotas", quota_row),
        "nodes": lambda: api.rows("/api/v1/nodes", node_row),
        "istiods": lambda: api.rows(f"/apis/apps/v1/namespaces/{istio}/deployments", istiod_row, "app=istiod"),
        "webhooks": lambda: read_webhooks(api),
        "namespaces": lambda: read_namespaces(api),
        "endpoints": lambda: read_endpoints(api, istio),
        "roots": lambda: read_roots(api),
        "leftovers": lambda: read_leftovers(api, istio),
        "daemon_sets": lambda: [
            object_row("DaemonSet", "apps", d)
            for d in api.list("/apis/apps/v1/daemonsets", REVISION, metadata_only=True)
        ],
        "operators": lambda: read_operators(api, kinds),
        "gateway_classes": lambda: read_classes(api, kinds),
    }
    with ThreadPoolExecutor(4) as pool:
        running = {name: pool.submit(job) for name, job in jobs.items()}
        found = {name: future.result() for name, future in running.items()}
    bundles, hooks = found.pop("webhooks")
    rows, kept = found.pop("namespaces")
    found |= {"ca_bundles": bundles, "namespaces": rows, "owners": kept + hooks}
    return found


def read_operators(api: MeshApi, kinds: Kinds) -> list[dict[str, Any]]:
    """Return IstioOperator objects in the cluster; [] where it does not even know the kind."""
    there = kinds.get(("install.istio.io", "istiooperators"))
    if not there:
        return []
    found = api.list(f"/apis/install.istio.io/{there[0]}/istiooperators", metadata_only=True)
    return [object_row("IstioOperator", "install.istio.io", item) for item in found]


def read_classes(api: MeshApi, kinds: Kinds) -> list[str]:
    """Return the names of the GatewayClasses that Istio controls."""
    there = kinds.get((GATEWAY_API, "gatewayclasses"))
    found = api.list(f"/apis/{GATEWAY_API}/{there[0]}/gatewayclasses") if there else []
    return sorted(
        meta(c).get("name", "")
        for c in found
        if str((c.get("spec") or {}).get("controllerName", "")).startswith(CONTROLLER)
    )


def run(task: Task, api: MeshApi) -> dict[str, Any]:
    """Read and ask what the options say."""
    started = time.monotonic()
    options = task.params
    rights: list[dict[str, Any]] | None = []
    kinds = served(api)
    discovery = api.requests
    if options["steps"]:
        # first: a reader without rights fails with the whole list, not with the first 403
        rows = wanted(options["steps"], options["features"], set(kinds))
        rights = missing_rights(
            api, rows, options["istio_namespace"], options["mesh_namespaces"], options["probe_namespaces"]
        )
    reviews = api.requests
    found = {"incomplete": "not asked"} if options["rights_only"] else _inspected(api, kinds, options, rights)
    return {
        "changed": False,
        "rights": rights,
        **found,
        "requests": api.requests - reviews + discovery,
        "reviews": reviews - discovery,
        "seconds": round(time.monotonic() - started, 3),
    }


def _inspected(
    api: MeshApi, kinds: Kinds, options: dict[str, Any], rights: list[dict[str, Any]] | None
) -> dict[str, Any]:
    """Return what is there, or nothing but `incomplete` where rights are missing: these are what must be told."""
    try:
        return {"incomplete": ""} | inspect(api, kinds, options)
    except MeshApiError as error:
        if error.status == 403 and rights:
            return {"incomplete": str(error)}
        raise


SPEC: dict[str, Any] = CONNECTION_SPEC | {
    "istio_namespace": {"type": "str", "default": "istio-system"},
    "mesh_namespaces": {"type": "list", "elements": "str", "default": []},
    "probe_namespaces": {"type": "list", "elements": "str", "default": []},
    "evicted_namespaces": {"type": "list", "elements": "str", "default": []},
    "steps": {"type": "list", "elements": "str", "default": []},
    "features": {"type": "list", "elements": "str", "default": []},
    "rights_only": {"type": "bool", "default": False},
}


def main() -> None:
    """Entry point, where the task runs in a Python of its own (see action_plugins/in_process.py)."""
    connected(AnsibleModule(argument_spec=SPEC, supports_check_mode=True), run)


if __name__ == "__main__":
    main()
