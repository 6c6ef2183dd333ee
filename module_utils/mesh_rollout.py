"""Restart workloads and tell, from their status alone, how far a rollout is."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ansible.module_utils.mesh_api import MeshApi, MeshApiError, annotations_of, meta
from ansible.module_utils.mesh_rows import template_of

PLURALS = {
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
    "Rollout": "rollouts",
}
# Kinds that own their pods through ReplicaSets, and Kubernetes' own kinds.
THROUGH_SETS = ("Deployment", "Rollout")
OWN = ("Deployment", "Rollout", "ReplicaSet", "DaemonSet", "Job")
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
# Says for which revision the template was last restarted: a killed run's successor waits for that rollout
# instead of starting a second one.
RESTARTED_FOR = "istio-upgrade/restarted-for"
# What an API server answers that restarts or is overloaded.
TRANSIENT = (0, 429, 500, 502, 503, 504)
# Waiting reasons that do not heal by waiting. The kubelet's own words (pkg/kubelet/images, kuberuntime).
STUCK = (
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
)


def _deployment_left(spec: dict[str, Any], status: dict[str, Any]) -> str:
    wanted = 1 if spec.get("replicas") is None else spec["replicas"]
    updated, total = status.get("updatedReplicas") or 0, status.get("replicas") or 0
    available = status.get("availableReplicas") or 0
    if updated < wanted:
        return f"{updated} of {wanted} pods are new"
    if total > updated:
        return f"{total - updated} old pods are still there"
    return "" if available >= wanted else f"{available} of {wanted} pods are available"


def partition_of(item: dict[str, Any]) -> int:
    """Return the ordinal below which a StatefulSet keeps its pods as they are; 0 for every other kind."""
    strategy = (item.get("spec") or {}).get("updateStrategy") or {}
    return int((strategy.get("rollingUpdate") or {}).get("partition") or 0)


def _statefulset_left(spec: dict[str, Any], status: dict[str, Any]) -> str:
    wanted = 1 if spec.get("replicas") is None else spec["replicas"]
    partition = min(wanted, partition_of({"spec": spec}))
    updated, ready = status.get("updatedReplicas") or 0, status.get("readyReplicas") or 0
    if updated < wanted - partition:
        return f"{updated} of {wanted - partition} pods are new"
    return "" if ready >= wanted else f"{ready} of {wanted} pods are ready"


def _daemonset_left(_spec: dict[str, Any], status: dict[str, Any]) -> str:
    wanted = status.get("desiredNumberScheduled") or 0
    updated, available = status.get("updatedNumberScheduled") or 0, status.get("numberAvailable") or 0
    if updated < wanted:
        return f"{updated} of {wanted} pods are new"
    return "" if available >= wanted else f"{available} of {wanted} pods are available"


LEFT: dict[str, Callable[[dict[str, Any], dict[str, Any]], str]] = {
    "Deployment": _deployment_left,
    "StatefulSet": _statefulset_left,
    "DaemonSet": _daemonset_left,
}


def rollout_left(kind: str, item: dict[str, Any]) -> str:
    """Return what a rollout still waits for, or "" when it is complete.

    Missing counters are 0 (case G03); status written before the last change does not count (case G05).
    Source: kubectl's `rollout status` (staging/src/k8s.io/kubectl/pkg/polymorphichelpers/rollout_status.go).
    """
    status = item.get("status") or {}
    if (status.get("observedGeneration") or 0) < (meta(item).get("generation") or 0):
        return "the controller has not seen the change yet"
    return LEFT[kind](item.get("spec") or {}, status)


def deadline_exceeded(item: dict[str, Any]) -> str:
    """Return a Deployment's own word that it gave up on this very rollout, or ""; one of before does not count."""
    if (item.get("status") or {}).get("observedGeneration", 0) < (meta(item).get("generation") or 0):
        return ""
    for condition in (item.get("status") or {}).get("conditions") or []:
        if condition.get("reason") == "ProgressDeadlineExceeded":
            return str(condition.get("message"))
    return ""


