"""Findings and waivers -> what stops the run, and what is shown."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from mesh_logic.checks.all_checks import CHECKS
from mesh_logic.checks.context import SHOWN, say, words
from mesh_logic.errors import shown
from mesh_logic.findings import Finding

Waiver = dict[str, str]
# A record of the journal is one ConfigMap.
RECORDED = 200
# Findings of one check that are told one by one where they stop the run or are waived: messages, evidence and the
# record hold them, and a ConfigMap holds 1 MiB.
TOLD = 50
_ORDER = {"block": 0, "warn": 1, "info": 2}


def judge(
    findings: list[Finding],
    waivers: list[Waiver],
    today: str,
    elsewhere: list[Finding] | None = None,
    *,
    about_waivers: bool = True,
) -> dict[str, Any]:
    """Return {blockers, shown, findings, recorded}; `recorded` is short enough for the journal.

    Args:
        findings: of this package.
        waivers: {id, resource, reason, expires}; resource may be a pattern, and "" fits every one.
        today: an ISO date; a waiver counts up to and including the day it expires.
        elsewhere: what others found ({id, resource, ...}) and report by themselves; waivers may be for them too.
        about_waivers: whether waivers that expired or fit nothing are findings too; once in a run, by the precheck.

    A waived finding stays, marked with the reason. Waivers that have expired or fit nothing are findings themselves.
    """
    valid = [w for w in waivers if not _expired(w, today)]
    rows = [finding | _waived(finding, valid) for finding in findings]
    others = [finding | _waived(finding, valid) for finding in elsewhere or []]
    if about_waivers:
        rows += [_expiry(w, today) for w in waivers if w not in valid]
        rows += [_unused(w) for w in valid if not _used(w, findings + (elsewhere or []))]
    rows.sort(key=lambda row: (bool(row.get("waived")), _ORDER[row["severity"]], row["id"], row["resource"]))
    more = len(rows) - RECORDED
    return {
        "blockers": _blockers([row for row in rows if row["severity"] == "block" and not row.get("waived")]),
        "shown": lines(rows) + [_line(row) for row in others if row.get("waived")],
        "findings": rows,
        "recorded": rows[:RECORDED] + ([{"id": "MORE", "text": f"and {more} more"}] if more > 0 else []),
    }


def _line(row: Finding) -> str:
    if row.get("waived"):
        return f"waived {row['id']}: {row['resource']}: {row.get('text', '')} (reason: {row['waived']})"
    return f"{row['severity']} {words(row)}"


def _blockers(rows: list[Finding]) -> list[str]:
    """Return what stops the run: of thousands of one check the first ones, and how many more."""
    told, more = _first(rows, lambda _row: TOLD)
    return [words(row) for row in told] + [f"{code}: and {n} more that must be mended or waived" for code, n in more]


def lines(rows: list[Finding]) -> list[str]:
    """Return findings as lines: of many of one check the first ones and how many more; more of those that block."""
    told, more = _first(rows, lambda row: TOLD if row["severity"] == "block" or row.get("waived") else SHOWN)
    return [_line(row) for row in told] + [f"{code}: and {n} more" for code, n in more]


def _first(rows: list[Finding], limit: Callable[[Finding], int]) -> tuple[list[Finding], list[tuple[str, int]]]:
    """Return (the first rows of each check, (check, how many more))."""
    told: list[Finding] = []
    count: Counter[tuple[str, bool]] = Counter()
    more: Counter[str] = Counter()
    for row in rows:
        key = (row["id"], bool(row.get("waived")))
        count[key] += 1
        if count[key] <= limit(row):
            told.append(row)
        else:
            more[row["id"]] += 1
    return told, sorted(more.items())


def _fits(waiver: Waiver, finding: Finding) -> bool:
    if waiver["id"] != finding["id"]:
        return False
    wanted, found = waiver["resource"], finding.get("resource", "")
    return wanted in ("", found) or fnmatchcase(found, wanted)


def _waived(finding: Finding, valid: list[Waiver]) -> dict[str, str]:
    reason = next((w["reason"] for w in valid if _fits(w, finding)), "")
    return {"waived": reason} if reason else {}


def _used(waiver: Waiver, findings: list[Finding]) -> bool:
    check = CHECKS.get(waiver["id"])
    # what is asked later cannot be judged now
    return bool(check and check.asked == "after_install") or any(_fits(waiver, found) for found in findings)


def _expired(waiver: Waiver, today: str) -> bool:
    """Tell whether a waiver counts no more; one whose date cannot be read does not count either."""
    return bool(waiver["expires"]) and (_date(waiver["expires"]) or "0") < today


def _date(text: str) -> str:
    """Return an ISO date, or "" for what is none."""
    try:
        return datetime.date.fromisoformat(text).isoformat() if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else ""
    except ValueError:
        return ""


def _name(waiver: Waiver) -> str:
    return f"Waiver {waiver['id']}" + (f" for {waiver['resource']}" if waiver["resource"] else "")


def _expiry(waiver: Waiver, today: str) -> Finding:
    if _date(waiver["expires"]):
        return say("WAIVER_EXPIRED", _name(waiver), f"it expired on {waiver['expires']}, and today is {today}")
    return say(
        "WAIVER_EXPIRED", _name(waiver), f"expires is {shown(waiver['expires'])}, which is no date like 2027-01-31"
    )


def _unused(waiver: Waiver) -> Finding:
    known = waiver["id"] in CHECKS or re.fullmatch(r"IST\d{4}|PRECHECK", waiver["id"])
    return say("WAIVER_UNUSED", _name(waiver), "nothing was found that it fits" if known else "there is no such check")


def seen(result: dict[str, Any]) -> list[Finding]:
    """Return what `istioctl x precheck` found (the filter `precheck_result`) as waivers name it."""
    if result["clean"]:
        return []
    found = [m for m in result["messages"] if m["level"] in ("warning", "error")]
    return [{"id": m["code"] or "PRECHECK", "resource": m["resource"], "text": m["text"]} for m in found] or [
        {"id": "PRECHECK", "resource": "", "text": "it failed without a message"}
    ]
