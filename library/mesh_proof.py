#!/usr/bin/python
"""Ask the API server, without storing anything, which proxy new pods of workloads would get."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_proof
short_description: Prove by server-side dry runs what would inject the next pods of workloads
description:
  - Makes one pod from the own template of one workload for each distinct namespace, set of labels and annotations
    that matter to the injector, service account and host network, and creates it with C(dryRun=All).
  - Nothing is ever stored, so it works in check mode too and never reports a change.
  - A refusal by anything but Istio (policy, quota, a webhook without dry-run support) is C(inconclusive) and named.
  - An injector of Istio that does not answer is asked again for C(patience) seconds (case F06), then it is C(wrong).
  - Fails where the account lacks a right, where the API server itself does not answer, and where a workload is gone.
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
  workloads:
    description:
      - List of kind, namespace, name, the revision that must inject it, and api_version for custom kinds.
      - Of the kind C(Pod) nothing is read, a small pod without any label is asked about. It says what a namespace gives
        where nothing runs. Without the right to create pods there its answer is C(inconclusive).
    type: list
    elements: dict
    required: true
  concurrency:
    description: How many dry runs may be under way at the same time.
    type: int
    default: 4
  patience:
    description: Seconds that a failing injector or API server is asked again, counted once for the whole task.
    type: int
    default: 30
  settle:
    description: Seconds in which a wrong answer is asked again; labels and tags reach the API server's caches late.
    type: int
    default: 5
author: the project's contributors
"""

EXAMPLES = r"""
- name: See which proxy the shop would get
  mesh_proof:
    workloads:
      - {kind: Deployment, namespace: shop, name: web, revision: 1-31-0}
"""

RETURN = r"""
groups:
  description: Per distinct question what the dry run said (state proven, wrong or inconclusive), with the workloads
    that it covers.
  returned: always
  type: list
  elements: dict
tags:
  description: Where each tag points; read only where a group is wrong.
  returned: always
  type: dict
revisions:
  description: Revisions that have an injector; read only where a group is wrong.
  returned: always
  type: list
not_asked:
  description: Workloads that were not asked about because too many injectors failed before.
  returned: always
  type: list
"""

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

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
from ansible.module_utils.mesh_rows import (
    INJECTION_ANNOTATIONS,
    INJECTION_LABELS,
    find_proxy,
    injected_revision,
    settings_of,
    short_hash,
    template_of,
)

# kind -> API version and plural; every other kind is looked up in the API's own list
KINDS = {
    "Deployment": ("apps/v1", "deployments"),
    "StatefulSet": ("apps/v1", "statefulsets"),
    "DaemonSet": ("apps/v1", "daemonsets"),
    "ReplicaSet": ("apps/v1", "replicasets"),
    "Job": ("batch/v1", "jobs"),
    "CronJob": ("batch/v1", "cronjobs"),
}
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
STATUS = "sidecar.istio.io/status"
PINNED = "sidecar.istio.io/proxyImage"
# Beyond what the facts keep: these change the shape or the settings of the proxy (files/injection-template.yaml).
ANNOTATIONS = (*INJECTION_ANNOTATIONS, "sidecar.istio.io/nativeSidecar", "proxy.istio.io/config")
ISTIO_WEBHOOK = re.compile(r"(.+\.)?sidecar-injector\.istio\.io")
# After so many injectors that failed for good the rest is not asked: each costs the webhook's time-out.
MAX_BROKEN = 5
RETRY_SECONDS = 1.0
# The API server's own trouble; a webhook's name in the answer says that it is the webhook's.
TRANSIENT = (0, 429, 500, 502, 503, 504)

# What refuses a pod, by its words (k8s.io/apiserver pkg/admission/plugin/webhook and pkg/util/webhook; plugin/pkg/
# admission of Kubernetes 1.34: resourcequota, limitranger, podsecurity, serviceaccount, priority, lifecycle).
REFUSALS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r'webhook "(?P<name>[^"]+)" does not support dry run', "webhook {name} (it does not support dry runs)"),
        (r'webhook "(?P<name>[^"]+)"', "webhook {name}"),
        (r"(?P<kind>(?:Validating|Mutating)AdmissionPolicy) '(?P<name>[^']+)'", "{kind} {name}"),
        (r"(?:exceeded|failed|status unknown for) quota: (?P<name>[^,:\s]+)", "ResourceQuota {name}"),
        (r"resource quota|insufficient quota", "ResourceQuota"),
        (r'violates PodSecurity "(?P<name>[^"]+)"', "PodSecurity {name}"),
        (r"(?:minimum|maximum) \S+ usage per \w+ is|limit to request ratio per", "LimitRange"),
        (r"looking up service account (?P<name>[^\s:]+)", "service account {name}"),
        (r"no PriorityClass with name (?P<name>\S+)", "PriorityClass {name}"),
        (r"because it is being terminated", "the namespace (it is being deleted)"),
    )
)
NO_RIGHT = re.compile(r'cannot create resource "pods"')
# A pod that the strictest PodSecurity level and a quota of any resource let pass, for namespaces without a workload.
BARE: dict[str, Any] = {
    "metadata": {"labels": {}, "annotations": {}},
    "spec": {
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "app",
                "image": "istio-upgrade/never-pulled",
                "resources": {side: {"cpu": "10m", "memory": "16Mi"} for side in ("requests", "limits")},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    },
}


