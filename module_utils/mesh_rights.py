"""Every right that a run uses, in one table; and the question whether an account has them.

`docs/rights.md` is generated from the table (tests/tools/generate_checks.py). The steps are those of
`filter_plugins/mesh_logic/steps.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap
from typing import Any, NamedTuple

from ansible.module_utils.mesh_api import MeshApi, MeshApiError

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
# Rules that hold in a namespace that does not exist hold everywhere: they come from ClusterRoleBindings alone.
NOWHERE = "istio-upgrade-no-such-namespace"

CHANGES = ("precheck", "install", "canary", "move_tags", "rollback_drill", "uninstall")
STEPS = (*CHANGES, "report")
# "read" stands for what `mesh_read` asks for before a run knows anything.
READS, READS_MESH = ("read", *STEPS), ("read", *CHANGES)
MOVES = ("canary", "move_tags", "rollback_drill")
TAGS = ("precheck", "move_tags", "rollback_drill")

APPS, BATCH, POLICY = "apps", "batch", "policy"
ADMISSION, RBAC = "admissionregistration.k8s.io", "rbac.authorization.k8s.io"
NETWORKING, AUTOSCALING, DISCOVERY = "networking.istio.io", "autoscaling", "discovery.k8s.io"
WEBHOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
WORKLOADS = ("deployments", "statefulsets", "daemonsets")
ROLES = ("roles", "rolebindings")
CLUSTER_ROLES = ("clusterroles", "clusterrolebindings")

# What istiod reads by revision (pkg/config/schema/metadata.yaml, 1.31), and the Gateway API.
OBJECTS: dict[str, tuple[str, ...]] = {
    "networking.istio.io": (
        *("virtualservices", "destinationrules", "gateways", "serviceentries", "sidecars"),
        *("workloadentries", "workloadgroups", "envoyfilters", "proxyconfigs"),
    ),
    "security.istio.io": ("authorizationpolicies", "peerauthentications", "requestauthentications"),
    "telemetry.istio.io": ("telemetries",),
    "extensions.istio.io": ("wasmplugins", "trafficextensions"),
    "gateway.networking.k8s.io": ("gateways", "httproutes", "grpcroutes", "tlsroutes", "tcproutes"),
}


class Right(NamedTuple):
    """One row: verbs on resources of a group, where, in which steps, what for.

    `where` is cluster (all namespaces), istio (the namespace of the control planes), mesh (the namespaces whose
    workloads move) or probes (those that probes are sent from). `only` is a feature without which a run can do; it is
    asked about when the run uses it ("never": not at all).
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    where: str
    steps: tuple[str, ...]
    why: str
    only: str = ""


