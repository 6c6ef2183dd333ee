"""All checks in one go."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from mesh_logic.checks import certificates, control_planes, objects, operator_fields, operator_settings, webhooks
from mesh_logic.checks.context import Context, Found
from mesh_logic.checks.rights import rights
from mesh_logic.findings import Finding
from mesh_logic.model import how_moved
from mesh_logic.steps import STEPS, step_wanted

BEFORE: tuple[Callable[[Context], Found], ...] = (
    control_planes.versions,
    control_planes.kubernetes,
    control_planes.replicas,
    control_planes.autoscalers,
    control_planes.quotas,
    control_planes.nodes,
    control_planes.daemon_sets,
    control_planes.leftovers,
    webhooks.dangling,
    webhooks.ambiguous,
    webhooks.overlaps,
    webhooks.bundles,
    webhooks.endpoints,
    webhooks.default,
    webhooks.gateways,
    objects.bound,
    objects.of_a_version,
    objects.operators,
    objects.kept,
    objects.evictions,
    operator_fields.unknown,
    operator_settings.cni,
    operator_settings.tracing,
    operator_settings.profile,
    operator_settings.fields,
    operator_settings.discovery,
    certificates.roots,
)


def when(text: str) -> datetime.datetime:
    """Return an ISO date or time as a time in UTC."""
    found = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def before(facts: dict[str, Any], inspected: dict[str, Any], desired: dict[str, Any], now: str) -> list[Finding]:
    """Return what the checks before an upgrade find.

    Args:
        facts: result of `mesh_read`.
        inspected: result of `mesh_inspect`; where it is `incomplete` for lack of rights, only those are told.
        desired: what the run wants, with `operator_text`.
        now: an ISO date or time.
    """
    ctx = Context(facts, inspected, desired)
    found = list(rights(ctx))
    if inspected.get("incomplete"):
        return found
    for check in BEFORE:
        found += check(ctx)
    return found + list(certificates.expiry(ctx, when(now)))


def after_install(facts: dict[str, Any], inspected: dict[str, Any], desired: dict[str, Any], now: str) -> list[Finding]:
    """Return what must hold between the install and the canary: one CA, not near its end, its root everywhere."""
    ctx = Context(facts, inspected, desired)
    checks = (certificates.same_ca, certificates.roots, operator_settings.discovery, webhooks.bundles)
    return [found for check in checks for found in check(ctx)] + list(certificates.expiry(ctx, when(now)))


def account_steps(desired: dict[str, Any], only: list[str] | None = None) -> list[str]:
    """Return the steps whose rights the account needs: some, or all that `mesh_stop_after` lets run."""
    return list(only or [step for step in STEPS if step_wanted(desired["stop_after"], step)])


def questions(facts: dict[str, Any], desired: dict[str, Any]) -> dict[str, list[str]]:
    """Return what `mesh_inspect` is to be asked about a mesh: namespaces and features."""
    ctx = Context(facts, {}, desired)
    rows = [row for row in ctx.view["workloads"] if row["target"] or row["proxies"]]
    ways = {row["namespace"]: set[str]() for row in rows}
    for row in rows:
        ways[row["namespace"]].add(how_moved(row))
    return {
        "mesh_namespaces": sorted({*ctx.proxy_namespaces, *desired["canary_namespaces"]}),
        "probe_namespaces": sorted({p["from"]["namespace"] for p in desired["probes"]}),
        "evicted_namespaces": sorted(name for name, how in ways.items() if how & {"evict", "rescue"}),
        "features": sorted({"evict", "rescue"} & {way for how in ways.values() for way in how}),
    }