@dataclass
class Group:
    """Workloads whose new pods the injector cannot tell apart, with the one that stands for them."""

    namespace: str
    template: dict[str, Any]
    representative: dict[str, Any]
    workloads: list[dict[str, Any]] = field(default_factory=list)
    size: tuple[bool, int, str] = (True, 0, "")

    def row(self, state: str, **more: Any) -> dict[str, Any]:
        """Return what is reported of the group; `more` is what the dry run showed."""
        own, _native = find_proxy(self.template)
        picked = {key: value for key, value in annotations_of(self.template).items() if key in ANNOTATIONS}
        row = {
            "namespace": self.namespace,
            "representative": ref(self.representative),
            "covers": [ref(w) for w in self.workloads],
            "state": state,
            "revision": "",
            "image": "",
            "native": False,
            "settings": "",
            "who": "",
            "said": "",
            "pinned": picked.get(PINNED, ""),
            "own_proxy": str((own or {}).get("image") or ""),
            "labels": {key: value for key, value in labels(self.template).items() if key in INJECTION_LABELS},
            "annotations": picked,
            "host_network": bool((self.template.get("spec") or {}).get("hostNetwork")),
            "namespace_labels": {},
        }
        return row | more


def ref(workload: dict[str, Any]) -> str:
    """Return kind, namespace and name as people write them."""
    return f"{workload['kind']} {workload['namespace']}/{workload['name']}"


def collection(api: MeshApi, kind: str, api_version: str, known: dict[tuple[str, str], str]) -> tuple[str, str]:
    """Return (API prefix, plural) of a kind; a custom one costs one request, remembered in `known`."""
    if kind in KINDS:
        version, plural = KINDS[kind]
        return f"/apis/{version}", plural
    if not api_version:
        raise MeshApiError(
            f"{kind}: a kind that Kubernetes does not bring itself needs its api_version, such as "
            "argoproj.io/v1alpha1. Next: give api_version with the workload."
        )
    prefix = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    if (api_version, kind) not in known:
        served = api.request("GET", prefix).get("resources") or []
        found = [r["name"] for r in served if r.get("kind") == kind and "/" not in r.get("name", "")]
        if not found:
            raise MeshApiError(
                f"{kind} ({api_version}): the API server does not serve this kind. Next: kubectl api-resources "
                f"--api-group={api_version.partition('/')[0]}"
            )
        known[api_version, kind] = found[0]
    return prefix, known[api_version, kind]


def read_objects(api: MeshApi, workloads: list[dict[str, Any]], concurrency: int) -> dict[str, dict[str, Any]]:
    """Return the objects by `ref`: one GET where a namespace has one workload of a kind, else one list.

    Raises:
        MeshApiError: a missing right, or a workload that is gone.
    """
    wanted: dict[tuple[str, str], set[str]] = {}
    known: dict[tuple[str, str], str] = {}
    for workload in workloads:
        kind, namespace = workload["kind"], workload["namespace"]
        prefix, plural = collection(api, kind, workload.get("api_version") or "", known)
        key = (f"{kind} {namespace}/", f"{prefix}/namespaces/{namespace}/{plural}")
        wanted.setdefault(key, set()).add(workload["name"])

    def read(asked: tuple[tuple[str, str], set[str]]) -> dict[str, dict[str, Any]]:
        (start, path), names = asked
        one = api.get(f"{path}/{min(names)}") if len(names) == 1 else None
        items = api.list(path) if len(names) > 1 else [one] if one else []
        return {start + meta(item)["name"]: item for item in items if meta(item).get("name") in names}

    found: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(concurrency) as pool:
        for part in pool.map(read, wanted.items()):
            found |= part
    gone = sorted({ref(w) for w in workloads} - set(found))
    if gone:
        raise MeshApiError(
            f"{gone[0]}{f' and {len(gone) - 1} more' if len(gone) > 1 else ''}: gone since the mesh was read, so "
            "what would inject new pods cannot be proven. Next: run again, it will be planned anew."
        )
    return found


