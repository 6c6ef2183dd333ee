"""The facts of `mesh_read` -> what they mean: revisions, tags, and what would inject each workload now.

Everything is a plain dict, so that a plan can be applied to a copy and the next step planned against it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from mesh_logic.errors import MeshError
from mesh_logic.images import proxy_image
from mesh_logic.injection import injecting_revision

# Kinds that a restart of the template moves; everything else is for a person.
MOVABLE = ("Deployment", "StatefulSet", "DaemonSet")
# Kind -> how it moves without anybody's consent. A ReplicaSet of its own has no rollout: its pods are evicted.
MOVES_BY = dict.fromkeys(MOVABLE, "restart") | {"ReplicaSet": "evict"}


def image_tag(reference: str) -> str:
    """Return the tag of an image reference as written, or "" where it has none or cannot be read."""
    try:
        return proxy_image(reference)["tag"] or ""
    except MeshError:
        return ""


def image_version(reference: str) -> str:
    """Return x.y.z of an image reference, or "" where it says none."""
    try:
        return proxy_image(reference)["version"] or ""
    except MeshError:
        return ""


def build_view(facts: dict[str, Any], consents: list[dict[str, str]] | None = None) -> dict[str, Any]:
    """Return the meaning of the facts; `consents` (of the inputs) say which workloads may be moved after all.

    Out: revisions (revision -> version, image, ready, uid, generation, injector), tags (tag -> revision),
    ambiguous (tag -> its two revisions), hollow (tags with a Service and no webhook), default_injects, namespaces
    (name -> labels), workloads (the rows, each with `target`: the revision that would inject it now), loose_pods,
    journal.
    """
    revisions = {}
    # of two for one revision the one that Istio made counts: a tag's webhook copied without its tag looks like one
    untagged = sorted((i for i in facts["injectors"] if not i["tag"]), key=lambda i: bool(i.get("managed")))
    injectors = {i["revision"] or "default": i for i in untagged}
    for row in facts["control_planes"]:
        complete = (
            row["observed"] >= row["generation"]
            and row["updated"] == row["replicas"] == row["available"] == row["total"]
        )
        injector = injectors.get(row["revision"])
        revisions[row["revision"]] = {
            "deployment": row["name"],
            "version": image_version(row["image"]),
            "tag": image_tag(row["image"]),
            "image": row["image"],
            "replicas": row["replicas"],
            "ready": bool(complete and row["replicas"] > 0),
            "uid": row["uid"],
            "generation": row["generation"],
            "injector": injector["name"] if injector else "",
            "helm": row["helm"],
        }
    by_tag: dict[str, list[str]] = {}
    for row in [*facts["injectors"], *facts["services"]]:
        if row["tag"]:
            by_tag.setdefault(row["tag"], []).append(row["revision"])
    plain = injectors.get("default")
    view = {
        "revisions": revisions,
        "tags": {tag: found[0] for tag, found in by_tag.items()},
        "hollow": sorted({row["tag"] for row in facts["services"]} - {row["tag"] for row in facts["injectors"]} - {""}),
        "ambiguous": {tag: sorted(set(found)) for tag, found in by_tag.items() if len(set(found)) > 1},
        "default_injects": bool(plain and not all(e["deactivated"] for e in plain["entries"])),
        "injectors": {i["name"]: i["revision"] for i in facts["injectors"] if not i["tag"]},
        "namespaces": {n["name"]: dict(n["labels"]) for n in facts["namespaces"]},
        # rows are replaced, never changed deep inside: a shallow copy keeps the facts as they are
        "workloads": [{**row, "consent": _consent(row, consents or [])} for row in facts.get("workloads") or []],
        "selected": facts.get("selected") or {},
        "loose_pods": facts.get("loose_pods") or [],
        "journal": facts.get("journal") or {},
        "istio_namespace": facts["istio_namespace"],
    }
    retarget(view)
    return view


def _consent(row: dict[str, Any], consents: list[dict[str, str]]) -> str:
    """Return what a person allows for a workload, or ""."""
    if not consents:
        return ""
    return next((c["allow"] for c in consents if fnmatchcase(workload_ref(row), c["resource"])), "")


def retarget(view: dict[str, Any]) -> None:
    """Predict anew, in place, which revision would inject each workload of the view."""
    for row in view["workloads"]:
        row["target"] = injecting_revision(
            view["namespaces"].get(row["namespace"], {}),
            row["template_labels"],
            view["tags"],
            list(view["revisions"]),
            pod_annotations=row["template_annotations"],
            host_network=row["host_network"],
            namespace=row["namespace"],
            default_injects=view["default_injects"],
        )["revision"]


def live_revisions(row: dict[str, Any]) -> list[str]:
    """Return the revisions that injected a workload's live pods; pods on their way out do not count (case B13)."""
    return sorted({p["revision"] for p in row["proxies"] if not p["terminating"]})