def create_failure(item: dict[str, Any]) -> str:
    """Return why pods of a Deployment cannot be created (quota, policy, webhook), or ""."""
    for condition in (item.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return f"{condition.get('reason')}: {condition.get('message')}"
    return ""


class Refused(MeshApiError):  # type: ignore[misc] # ansible.module_utils is Any to mypy
    """A workload that will not be moved as it is; asking again would change nothing."""


@dataclass
class Move:
    """One workload on its way to a revision; times are of the monotonic clock."""

    kind: str
    namespace: str
    name: str
    revision: str
    how: str = "restart"
    api_version: str = ""
    restarted: bool = False
    waits_for: str = "not started"
    failure: str = ""
    failing: dict[str, tuple[str, float]] = field(default_factory=dict)
    stamp: str = ""
    started: float = 0.0
    progressed: float = 0.0
    examined: float = 0.0
    generation: int = 0
    partition: int = 0
    wanted: int = 0
    pods: list[dict[str, Any]] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    @property
    def ref(self) -> str:
        """Kind, namespace and name as people write them."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def by_pods(self) -> bool:
        """Whether its pods alone tell how far it is: evicted one by one, or a kind whose status is not ours."""
        return self.how in ("evict", "restart_at")

    def collection(self, everywhere: bool = False) -> str:
        """Return the API path of the objects of its kind, in its namespace or everywhere."""
        prefix = f"/apis/{self.api_version or 'apps/v1'}"
        return (
            f"{prefix}/{PLURALS[self.kind]}"
            if everywhere
            else f"{prefix}/namespaces/{self.namespace}/{PLURALS[self.kind]}"
        )

    @property
    def path(self) -> str:
        """API path of the object."""
        return f"{self.collection()}/{self.name}"

    def waits(self, words: str, at: float) -> None:
        """Note what it waits for; another word than before is progress."""
        if words != self.waits_for:
            self.waits_for, self.progressed = words, at

    def fails(self, causes: dict[str, str], at: float, *, status: bool = False) -> None:
        """Note the causes that waiting may not heal, by the pod they are of; one that is not named again has healed.

        Args:
            causes: pod -> words; "" as pod is the workload's own status.
            at: now. A pod whose words change keeps the time since when it fails.
            status: these are of the workload's status, the pods were not looked at; else the other way round.
        """
        kept = {pod: found for pod, found in self.failing.items() if bool(pod) is status}
        self.failing = kept | {
            pod: (words, self.failing.get(pod, ("", at))[1]) for pod, words in causes.items() if bool(pod) is not status
        }

    @property
    def cause(self) -> str:
        """What stands in its way now, or ""."""
        return "; ".join(words for words, _since in self.failing.values())

    def stuck(self, at: float, stuck_after: float) -> str:
        """Return the cause that has lasted too long, or ""."""
        return self.cause if any(at - since > stuck_after for _words, since in self.failing.values()) else ""

    def row(self) -> dict[str, Any]:
        """Return what happened to it, for the task's result."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "revision": self.revision,
            "restarted": self.restarted,
            "waits_for": self.waits_for,
            "failure": self.failure,
            "pods": self.pods,
        }


def stamps(revision: str) -> dict[str, str]:
    """Return the annotations of a restart; microseconds, because two restarts within one second must differ (G07)."""
    return {RESTARTED_AT: datetime.datetime.now(datetime.UTC).isoformat(), RESTARTED_FOR: revision}


def refusal(move: Move, item: dict[str, Any] | None) -> str:
    """Return why a workload cannot be restarted as it was read last, or ""."""
    if item is None:
        return f"{move.ref} is gone since the mesh was read. Next: run again, it will be planned anew."
    return paused(move, item)


def paused(move: Move, item: dict[str, Any]) -> str:
    """Return that a workload is paused, and what to do, or "" (case G01)."""
    if not (item.get("spec") or {}).get("paused"):
        return ""
    return (
        f"{move.ref} is paused: a restart would be stored and change no pod (case G01). Next: "
        f"kubectl rollout resume -n {move.namespace} {move.kind.lower()}/{move.name}, or leave it out."
    )


def restart(api: MeshApi, move: Move, item: dict[str, Any] | None) -> None:
    """Restart one workload, unless a rollout towards the same revision is already under way.

    Args:
        api: the connection.
        move: what to restart.
        item: the object as it was read last, None when it was not there.

    Raises:
        MeshApiError: the workload is gone, paused, or the change did not make a new generation (case G17).
    """
    refused = refusal(move, item)
    if refused or item is None:
        raise Refused(refused)
    generation = meta(item).get("generation") or 0
    move.partition = partition_of(item)
    noted = annotations_of(template_of(item))
    if move.stamp and noted.get(RESTARTED_AT) == move.stamp:  # it was done, only its answer got lost
        move.restarted, move.generation = True, generation
        return
    under_way = noted.get(RESTARTED_FOR) == move.revision and rollout_left(move.kind, item)
    if under_way and not deadline_exceeded(item):
        move.generation = generation
        return
    asked = stamps(move.revision)
    move.stamp = asked[RESTARTED_AT]
    stored = api.merge_patch(move.path, {"spec": {"template": {"metadata": {"annotations": asked}}}})
    move.restarted, move.partition = True, partition_of(stored)
    move.generation = meta(stored).get("generation") or 0
    if words := paused(move, stored):  # somebody paused it since it was read
        raise Refused(words)
    if move.generation <= generation:
        raise Refused(f"{move.ref} was patched but its generation stayed {generation}: nothing would restart.")