# fmt: off
RIGHTS: tuple[Right, ...] = (
    Right("", ("namespaces",), ("get", "list"), "cluster", READS, "labels"),
    Right("", ("namespaces",), ("get", "patch"), "mesh", MOVES, "labels of the canary and of moved namespaces"),
    Right("", ("pods",), ("list",), "cluster", READS_MESH, "which workload runs which proxy"),
    Right(APPS, (*WORKLOADS, "replicasets"), ("list",), "cluster", READS_MESH, "which workload runs which proxy"),
    Right(BATCH, ("cronjobs", "jobs"), ("list",), "cluster", READS_MESH, "which workload runs which proxy"),
    Right("", ("pods",), ("get",), "cluster", READS_MESH, "a second look at a proxy that seems connected elsewhere"),
    Right(APPS, ("replicasets",), ("get",), "cluster", READS_MESH, "a ReplicaSet whose name does not tell its owner"),
    Right(ADMISSION, WEBHOOKS, ("list",), "cluster", READS, "tags, injectors, validators"),
    Right("", ("services",), ("list",), "istio", READS, "tags"),
    Right(APPS, ("deployments",), ("get", "list"), "istio", READS, "control planes"),
    Right("", ("configmaps",), ("get", "list"), "istio", READS, "the records; the settings that run"),
    Right("", ("configmaps",), ("create", "patch"), "istio", STEPS, "the records"),
    Right("coordination.k8s.io", ("leases",), ("get", "list", "create", "update", "patch"), "istio", CHANGES,
          "one run at a time; what a removal leaves"),
    Right(AUTOSCALING, ("horizontalpodautoscalers",), ("get", "list"), "istio", ("precheck", "install"),
          "the settings that run"),
    Right(POLICY, ("poddisruptionbudgets",), ("get", "list"), "istio", ("precheck", "install"),
          "the settings that run"),
    Right("", ("pods",), ("create",), "istio", ("install", *MOVES, "uninstall"),
          "dry runs that ask the injector; no pod is made"),
    Right("", ("pods",), ("create",), "mesh", ("precheck", *MOVES), "dry runs that ask the injector; no pod is made"),
    Right(NETWORKING, ("virtualservices",), ("create",), "istio", ("move_tags", "rollback_drill", "uninstall"),
          "dry runs that ask the validator; none is made"),
    Right("", ("nodes",), ("list",), "cluster", ("precheck",), "room for a second istiod"),
    Right("", ("resourcequotas",), ("list",), "istio", ("precheck",), "room for a second istiod"),
    Right(POLICY, ("poddisruptionbudgets",), ("list",), "cluster", ("precheck", "install", *MOVES, "uninstall"),
          "what holds an eviction up; what an install would prune"),
    Right(DISCOVERY, ("endpointslices",), ("list",), "cluster", ("precheck", "uninstall"),
          "istiods that answer; what names the old Service"),
    *(
        Right(group, kinds, ("list",), "cluster",
              ("precheck", "uninstall") if group == NETWORKING else ("precheck",),
              "objects bound to a revision" + ("; what names the old Service" if group == NETWORKING else ""))
        for group, kinds in OBJECTS.items()
    ),
    Right("gateway.networking.k8s.io", ("gatewayclasses",), ("list",), "cluster", TAGS, "which Gateways are Istio's"),
    Right("gateway.networking.k8s.io", ("gateways",), ("list",), "cluster", TAGS[1:], "Gateways that follow a tag"),
    Right("install.istio.io", ("istiooperators",), ("list",), "cluster", ("precheck",),
          "operator objects that nothing reads, where the cluster has them"),
    # an istioctl that may not watch one of these waits without a word (pkg/config/analysis/local/istiod_analyze.go)
    Right("apiextensions.k8s.io", ("customresourcedefinitions",), ("list", "watch"), "cluster",
          ("install", *TAGS), "istioctl's own precheck, and what tag set and install analyse"),
    Right("", ("namespaces", "services", "pods"), ("list", "watch"), "cluster", ("precheck",),
          "istioctl's own precheck"),
    Right(APPS, ("deployments",), ("list", "watch"), "cluster", ("precheck",), "istioctl's own precheck"),
    Right("", ("services",), ("list", "watch"), "cluster", TAGS[1:], "what istioctl tag set analyses"),
    Right(ADMISSION, WEBHOOKS[:1], ("list", "watch"), "cluster", TAGS, "what istioctl tag set analyses"),
    Right("", ("configmaps",), ("list",), "cluster", ("precheck",), "root certificates of the namespaces"),
    Right(APPS, (*WORKLOADS, "replicasets"), ("get",), "mesh", ("precheck",), "templates of the dry runs"),
    Right(APPS, WORKLOADS, ("get", "patch"), "mesh", MOVES, "restarts"),
    Right(APPS, WORKLOADS, ("watch",), "cluster", MOVES,
          "one watch follows all rollouts; without it they are listed again and again", "never"),
    Right(APPS, ("replicasets",), ("list",), "mesh", MOVES, "rollouts"),
    Right("", ("pods",), ("list",), "mesh", MOVES, "rollouts"),
    Right("", ("events",), ("list",), "mesh", MOVES, "the cause when a rollout stops"),
    Right("", ("events",), ("list",), "istio", ("install",), "the cause when the new istiod does not get ready"),
    Right("", ("pods/eviction",), ("create",), "mesh", MOVES,
          "only what is moved by eviction", "evict"),
    Right("", ("pods",), ("delete",), "mesh", MOVES, "only what is rescued by consent", "rescue"),
    Right("", ("pods/exec",), ("get", "create"), "istio", ("read", "precheck", "uninstall"),
          "asking istiod for its connected proxies"),
    Right("", ("pods/exec",), ("get", "create"), "probes", (*MOVES, "uninstall"), "probes"),
    Right("authorization.k8s.io", ("subjectaccessreviews",), ("create",), "cluster",
          ("rollback_drill", "uninstall"),
          "whether an istiod could work after a restart; without it this is not asked", "never"),
    Right("", ("services", "configmaps", "secrets", "serviceaccounts"), ("list",), "cluster", ("install", "uninstall"),
          "what an install would prune and an uninstall take; only names and labels are read"),
    Right(RBAC, (*ROLES, *CLUSTER_ROLES), ("list",), "cluster", ("install", "uninstall"),
          "what an install would prune and an uninstall take; only names and labels are read"),
    Right(AUTOSCALING, ("horizontalpodautoscalers",), ("list",), "cluster", ("install", "uninstall"),
          "what an install would prune and an uninstall take; only names and labels are read"),
    Right("apiextensions.k8s.io", ("customresourcedefinitions",), ("get", "create", "patch"), "cluster", ("install",),
          "istioctl install"),
    Right(RBAC, CLUSTER_ROLES, ("get", "create", "patch"), "cluster", ("install",), "istioctl install"),
    Right(RBAC, ROLES, ("get", "create", "patch"), "istio", ("install",), "istioctl install"),
    Right("", ("services", "configmaps", "serviceaccounts"), ("get", "create", "patch"), "istio", ("install",),
          "istioctl install"),
    Right(APPS, ("deployments",), ("get", "create", "patch"), "istio", ("install",), "istioctl install"),
    Right(AUTOSCALING, ("horizontalpodautoscalers",), ("get", "create", "patch"), "istio", ("install",),
          "istioctl install"),
    Right(POLICY, ("poddisruptionbudgets",), ("get", "create", "patch"), "istio", ("install",), "istioctl install"),
    # without one of these two: every right that the new roles hold (Kubernetes, "privilege escalation prevention")
    Right(RBAC, CLUSTER_ROLES[:1], ("bind", "escalate"), "cluster", ("install",),
          "istioctl install makes roles with rights that the account itself does not have"),
    Right(RBAC, ROLES[:1], ("bind", "escalate"), "istio", ("install",),
          "istioctl install makes roles with rights that the account itself does not have"),
    Right(NETWORKING, ("envoyfilters",), ("list",), "cluster", ("install",), "istioctl install prunes"),
    Right("", ("namespaces",), ("create",), "cluster", ("install",),
          "istioctl's own precheck asks for it (IST0141); no namespace is made", "never"),
    # operator/pkg/apis/validation/validation.go, detectCniIncompatibility: a refusal is taken as "not there"
    Right("", ("configmaps",), ("get",), "cluster", ("install",),
          "what istioctl install warns about Cilium; without it there is no warning", "never"),
    Right("projectcalico.org", ("felixconfigurations",), ("get",), "cluster", ("install",),
          "what istioctl install warns about Calico; without it there is no warning", "never"),
    Right(ADMISSION, WEBHOOKS, ("get", "create", "patch"), "cluster", ("install",), "istioctl install"),
    # a tag that is there is patched (server-side apply); only one that is not must be created
    Right(ADMISSION, WEBHOOKS, ("get", "patch"), "cluster", TAGS[1:], "istioctl tag set"),
    Right(ADMISSION, WEBHOOKS[:1], ("update",), "cluster", TAGS[1:],
          "istioctl tag set default, where an istiod without a revision has an injector"),
    Right("", ("services",), ("get", "create", "patch"), "istio", TAGS[1:], "istioctl tag set"),
    Right(ADMISSION, WEBHOOKS, ("get", "create", "patch"), "cluster", TAGS,
          "istioctl tag set, where the tag or the default validator is not there", "new_webhooks"),
    Right("", ("services",), ("get", "create", "patch"), "istio", TAGS[:1],
          "istioctl tag set, where the tag or the default validator is not there", "new_webhooks"),
    Right("", ("pods/portforward",), ("create",), "istio", ("uninstall",), "istioctl uninstall"),
    Right(RBAC, CLUSTER_ROLES, ("delete",), "cluster", ("uninstall",), "istioctl uninstall"),
    Right(ADMISSION, WEBHOOKS, ("delete",), "cluster", ("uninstall",), "istioctl uninstall"),
    Right(RBAC, ROLES, ("delete",), "istio", ("uninstall",), "istioctl uninstall"),
    Right("", ("services", "configmaps", "serviceaccounts"), ("delete",), "istio", ("uninstall",),
          "istioctl uninstall"),
    Right(APPS, ("deployments",), ("delete",), "istio", ("uninstall",), "istioctl uninstall"),
    Right(AUTOSCALING, ("horizontalpodautoscalers",), ("delete",), "istio", ("uninstall",), "istioctl uninstall"),
    Right(POLICY, ("poddisruptionbudgets",), ("delete",), "istio", ("uninstall",), "istioctl uninstall"),
)
# fmt: on