def is_stale(row: dict[str, Any]) -> bool:
    """Tell whether a workload has live proxies of another revision than the one that would inject it now."""
    return bool(row["target"]) and any(revision != row["target"] for revision in live_revisions(row))


def _left_alone(row: dict[str, Any]) -> str:
    """Return why a workload is not moved without a person's consent, or ""."""
    if row["kind"] not in MOVES_BY:
        return f"{row['kind']} pods are not restarted"
    if row["managed_by"]:
        return f"it belongs to {row['managed_by']}, which would undo or repeat a restart"
    if row["paused"]:
        return "it is paused"
    return "its update strategy is OnDelete" if row["strategy"] == "OnDelete" else ""


def how_moved(row: dict[str, Any]) -> str:
    """Return how a workload moves: restart, evict, restart_at or rescue; "" where it is left to a person.

    A consent counts where it can do something: a restart changes no pod of a paused or OnDelete workload, and only an
    Argo Rollout knows `spec.restartAt` (argoproj.io/v1alpha1).
    """
    consent, alone = row.get("consent", ""), _left_alone(row)
    fits = {
        "": False,
        "restart": row["kind"] in MOVABLE and not row["paused"] and row["strategy"] != "OnDelete",
        "restart_at": row["kind"] == "Rollout",
        "rescue": row["kind"] == "StatefulSet" and not alone,
        "evict": True,
    }
    if fits[consent]:
        return str(consent)
    return "" if alone else MOVES_BY[row["kind"]]


def restartable(row: dict[str, Any]) -> str:
    """Return why a workload is left to a person, or "" when this project moves it."""
    if how_moved(row):
        return ""
    consent = row.get("consent", "")
    return _left_alone(row) + (f", and the consent {consent!r} cannot move it" if consent else "")


def workload_ref(row: dict[str, Any]) -> str:
    """Return kind, namespace and name as people write them."""
    return f"{row['kind']} {row['namespace']}/{row['name']}"


def split_ref(ref: str) -> tuple[str, str, str]:
    """Return (kind, namespace, name) of what `workload_ref` wrote."""
    kind, _, path = ref.partition(" ")
    namespace, _, name = path.partition("/")
    return kind, namespace, name


def drill_valid(record: dict[str, Any] | None, view: dict[str, Any], desired: dict[str, Any]) -> str:
    """Return "" when the journal holds a drill pass that still counts, else why it does not.

    A pass expires when the old istiod, a tag that was drilled, or the operator file changes.
    """
    if not record or record.get("state") != "done":
        return "no rollback drill has passed for this pair of revisions"
    proof = record.get("proof") or {}
    old = view["revisions"].get(desired["from"]["revision"]) or {}
    if (proof.get("old_uid"), proof.get("old_generation")) != (old.get("uid"), old.get("generation")):
        return "the old istiod was changed after the drill"
    if proof.get("operator_sha256") != desired["operator_sha256"]:
        return "the operator file was changed after the drill"
    missing = [t for t in desired["drill"]["tags"] if t not in (proof.get("tags") or [])]
    return f"tag {missing[0]} was not drilled" if missing else ""


def journal_name(desired: dict[str, Any], step: str) -> str:
    """Return the name of a step's journal ConfigMap; it holds the pair, so that the next upgrade starts anew."""
    return f"istio-upgrade-{desired['from']['revision']}-to-{desired['to']['revision']}-{step.replace('_', '-')}"


def record_of(view: dict[str, Any], desired: dict[str, Any], step: str) -> dict[str, Any]:
    """Return a step's journal record, or {}."""
    found: dict[str, Any] = view["journal"].get(journal_name(desired, step)) or {}
    return found