def question(template: dict[str, Any]) -> list[Any]:
    """Return everything of a template that can change the injector's answer."""
    spec, own = template.get("spec") or {}, find_proxy(template)
    return [
        {key: value for key, value in labels(template).items() if key in INJECTION_LABELS},
        {key: value for key, value in annotations_of(template).items() if key in ANNOTATIONS},
        STATUS in annotations_of(template),
        spec.get("serviceAccountName") or spec.get("serviceAccount") or "default",
        bool(spec.get("hostNetwork")),
        str((own[0] or {}).get("image") or ""),
    ]


def size_of(kind: str, item: dict[str, Any]) -> tuple[bool, int, str]:
    """Return what orders workloads: some pods before none, few before many; the first one is restarted first."""
    replicas = (item.get("spec") or {}).get("replicas", 1)
    if kind == "DaemonSet":
        replicas = (item.get("status") or {}).get("desiredNumberScheduled") or 0
    pods = 1 if replicas is None else int(replicas)
    return pods == 0, pods, str(meta(item).get("name"))


def grouped(workloads: list[dict[str, Any]], objects: dict[str, dict[str, Any]]) -> list[Group]:
    """Return the distinct questions, each with the smallest workload that has pods as its representative."""
    groups: dict[str, Group] = {}
    for workload in workloads:
        if workload["kind"] == "Pod":
            groups[ref(workload)] = Group(workload["namespace"], BARE, workload, [workload])
            continue
        item = objects[ref(workload)]
        template, size = template_of(item), size_of(workload["kind"], item)
        key = short_hash([workload["namespace"], question(template)])
        group = groups.setdefault(key, Group(workload["namespace"], template, workload, size=size))
        group.workloads.append(workload)
        if size < group.size:
            group.template, group.representative, group.size = template, workload, size
    return list(groups.values())


