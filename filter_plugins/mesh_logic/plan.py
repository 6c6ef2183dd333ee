"""(facts, desired) -> what each step would do, and why.

A plan is a list of actions. Applied to the view they give the state that the next step starts from, so the whole
chain can be planned before anything is done, and check mode says what a real run does.
Action: {step, do, object, from, to, reason}; `do` is set_tag, set_labels, restart, install or uninstall. A restart
that is done another way says `how` and `api_version`, one that belongs to a wave says `wave`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from mesh_logic import foreign
from mesh_logic.errors import MeshError
from mesh_logic.model import (
    build_view,
    drill_valid,
    how_moved,
    is_stale,
    journal_name,
    live_revisions,
    record_of,
    restartable,
    retarget,
    split_ref,
    workload_ref,
)
from mesh_logic.steps import STEPS, step_wanted
from mesh_logic.waves import in_waves

Action = dict[str, Any]
# Restarts that a plan shows, and a record keeps, one by one.
SHOWN_RESTARTS = 500

View = dict[str, Any]
Desired = dict[str, Any]


def action(do: str, target: str, before: Any, after: Any, reason: str) -> Action:
    """Return one action."""
    return {"do": do, "object": target, "from": before, "to": after, "reason": reason}


def finished(view: View, desired: Desired) -> bool:
    """Tell whether the upgrade is complete: the old revision is gone, the new one serves, every tag is on it."""
    new = view["revisions"].get(desired["to"]["revision"])
    return bool(
        desired["from"]["revision"] not in view["revisions"]
        and new
        and new["ready"]
        and new["version"] == desired["to"]["version"]
        and all(view["tags"].get(tag) == desired["to"]["revision"] for tag in desired["tags"])
    )


def tags_moved(view: View, desired: Desired) -> bool:
    """Tell whether any tag of this upgrade already points at the new revision: the canary stage is behind us."""
    return any(view["tags"].get(tag) == desired["to"]["revision"] for tag in desired["tags"])


def restarts(view: View, reason: str, only: Callable[[dict[str, Any]], bool] = lambda _row: True) -> list[Action]:
    """Return a restart for every stale workload that can be moved, each once."""
    found = []
    for row in view["workloads"]:
        if is_stale(row) and only(row) and (how := how_moved(row)):
            item = action("restart", workload_ref(row), ",".join(live_revisions(row)), row["target"], reason)
            found.append(item if how == "restart" else {**item, "how": how, "api_version": row.get("api_version", "")})
    return found


def snapshot(view: View) -> View:
    """Return a copy that actions can be applied to; only what `apply` changes is copied."""
    return view | {
        "workloads": [dict(row) for row in view["workloads"]],
        "namespaces": {name: dict(labels) for name, labels in view["namespaces"].items()},
        "tags": dict(view["tags"]),
        "revisions": dict(view["revisions"]),
    }


def apply(view: View, step: Action) -> None:
    """Change the view, in place, to what it would be after one action."""
    do, target = step["do"], step["object"]
    if do == "restart":
        _apply_restarts(view, [step])
        return
    if do == "set_tag":
        view["tags"][target] = step["to"]
        if target == "default":
            view["default_injects"] = False
    elif do == "set_labels":
        labels = view["namespaces"][target]
        for key, value in step["to"].items():
            labels.pop(key, None)
            if value is not None:
                labels[key] = value
    elif do == "install":
        view["revisions"][target] = {
            "version": step["to"],
            "ready": True,
            "uid": "",
            "generation": 0,
            "injector": "planned",
        }
    elif do == "uninstall":
        view["revisions"].pop(target, None)
    retarget(view)


def _apply_restarts(view: View, actions: list[Action]) -> None:
    """Give the restarted workloads pods of the revision they were restarted for, in one pass over the rows."""
    to = {item["object"]: item["to"] for item in actions}
    for row in view["workloads"]:
        revision = to.get(workload_ref(row)) if row["proxies"] else None
        if revision:
            pods = sum(p["pods"] for p in row["proxies"] if not p["terminating"])
            proxy = {"image": "", "revision": revision, "native": False, "ready": True, "terminating": False}
            row["proxies"] = [proxy | {"pods": pods}]


def plan_and_apply(view: View, actions: list[Action], more: list[Action]) -> None:
    """Append actions to a plan and apply them to the view; restarts in one go, there may be thousands."""
    _apply_restarts(view, [item for item in more if item["do"] == "restart"])
    for item in more:
        if item["do"] != "restart":
            apply(view, item)
    actions.extend(more)


def plan_precheck(view: View, desired: Desired) -> list[Action]:
    """Without a default tag a revisioned install makes itself the default: point it at the old revision first."""
    old = desired["from"]["revision"]
    if "default" in view["tags"] or old not in view["revisions"]:
        return []
    reason = (
        "no default tag exists, and istioctl install of a revision would take it and capture every namespace with "
        "istio-injection=enabled"
    )
    plan: list[Action] = []
    plan_and_apply(view, plan, [action("set_tag", "default", None, old, reason)])
    return plan


def plan_install(view: View, desired: Desired) -> list[Action]:
    """Install the new revision where it is missing or not serving."""
    revision, version = desired["to"]["revision"], desired["to"]["version"]
    there = view["revisions"].get(revision)
    # a revision that came up after a time-out, or whose proof failed, is installed again (which changes nothing of it)
    # and proven: only the record says that nothing else moved
    proven = record_of(view, desired, "install").get("state") == "done"
    if there and there["ready"] and there["injector"] and proven:
        return []
    plan: list[Action] = []
    why = "the new revision runs beside the old one" if not there else "the new revision is there but does not serve"
    plan_and_apply(view, plan, [action("install", revision, there and there["version"], version, why)])
    return plan


def canary_labels(namespace: dict[str, str], revision: str) -> dict[str, str | None]:
    """Return the label changes that hand a namespace to a revision; istio-injection would win over istio.io/rev."""
    wanted: dict[str, str | None] = {"istio-injection": None, "istio.io/rev": revision}
    return {key: value for key, value in wanted.items() if namespace.get(key) != value}


def plan_canary(view: View, desired: Desired) -> list[Action]:
    """Relabel the canary namespaces and restart what is stale in them."""
    if tags_moved(view, desired):
        return []
    plan: list[Action] = []
    revision, names = desired["to"]["revision"], desired["canary_namespaces"]
    for name in names:
        labels = view["namespaces"].get(name, {})
        change = canary_labels(labels, revision)
        if change:
            before = {key: labels.get(key) for key in change}
            plan_and_apply(view, plan, [action("set_labels", name, before, change, "canary namespace")])
    stale = restarts(
        view, "canary namespace: injection happens when a pod is created", lambda row: row["namespace"] in names
    )
    plan_and_apply(view, plan, stale)
    return plan


def plan_labels_back(view: View, desired: Desired) -> list[Action]:
    """Give the canary namespaces exactly the labels they had, from the journal's record."""
    plan: list[Action] = []
    for name, had in _labels_before(view, desired).items():
        labels = view["namespaces"].get(name)
        # only what the canary set is undone: a person may have changed the label since
        if labels is None or labels.get("istio.io/rev") != desired["to"]["revision"]:
            continue
        change = {key: value for key, value in had.items() if labels.get(key) != value}
        if change:
            now = {key: labels.get(key) for key in change}
            plan_and_apply(
                view,
                plan,
                [action("set_labels", name, now, change, "the canary namespace gets back the labels it had")],
            )
    return plan


