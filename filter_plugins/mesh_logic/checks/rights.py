"""Rights that the account lacks, all of them at once."""

from __future__ import annotations

from typing import Any

from mesh_logic.checks.context import Context, Found, in_namespace, say, words


def rights(ctx: Context) -> Found:
    """Name every missing right with the steps that would fail without it (case F17)."""
    missing = ctx.inspected["rights"]
    if missing is None:
        yield say("RIGHTS_NOT_ASKED", "Account", "reviews of its own access are refused")
    for row in missing or []:
        resource = row["resource"] + (f".{row['group']}" if row["group"] else "")
        where = f"in namespace {row['namespace']}" if row["namespace"] else "in the whole cluster"
        steps = ", ".join(step for step in row["steps"] if step != "read")
        text = f"the account may not {', '.join(row['verbs'])} them {where} ({row['why']}); needed by: {steps}"
        flag = in_namespace(row["namespace"]) or " -A"
        plain, _, sub = row["resource"].partition("/")
        asked = plain + (f".{row['group']}" if row["group"] else "") + (f" --subresource={sub}" if sub else "")
        yield say("RIGHT_MISSING", resource, text, verb=row["verbs"][0], right=asked, namespace_flag=flag)


def first(inspected: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    """Return every missing right as messages, where a run would fail for one of them before the checks are asked.

    That is the very first read, the Lease, and the first record; else [] (the checks tell the rest).
    """
    rows = inspected["rights"] or []
    if not any("read" in row["steps"] or _early(row, desired["istio_namespace"]) for row in rows):
        return []
    return [words(found) for found in rights(Context({}, inspected, desired))]


def _early(row: dict[str, Any], istio: str) -> bool:
    """Tell whether a missing right is one of the Lease or of the records."""
    return row["namespace"] == istio and row["resource"] in ("leases", "configmaps")
