"""(facts, desired) -> the way back: `rollback` keeps the new revision installed, `abort` removes it at its end.

Both put tags, labels and workloads back to the old revision. `abort` begins with what the new install changed in place
(gateways, node agents): removing the new revision would take it away (case I08), so the old istioctl takes it back
first. Actions carry a `phase`, so that each phase is proven before the next one starts.
"""

from __future__ import annotations

from typing import Any

from mesh_logic import evidence
from mesh_logic.errors import MeshError, shown
from mesh_logic.gates import cluster_errors, version_errors
from mesh_logic.model import build_view, journal_name, live_revisions, record_of
from mesh_logic.plan import Action, Desired, View, action, plan_and_apply, plan_labels_back, restarts
from mesh_logic.removal import CONTROL_PLANE, Row, named, takes, takes_words
from mesh_logic.waves import in_waves

SIDES = (("old", "from"), ("new", "to"))
# The order in which a way back is walked; a road without a phase skips it.
PHASES = ("control_plane", "canary", "tags", "removal")
# The state of a record that proves nothing any more.
CLOSED = "reverted"
# What a road undoes, by the time its record is closed: `begin` before the first change, `end` after the last proof.
# The canary's record holds the labels to give back, so it is closed last.
UNDOES: dict[str, dict[str, tuple[str, ...]]] = {
    "rollback": {"begin": ("move_tags", "rollback_drill", "uninstall"), "end": ("canary",)},
    "abort": {
        "begin": ("move_tags", "rollback_drill", "uninstall"),
        "end": ("canary", "install", "precheck", "before"),
    },
}


def reversed_wants(desired: Desired, facts: dict[str, Any], tool: str = "to") -> Desired:
    """Return what is wanted with both sides swapped, so that the tasks of the way forward drive the way back.

    Args:
        desired: what the run wants.
        facts: result of `mesh_read`; the tag of the running old istiod is laid over the operator file again.
        tool: the side whose istioctl is used: `from` installs the old version, `to` does everything else.
    """
    old, new = desired["from"], desired["to"]
    running = build_view(facts)["revisions"].get(old["revision"]) or {}
    return desired | {
        "from": {"version": new["version"], "revision": new["revision"], "istioctl": new["istioctl"]},
        "to": {
            "version": old["version"],
            "revision": old["revision"],
            "istioctl": desired[tool]["istioctl"],
            "tag": running.get("tag") or "",
        },
        "way_back": True,
    }


def in_place(objects: list[Row], revision: str) -> list[Row]:
    """Return the gateways and node agents that carry a revision, one row for each Deployment or DaemonSet.

    They are not kept per revision: the install that came last took them over, and its removal would delete them.
    """
    return [
        row
        for row in takes(objects, revision)
        if row["component"] != CONTROL_PLANE and row["kind"] in ("Deployment", "DaemonSet")
    ]


def start_errors(facts: dict[str, Any], desired: Desired) -> list[str]:
    """Return why no way back can be planned: another cluster, other versions, tags of a third revision.

    A tag whose webhook and Service disagree is no error here: a killed run leaves such a one, and the way back sets it.
    """
    view = build_view(facts)
    pair = (desired["from"]["revision"], desired["to"]["revision"])
    errors = cluster_errors(facts, desired) + version_errors(view, desired)
    for tag in desired["tags"]:
        for target in view["ambiguous"].get(tag) or [view["tags"].get(tag)]:
            if target is not None and target not in pair:
                errors.append(
                    str(
                        MeshError(
                            f"tag {shown(tag)}",
                            f"it points to {target}, which is neither the old revision {pair[0]} nor the new {pair[1]}",
                            "take it out of mesh_tags",
                        )
                    )
                )
    return errors


def way_back_plan(facts: dict[str, Any], desired: Desired, objects: list[Row], road: str) -> dict[str, Any]:
    """Return what a way back would do.

    Args:
        facts: result of `mesh_read`.
        desired: result of `read_inputs`.
        objects: the labelled objects of all revisions, from `mesh_objects`.
        road: `rollback` or `abort`.

    Returns:
        The shape of `plan.step_plan` (state is `todo`, `done` or `refused`), and `in_place`: the gateways and node
        agents that go back first.
    """
    view = build_view(facts, desired["consents"])
    changed = in_place(objects, desired["to"]["revision"]) if road == "abort" else []
    found = {"step": road, "state": "done", "finished": False, "actions": [], "refused": "", "in_place": changed}
    refuse, plan = {"abort": (_abort_refusal, _plan_abort), "rollback": (_rollback_refusal, _plan_rollback)}[road]
    refused = refuse(view, desired, changed)
    if refused:
        return found | {"state": "refused", "reason": refused, "refused": refused}
    actions = plan(view, desired, changed)
    began = record_of(view, desired, road).get("state") in ("started", "failed")
    if actions or began:
        reason = "nothing to change; the proof of an earlier try is missing"
        return found | {"state": "todo", "actions": [{"step": road, **item} for item in actions], "reason": reason}
    return found | {"reason": _nothing(desired, objects, road)}


