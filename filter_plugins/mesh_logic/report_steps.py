"""The records of an upgrade -> its steps with their gates and verdicts, and how it stands. Nothing is asked here."""

from __future__ import annotations

import datetime
from typing import Any

from mesh_logic.evidence import RECORDS, find_line
from mesh_logic.model import build_view, journal_name, record_of
from mesh_logic.steps import STEPS

Row = dict[str, Any]
TITLES = {
    "before": "What was there before",
    "precheck": "Check before anything changes",
    "default_tag": "Give the default tag to the old revision",
    "install": "Install the new revision beside the old",
    "canary": "Move the canary",
    "move_tags": "Move the tags and what they inject",
    "rollback_drill": "Prove the way back",
    "uninstall": "Remove the old revision",
    "rollback": "Roll back",
    "abort": "Abort the upgrade",
    "in_place": "Upgrade in place",
}
# When the proxies were counted, for people.
MOMENTS = {
    "precheck": "When the check began",
    "install": "When the install began",
    "canary": "When the canary began",
    "move_tags": "When the tags began to move",
    "rollback_drill": "When the drill began",
    "uninstall": "When the removal began",
    "rollback": "When the rollback began",
    "abort": "When the abort began",
}
# Always told, reached or not; the others only where they have a record.
ROAD = ("precheck", "install", "canary", "move_tags", "rollback_drill", "uninstall")
# state of a record -> verdict of its step
VERDICTS = {"done": "passed", "failed": "failed", "reverted": "reverted", "started": "not_ended", "stopped": "stopped"}
# Parts of a record that a step has as keys of its own, or that are in the evidence files.
_SHOWN = ("step", "state", "environment", "host", "from", "to", "started", "finished", "who", "probes", "evidence")
_MORE = ("inputs_sha256", "operator_sha256", "proxies_before", "commands", "reason")


def order() -> list[str]:
    """Return every step that may have a record, in the order of a report."""
    names = [name for name in RECORDS if name != "default_tag"]
    names.insert(names.index("install"), "default_tag")
    return [*names, *(name for name in TITLES if name not in names)]


def seconds_between(started: str, finished: str) -> float | None:
    """Return the seconds between two times in ISO 8601, or None where one is missing or no such time."""
    try:
        first, last = (datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (started, finished))
        return max(0.0, (last - first).total_seconds())
    except (ValueError, TypeError):
        return None


def report_steps(facts: Row, desired: Row) -> list[Row]:
    """Return the steps in order, as `docs/report.schema.json` has them under `steps`."""
    view = build_view(facts)
    return [
        _step(name, record, desired) for name in order() if (record := record_of(view, desired, name)) or name in ROAD
    ]


def _step(name: str, record: Row, desired: Row) -> Row:
    state = str(record.get("state") or "")
    finished = str(record.get("finished") or "")
    started = str(record.get("started") or "")
    return {
        "step": name,
        "title": TITLES.get(name, name),
        "playbook": STEPS[name][1] if name in STEPS else "",
        "verdict": VERDICTS.get(state, state) if record else "not_reached",
        "reason": str(record.get("reason") or "; ".join(record.get("blockers") or [])),
        "started": started,
        "finished": finished,
        "seconds": seconds_between(started, finished) if started else None,
        "who": record.get("who") or {},
        "inputs_sha256": str(record.get("inputs_sha256") or ""),
        "operator_sha256": str(record.get("operator_sha256") or ""),
        "proxies_before": record.get("proxies_before"),
        "gates": gates(name, record),
        "probes": record.get("probes") or [],
        "commands": record.get("commands") or [],
        "evidence_files": sorted(record.get("evidence") or {}),
        "journal": f"{journal_name(desired, name)}" if record else "",
        "data": {key: value for key, value in record.items() if key not in (*_SHOWN, *_MORE)},
    }


def gate(name: str, holds: bool | None, data: str) -> Row:
    """Return one gate: `holds` is True, False, or None where the record does not say."""
    return {"gate": name, "verdict": {True: "pass", False: "fail", None: "unknown"}[holds], "data": data}


def gates(step: str, record: Row) -> list[Row]:
    """Return the gates of a step with verdict and data, from its record alone; a step not reached has none."""
    if not record or step in ("before", "default_tag"):
        return []
    if step == "precheck":
        return _precheck_gates(record)
    if record.get("state") != "done":
        why = str(record.get("reason") or "the record says that it began, and nothing more")
        found = [gate("the step itself", False if record.get("reason") else None, why)]
        if stayed := record.get("stayed"):
            found.append(gate("stayed on the new revision", None, ", ".join(map(str, stayed))))
        return found + _probe_gates(record)
    text = "".join((record.get("evidence") or {}).values())
    return [*_passed_gates(step, record, text), *_probe_gates(record)]


def _passed_gates(step: str, record: Row, text: str) -> list[Row]:
    if step == "install":
        return _install_gates(record, text)
    if step == "canary":
        return [gate("mixed versions", find_line(text, "code") != "none", ", ".join(text.split()))]
    if step == "move_tags":
        return _move_gates(record)
    if step == "rollback_drill":
        return [_line("the way back", text, "after_rollback"), _line("forward again", text, "after_forward")]
    if step == "uninstall":
        return _uninstall_gates(record, text)
    return [gate("the step itself", True, "done")]


