"""Kubernetes objects -> the compact rows of `mesh_facts`. No request is made here and no meaning is given.

Rows are per workload, with pods counted by (image, injected revision, native or classic, ready): a mesh of
10,000 pods becomes a few thousand short rows. What the rows mean (stale, safe, finished) is decided by the
filters in `filter_plugins/mesh_logic`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ansible.module_utils.mesh_api import annotations_of, labels, meta

PROXY = "istio-proxy"
# The only labels and annotations that say something about injection (Istio 1.24-1.31,
# manifests/charts/istio-control/istio-discovery/templates/mutatingwebhook.yaml, pkg/kube/inject/inject.go).
INJECTION_LABELS = (
    "istio-injection",
    "istio.io/rev",
    "istio.io/tag",
    "sidecar.istio.io/inject",
    "topology.istio.io/network",
)
INJECTION_ANNOTATIONS = (
    "istio.io/rev",
    "sidecar.istio.io/inject",
    "sidecar.istio.io/proxyImage",
    "sidecar.istio.io/proxyImageType",
    "inject.istio.io/templates",
)
API_VERSIONS = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "CronJob": "batch/v1",
    "Job": "batch/v1",
}
# How a Job ends (Kubernetes API batch/v1, JobCondition).
ENDED = ("Complete", "Failed")
GATEWAY_NAME = "gateway.networking.k8s.io/gateway-name"


def _pick(found: dict[str, str], wanted: tuple[str, ...]) -> dict[str, str]:
    return {key: found[key] for key in wanted if key in found}


def short_hash(value: Any) -> str:
    """Return 12 hex digits that change when the JSON value changes."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def injected_revision(pod: dict[str, Any]) -> str:
    """Return the revision that injected a pod, or "" when it carries none.

    The annotation `istio.io/rev` (since Istio 1.18) is the revision, never the tag; before that only the JSON in
    `sidecar.istio.io/status` has it (pkg/kube/inject/inject.go). A pod LABEL of that name may be a tag: not read.
    """
    noted = annotations_of(pod)
    if noted.get("istio.io/rev"):
        return str(noted["istio.io/rev"])
    try:
        status = json.loads(noted.get("sidecar.istio.io/status") or "{}")
    except json.JSONDecodeError:
        return ""
    return str(status.get("revision") or "") if isinstance(status, dict) else ""


def controller_of(item: dict[str, Any]) -> tuple[str, str, str]:
    """Return (kind, name, API version) of the owner that controls an object, each "" where there is none.

    A custom kind that shares its name with a kind that is read (StatefulSet and Job have such doubles) is told apart
    as kubectl does: `StatefulSet.apps.kruise.io`.
    """
    owner: dict[str, Any] = next((o for o in meta(item).get("ownerReferences") or [] if o.get("controller")), {})
    kind, api = owner.get("kind", ""), owner.get("apiVersion", "")
    group = api.rpartition("/")[0]
    if api and kind in API_VERSIONS and group != API_VERSIONS[kind].rpartition("/")[0]:
        kind = f"{kind}.{group}"
    return kind, owner.get("name", ""), api


def find_proxy(pod: dict[str, Any]) -> tuple[dict[str, Any] | None, bool]:
    """Return (the istio-proxy container, whether it is a native sidecar).

    Found by name in both lists: `istio-init` and `istio-validation` carry the same image (cases B01-B03).
    """
    spec = pod.get("spec") or {}
    for container in spec.get("initContainers") or []:
        if container.get("name") == PROXY:
            return container, True
    for container in spec.get("containers") or []:
        if container.get("name") == PROXY:
            return container, False
    return None, False


def _ready(pod: dict[str, Any], native: bool) -> bool:
    status = pod.get("status") or {}
    conditions = {c.get("type"): c.get("status") for c in status.get("conditions") or []}
    listed = status.get("initContainerStatuses" if native else "containerStatuses") or []
    proxy: dict[str, Any] = next((c for c in listed if c.get("name") == PROXY), {})
    return conditions.get("Ready") == "True" and bool(proxy.get("ready"))