def _nothing(desired: Desired, objects: list[Row], road: str) -> str:
    """Return why there is nothing to do; what a broken install left without istiod and injector is named."""
    old, new = desired["from"]["revision"], desired["to"]["revision"]
    if road == "rollback":
        return f"every tag, label and workload of this upgrade is on {old} already"
    left = takes_words(objects, new)
    more = f"; left of it, for a person (istioctl uninstall does not find it): {', '.join(left)}" if left else ""
    return f"no control plane of {new} is installed, and everything of this upgrade is on {old}{more}"


def _say(what: str, why: str, todo: str) -> str:
    return str(MeshError(what, why, todo))


def _rollback_refusal(view: View, desired: Desired, _changed: list[Row]) -> str:
    old = view["revisions"].get(desired["from"]["revision"])
    if old and old["ready"] and old["injector"]:
        return ""
    name = desired["from"]["revision"]
    state = "is gone" if old is None else "does not serve"
    if not desired["from"]["istioctl"]:
        return _say(
            f"old revision {name}",
            f"it {state}, and only istioctl {desired['from']['version']} can install it again: "
            "mesh_istioctl_from is not set",
            f"set mesh_istioctl_from to the istioctl of {desired['from']['version']}",
        )
    if old is None and "default" not in view["tags"]:
        return _say(
            f"old revision {name}",
            "it is gone and there is no default tag: its install would make itself the default",
            f"{desired['to']['istioctl']} tag set default --revision {desired['to']['revision']}",
        )
    return ""


def _abort_refusal(view: View, desired: Desired, changed: list[Row]) -> str:
    name, new = desired["from"]["revision"], desired["to"]["revision"]
    old, there = view["revisions"].get(name), view["revisions"].get(new)
    if old is None:
        return _say(
            f"old revision {name}",
            "it is gone, so there is nothing that the new one could be taken away for",
            "ansible-playbook playbooks/rollback.yml reinstalls it and brings everything back to it",
        )
    if not old["ready"] or not old["injector"]:
        return _say(
            f"old revision {name}",
            "its istiod is not complete or has no injector, so nothing may go back to it",
            f"kubectl get deployments,pods -n {view['istio_namespace']} -l istio.io/rev={name}; "
            "ansible-playbook playbooks/rollback.yml installs it again",
        )
    if there and not there["injector"]:
        return _say(
            f"new revision {new}",
            "it has an istiod and no injector: istioctl uninstall would not find it",
            "ansible-playbook playbooks/install.yml makes it whole, then abort again",
        )
    if changed and not desired["from"]["istioctl"]:
        return _say(
            ", ".join(named(row) for row in changed),
            f"upgraded in place by the install of {new}, and only istioctl {desired['from']['version']} can give "
            "it back: mesh_istioctl_from is not set",
            f"set mesh_istioctl_from to the istioctl of {desired['from']['version']}; until then remove nothing",
        )
    return ""


def _in_phase(phase: str, actions: list[Action]) -> list[Action]:
    return [item | {"phase": phase} for item in actions]


def _plan_rollback(view: View, desired: Desired, _changed: list[Row]) -> list[Action]:
    """Old revision where it is missing, then tags (`default` first), labels, stale workloads."""
    plan: list[Action] = []
    old = desired["from"]["revision"]
    there = view["revisions"].get(old)
    if not (there and there["ready"] and there["injector"]):
        why = "the old revision does not serve" if there else "the old revision is gone: nothing could go back to it"
        version = there and there["version"]
        more = [action("install", old, version, desired["from"]["version"], why)]
        plan_and_apply(view, plan, _in_phase("control_plane", more))
    _tags_back(view, desired, plan)
    plan.extend(_in_phase("tags", plan_labels_back(view, desired)))
    _restarts_back(view, desired, plan, "tags")
    return plan


def _plan_abort(view: View, desired: Desired, changed: list[Row]) -> list[Action]:
    """Gateways, then the canary, then tags with their workloads, and last the new revision."""
    plan: list[Action] = []
    old, new = desired["from"], desired["to"]["revision"]
    if changed:
        names = ", ".join(named(row) for row in changed)
        why = f"the new install upgraded in place: {names}; removing the new revision would take it away"
        # the view stays: the old revision is there, and the install only takes back what is not kept per revision
        plan += _in_phase("control_plane", [action("install", old["revision"], old["version"], old["version"], why)])
    plan.extend(_in_phase("canary", plan_labels_back(view, desired)))
    _restarts_back(view, desired, plan, "canary")
    _tags_back(view, desired, plan)
    _restarts_back(view, desired, plan, "tags")
    if new in view["revisions"] or new in view["injectors"].values():
        version = (view["revisions"].get(new) or {}).get("version")
        more = [action("uninstall", new, version, None, f"everything runs on {old['revision']} again")]
        plan_and_apply(view, plan, _in_phase("removal", more))
    return plan


