"""The records of an upgrade -> report.json, as `docs/report.schema.json` describes it."""

from __future__ import annotations

from typing import Any

from mesh_logic.evidence import lessons, report_pairs
from mesh_logic.model import build_view, record_of
from mesh_logic.record import digest, inputs_of
from mesh_logic.redact import redact
from mesh_logic.report_steps import outcome, report_steps

SCHEMA = 1
Row = dict[str, Any]


def report_data(facts: Row, desired: Row) -> Row:
    """Return the report for programs; a pure function of the journal, the live control planes and the inputs.

    Args:
        facts: result of `mesh_read`, scope control is enough.
        desired: result of `read_inputs`.
    """
    steps = report_steps(facts, desired)
    wanted = inputs_of(desired)
    ends = sorted(row["finished"] for row in steps if row["finished"])
    begins = sorted(row["started"] or row["finished"] for row in steps if row["finished"])
    people = [row["who"] for row in steps if row["who"]]
    found = findings(facts, desired)
    data = {
        "schema": SCHEMA,
        "environment": desired["environment"],
        "cluster": {key: str(facts["cluster"].get(key, "")) for key in ("uid", "version", "server")},
        "from": {key: desired["from"][key] for key in ("version", "revision")},
        "to": {key: desired["to"][key] for key in ("version", "revision")},
        "outcome": outcome(facts, desired, steps),
        "started": begins[0] if begins else "",
        "finished": ends[-1] if ends else "",
        "who": [who for number, who in enumerate(people) if who not in people[:number]],
        "inputs": {"values": wanted, "sha256": digest(wanted), "operator_sha256": desired["operator_sha256"]},
        "result": dict(report_pairs(facts, desired)),
        "steps": steps,
        "proxies": moments(steps),
        "findings": found,
        "waivers": waivers(desired, found),
        "drift": drift(facts, desired),
        "lessons": lessons(facts, desired),
    }
    plain: Row = redact(data)
    return plain


def moments(steps: list[Row]) -> list[Row]:
    """Return, in the order of time, {step, at, versions} for every step that counted the proxies when it began."""
    known = [row for row in steps if row["proxies_before"] is not None and row["step"] != "before"]
    known.sort(key=lambda row: row["started"] or row["finished"])
    return [
        {"step": row["step"], "at": row["started"] or row["finished"], "versions": row["proxies_before"]}
        for row in known
    ]


def findings(facts: Row, desired: Row) -> list[Row]:
    """Return {id, severity, resource, text, waived} of everything that was found, by whatever looked."""
    view = build_view(facts)
    checked, installed = record_of(view, desired, "precheck"), record_of(view, desired, "install")
    found = [_finding(row) for row in checked.get("checks") or []]
    found += [
        _finding({"id": row.get("code") or "PRECHECK", "severity": row.get("level"), **row})
        for row in checked.get("messages") or []
    ]
    found += [
        {"id": "NOTE", "severity": "info", "resource": "", "text": str(line), "waived": ""}
        for line in checked.get("findings") or []
    ]
    lost = [row for row in installed.get("settings") or [] if row.get("kind") == "lost"]
    found += [
        _finding({"id": "SETTING_LOST", "severity": "block", "resource": row.get("setting"), **row}) for row in lost
    ]
    return found


def _finding(row: Row) -> Row:
    return {key: str(row.get(key) or "") for key in ("id", "severity", "resource", "text", "waived")}


def waivers(desired: Row, found: list[Row]) -> list[Row]:
    """Return {id, resource, reason, expires, used} of every waiver of the inputs; `used` counts what it let pass."""
    rows = []
    for item in desired["waivers"]:
        used = [row for row in found if row["waived"] == item["reason"] and row["id"] == item["id"]]
        rows.append(
            {key: str(item.get(key) or "") for key in ("id", "resource", "reason", "expires")} | {"used": len(used)}
        )
    return rows


def drift(facts: Row, desired: Row) -> list[Row]:
    """Return {kind, setting, running, new, waived} of every setting in which the two revisions differ."""
    record = record_of(build_view(facts), desired, "install")
    keys = ("kind", "setting", "running", "new", "waived")
    return [{key: str(row.get(key) or "") for key in keys} for row in record.get("settings") or []]