class Ask(NamedTuple):
    """One question: may this account do this, in a namespace or ("") everywhere?"""

    verb: str
    group: str
    resource: str
    namespace: str

    def attributes(self) -> dict[str, str]:
        """Return the question as the API server takes it."""
        resource, _, sub = self.resource.partition("/")
        asked = {"verb": self.verb, "group": self.group, "resource": resource}
        return asked | ({"subresource": sub} if sub else {}) | ({"namespace": self.namespace} if self.namespace else {})


def wanted(
    steps: Iterable[str],
    features: Iterable[str],
    served: set[tuple[str, str]],
    rows: tuple[Right, ...] = RIGHTS,
) -> list[Right]:
    """Return the rows that some steps use, with some features, less what the server does not serve.

    Args:
        steps: names of steps.
        features: what the run uses of what not every run does (`Right.only`).
        served: (group, resource) of what the server serves beside its core group, which every server has.
        rows: the table.
    """
    chosen, used = set(steps), set(features)
    found = []
    for row in rows:
        there = tuple(r for r in row.resources if not row.group or (row.group, r.partition("/")[0]) in served)
        if there and chosen & set(row.steps) and (not row.only or row.only in used):
            found.append(row._replace(resources=there))
    return found


def covers(rule: dict[str, Any], ask: Ask) -> bool:
    """Tell whether a rule of a SelfSubjectRulesReview grants a right for every object."""
    if rule.get("resourceNames"):
        return False
    _, _, sub = ask.resource.partition("/")
    resources = rule.get("resources") or []
    return (
        any(v in (rule.get("verbs") or []) for v in (ask.verb, "*"))
        and any(g in (rule.get("apiGroups") or []) for g in (ask.group, "*"))
        and any(r in resources for r in (ask.resource, "*", *([f"*/{sub}"] if sub else [])))
    )