def plan_move_tags(view: View, desired: Desired) -> list[Action]:
    """Move the tags, `default` last and only after the workloads of the others; then the labels; then what is stale."""
    new, plan = desired["to"]["revision"], []  # type: str, list[Action]
    for group in (False, True):
        for tag in desired["tags"]:
            if (tag == "default") == group and view["tags"].get(tag) != new:
                now = view["tags"].get(tag)
                plan_and_apply(
                    view, plan, [action("set_tag", tag, now, new, "the tag moves its namespaces to the new revision")]
                )
        if not group:
            plan_and_apply(view, plan, plan_labels_back(snapshot(view), desired))
        stale = restarts(view, "its tag moved", lambda row: row["target"] == new)
        plan_and_apply(view, plan, in_waves(stale, desired["waves"], view["selected"]))
    return plan


def drill_workloads(view: View, desired: Desired) -> list[dict[str, Any]]:
    """Return the rows of the workloads to drill: the named ones, or the first that a drilled tag would move."""
    named = {(w["namespace"], w["name"]) for w in desired["drill"]["workloads"]}
    if named:
        return [
            r
            for r in view["workloads"]
            if (r["namespace"], r["name"]) in named and r["kind"] in ("Deployment", "StatefulSet", "DaemonSet")
        ]
    trial = snapshot(view)
    for tag in desired["drill"]["tags"]:
        apply(trial, action("set_tag", tag, None, desired["from"]["revision"], ""))
    moved = [r for r in trial["workloads"] if is_stale(r) and not restartable(r)]
    names = {workload_ref(r) for r in moved[:1]}
    return [r for r in view["workloads"] if workload_ref(r) in names]