def settings_of(proxy: dict[str, Any]) -> str:
    """Return a short hash of the settings that injection wrote into a proxy (env PROXY_CONFIG as it stands), or "".

    They come from `meshConfig.defaultConfig`, ProxyConfig objects and annotations, and only injection applies them
    (manifests/charts/istio-control/istio-discovery/files/injection-template.yaml, 1.24-1.31).
    """
    value = next((e.get("value") for e in proxy.get("env") or [] if e.get("name") == "PROXY_CONFIG"), "")
    return short_hash(value) if value else ""


def pod_row(pod: dict[str, Any]) -> dict[str, Any]:
    """Return one pod as a row: who owns it, which proxy it runs, whether it counts as live.

    `live` is false for pods that ended (phase Succeeded or Failed): a completed Job holds nothing (case B12).
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    proxy, native = find_proxy(pod)
    owner_kind, owner_name, owner_api = controller_of(pod)
    noted, labelled = annotations_of(pod), labels(pod)
    waiting = ""
    for entry in (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or []):
        reason = ((entry.get("state") or {}).get("waiting") or {}).get("reason") or ""
        if reason and reason != "PodInitializing":
            waiting = f"{entry.get('name')}: {reason}"
    return {
        "namespace": meta(pod).get("namespace", ""),
        "name": meta(pod).get("name", ""),
        "owner_kind": owner_kind,
        "owner_name": owner_name,
        "owner_api": owner_api,
        "hash": labelled.get("pod-template-hash", ""),
        "proxy": proxy is not None,
        "image": str((proxy or {}).get("image") or ""),
        "revision": injected_revision(pod) if proxy else "",
        "settings": settings_of(proxy or {}),
        "native": native,
        "ready": _ready(pod, native) if proxy else False,
        "phase": status.get("phase") or "Unknown",
        "live": status.get("phase") not in ("Succeeded", "Failed"),
        "terminating": bool(meta(pod).get("deletionTimestamp")),
        "created": meta(pod).get("creationTimestamp", ""),
        "host_network": bool(spec.get("hostNetwork")),
        "pinned": noted.get("sidecar.istio.io/proxyImage", ""),
        "gateway": GATEWAY_NAME in labelled or "gateway" in noted.get("inject.istio.io/templates", ""),
        "waiting": waiting,
        "labels": _pick(labelled, INJECTION_LABELS),
        "annotations": _pick(noted, INJECTION_ANNOTATIONS),
    }


def namespace_row(item: dict[str, Any]) -> dict[str, Any]:
    """Return one namespace with the labels that decide injection."""
    return {
        "name": meta(item).get("name", ""),
        "labels": _pick(labels(item), INJECTION_LABELS),
        "terminating": bool(meta(item).get("deletionTimestamp")),
    }


def template_of(item: dict[str, Any]) -> dict[str, Any]:
    """Return the pod template of a workload object, a CronJob's included."""
    spec = item.get("spec") or {}
    if "jobTemplate" in spec:
        spec = (spec["jobTemplate"] or {}).get("spec") or {}
    return spec.get("template") or {}