def rules_in(api: MeshApi, namespace: str) -> list[dict[str, Any]]:
    """Return the rules that the server lists for this account in a namespace, which may be fewer than hold."""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    answer = api.request("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", body=body)
    found: list[dict[str, Any]] = (answer.get("status") or {}).get("resourceRules") or []
    return found


def may(api: MeshApi, ask: Ask) -> bool:
    """Ask the server itself about one right."""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": ask.attributes()},
    }
    answer = api.request("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", body=body)
    return bool((answer.get("status") or {}).get("allowed"))


def missing_rights(
    api: MeshApi, rows: list[Right], istio: str, mesh: list[str], probes: list[str]
) -> list[dict[str, Any]] | None:
    """Return the rights that this account lacks; None where the server does not let it ask.

    One list of rules tells most of it (rules listed for no namespace hold in all). What no rule grants is asked by
    itself, since a list may be incomplete (authorizers other than RBAC).

    Returns:
        one dict per row and namespace: verbs, group, resources, namespace ("" is all), steps, why.
    """
    places = {"cluster": [""], "istio": [istio], "mesh": mesh, "probes": probes}
    try:
        everywhere = rules_in(api, NOWHERE)
        open_rows = [(row, asks) for row in rows if (asks := _asks(row, places[row.where], everywhere))]
        spaces = sorted({ask.namespace for _, asks in open_rows for ask in asks if ask.namespace})
        with ThreadPoolExecutor(4) as pool:
            listed = dict(zip(spaces, pool.map(lambda space: rules_in(api, space), spaces), strict=True))
            unsure = sorted(
                {
                    ask
                    for _, asks in open_rows
                    for ask in asks
                    if not any(covers(rule, ask) for rule in listed.get(ask.namespace, []))
                }
            )
            lacked = {a for a, yes in zip(unsure, pool.map(lambda ask: may(api, ask), unsure), strict=True) if not yes}
    except MeshApiError as error:
        if error.status == 403:
            return None
        raise
    return _merged([(row, ask) for row, asks in open_rows for ask in asks if ask in lacked])


def _asks(row: Right, places: list[str], everywhere: list[dict[str, Any]]) -> list[Ask]:
    return [
        ask
        for verb in row.verbs
        for resource in row.resources
        for ask in starmap(Ask, ((verb, row.group, resource, place) for place in places))
        if not any(covers(rule, ask) for rule in everywhere)
    ]


def _merged(lacked: list[tuple[Right, Ask]]) -> list[dict[str, Any]]:
    """Return missing rights as few rows: one per verbs of a resource in a namespace."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row, ask in lacked:
        key = (ask.namespace, ask.group, ask.resource)
        new = {"verbs": [], "group": ask.group, "resource": ask.resource, "namespace": ask.namespace}
        entry = found.setdefault(key, {**new, "steps": [], "why": row.why})
        entry["verbs"] += [ask.verb] if ask.verb not in entry["verbs"] else []
        entry["steps"] += [step for step in row.steps if step not in entry["steps"]]
    return [found[key] for key in sorted(found)]