def plan_drill(view: View, desired: Desired) -> list[Action]:
    """Move the drill tags back and forward again, with a restart of the drill workloads on each side."""
    old, new = desired["from"]["revision"], desired["to"]["revision"]
    if old not in view["revisions"] or not drill_valid(record_of(view, desired, "rollback_drill"), view, desired):
        return []
    plan: list[Action] = []
    refs = {workload_ref(r) for r in drill_workloads(view, desired)}
    # default goes back first and forward last
    tags = sorted(desired["drill"]["tags"], key=lambda tag: tag != "default")
    for side, order in ((old, tags), (new, list(reversed(tags)))):
        word = "back" if side == old else "forward"
        moves = [
            action("set_tag", t, view["tags"].get(t), side, f"rollback drill, {word}")
            for t in order
            if view["tags"].get(t) != side
        ]
        plan_and_apply(view, plan, moves)
        plan_and_apply(view, plan, restarts(view, f"rollback drill, {word}", lambda row: workload_ref(row) in refs))
    return plan


def plan_uninstall(view: View, desired: Desired) -> list[Action]:
    """Remove the old revision, if it is still there."""
    old = desired["from"]["revision"]
    if old not in view["revisions"] and old not in view["injectors"].values():
        return []
    version = (view["revisions"].get(old) or {}).get("version")
    plan: list[Action] = []
    plan_and_apply(view, plan, [action("uninstall", old, version, None, "everything runs on the new revision")])
    return plan


PLANNERS: dict[str, Callable[[View, Desired], list[Action]]] = {
    "precheck": plan_precheck,
    "install": plan_install,
    "canary": plan_canary,
    "move_tags": plan_move_tags,
    "rollback_drill": plan_drill,
    "uninstall": plan_uninstall,
}


def chain_plan(facts: dict[str, Any], desired: Desired) -> list[Action]:
    """Return the actions of the whole chain from the given facts, each with its step; [] when it is finished."""
    view = build_view(facts, desired["consents"])
    if finished(view, desired):
        return []
    actions: list[Action] = []
    for step, planner in PLANNERS.items():
        if not step_wanted(desired["stop_after"], step):
            break
        actions += [{"step": step, **item} for item in planner(view, desired)]
        if step == "canary":
            _remember_labels(view, desired, actions)
    return actions


def _remember_labels(view: View, desired: Desired, actions: list[Action]) -> None:
    """Put the planned canary's labels into the view's journal, as the canary step would."""
    had = _labels_before(view, desired)
    before = {a["object"]: a["from"] for a in actions if a["do"] == "set_labels" and a["step"] == "canary"}
    if before:
        name = journal_name(desired, "canary")
        view["journal"] = view["journal"] | {name: {"state": "done", "labels_before": before | had}}


def _labels_before(view: View, desired: Desired) -> dict[str, dict[str, str | None]]:
    """Return the recorded labels from before the canary; of a reverted one none, for they may have changed since."""
    record = record_of(view, desired, "canary")
    return {} if record.get("state") == "reverted" else dict(record.get("labels_before") or {})