def _tags_back(view: View, desired: Desired, plan: list[Action]) -> None:
    """Point the tags of this upgrade to the old revision, `default` first."""
    old = desired["from"]["revision"]
    for tag in sorted(desired["tags"], key=lambda name: name != "default"):
        now = view["tags"].get(tag)
        if now is not None and (now != old or tag in view["ambiguous"]):
            was = "/".join(view["ambiguous"].get(tag) or [now])
            more = [action("set_tag", tag, was, old, "new pods must get the old revision")]
            plan_and_apply(view, plan, _in_phase("tags", more))


def _restarts_back(view: View, desired: Desired, plan: list[Action], phase: str) -> None:
    """Restart, in waves, what runs the new revision and would now get the old one; nothing else that is stale."""
    old, new = desired["from"]["revision"], desired["to"]["revision"]
    stale = restarts(view, f"it goes back to {old}", lambda row: row["target"] == old and new in live_revisions(row))
    plan_and_apply(view, plan, _in_phase(phase, in_waves(stale, desired["waves"], view["selected"])))


def of_phase(actions: list[Action], phase: str) -> list[Action]:
    """Return the actions of one phase."""
    return [item for item in actions if item.get("phase") == phase]


def not_given_back(rendered: list[dict[str, str]], changed: list[Row], desired: Desired) -> list[str]:
    """Return, as refusals, what was upgraded in place and the operator file does not render: it would not go back."""
    there = {(o["kind"], o["namespace"], o["name"]) for o in rendered}
    return [
        _say(
            named(row),
            f"it carries the new revision, and {desired['operator_file']} does not render it: a reinstall with this "
            "file would not give it back",
            f"install it from its own file with the istioctl of {desired['from']['version']} and revision "
            f"{desired['from']['revision']}, then abort again",
        )
        for row in changed
        if (row["kind"], row["namespace"], row["name"]) not in there
    ]


def moved_by_reinstall(moved: list[str], changed: list[Row]) -> list[str]:
    """Return what a reinstall of the old revision moved beyond what it was to give back (see `gates.moved_since`)."""
    return [line for line in moved if not line.startswith(tuple(f"{named(row)}: " for row in changed))]


def still_on(facts: dict[str, Any], desired: Desired) -> list[str]:
    """Return the workloads that still run the new revision after a way back, for a person."""
    new = desired["to"]["revision"]
    view = build_view(facts, desired["consents"])
    return [f"{r['kind']} {r['namespace']}/{r['name']}" for r in view["workloads"] if new in live_revisions(r)]


def text(facts: dict[str, Any], desired: Desired, probes: list[dict[str, Any]], stayed: list[str]) -> str:
    """Return 09-rollback.txt or 09-abort.txt: tags, proxies, requests, which revisions are there, what stayed."""
    there = build_view(facts)["revisions"]
    pairs = [(f"{side}_revision_left", "yes" if desired[key]["revision"] in there else "no") for side, key in SIDES]
    return evidence.tags_text(facts, desired, probes) + evidence.lines(
        [*pairs, ("still_on_new", ",".join(stayed) or evidence.UNKNOWN)]
    )


def closed_records(facts: dict[str, Any], desired: Desired, road: str, moment: str, at: str) -> list[dict[str, Any]]:
    """Return the journal records that a way back takes the validity of: {name, record, files}; [] when none is left.

    A record keeps what it says and gets a state that proves nothing, so that a later upgrade makes and proves the step
    anew. Its evidence file begins with that state.

    Args:
        facts: result of `mesh_read`.
        desired: result of `read_inputs`.
        road: `rollback` or `abort`.
        moment: `begin` or `end` of the road.
        at: the time, for the reason.
    """
    view = build_view(facts)
    found = []
    for step in UNDOES[road][moment]:
        record = record_of(view, desired, step)
        if not record or record.get("state") == CLOSED:
            continue
        reason = f"undone by {road}.yml at {at}"
        head = f"state={CLOSED}\nreason={reason}\n"
        files = {name: head + text for name, text in (record.get("evidence") or {}).items()}
        # the next upgrade writes down what was before it, as if there had been none
        files = {} if step == "before" else files
        closed = record | {"state": CLOSED, "reason": reason, "evidence": files}
        found.append({"name": journal_name(desired, step), "record": closed, "files": files})
    return found
