"""Which namespaces follow a tag that moved, or got other labels, and what dry runs of a bare pod in them say.

The workloads that a step restarts are proven by their own templates (`injection_proof`). What follows a tag without
being restarted is not: empty namespaces, workloads without pods, what is left to a person, all but one in a drill.
"""

from __future__ import annotations

from typing import Any, TypedDict

from mesh_logic.injection import SYSTEM_NAMESPACES, injecting_revision
from mesh_logic.injection_proof import Expected, Verdict, injection_proof
from mesh_logic.model import build_view, split_ref
from mesh_logic.plan import apply, snapshot

Action = dict[str, Any]
# Namespaces that are asked about for one change; a dry run takes some milliseconds of the API server.
ASKED = 50
NAME = "istio-upgrade-dry-run"


class Following(TypedDict):
    """`pods` as `mesh_proof` takes them; `count` namespaces follow; `left_out` are not asked about."""

    pods: list[dict[str, str]]
    count: int
    left_out: list[str]


def following(facts: dict[str, Any], plan: list[Action], change: Action) -> Following:
    """Return a bare pod for each namespace that follows a change, with the revision that must inject it.

    In: facts of before the step, its plan, and the action of it (set_tag or set_labels) that was just carried out. Of
    very many namespaces those come first in which the plan restarts nothing, for nothing else asks about them.
    """
    view = snapshot(build_view({**facts, "workloads": [], "loose_pods": []}))
    for item in plan[: plan.index(change) + 1]:
        if item["do"] in ("set_tag", "set_labels"):
            apply(view, item)
    restarted = {split_ref(item["object"])[1] for item in plan if item["do"] == "restart"}
    ending = {row["name"] for row in facts["namespaces"] if row["terminating"]}
    found: list[dict[str, str]] = []
    for name, labels in sorted(view["namespaces"].items(), key=lambda item: (item[0] in restarted, item[0])):
        answer = injecting_revision(
            labels,
            {},
            view["tags"],
            list(view["revisions"]),
            namespace=name,
            default_injects=view["default_injects"],
        )
        changed = answer["tag"] == change["object"] if change["do"] == "set_tag" else name == change["object"]
        if changed and answer["revision"] and name not in ending and name not in SYSTEM_NAMESPACES:
            found.append({"kind": "Pod", "namespace": name, "name": NAME, "revision": answer["revision"]})
    left_out = sorted(pod["namespace"] for pod in found[ASKED:])
    return {"pods": found[:ASKED], "count": len(found), "left_out": left_out}


def following_proof(proof: dict[str, Any], asked: Following, images: dict[str, Expected]) -> Verdict:
    """Return what the dry runs of bare pods mean: `errors` stop the step, `warnings` are told and recorded.

    In: the result of `mesh_proof` for `asked`; what proxies of each revision look like. A dry run that something else
    than the injector refused (quota, policy, no right) stops nothing, for nothing is restarted on its word.
    """
    answered = [group for group in proof["groups"] if group["state"] != "inconclusive"]
    refused = [group for group in proof["groups"] if group["state"] == "inconclusive"]
    covered = {ref for group in refused for ref in group["covers"]}
    pods = [pod for pod in asked["pods"] if f"Pod {pod['namespace']}/{pod['name']}" not in covered]
    verdict = injection_proof({**proof, "groups": answered}, pods, images)
    warnings = list(verdict["warnings"])
    warnings += [
        f"namespace {group['namespace']}: what a new pod would get is not proven: {group['who']} refused the dry run "
        f"({group['said']})"
        for group in refused
    ]
    if asked["left_out"]:
        some = ", ".join(asked["left_out"][:5]) + (" and more" if len(asked["left_out"]) > 5 else "")
        warnings.append(
            f"{len(asked['pods'])} of {asked['count']} namespaces that follow were asked what a new pod would get; not "
            f"asked are {some}"
        )
    return {"errors": verdict["errors"], "first": [], "warnings": warnings}