def restart_at(api: MeshApi, move: Move, stale: list[dict[str, Any]]) -> None:
    """Restart an Argo Rollout through its own field, unless that is under way (argoproj.io/v1alpha1, spec.restartAt).

    Args:
        api: the connection.
        move: what to restart.
        stale: rows of its live pods that another revision injected.

    Raises:
        MeshApiError: the Rollout is gone.
    """
    item = api.get(move.path)
    if item is None:
        raise Refused(f"{move.ref} is gone since the mesh was read. Next: run again, it will be planned anew.")
    asked = str((item.get("spec") or {}).get("restartAt") or "")
    if annotations_of(item).get(RESTARTED_FOR) == move.revision and all(p["created"] < asked for p in stale):
        return
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    api.merge_patch(
        move.path, {"metadata": {"annotations": {RESTARTED_FOR: move.revision}}, "spec": {"restartAt": now}}
    )
    move.restarted = True


def blocking_budgets(api: MeshApi, namespace: str) -> list[str]:
    """Return the PodDisruptionBudgets of a namespace that allow nothing now; they block evictions, never rollouts."""
    return [
        meta(item).get("name", "")
        for item in api.list(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets")
        if not (item.get("status") or {}).get("disruptionsAllowed")
    ]


def create_refused(api: MeshApi, move: Move, item: dict[str, Any], there: int) -> str:
    """Return why pods of a StatefulSet or DaemonSet cannot be created since its restart, or "".

    They have no condition for it as Deployments have, only events (reason FailedCreate). One counts while pods are
    missing and when it is not older than the restart; that compares the cluster's clock with ours, in seconds.

    Args:
        api: the connection.
        move: what was restarted.
        item: its object as it is now.
        there: its pods that are not on their way out.
    """
    spec, status = item.get("spec") or {}, item.get("status") or {}
    wanted = status.get("desiredNumberScheduled") if move.kind == "DaemonSet" else spec.get("replicas", 1)
    if move.kind not in ("StatefulSet", "DaemonSet") or there >= (wanted or 0):
        return ""
    about = f"involvedObject.kind={move.kind},involvedObject.name={move.name},reason=FailedCreate"
    found = api.request("GET", f"/api/v1/namespaces/{move.namespace}/events", {"fieldSelector": about, "limit": 500})
    since = annotations_of(template_of(item)).get(RESTARTED_AT, "")[:19]
    said = [(str(e.get("lastTimestamp") or e.get("eventTime") or ""), e) for e in found.get("items") or []]
    newest = max((pair for pair in said if pair[0][:19] >= since), key=lambda pair: pair[0], default=None)
    return f"FailedCreate: {newest[1].get('message')}" if newest else ""


def newest_set(api: MeshApi, move: Move) -> str:
    """Return the name of the newest ReplicaSet of a workload that owns its pods through such, or ""."""
    found = []
    for item in api.list(f"/apis/apps/v1/namespaces/{move.namespace}/replicasets", metadata_only=True):
        owner: dict[str, Any] = next((o for o in meta(item).get("ownerReferences") or [] if o.get("controller")), {})
        if (owner.get("kind"), owner.get("name")) == (move.kind, move.name):
            noted = annotations_of(item)
            number = str(noted.get("deployment.kubernetes.io/revision") or noted.get("rollout.argoproj.io/revision"))
            order = (int(number) if number.isdigit() else 0, str(meta(item).get("creationTimestamp") or ""))
            found.append((order, str(meta(item).get("name"))))
    return max(found)[1] if found else ""


def warnings_of(api: MeshApi, move: Move) -> list[str]:
    """Return the newest warnings about a workload, its newest ReplicaSet and that one's pods, not about others (G09).

    The names of pods: an ordinal after a StatefulSet's, five characters after every other owner's
    (k8s.io/apiserver/pkg/storage/names, generate.go). A kind that is not Kubernetes' own may name them as it likes.
    """
    owner = newest_set(api, move) if move.kind in THROUGH_SETS else ""
    end = {"StatefulSet": r"\d+"}.get(move.kind, "[a-z0-9]{5}" if move.kind in OWN else ".+")
    pods = re.compile(f"{re.escape(owner or move.name)}-{end}")
    events = []
    for event in api.list(f"/api/v1/namespaces/{move.namespace}/events"):
        involved = event.get("involvedObject") or {}
        kind, name = involved.get("kind"), str(involved.get("name", ""))
        about = (kind, name) in ((move.kind, move.name), ("ReplicaSet", owner))
        if event.get("type") == "Warning" and (about or (kind == "Pod" and pods.fullmatch(name))):
            events.append(event)
    events.sort(key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""))
    return [f"{e['involvedObject'].get('name')}: {e.get('reason')}: {e.get('message')}" for e in events[-3:]]


def explain(api: MeshApi, move: Move) -> str:
    """Return a failed move's cause with the newest warnings the cluster has about it (case G09)."""
    try:
        said = warnings_of(api, move)
        budgets = blocking_budgets(api, move.namespace) if move.how == "evict" else []
    except MeshApiError as error:  # the cause must not get lost over its details
        return f"{move.ref}: {move.failure} (its events cannot be read: {error})"
    words = f"{move.ref}: {move.failure}"
    if budgets:
        words += f". PodDisruptionBudgets that allow nothing now: {', '.join(budgets)}"
    return words + (f". Events: {' | '.join(said)}" if said else "")