def step_plan(facts: dict[str, Any], desired: Desired, step: str, from_start: bool = False) -> dict[str, Any]:
    """Return what one step would do.

    Args:
        facts: result of `mesh_read`.
        desired: result of `read_inputs`.
        step: name of the step.
        from_start: plan against the state that the steps before would leave (check mode), not against the facts.

    Returns:
        {step, state, finished, actions, reason, refused}; state is `after_stop` (the chain ends before), `done`
        (nothing to do), `todo` (also without actions, where only the proof is missing) or `refused` (what it builds on
        is not proven); finished says that the whole upgrade is over.
    """
    if not step_wanted(desired["stop_after"], step):
        reason = f"the run stops after {desired['stop_after']}"
        return {"step": step, "state": "after_stop", "finished": False, "actions": [], "reason": reason, "refused": ""}
    view = build_view(facts, desired["consents"])
    if finished(view, desired) and not unproven(view, desired, step):
        reason = "the upgrade is finished: the old revision is gone, the new one serves"
        return {"step": step, "state": "done", "finished": True, "actions": [], "reason": reason, "refused": ""}
    refused = clash(facts, step) or ("" if from_start else refusal(view, desired, step))
    if refused:
        return {
            "step": step,
            "state": "refused",
            "finished": False,
            "actions": [],
            "reason": refused,
            "refused": refused,
        }
    if from_start:
        actions = [a for a in chain_plan(facts, desired) if a["step"] == step]
    else:
        actions = [{"step": step, **item} for item in PLANNERS[step](view, desired)] if step in PLANNERS else []
    # a report and a precheck are always worth a look; they change nothing of their own accord
    if actions or unproven(view, desired, step) or step in ("precheck", "report"):
        return {
            "step": step,
            "state": "todo",
            "finished": False,
            "actions": actions,
            "reason": "nothing to change",
            "refused": "",
        }
    reason = "the cluster is already as this step leaves it"
    return {"step": step, "state": "done", "finished": False, "actions": [], "reason": reason, "refused": ""}


def unproven(view: View, desired: Desired, step: str) -> bool:
    """Tell whether a step began and its proof is missing: a killed run, or a proof that failed after the change."""
    return step in ("canary", "move_tags", "uninstall") and record_of(view, desired, step).get("state") in (
        "started",
        "failed",
    )


def serves(revision: dict[str, Any] | None) -> bool:
    """Tell whether a revision of the view has a complete istiod and an injector."""
    return bool(revision and revision["ready"] and revision["injector"])


def clash(facts: dict[str, Any], step: str) -> str:
    """Return which webhooks without Istio's labels inject what Istio injects, or ""; steps that go back may go on."""
    return "; ".join(foreign.overlapping(facts)) if step in ("precheck", "install", "canary", "move_tags") else ""


def refusal(view: View, desired: Desired, step: str) -> str:
    """Return why a step may not run yet, or "": each needs what the step before it proved."""
    old, new = (view["revisions"].get(desired[side]["revision"]) for side in ("from", "to"))
    installed = serves(new) and record_of(view, desired, "install").get("state") == "done"
    if step == "install" and plan_precheck(snapshot(view), desired):
        why, todo = "there is no default tag, and the install would take it", "ansible-playbook playbooks/precheck.yml"
    elif step in ("canary", "move_tags", "rollback_drill") and not installed:
        why, todo = "the new revision is not installed and proven", "ansible-playbook playbooks/install.yml"
    elif step == "rollback_drill" and not serves(old) and plan_drill(snapshot(view), desired):
        name = desired["from"]["revision"]
        why = f"the old revision {name} does not serve: no pod could start while a tag is back there"
        todo = f"kubectl get deployments,pods -n {view['istio_namespace']} -l app=istiod"
    elif (
        step == "move_tags"
        and not tags_moved(view, desired)
        and record_of(view, desired, "canary").get("state") != "done"
    ):
        why, todo = "the canary has not passed", "ansible-playbook playbooks/canary.yml"
    else:
        return ""
    return str(MeshError(f"step {step}", why, todo))


def groups(actions: list[Action]) -> list[list[Action]]:
    """Return the actions in order, cut where the kind of action or the wave changes: what runs as one task."""
    cut: list[list[Action]] = []
    for item in actions:
        if cut and item["do"] == "restart" == cut[-1][-1]["do"] and item.get("wave") == cut[-1][-1].get("wave"):
            cut[-1].append(item)
        else:
            cut.append([item])
    return cut