def workload_row(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    """Return one workload: what its template asks of the injector, its size, and who else manages it."""
    spec, template = item.get("spec") or {}, template_of(item)
    owner_kind, owner_name, _api = controller_of(item)
    strategy = spec.get("strategy") or spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    apps = [c for c in (template.get("spec") or {}).get("containers") or [] if c.get("name") != PROXY]
    conditions = (item.get("status") or {}).get("conditions") or []
    replicas = spec.get("replicas", 1)
    if kind == "DaemonSet":
        replicas = (item.get("status") or {}).get("desiredNumberScheduled") or 0
    return {
        "kind": kind,
        "api_version": API_VERSIONS.get(kind, ""),
        "namespace": meta(item).get("namespace", ""),
        "name": meta(item).get("name", ""),
        "replicas": 1 if replicas is None else replicas,
        "paused": bool(spec.get("paused")),
        "strategy": strategy.get("type") or "",
        "partition": int(rolling.get("partition") or 0),
        "max_unavailable": str(rolling.get("maxUnavailable") or ""),
        "pre_stop": any((c.get("lifecycle") or {}).get("preStop") for c in apps),
        "readiness": any(c.get("readinessProbe") for c in apps),
        "finished": any(c.get("type") in ENDED and c.get("status") == "True" for c in conditions) and kind == "Job",
        "managed_by": f"{owner_kind}/{owner_name}" if owner_kind else "",
        "template_hash": short_hash(template),
        "template_labels": _pick(labels(template), INJECTION_LABELS),
        "template_annotations": _pick(annotations_of(template), INJECTION_ANNOTATIONS),
        "host_network": bool((template.get("spec") or {}).get("hostNetwork")),
        "gateway": GATEWAY_NAME in labels(template)
        or "gateway" in annotations_of(template).get("inject.istio.io/templates", ""),
        "proxies": [],
        "without_proxy": 0,
        "ended": 0,
    }


def count_pods(workload: dict[str, Any], pods: list[dict[str, Any]]) -> None:
    """Add a workload's pods to its row as counts per (image, revision, native, ready, terminating)."""
    groups: dict[tuple[Any, ...], int] = {}
    for pod in pods:
        if not pod["live"]:
            workload["ended"] += 1
        elif not pod["proxy"]:
            workload["without_proxy"] += 0 if pod["terminating"] else 1
        else:
            key = (pod["image"], pod["revision"], pod["native"], pod["ready"], pod["terminating"], pod["settings"])
            groups[key] = groups.get(key, 0) + 1
    fields = ("image", "revision", "native", "ready", "terminating", "settings")
    workload["proxies"] = [dict(zip(fields, key, strict=True)) | {"pods": n} for key, n in sorted(groups.items())]


def control_plane_row(item: dict[str, Any]) -> dict[str, Any]:
    """Return one istiod Deployment with its revision, image and rollout counters (missing counters are 0, case G03)."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    containers = (template_of(item).get("spec") or {}).get("containers") or []
    discovery = next((c for c in containers if c.get("name") == "discovery"), containers[0] if containers else {})
    return {
        "namespace": meta(item).get("namespace", ""),
        "name": meta(item).get("name", ""),
        "uid": meta(item).get("uid", ""),
        "revision": labels(item).get("istio.io/rev", "") or "default",
        "image": discovery.get("image", ""),
        "generation": meta(item).get("generation") or 0,
        "observed": status.get("observedGeneration") or 0,
        "replicas": 1 if spec.get("replicas") is None else spec["replicas"],
        "updated": status.get("updatedReplicas") or 0,
        "available": status.get("availableReplicas") or 0,
        "total": status.get("replicas") or 0,
        # istioctl renders the charts, so its objects say managed-by Helm as well; it adds labels of its own
        "helm": labels(item).get("app.kubernetes.io/managed-by") == "Helm"
        and "operator.istio.io/managed" not in labels(item),
    }


def webhook_row(item: dict[str, Any]) -> dict[str, Any]:
    """Return one webhook configuration: revision, tag, and where each of its entries sends requests."""
    entries = []
    for hook in item.get("webhooks") or []:
        config = hook.get("clientConfig") or {}
        service = config.get("service") or {}
        selectors = json.dumps([hook.get("namespaceSelector"), hook.get("objectSelector")])
        entries.append(
            {
                "name": hook.get("name", ""),
                "service": service.get("name", ""),
                "service_namespace": service.get("namespace", ""),
                "url": config.get("url", ""),
                "ca": short_hash(config["caBundle"]) if config.get("caBundle") else "",
                "failure_policy": hook.get("failurePolicy", ""),
                "deactivated": "istio.io/deactivated" in selectors,
            }
        )
    return {
        "name": meta(item).get("name", ""),
        "revision": labels(item).get("istio.io/rev", ""),
        "tag": labels(item).get("istio.io/tag", ""),
        "app": labels(item).get("app", ""),
        "managed": "operator.istio.io/component" in labels(item),
        "entries": entries,
    }


def calls_istiod(row: dict[str, Any]) -> bool:
    """Tell whether a row of `webhook_row` sends requests to a Service of istiod, whatever its own labels say.

    Every Service of istiod is called so: `istiod`, `istiod-<revision>`, `istiod-revision-tag-<tag>` (manifests/charts/
    istio-control/istio-discovery/templates/service.yaml, revision-tags-svc.yaml, 1.24-1.31).
    """
    return any(entry["service"].startswith("istiod") for entry in row["entries"])


def foreign_row(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    """Return a webhook configuration without Istio's labels that calls istiod: what it would inject.

    `claims` are the labels, each as `{label: value}`, that its live entries for new pods select by.
    """
    row, claims = webhook_row(item), []  # type: dict[str, Any], list[dict[str, str]]
    for hook, entry in zip(item.get("webhooks") or [], row["entries"], strict=True):
        if not entry["deactivated"] and any(_for_new_pods(rule) for rule in hook.get("rules") or []):
            claims += _asked(hook.get("namespaceSelector")) + _asked(hook.get("objectSelector"))
    return row | {"kind": kind, "claims": [claim for n, claim in enumerate(claims) if claim not in claims[:n]]}


def _for_new_pods(rule: dict[str, Any]) -> bool:
    asked = {key: set(rule.get(key) or []) for key in ("operations", "resources")}
    return bool(asked["operations"] & {"CREATE", "*"} and asked["resources"] & {"pods", "*", "*/*"})


def _asked(selector: dict[str, Any] | None) -> list[dict[str, str]]:
    """Return the labels that a selector wants, of those that ask for injection."""
    found = [{key: value} for key, value in ((selector or {}).get("matchLabels") or {}).items()]
    for term in (selector or {}).get("matchExpressions") or []:
        if term.get("operator") == "In":
            found += [{term.get("key", ""): value} for value in term.get("values") or []]
    return [label for label in found if label.keys() <= set(INJECTION_LABELS)]


def service_row(item: dict[str, Any]) -> dict[str, Any]:
    """Return one Service of the control plane with its revision, tag and selector."""
    return {
        "name": meta(item).get("name", ""),
        "namespace": meta(item).get("namespace", ""),
        "revision": labels(item).get("istio.io/rev", ""),
        "tag": labels(item).get("istio.io/tag", ""),
        "selector": (item.get("spec") or {}).get("selector") or {},
    }


def gateway_row(item: dict[str, Any]) -> dict[str, Any]:
    """Return one Gateway of the Gateway API: which revision it names (null: none), and whether it is programmed.

    `managed`: its pods are made by istiod, which is so unless its address is a name (pilot/pkg/config/kube/gateway/
    deploymentcontroller.go `IsManaged`, 1.31). A condition that is missing or older than the spec is Unknown.
    """
    spec, status = item.get("spec") or {}, item.get("status") or {}
    addresses = spec.get("addresses") or []
    said: dict[str, Any] = next((c for c in status.get("conditions") or [] if c.get("type") == "Programmed"), {})
    current = (said.get("observedGeneration") or 0) >= (meta(item).get("generation") or 0)
    return {
        "namespace": meta(item).get("namespace", ""),
        "name": meta(item).get("name", ""),
        "class": spec.get("gatewayClassName", ""),
        "revision": labels(item).get("istio.io/rev"),
        "managed": not addresses or (len(addresses) == 1 and addresses[0].get("type", "IPAddress") == "IPAddress"),
        "programmed": said.get("status", "Unknown") if current else "Unknown",
    }


def replica_set_owner(item: dict[str, Any]) -> tuple[tuple[str, str], tuple[str, str, str]]:
    """Return ((namespace, name), (kind, name, API version of its owner)) of a ReplicaSet; metadata is enough."""
    return (meta(item).get("namespace", ""), meta(item).get("name", "")), controller_of(item)


def custom_row(pods: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a workload whose object is not read, from its pods: what the newest live one carries, the template asked.

    The annotation `istio.io/rev` is left out: injection writes it.
    """
    live = [pod for pod in pods if pod["live"]]
    newest = max(live, key=lambda pod: str(pod["created"]))
    asked = {key: value for key, value in newest["annotations"].items() if key != "istio.io/rev"}
    row = workload_row(
        newest["owner_kind"], {"metadata": {"namespace": newest["namespace"], "name": newest["owner_name"]}}
    )
    return row | {
        "api_version": newest["owner_api"],
        "replicas": len(live),
        "template_labels": newest["labels"],
        "template_annotations": asked,
        "template_hash": "",
        "host_network": newest["host_network"],
        "gateway": newest["gateway"],
    }


def deployment_by_name(pod: dict[str, Any]) -> str:
    """Return the name of the Deployment above a pod's ReplicaSet as their names tell it, or "" where they do not.

    A Deployment calls its ReplicaSets `<its name>-<hash>` and gives the hash to their pods as a label
    (Kubernetes pkg/controller/deployment/sync.go, getNewReplicaSet). So the many old ReplicaSets need not be listed.
    An Argo Rollout uses a label of its own.
    """
    end = f"-{pod['hash']}"
    if pod["owner_kind"] != "ReplicaSet" or not pod["hash"] or not pod["owner_name"].endswith(end):
        return ""
    return str(pod["owner_name"].removesuffix(end))


def deployment_above(
    pod: dict[str, Any], workloads: dict[tuple[str, str, str], dict[str, Any]]
) -> tuple[str, str, str] | None:
    """Return (kind, name, API version) of the Deployment above a pod's ReplicaSet, where its name is that of one."""
    name = deployment_by_name(pod)
    return ("Deployment", name, "apps/v1") if name and ("Deployment", pod["namespace"], name) in workloads else None


def assemble(
    workloads: dict[tuple[str, str, str], dict[str, Any]],
    parents: dict[tuple[str, str], tuple[str, str, str]],
    pods: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Put pods under their top workload.

    Args:
        workloads: rows by (kind, namespace, name).
        parents: the owners of ReplicaSets, of `replica_set_owner`; they lead from pods to Deployments and Rollouts.
        pods: rows of `pod_row`.

    Returns:
        (workload rows, injected pods that no workload owns). The pods of an owner that was not read (a ReplicaSet
        of its own, a custom kind, case B16) make a row as soon as one of them lives with a proxy.
    """
    owned: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    others: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    loose: list[dict[str, Any]] = []
    for pod in pods:
        kind, name, api = pod["owner_kind"], pod["owner_name"], pod["owner_api"]
        alone = False
        if above := deployment_above(pod, workloads):
            kind, name, api = above
        elif kind == "ReplicaSet" and (owner := parents.get((pod["namespace"], name))):
            alone = not owner[0]
            kind, name, api = (kind, name, api) if alone else owner
        key = (kind, pod["namespace"], name)
        known = {**pod, "owner_kind": kind, "owner_name": name, "owner_api": api}
        if key in workloads:
            owned.setdefault(key, []).append(pod)
        elif kind and (alone or kind not in API_VERSIONS):
            others.setdefault(key, []).append(known)
        elif pod["proxy"]:
            # an owner of a kind that is read and was not there is too new or gone: nothing is concluded from it
            loose.append(known)
    for key, members in others.items():
        if any(pod["live"] and pod["proxy"] for pod in members):
            workloads[key] = custom_row(members)
            owned[key] = members
        else:
            loose += [pod for pod in members if pod["proxy"]]
    for key, members in owned.items():
        count_pods(workloads[key], members)
    return list(workloads.values()), loose