def _probe_gates(record: Row) -> list[Row]:
    probes = record.get("probes") or []
    if not probes:
        return []
    wrong = [f"{p.get('name')}: {p.get('error') or p.get('code')}" for p in probes if not p.get("ok")]
    good = ", ".join(f"{p.get('name')} gave {p.get('code')}" for p in probes if p.get("ok"))
    return [gate("probes", not wrong, "; ".join(wrong) or good)]


def _precheck_gates(record: Row) -> list[Row]:
    checks = [row for row in record.get("checks") or [] if row.get("id") != "MORE"]
    blocking = [row for row in checks if row.get("severity") == "block" and not row.get("waived")]
    waived = [row for row in checks if row.get("waived")]
    words = f"{len(checks)} findings, {len(blocking)} of them block, {len(waived)} waived"
    other = len(record.get("blockers") or []) - len(blocking)
    said = f"level {record.get('level', 'unknown')}, {len(record.get('messages') or [])} messages"
    return [gate("istioctl's precheck", other <= 0, said), gate("checks", not blocking, words)]


def _line(name: str, text: str, key: str) -> Row:
    value = find_line(text, key)
    return gate(name, value != "none", f"{key}={value}")


def _install_gates(record: Row, text: str) -> list[Row]:
    settings = record.get("settings") or []
    lost = [row for row in settings if row.get("kind") == "lost" and not row.get("waived")]
    faults = record.get("settings_faults") or []
    return [
        gate("nothing pruned", find_line(text, "pruned") == "none", f"pruned={find_line(text, 'pruned')}"),
        gate("nothing else moved", find_line(text, "moved") == "none", f"moved={find_line(text, 'moved')}"),
        gate("settings kept", not lost, f"{len(settings)} differ, {len(lost)} would be lost"),
        gate("runs as rendered", not faults, "; ".join(map(str, faults)) or "no difference"),
        gate("the injector answers", find_line(text, "injector") != "none", find_line(text, "injector")),
    ]


def _move_gates(record: Row) -> list[Row]:
    tolerated, persons = record.get("tolerated") or [], record.get("for_a_person") or []
    measured = record.get("measured") or {}
    return [
        gate("workloads came up", True, f"{measured.get('restarted', 0)} restarted, {len(tolerated)} let pass"),
        gate("left to a person", True, "; ".join(map(str, persons)) or "nothing"),
    ]


def _uninstall_gates(record: Row, text: str) -> list[Row]:
    proof = record.get("proof") or []
    proof = proof if isinstance(proof, list) else [proof]
    return [
        gate(
            "the old istiod is gone",
            find_line(text, "old_istiod_left") == "no",
            "old_istiod_left=" + find_line(text, "old_istiod_left"),
        ),
        gate(
            "the old injector is gone",
            find_line(text, "old_injector_left") == "no",
            "old_injector_left=" + find_line(text, "old_injector_left"),
        ),
        gate("a new pod gets its proxy", bool(proof) or None, "; ".join(map(str, proof)) or "no proof in the record"),
    ]


def outcome(facts: Row, desired: Row, steps: list[Row]) -> Row:
    """Return {state, step, words}: how the upgrade stands, by the records and by the control planes that run.

    state: `finished`, `rolled_back`, `aborted`, `stopped`, `unfinished`, `not_started`.
    """
    old, new = desired["from"]["revision"], desired["to"]["revision"]
    by_name = {row["step"]: row for row in steps}
    last = max((row["finished"] for row in steps if row["step"] not in ("rollback", "abort")), default="")
    for road, state in (("abort", "aborted"), ("rollback", "rolled_back")):
        row = by_name.get(road)
        if row and row["verdict"] == "passed" and row["finished"] >= last:
            return {"state": state, "step": road, "words": f"{row['title']}: done at {row['finished']}."}
    wrong = [row for row in steps if row["verdict"] in ("failed", "reverted", "stopped")]
    if wrong:
        row = max(wrong, key=lambda found: found["finished"])
        back = row["verdict"] == "reverted"
        how = "and was put back" if back else "and stopped the run"
        words = f"{row['title']}: it failed {how}. {row['reason']}".rstrip()
        return {"state": "rolled_back" if back else "stopped", "step": row["step"], "words": words}
    gone = old not in build_view(facts)["revisions"]
    if by_name["uninstall"]["verdict"] == "passed" and gone:
        words = f"Everything runs on {desired['to']['version']} ({new}), and {old} is gone."
        return {"state": "finished", "step": "uninstall", "words": words}
    passed = [row for row in steps if row["verdict"] == "passed" and row["step"] in ROAD]
    todo = next((row for row in steps if row["step"] in ROAD and row["verdict"] != "passed"), None)
    if todo is None:
        words = f"All steps passed, and {old} runs again: something installed it after the upgrade."
        return {"state": "unfinished", "step": "uninstall", "words": words}
    if not passed and todo["verdict"] == "not_reached":
        return {"state": "not_started", "step": todo["step"], "words": "No step has a record yet."}
    how = "began and has not ended" if todo["verdict"] == "not_ended" else "is the next step"
    return {"state": "unfinished", "step": todo["step"], "words": f"{todo['title']}: it {how}."}
