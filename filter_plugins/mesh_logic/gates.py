"""The questions that are asked before and after a change; every answer that stops a run says why and what next."""

from __future__ import annotations

from typing import Any

from mesh_logic import foreign
from mesh_logic.errors import MeshError, shown
from mesh_logic.images import same_version
from mesh_logic.model import (
    MOVABLE,
    build_view,
    drill_valid,
    how_moved,
    image_tag,
    image_version,
    is_stale,
    live_revisions,
    record_of,
    restartable,
    workload_ref,
)
from mesh_logic.plan import finished
from mesh_logic.steps import step_wanted

# Webhook entry for namespaces without any label (enableNamespacesByDefault; templates/revision-tags-mwc.yaml, 1.31).
AUTO = "auto."


def _say(what: str, why: str, todo: str) -> str:
    return str(MeshError(what, why, todo))


def start_errors(facts: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    """Return everything about the cluster that makes the inputs wrong, all at once; [] when the run may start."""
    view = build_view(facts)
    errors = cluster_errors(facts, desired) + _half_removed(view, desired) + _hollow_tags(view)
    if finished(view, desired):
        return errors
    errors += _revision_errors(view, desired)
    errors += _tag_errors(view, desired)
    errors += _namespace_errors(view, desired)
    if "workloads" in facts:
        errors += _workload_errors(view, desired)
    return errors


def cluster_errors(facts: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    """Return why this is the wrong cluster, or []."""
    wanted, uid = desired["cluster_uid"], facts["cluster"]["uid"]
    if wanted and wanted != uid:
        return [
            _say(
                f"cluster {facts['cluster']['server']}",
                f"its identity (UID of kube-system) is {uid}, and mesh_cluster_uid is {wanted}: another cluster",
                "check mesh_kubeconfig and mesh_context",
            )
        ]
    return []


def _half_removed(view: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    """Return the injectors of an old revision whose istiod is gone: they call nobody (cases I04, I10)."""
    old = desired["from"]["revision"]
    if old in view["revisions"]:
        return []
    return [
        _say(
            f"webhook {name}",
            f"it belongs to the old revision {old}, whose istiod is gone: the revision is half removed",
            f"kubectl delete mutatingwebhookconfiguration {name}, once nothing is labelled with {old}",
        )
        for name, revision in sorted(view["injectors"].items())
        if revision == old
    ]


def _hollow_tags(view: dict[str, Any]) -> list[str]:
    """Return the tags whose webhook is gone; one without a Service was set by an istioctl before 1.28 and works."""
    return [
        _say(
            f"tag {shown(tag)}",
            "its webhook is gone and its Service is there: pods that ask for it start without a proxy",
            f"istioctl tag set {tag} --revision {view['tags'][tag]} --overwrite (where its Service points)",
        )
        for tag in view["hollow"]
    ]


def _revision_errors(view: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    errors = []
    there = (
        ", ".join(f"{name} ({row['version'] or row['image']})" for name, row in sorted(view["revisions"].items()))
        or "none"
    )
    old, new = (view["revisions"].get(desired[side]["revision"]) for side in ("from", "to"))
    if old is None:
        hint = "check mesh_from_version and mesh_from_revision (an install without a revision is called default)"
        if new is not None:
            hint = "the old one is gone and the new one does not serve everything: restore one by hand first"
        errors.append(
            _say(
                f"old revision {shown(desired['from']['revision'])}",
                f"it is not installed; revisions in the cluster: {there}",
                hint,
            )
        )
    return errors + version_errors(view, desired)


def version_errors(view: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    """Return which of the two revisions runs another version than the inputs say."""
    errors = []
    old, new = (view["revisions"].get(desired[side]["revision"]) for side in ("from", "to"))
    for side, name, row in (("from", "mesh_from_version", old), ("to", "mesh_to_version", new)):
        if row and row["version"] and row["version"] != desired[side]["version"]:
            errors.append(
                _say(
                    f"revision {shown(desired[side]['revision'])}",
                    f"it runs Istio {row['version']} ({row['image']}), and {name} is {desired[side]['version']}",
                    f"correct {name} or name another revision",
                )
            )
    return errors


def _tag_errors(view: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    errors = []
    for tag, both in sorted(view["ambiguous"].items()):
        errors.append(
            _say(
                f"tag {shown(tag)}",
                f"its webhook and its Service point to different revisions: {', '.join(both)}",
                f"istioctl tag set {tag} --revision {desired['from']['revision']} --overwrite (newest istioctl)",
            )
        )
    pair = (desired["from"]["revision"], desired["to"]["revision"])
    for tag in desired["tags"]:
        if tag != "default" and tag in view["revisions"]:  # case E03
            errors.append(
                _say(f"mesh_tags: {shown(tag)}", "a revision has this name, the tag would hijack it", "rename it")
            )
        target = view["tags"].get(tag)
        if target is None and tag != "default":
            known = ", ".join(sorted(view["tags"])) or "there are no tags"
            errors.append(
                _say(
                    f"mesh_tags: {shown(tag)}",
                    f"no such tag in the cluster; tags: {known}",
                    f"correct it, or make it: istioctl tag set {tag} --revision {pair[0]}",
                )
            )
        elif target is not None and target not in pair:
            errors.append(
                _say(
                    f"tag {shown(tag)}",
                    f"it points to {target}, which is neither the old revision {pair[0]} nor the new one {pair[1]}",
                    "take it out of mesh_tags, or move it to the old revision first",
                )
            )
    if step_wanted(desired["stop_after"], "uninstall"):
        left = {tag for tag, target in view["tags"].items() if target == pair[0]} | ({"default"} - set(view["tags"]))
        errors += [
            _say(
                f"tag {shown(tag)}",
                f"it is or will be on the old revision {pair[0]} and is not in mesh_tags: the old one could never go",
                "add it to mesh_tags, or stop before with mesh_stop_after",
            )
            for tag in sorted(left - set(desired["tags"]))
        ]
    return errors


def _namespace_errors(view: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    return [
        _say(
            f"mesh_canary_namespaces: {shown(name)}",
            "no such namespace in the cluster; nothing was created",
            "correct the name: kubectl get namespaces",
        )
        for name in desired["canary_namespaces"]
        if name not in view["namespaces"]
    ] + [
        _say(f"mesh_waves {wave['name']}: {shown(what)}", why, "correct it: kubectl get namespaces --show-labels")
        for wave in desired["waves"]
        for what, why in (
            *((name, "no such namespace") for name in wave["namespaces"] if name not in view["namespaces"]),
            *([(wave["selector"], "it selects no namespace")] if view["selected"].get(wave["selector"]) == [] else []),
        )
    ]


def _workload_errors(view: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    there = {(r["namespace"], r["name"]) for r in view["workloads"]}
    asked = [("mesh_evidence_workloads", w["namespace"], w["name"]) for w in desired["evidence_workloads"]]
    asked += [("mesh_drill.workloads", w["namespace"], w["name"]) for w in desired["drill"]["workloads"]]
    asked += [(f"mesh_probes {p['name']}", p["from"]["namespace"], p["from"]["workload"]) for p in desired["probes"]]
    return [
        _say(
            f"{source}: {shown(f'{namespace}/{name}')}",
            "no such workload in the mesh",
            f"correct it: kubectl get deployments -n {namespace}",
        )
        for source, namespace, name in asked
        if (namespace, name) not in there
    ]


def moved_since(before: dict[str, Any], after: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    """Return what an install changed beyond itself; [] proves that nothing else moved.

    Allowed without a word: CRDs, the shared reader account and CA ConfigMaps (none of them is read here), pods that
    came and went with the same template and the same revision (autoscalers), and the new revision itself.
    """
    was, now = build_view(before), build_view(after)
    old, new = desired["from"]["revision"], desired["to"]["revision"]
    found = [
        f"tag {tag}: {was['tags'].get(tag)} -> {now['tags'].get(tag)}"
        for tag in sorted({*was["tags"], *now["tags"]})
        if was["tags"].get(tag) != now["tags"].get(tag)
    ]
    found += [
        f"namespace {name}: labels {was['namespaces'][name]} -> {labels}"
        for name, labels in sorted(now["namespaces"].items())
        if name in was["namespaces"] and was["namespaces"][name] != labels
    ]
    for key in ("image", "uid"):  # not the replicas: an autoscaler may change them meanwhile
        then, today = ((v["revisions"].get(old) or {}).get(key) for v in (was, now))
        if then != today:
            found.append(f"old istiod: {key} {then} -> {today}")
    rows = {workload_ref(r): r for r in was["workloads"]}
    own = f"Deployment {now['istio_namespace']}/{(now['revisions'].get(new) or {}).get('deployment')}"
    for row in now["workloads"]:
        if workload_ref(row) == own:
            continue
        previous = rows.get(workload_ref(row))
        if new in live_revisions(row) and (previous is None or new not in live_revisions(previous)):
            found.append(f"{workload_ref(row)}: its pods are injected by {new} already")
        elif previous and previous["template_hash"] != row["template_hash"]:
            found.append(f"{workload_ref(row)}: its pod template changed")
    return found


def wrong_proxies(moved: list[dict[str, Any]], expected_tag: str) -> list[str]:
    """Return the pods whose proxy is not of the expected version, with the reason (A06, A08, A10, A11, B05).

    The revision decides; a tag that says no version, such as a digest or `latest`, is not held against a pod.
    """
    wrong = []
    for workload in moved:
        for pod in workload["pods"]:
            if pod["terminating"]:
                continue
            if not image_version(pod["image"]) or not image_version(f"proxyv2:{expected_tag}"):
                continue
            verdict = same_version(expected_tag, image_tag(pod["image"]))
            if verdict["same"] is False:
                wrong.append(f"pod {workload['namespace']}/{pod['name']}: {pod['image']}: {verdict['reason']}")
    return wrong


def unverifiable_proxies(moved: list[dict[str, Any]]) -> list[str]:
    """Return the pods whose image says no version: migrated by revision, version unknown (case A11)."""
    return [
        f"pod {w['namespace']}/{p['name']}: image {p['image']} says no version, injected by {p['revision']}"
        for w in moved
        for p in w["pods"]
        if not p["terminating"] and not image_version(p["image"])
    ]


def uninstall_blockers(facts: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    """Return everything that still needs the old revision or is not proven yet; [] lets the uninstall go ahead.

    DESIGN rule 3: the drill, live pods, labels and templates, tags, webhooks, xDS clients of every replica, and
    objects that name the old Service. On the way back (see `way_back.reversed_wants`) the sides are swapped and no
    drill is asked for.
    """
    view = build_view(facts, desired["consents"])
    old, new = desired["from"]["revision"], desired["to"]["revision"]
    side, other = ("new", "old") if desired.get("way_back") else ("old", "new")
    blockers = []
    drill = drill_valid(record_of(view, desired, "rollback_drill"), view, desired) if side == "old" else ""
    if drill:
        blockers.append(_say("rollback drill", drill, "ansible-playbook playbooks/rollback_drill.yml"))
    serving = view["revisions"].get(new)
    if not serving or not serving["ready"]:
        blockers.append(
            _say(
                f"{other} revision {new}",
                "its istiod is not complete",
                f"kubectl get deploy -n {view['istio_namespace']}",
            )
        )
    blockers += _tags_and_webhooks_on(view, facts, old, side)
    blockers += _pods_and_templates_on(view, old, side)
    # what was not asked is not an empty answer
    for key, why in (
        ("xds", "its replicas were not asked for their connected proxies"),
        ("references", "nobody looked for objects that name its Service"),
    ):
        if facts.get(key) is None:
            blockers.append(_say(f"{side} istiod", why, f"ansible-playbook playbooks/{ASKED_BY[side]} asks"))
    blockers += [
        _say(item, f"names the Service of the {side} istiod ({old})", f"point it at the {other} one")
        for item in facts.get("references") or []
    ]
    return blockers


def uninstall_waits(facts: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    """Return what still needs the old revision and goes away by itself: pods on their way out, their connections."""
    view, old = build_view(facts), desired["from"]["revision"]
    ending = [
        _say(workload_ref(row), f"{p['pods']} of its pods with the proxy of {old} are still ending", "wait for them")
        for row in view["workloads"]
        for p in row["proxies"]
        if p["revision"] == old and p["terminating"]
    ]
    ending += [
        _say(f"pod {p['namespace']}/{p['name']}", f"with the proxy of {old} is still ending", "wait for it")
        for p in view["loose_pods"]
        if p["live"] and p["revision"] == old and p["terminating"]
    ]
    return ending + [
        _say(
            f"istiod {pod}",
            f"still serves {len(clients)} proxies, such as {clients[0]}",
            "restart them, or wait until they reconnect",
        )
        for pod, clients in sorted((facts.get("xds") or {}).items())
        if clients
    ]


# Side of the revision to remove -> the playbook that asks what needs it, and the one that moves what still does.
ASKED_BY = {"old": "uninstall.yml", "new": "abort.yml"}
MOVED_BY = {"old": "move_tags.yml", "new": "rollback.yml"}
TAG_MOVED_BY = {
    "old": "ansible-playbook playbooks/move_tags.yml",
    "new": "point it to the old revision, or add it to mesh_tags and run again",
}


def _tags_and_webhooks_on(view: dict[str, Any], facts: dict[str, Any], old: str, side: str = "old") -> list[str]:
    blockers = [
        _say(f"tag {shown(tag)}", f"points to the {side} revision {old}", TAG_MOVED_BY[side])
        for tag, revision in sorted(view["tags"].items())
        if revision == old
    ]
    service = next((r["deployment"] for name, r in view["revisions"].items() if name == old), "")
    # the removal takes what belongs to the revision and carries the operator's labels; a copy of its injector stays
    calling = [row for row in facts["injectors"] if row["revision"] != old or row["tag"] or not row["managed"]]
    calling += [row for row in facts["validators"] if row["revision"] != old or row["tag"]]
    for row in [*calling, *foreign.calling(facts, service)]:
        if service and service in foreign.called(row):
            blockers.append(
                _say(
                    f"webhook {row['name']}",
                    f"sends its requests to the {side} Service {service}",
                    "move its tag, or remove what made it",
                )
            )
    return blockers


def _pods_and_templates_on(view: dict[str, Any], old: str, side: str = "old") -> list[str]:
    blockers = []
    for row in view["workloads"]:
        pods = sum(p["pods"] for p in row["proxies"] if p["revision"] == old and not p["terminating"])
        if pods:
            hint = restartable(row)
            todo = f"ansible-playbook playbooks/{MOVED_BY[side]} restarts it"
            todo = f"{hint}: a person must move it" if hint else todo
            blockers.append(_say(workload_ref(row), f"{pods} of its pods run the proxy of {old}", todo))
        elif row["target"] == old and row["kind"] != "Job":  # a Job makes no new pods
            blockers.append(
                _say(
                    workload_ref(row),
                    f"its next pod would be injected by {old} (namespace or template label)",
                    "change that label",
                )
            )
    blockers += [
        _say(
            f"namespace {name}",
            f"its label istio.io/rev pins the {side} revision {old}",
            f"label it with a tag or the {'new' if side == 'old' else 'old'} revision",
        )
        for name, labels in sorted(view["namespaces"].items())
        if labels.get("istio.io/rev") == old and "istio-injection" not in labels
    ]
    for pod in view["loose_pods"]:
        if pod["live"] and pod["revision"] == old and not pod["terminating"]:
            owner = f"{pod['owner_kind']} {pod['owner_name']}" if pod["owner_kind"] else "no owner"
            blockers.append(
                _say(
                    f"pod {pod['namespace']}/{pod['name']} ({owner})",
                    f"runs the proxy of {old}",
                    "a person must replace it",
                )
            )
    return blockers


def for_a_person(facts: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    """Return the stale workloads that this project does not touch, each with the reason."""
    view = build_view(facts, desired["consents"])
    return [
        f"{workload_ref(row)}: {restartable(row)}" for row in view["workloads"] if is_stale(row) and restartable(row)
    ] + [
        f"pod {p['namespace']}/{p['name']}: "
        + ("it was not injected (image auto)" if p["image"] == "auto" else "no workload restarts it")
        for p in view["loose_pods"]
        if p["live"]
    ]


def _move(row: dict[str, Any], revision: str) -> dict[str, str]:
    """Return a workload as `mesh_move` takes it."""
    found = {"kind": row["kind"], "namespace": row["namespace"], "name": row["name"], "revision": revision}
    how = how_moved(row)
    return found if how == "restart" else found | {"how": how, "api_version": row.get("api_version", "")}


def born_meanwhile(facts: dict[str, Any], desired: dict[str, Any]) -> list[dict[str, str]]:
    """Return the workloads with pods that the old revision injected while a tag pointed back, ready for `mesh_move`."""
    new = desired["to"]["revision"]
    return [
        _move(row, new)
        for row in build_view(facts, desired["consents"])["workloads"]
        if is_stale(row) and row["target"] == new and not restartable(row)
    ]


def prune_takes(live: list[dict[str, str]], rendered: list[dict[str, str]]) -> list[str]:
    """Return the live objects that an install would delete because its file does not render them.

    Args:
        live: {kind, namespace, name} of objects labelled with this revision, istioctl version and (where set) owner.
        rendered: what the file renders, same shape.

    Source: operator/pkg/install/install.go `prune` and `getOwnerLabels` (1.31).
    """
    wanted = {(r["kind"], r["namespace"], r["name"]) for r in rendered}
    return sorted(
        f"{row['kind']} {row['namespace'] + '/' if row['namespace'] else ''}{row['name']}"
        for row in live
        if (row["kind"], row["namespace"], row["name"]) not in wanted
    )


def precheck_blockers(result: dict[str, Any], waivers: list[dict[str, str]], today: str = "") -> list[str]:
    """Return why `istioctl x precheck` stops the run; [] when it is clean or everything it found is waived.

    A waiver matches by id (the message's code, or `PRECHECK` for a failure without a code) and by resource, where it
    names one (case F02). Info messages do not stop (case F03); exit code 0 alone is no proof (case F01).
    A waiver that expired before `today` (an ISO date) counts no more.
    """
    if result["clean"]:
        return []
    waivers = [w for w in waivers if not (w["expires"] and w["expires"] < today)]
    found = [m | {"code": m["code"] or "PRECHECK"} for m in result["messages"] if m["level"] in ("warning", "error")]
    todo = "mend it, or waive it in mesh_waivers with id, resource, reason and expires"
    blockers = [
        _say(f"istioctl x precheck, {m['code']} {m['resource']}".rstrip(), m["text"], todo)
        for m in found
        if not any(w["id"] == m["code"] and w["resource"] in ("", m["resource"]) for w in waivers)
    ]
    if not found and not any(w["id"] == "PRECHECK" for w in waivers):
        blockers.append(_say("istioctl x precheck", f"exit code {result['rc']}: {result['text'][-400:]}", todo))
    return blockers


def _entry_names(facts: dict[str, Any], tag: str) -> set[str]:
    """Return the names of the live webhook entries of a tag; of an absent `default` those of a plain install."""
    rows = [row for row in facts["injectors"] if row["tag"] == tag]
    if not rows and tag == "default":
        rows = [row for row in facts["injectors"] if not row["tag"] and row["revision"] in ("", "default")]
    return {entry["name"] for row in rows for entry in row["entries"] if not entry["deactivated"]}


def injects_unlabelled(facts: dict[str, Any], tag: str) -> bool:
    """Tell whether a tag injects namespaces without any label too: its webhook has an entry `auto.` (case D08)."""
    return any(name.startswith(AUTO) for name in _entry_names(facts, tag))


def _entry_errors(before: dict[str, Any], after: dict[str, Any], tag: str) -> list[str]:
    """Return what a tag's webhook answers for otherwise than before it was set (case D08)."""
    was, now = _entry_names(before, tag), _entry_names(after, tag)
    errors = [
        f"its webhook had an entry {name} before and has none now: "
        + ("namespaces without a label" if name.startswith(AUTO) else "some pods")
        + " would lose injection"
        for name in sorted(was - now)
    ]
    return errors + [
        f"its webhook has a new entry {name}: namespaces without a label would be injected"
        for name in sorted(now - was)
        if was and name.startswith(AUTO)
    ]


def tag_errors_after(facts: dict[str, Any], tag: str, revision: str, before: dict[str, Any] | None = None) -> list[str]:
    """Return what is wrong with a tag after it was set: webhook, Service, CA bundle, and the validator of `default`.

    `before`: facts of before the step; what the tag answered for then it must answer for now.
    """
    view = build_view(facts)
    rows = [i for i in facts["injectors"] if i["tag"] == tag]
    errors = []
    if tag in view["ambiguous"]:
        errors.append(f"its webhook and its Service disagree: {', '.join(view['ambiguous'][tag])}")
    if len(rows) != 1:
        errors.append(f"{len(rows)} webhooks carry it")
    errors += [f"webhook {r['name']} points to {r['revision']}" for r in rows if r["revision"] != revision]
    errors += [f"webhook {r['name']} has no caBundle" for r in rows if not all(e["ca"] for e in r["entries"])]
    service = (view["revisions"].get(revision) or {}).get("deployment", "")
    for row in rows:
        asked = sorted({e["service"] for e in row["entries"] if not e["url"]})
        if not row["entries"] or any(name != service for name in asked):
            errors.append(
                f"webhook {row['name']} sends its requests to {', '.join(asked) or 'nothing'}, expected {service}"
            )
    errors += _entry_errors(before, facts, tag) if before and rows else []
    if tag == "default":
        asked = [
            e["service"]
            for v in facts["validators"]
            if v["name"].startswith("istiod-default-validator")
            for e in v["entries"]
        ]
        if asked != [service]:
            errors.append(
                f"the default validator sends its requests to {', '.join(asked) or 'nothing'}, expected {service}"
            )
    return errors


def stale_moves(
    facts: dict[str, Any], desired: dict[str, Any], namespaces: list[str], only: list[dict[str, str]] | None = None
) -> list[dict[str, str]]:
    """Return the workloads of some namespaces whose proxies are not what would be injected now, for `mesh_move`.

    `only` narrows them to some workloads, in the shape of `mesh_move`.
    """
    named = None if only is None else {(w["kind"], w["namespace"], w["name"]) for w in only}
    return [
        _move(row, row["target"])
        for row in build_view(facts, desired["consents"])["workloads"]
        if row["namespace"] in namespaces
        and is_stale(row)
        and not restartable(row)
        and (named is None or (row["kind"], row["namespace"], row["name"]) in named)
    ]


def unready_proxies(facts: dict[str, Any], namespaces: list[str], before: dict[str, Any] | None = None) -> list[str]:
    """Return workloads, of the old revision too, whose live proxies are not ready at the mixed stage (case G11).

    What was not ready `before` the step, and Jobs, are not the step's doing and do not count.
    """
    known = {
        workload_ref(row)
        for row in (before or {}).get("workloads") or []
        if any(not p["ready"] and not p["terminating"] for p in row["proxies"])
    }
    return [
        f"{workload_ref(row)}: {p['pods']} pod(s) with proxy {image_tag(p['image'])} are not ready"
        for row in build_view(facts)["workloads"]
        if row["namespace"] in namespaces and row["kind"] in MOVABLE and workload_ref(row) not in known
        for p in row["proxies"]
        if not p["ready"] and not p["terminating"]
    ]


def wave_errors(
    after: dict[str, Any],
    before: dict[str, Any],
    group: list[dict[str, Any]],
    expected: dict[str, dict[str, Any]],
    tolerated: list[dict[str, str]],
) -> list[str]:
    """Return what is wrong with a wave after its soak; [] lets the next one start.

    Args:
        after: facts of now, at least of the wave's namespaces.
        before: facts of before the step; what was not ready then is not the wave's doing.
        group: the restarts of the wave.
        expected: namespace -> the injection labels it must still have (see `plan.expected_labels`).
        tolerated: failed workloads within the wave's budget, as `mesh_move` returns them.
    """
    view = build_view(after)
    errors = [
        f"namespace {name}: label {key} is {shown(got)}, the wave left {shown(value)}: something else changed it"
        for name, labels in sorted(expected.items())
        for key, value in labels.items()
        if (got := view["namespaces"].get(name, {}).get(key)) != value
    ]
    let_pass = {f"{t['kind']} {t['namespace']}/{t['name']}" for t in tolerated}
    to = {item["object"]: item["to"] for item in group if item["object"] not in let_pass}
    rows = {ref: row for row in view["workloads"] if (ref := workload_ref(row)) in to}
    errors += [f"{ref} is gone" for ref in to if ref not in rows]
    errors += [
        f"{ref}: its pods are injected by {', '.join(live_revisions(row)) or 'nothing'}, expected {to[ref]}"
        for ref, row in rows.items()
        if row["replicas"] and live_revisions(row) != [to[ref]]
    ]
    unready = unready_proxies(after, sorted({row["namespace"] for row in rows.values()}), before)
    return errors + [line for line in unready if line.split(": ")[0] in rows]


def soak_left(facts: dict[str, Any], desired: dict[str, Any], now: float) -> int:
    """Return how many seconds of mesh_soak_before_uninstall are left since the last move, by the journal."""
    view = build_view(facts)
    moved = [float(record_of(view, desired, step).get("moved_at") or 0) for step in ("move_tags", "rollback_drill")]
    left: float = max(moved) + desired["soak_seconds"] - now if max(moved) else desired["soak_seconds"]
    return max(0, round(left))


def counts(facts: dict[str, Any], namespaces: list[str] | None = None) -> dict[str, int]:
    """Return how many workloads and live proxies the mesh has, in all namespaces or in some."""
    rows = [r for r in facts["workloads"] if r["proxies"] and (namespaces is None or r["namespace"] in namespaces)]
    proxies = sum(p["pods"] for r in rows for p in r["proxies"] if not p["terminating"])
    return {"workloads": len(rows), "proxies": proxies}


def drill_proof(facts: dict[str, Any], desired: dict[str, Any], moved: list[dict[str, Any]], at: str) -> dict[str, Any]:
    """Return what a drill pass names: tags, workloads, and the state it holds for (see `drill_valid`)."""
    old = build_view(facts)["revisions"].get(desired["from"]["revision"]) or {}
    return {
        "tags": desired["drill"]["tags"],
        "workloads": [workload_ref(m) for m in moved],
        "old_uid": old.get("uid"),
        "old_generation": old.get("generation"),
        "operator_sha256": desired["operator_sha256"],
        "at": at,
    }


def on_revision(facts: dict[str, Any], revision: str) -> list[str]:
    """Return the workloads with live proxies of a revision."""
    return [workload_ref(row) for row in build_view(facts)["workloads"] if revision in live_revisions(row)]