def canary_before(facts: dict[str, Any], desired: Desired) -> dict[str, dict[str, str | None]]:
    """Return the injection labels each canary namespace had before this upgrade, null where absent.

    The journal's record counts; a namespace it does not hold has the labels of now.
    """
    view = build_view(facts, desired["consents"])
    keys = ("istio-injection", "istio.io/rev")
    now = {ns: {key: view["namespaces"].get(ns, {}).get(key) for key in keys} for ns in desired["canary_namespaces"]}
    return now | _labels_before(view, desired)


def tags_before(facts: dict[str, Any], desired: Desired) -> dict[str, str | None]:
    """Return where each tag of this upgrade pointed before it was moved, by the journal or by the facts."""
    view = build_view(facts, desired["consents"])
    record = record_of(view, desired, "move_tags")
    if record.get("tags_before") and record.get("state") != "reverted":
        return dict(record["tags_before"])
    return {tag: view["tags"].get(tag) for tag in desired["tags"]}


def tags_to(facts: dict[str, Any], targets: dict[str, str | None], reason: str) -> list[Action]:
    """Return the actions that bring tags to the given revisions, `default` first; those already there are left out."""
    view = build_view(facts)
    order = sorted(targets, key=lambda tag: tag != "default")
    return [
        action("set_tag", tag, view["tags"].get(tag), targets[tag], reason)
        for tag in order
        if targets[tag] and view["tags"].get(tag) != targets[tag]
    ]


def towards(actions: list[Action], revision: str) -> list[Action]:
    """Return the actions of a plan that lead to one revision (a drill goes back first, then forward)."""
    return [item for item in actions if item["to"] == revision]


def describe(actions: list[Action]) -> list[str]:
    """Return the actions as lines for people; of very many restarts the first ones and the rest by namespace."""
    words = {
        "set_tag": "tag {object}: {from} -> {to}",
        "set_labels": "namespace {object}: labels {from} -> {to}",
        "restart": "{how} {object}: {from} -> {to}",
        "install": "install revision {object} ({to})",
        "uninstall": "uninstall revision {object}",
    }
    lines, more = [], Counter[str]()
    for number, item in enumerate(actions):
        if item["do"] == "restart" and number >= SHOWN_RESTARTS:
            more[split_ref(item["object"])[1]] += 1
        else:
            wave = f", wave {item['wave']}" if item.get("wave") else ""
            lines.append(words[item["do"]].format(**{"how": "restart"} | item) + f" ({item['reason']}{wave})")
    return lines + [f"restart {count} more workloads of namespace {name}" for name, count in sorted(more.items())]


def kept(actions: list[Action]) -> list[Action]:
    """Return what a record keeps of a plan: a ConfigMap holds 1 MiB, and thousands of restarts say nothing singly."""
    single = [item for item in actions if item["do"] != "restart"]
    moved = [item for item in actions if item["do"] == "restart"]
    if len(moved) <= SHOWN_RESTARTS:
        return actions
    rest = action("restart", f"{len(moved) - SHOWN_RESTARTS} more workloads", None, moved[0]["to"], moved[0]["reason"])
    return [*single, *moved[:SHOWN_RESTARTS], rest]


def expected_labels(actions: list[Action], facts: dict[str, Any], plan: list[Action]) -> dict[str, dict[str, Any]]:
    """Return the injection labels that the namespaces of some restarts must have while they run, null where absent.

    They are the labels that were read with the label changes of the same plan laid over them: something that puts them
    back meanwhile (GitOps) is seen before and after each restart.
    """
    there = {row["name"]: row["labels"] for row in facts["namespaces"]}
    wanted: dict[str, dict[str, Any]] = {}
    for item in actions:
        if item["do"] == "restart":
            name = split_ref(item["object"])[1]
            wanted.setdefault(name, {key: there.get(name, {}).get(key) for key in ("istio-injection", "istio.io/rev")})
    for item in plan:
        if item["do"] == "set_labels" and item["object"] in wanted:
            wanted[item["object"]] |= item["to"]
    return wanted


assert list(PLANNERS) == [s for s in STEPS if s != "report"]
