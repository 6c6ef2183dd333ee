"""(facts, desired) -> one screen of plain lines: where an upgrade stands and what blocks its next step.

Nothing is asked here and nothing kept: the cluster decides what is done, its journal adds what it cannot show.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from mesh_logic.gates import for_a_person, soak_left, start_errors, uninstall_blockers
from mesh_logic.model import build_view, drill_valid, image_tag, image_version, is_stale, record_of
from mesh_logic.plan import finished, plan_install, plan_precheck, refusal, snapshot, tags_moved, unproven

# What a screen holds: namespaces, and reasons for one step.
NAMESPACES = 8
REASONS = 6
# The steps that leave their mark in the cluster; a report is files on a controller.
SHOWN = ("precheck", "install", "canary", "move_tags", "rollback_drill", "uninstall")
Row = dict[str, Any]


def status_lines(facts: Row, desired: Row, now: float = 0.0) -> list[str]:
    """Return the status of an upgrade as lines without trailing blanks.

    Args:
        facts: result of `mesh_read`, scope full.
        desired: result of `read_inputs`.
        now: seconds since the epoch, for what is left of a soak.
    """
    wanted = {**desired, "stop_after": ""}
    view = build_view(facts, wanted["consents"])
    steps = step_states(view, wanted)
    old, new = wanted["from"], wanted["to"]
    head = f"{wanted['environment']} at {facts['cluster']['server']}, namespace {facts['istio_namespace']}"
    lines = [
        f"Istio {old['version']} ({old['revision']}) to {new['version']} ({new['revision']}), {head}",
        "",
        *_revisions(view, wanted),
        *_tags(view, wanted),
        "",
        *proxy_table(view),
        "",
        *_steps(steps),
        "",
        *_next(facts, view, wanted, steps, now),
    ]
    return [line.rstrip() for line in lines]


def step_states(view: Row, desired: Row) -> list[Row]:
    """Return, in order, {step, state, at, reason} of every step that leaves its mark in the cluster.

    state: `done`, `todo`, or as the record says where its proof is missing: `started`, `failed`, `reverted`.
    """
    found = []
    for step in SHOWN:
        record = record_of(view, desired, step)
        state = "done" if _proven(view, desired, step) else str(record.get("state") or "todo")
        if state == "done" and not _proven(view, desired, step):
            state = "todo"  # what was recorded holds no more
        at = str(record.get("finished") or "")
        found.append({"step": step, "state": state, "at": at, "reason": str(record.get("reason") or "")})
    return found


def _proven(view: Row, desired: Row, step: str) -> bool:
    """Tell whether the cluster, and where it cannot show it the journal, says that a step is done."""
    if unproven(view, desired, step):
        return False
    if finished(view, desired):
        return True
    record = record_of(view, desired, step)
    recorded = record.get("state") == "done"
    match step:
        case "precheck":
            proven = recorded and not plan_precheck(snapshot(view), desired)
        case "install":
            proven = not plan_install(snapshot(view), desired)
        case "canary":
            proven = recorded or tags_moved(view, desired)
        case "move_tags":
            on_new = all(view["tags"].get(tag) == desired["to"]["revision"] for tag in desired["tags"])
            proven = on_new and recorded
        case _:
            proven = step == "rollback_drill" and not drill_valid(record, view, desired)
    return proven


def proxy_counts(view: Row) -> dict[str, Counter[str]]:
    """Return namespace -> proxy version -> live pods; a proxy whose image says no version counts under its tag."""
    found: dict[str, Counter[str]] = {}
    for row in view["workloads"]:
        for proxy in row["proxies"]:
            if not proxy["terminating"]:
                found.setdefault(row["namespace"], Counter())[_version(proxy["image"])] += proxy["pods"]
    for pod in view["loose_pods"]:
        if pod["live"] and not pod["terminating"]:
            found.setdefault(pod["namespace"], Counter())[_version(pod["image"])] += 1
    return found


def _version(image: str) -> str:
    return image_version(image) or image_tag(image) or "other"


def proxy_table(view: Row) -> list[str]:
    """Return the proxies per version and namespace as a table; mixed namespaces first, the rest of many is counted."""
    counts = proxy_counts(view)
    total: Counter[str] = sum(counts.values(), Counter())
    if not total:
        return ["no proxies"]
    versions = sorted(total, key=_by_number)
    order = sorted(counts, key=lambda name: (-len(counts[name]), -counts[name][versions[0]], name))
    width = max(len("all namespaces"), *(len(name) for name in order[:NAMESPACES]))
    rows = [("all namespaces", total), *((name, counts[name]) for name in order[:NAMESPACES])]
    lines = ["proxies".ljust(width + 2) + "".join(version.rjust(14) for version in versions)]
    for name, row in rows:
        lines.append("  " + name.ljust(width) + "".join(str(row[version]).rjust(14) for version in versions))
    more = len(order) - NAMESPACES
    return lines + ([f"  and {more} more namespaces"] if more > 0 else [])


def _by_number(version: str) -> tuple[int, list[int], str]:
    parts = version.split(".")
    known = all(part.isdigit() for part in parts)
    return (0, [int(part) for part in parts], version) if known else (1, [], version)


def _revisions(view: Row, desired: Row) -> list[str]:
    lines = ["revisions"]
    for side, name in (("old", desired["from"]["revision"]), ("new", desired["to"]["revision"])):
        row = view["revisions"].get(name)
        lines.append(f"  {name:<18}{side:<7}{_state_of(row) if row else 'not there'}")
    others = sorted(set(view["revisions"]) - {desired["from"]["revision"], desired["to"]["revision"]})
    return lines + [f"  {name:<18}{'other':<7}{_state_of(view['revisions'][name])}" for name in others]


def _state_of(row: Row) -> str:
    words = "complete" if row["ready"] else "NOT complete"
    return f"{row['version'] or row['image']}, {words}, {row['replicas']} replicas" + (
        "" if row["injector"] else ", no injector"
    )


def _tags(view: Row, desired: Row) -> list[str]:
    names = sorted({*view["tags"], *desired["tags"]})
    lines = ["tags"] if names else ["tags: none"]
    for name in names:
        target = view["tags"].get(name) or "not there"
        both = view["ambiguous"].get(name)
        note = f" (webhook and Service disagree, {' and '.join(both)})" if both else ""
        lines.append(f"  {name:<18}{target}{note}" + ("" if name in desired["tags"] else "  (not in mesh_tags)"))
    return lines


def _steps(steps: list[Row]) -> list[str]:
    lines = ["steps"]
    for row in steps:
        words = row["state"] if row["state"] != "started" else "started, not finished (it runs now, or was killed)"
        at = f"  {row['at']}" if row["at"] and row["state"] != "todo" else ""
        lines.append(f"  {row['step']:<18}{words}{at}")
    return lines


def _next(facts: Row, view: Row, desired: Row, steps: list[Row], now: float) -> list[str]:
    """Return the step reached, the next one, and what blocks it."""
    done = [row["step"] for row in steps if row["state"] == "done"]
    lines = [f"step reached: {done[-1] if done else 'none'}"]
    todo = next((row for row in steps if row["state"] != "done"), None)
    if todo is None:
        return [*lines, "next step: none, the upgrade is finished"]
    if todo["reason"]:
        lines.append(f"last try of {todo['step']}: {todo['state']}, {todo['reason']}")
    blocks = blockers(facts, view, desired, todo["step"], now)
    lines.append(f"next step: {todo['step']}" + (", blocked by" if blocks else ", nothing that is known blocks it"))
    lines += [f"  - {line}" for line in blocks[:REASONS]]
    lines += [f"  - and {len(blocks) - REASONS} more"] if len(blocks) > REASONS else []
    persons = for_a_person(facts, desired) if any(is_stale(row) for row in view["workloads"]) else []
    if persons:
        lines.append(f"for a person to move: {len(persons)}, such as {persons[0]}")
    return lines


def blockers(facts: Row, view: Row, desired: Row, step: str, now: float) -> list[str]:
    """Return what is known to block a step, each with the next thing to do.

    What only the step itself may ask (proxies connected to the old istiod, objects that name its Service, istioctl's
    own precheck) is not asked here.
    """
    found = start_errors(facts, desired)
    record = record_of(view, desired, step)
    if step == "precheck" and record.get("state") == "failed":
        found += [str(line) for line in record.get("blockers") or []]
    refused = refusal(view, desired, step)
    found += [refused] if refused else []
    if step == "uninstall":
        left = soak_left(facts, desired, now)
        found += [f"the soak before the uninstall: {left} s are left. Next: wait"] if left else []
        found += uninstall_blockers({**facts, "xds": {}, "references": []}, desired)
    return found