def pod_of(group: Group) -> dict[str, Any]:
    """Return a pod as the workload's controller would ask for it, without an owner."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{group.representative['name']}-",
            "namespace": group.namespace,
            "labels": labels(group.template),
            "annotations": annotations_of(group.template),
        },
        "spec": group.template.get("spec") or {},
    }


def answer(group: Group, pod: dict[str, Any]) -> dict[str, Any]:
    """Return a group's row from the pod as it would be stored.

    Only the annotation `sidecar.istio.io/status` says that an injector was here: `istio.io/rev` may stand in the
    template (case D04), and so may a container istio-proxy (gateways: image `auto`, case B07).
    """
    proxy, native = find_proxy(pod)
    revision = injected_revision(pod) if proxy and annotations_of(pod).get(STATUS) else ""
    image = str((proxy or {}).get("image") or "")
    good = bool(revision) and revision == group.representative["revision"] and image != "auto"
    return group.row(
        "proven" if good else "wrong",
        revision=revision,
        image=image,
        native=native,
        settings=settings_of(proxy or {}),
    )


def refused_by(status: int, said: str) -> tuple[str, str]:
    """Return (state, who) of a refused dry run.

    state: "injector" (Istio's webhook fails; worth asking again), "right" (the account may not create pods),
    "trouble" (the API server itself; worth asking again), "failure" (it will not change), "inconclusive" (anything
    else refused).
    """
    if NO_RIGHT.search(said):
        return "right", ""
    for pattern, words in REFUSALS:
        match = pattern.search(said)
        if not match:
            continue
        parts = match.groupdict()
        if ISTIO_WEBHOOK.fullmatch(parts.get("name") or "") and "does not support dry run" not in said:
            return "injector", words.format(**parts)
        return "inconclusive", words.format(**parts)
    if status in TRANSIENT:
        return "trouble", ""
    if status == 422:
        return "inconclusive", "the API server's validation of the pod"
    return ("inconclusive", "the API server's admission") if status in (400, 403, 409) else ("failure", "")


class Prover:
    """Asks about groups, several at a time; all share one patience with what does not answer.

    Args:
        api: the connection.
        patience: seconds that failing injectors and a failing API server are asked again, from the first failure on.
        settle: seconds from now on in which a wrong answer is asked again.
        tell: takes a line of progress.
    """

    def __init__(self, api: MeshApi, patience: float, settle: float, tell: Callable[[str], None]) -> None:
        """Start with nothing asked and nothing failed."""
        self.api, self.patience, self.tell = api, patience, tell
        self.settled = time.monotonic() + settle
        self.given_up = 0.0
        self.broken = 0
        self.over = False
        self.lock = threading.Lock()

    def ask(self, group: Group) -> dict[str, Any] | None:
        """Return the group's row, or None where the run of questions has already ended.

        Raises:
            MeshApiError: no right to create pods, or no answer from the API server.
        """
        while not self.over:
            try:
                row = self.once(group)
            except MeshApiError:
                self.over = True
                raise
            if row:
                return row
            time.sleep(RETRY_SECONDS)
        return None

    def once(self, group: Group) -> dict[str, Any] | None:
        """Ask once; None means that it is worth asking again."""
        path = f"/api/v1/namespaces/{group.namespace}/pods"
        if not (group.template.get("spec") or {}).get("containers"):  # a Rollout may keep it elsewhere (workloadRef)
            return group.row("inconclusive", who="the object itself", said="it holds no pod template")
        try:
            row = answer(group, self.api.request("POST", path, {"dryRun": "All"}, pod_of(group)))
        except MeshApiError as error:
            return self.refused(group, error)
        if row["state"] == "wrong" and time.monotonic() < self.settled:
            return None
        return row

    def refused(self, group: Group, error: MeshApiError) -> dict[str, Any] | None:
        """Return the row of a refused dry run, or None where it is worth asking again."""
        said = error.body or str(error)
        state, who = refused_by(error.status, said)
        if state == "inconclusive":
            return group.row("inconclusive", who=who, said=said)
        if state == "right" and group.template is BARE:  # nothing is restarted there, so nothing depends on it
            return group.row("inconclusive", who="this account, which may not create pods there,", said=said)
        if state == "right":
            raise MeshApiError(
                f"{ref(group.representative)}: this account may not create pods in namespace {group.namespace}, so "
                f"injection cannot be proven by a dry run: {said}. Next: grant `create pods` there (docs/rights.md); "
                f"kubectl auth can-i create pods -n {group.namespace}",
                error.status,
                said,
            )
        if state == "failure":
            raise error
        if self.again(f"{ref(group.representative)}: asked again, {said}"):
            return None
        if state == "trouble":
            raise error
        with self.lock:
            self.broken += 1
            self.over = self.over or self.broken >= MAX_BROKEN
        return group.row("wrong", who=who, said=said)

    def again(self, line: str) -> bool:
        """Tell whether there is patience left; the first failure of all starts its clock."""
        with self.lock:
            if not self.given_up:
                self.given_up = time.monotonic() + self.patience
                self.tell(line)
            return time.monotonic() < self.given_up


def context_of(api: MeshApi, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return tags and revisions, and put the namespace's labels into wrong rows: what an explanation needs."""
    context: dict[str, Any] = {"tags": {}, "revisions": [], "context_error": ""}
    wrong = [r for r in rows if r["state"] == "wrong"]
    if not wrong:
        return context
    try:
        for item in api.list(WEBHOOKS, "istio.io/rev", metadata_only=True):
            revision, tag = labels(item)["istio.io/rev"], labels(item).get("istio.io/tag")
            if tag:
                context["tags"][tag] = revision
            else:
                context["revisions"].append(revision)
        for name in sorted({r["namespace"] for r in wrong})[:10]:
            found = labels(api.get(f"/api/v1/namespaces/{name}") or {})
            picked = {key: value for key, value in found.items() if key in INJECTION_LABELS}
            for row in wrong:
                row["namespace_labels"] = picked if row["namespace"] == name else row["namespace_labels"]
    except MeshApiError as error:  # what was proven must not get lost over its explanation
        context["context_error"] = str(error)
    return context


def run(task: Task, api: MeshApi) -> dict[str, Any]:
    """Read the templates, ask about each distinct one, and say what the answers were."""
    options, started = task.params, time.monotonic()
    workloads, concurrency = options["workloads"], max(1, options["concurrency"])
    stored = [workload for workload in workloads if workload["kind"] != "Pod"]
    groups = grouped(workloads, read_objects(api, stored, concurrency))
    prover = Prover(api, options["patience"], options["settle"], task.tell)
    with ThreadPoolExecutor(concurrency) as pool:
        answers = list(pool.map(prover.ask, groups))
    rows = [row for row in answers if row]
    return {
        "changed": False,
        "groups": rows,
        "not_asked": [ref(w) for group, row in zip(groups, answers, strict=True) if not row for w in group.workloads],
        **context_of(api, rows),
        "requests": api.requests,
        "seconds": round(time.monotonic() - started, 3),
    }


SPEC: dict[str, Any] = CONNECTION_SPEC | {
    "workloads": {"type": "list", "elements": "dict", "required": True},
    "concurrency": {"type": "int", "default": 4},
    "patience": {"type": "int", "default": 30},
    "settle": {"type": "int", "default": 5},
}


def main() -> None:
    """Entry point, where the task runs in a Python of its own (see action_plugins/in_process.py)."""
    connected(AnsibleModule(argument_spec=SPEC, supports_check_mode=True), run)


if __name__ == "__main__":
    main()
