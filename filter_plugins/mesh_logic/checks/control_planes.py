"""The old istiod, and room for a second one."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from mesh_logic.checks.context import Context, Found, Row, say, some
from mesh_logic.errors import MeshError, shown
from mesh_logic.releases import NEWEST, RANGE, release_of, support

_UNITS: dict[str, Decimal] = {"": Decimal(1), "m": Decimal("0.001"), "k": Decimal(1000)}
for _power, _letter in enumerate("KMGT", 1):
    _UNITS |= {f"{_letter}i": Decimal(1024) ** _power, _letter: Decimal(1000) ** _power}


def quantity(text: object) -> Decimal:
    """Return a Kubernetes quantity as a number: "100m" is 0.1, "1Gi" is 1073741824.

    Raises:
        MeshError: it is none.
    """
    written = str(text).strip()
    digits = written.rstrip("kKMGTim")
    try:
        return Decimal(digits) * _UNITS[written[len(digits) :]]
    except (InvalidOperation, KeyError):
        raise MeshError(f"quantity {shown(text)}", "it is no quantity of Kubernetes", "look at that object") from None


def kubernetes(ctx: Context) -> Found:
    """Compare the server's version with what the new Istio supports."""
    found = str(ctx.facts["cluster"]["version"])
    parts = found.lstrip("v").split(".")
    oldest = release_of(ctx.desired["to"]["version"]).kubernetes
    if len(parts) > 1 and parts[0] == "1" and parts[1].rstrip("+").isdigit() and int(parts[1].rstrip("+")) < oldest:
        text = f"it is {found}, and Istio {ctx.desired['to']['version']} needs 1.{oldest} or newer"
        yield say("KUBERNETES_TOO_OLD", "Kubernetes", text, minimum=oldest)


def versions(ctx: Context) -> Found:
    """Compare both versions with the range that this project was made for."""
    for side in ("from", "to"):
        found = ctx.desired[side]["version"]
        what = f"mesh_{side}_version {found}"
        if support(found) == "unsupported":
            text = f"Istio {RANGE} is supported, and what this version does was not looked at"
            yield say("ISTIO_NOT_SUPPORTED", what, text, side=side, range=RANGE)
        elif support(found) == "next":
            text = f"it is the minor after {NEWEST.minor}, and Istio {RANGE} is supported"
            yield say("ISTIO_NOT_TRIED", what, text)


def replicas(ctx: Context) -> Found:
    """Look at the old istiod's replicas and budgets (case F09)."""
    for plane in ctx.facts["control_planes"]:
        if plane["revision"] != ctx.old:
            continue
        what = f"Deployment {plane['namespace']}/{plane['name']}"
        names = {"namespace": plane["namespace"], "name": plane["name"], "revision": ctx.old}
        budgets = [row for row in _budgets(ctx) if _selects(row, ctx.old)]
        if plane["replicas"] < 2:
            yield say("ISTIOD_SINGLE_REPLICA", what, f"it has {plane['replicas']} replica", **names)
        elif not budgets:
            yield say("ISTIOD_NO_BUDGET", what, f"it has {plane['replicas']} replicas and no budget", **names)
        for row in budgets:
            if row["expected"] and not row["allowed"]:
                text = f"it allows no disruption of {what}, which has {plane['replicas']} replica"
                yield say("ISTIOD_BUDGET_BLOCKS", f"PodDisruptionBudget {ctx.istio}/{row['name']}", text, **names)


def _budgets(ctx: Context) -> list[Row]:
    return [row for row in ctx.inspected["budgets"] if row["namespace"] == ctx.istio]


def _selects(row: Row, revision: str) -> bool:
    selector = row["selector"]
    return bool(selector.get("app") == "istiod") and selector.get("istio.io/rev", revision) == revision


def autoscalers(ctx: Context) -> Found:
    """Find autoscalers of a revision that scale something else (case F08)."""
    for row in ctx.inspected["scalers"]:
        plane = ctx.view["revisions"].get(row["revision"] or "")
        if plane and row["name"].startswith("istiod") and row["target"] != f"Deployment {plane['deployment']}":
            text = f"it is of revision {row['revision']} and scales {row['target']}, not {plane['deployment']}"
            what = f"HorizontalPodAutoscaler {ctx.istio}/{row['name']}"
            yield say("AUTOSCALER_OTHER_TARGET", what, text, namespace=ctx.istio, name=row["name"])


def _needs(ctx: Context) -> dict[str, Decimal]:
    """Return what a second istiod like the old one asks for, all its pods together; {} when the new one is there."""
    if ctx.new in ctx.view["revisions"]:
        return {}
    count = max((p["replicas"] for p in ctx.facts["control_planes"] if p["revision"] == ctx.old), default=1)
    one = _one_pod(ctx)
    return {"pods": Decimal(count)} | {key: value * count for key, value in one.items()}


def _one_pod(ctx: Context) -> dict[str, Decimal]:
    row: dict[str, Any] = next((r for r in ctx.inspected["istiods"] if r["revision"] == ctx.old), {"requests": {}})
    return {key: sum((quantity(v) for v in values), Decimal(0)) for key, values in row["requests"].items()}


# Name in a quota -> what it limits.
_LIMITED = {
    "pods": "pods",
    "count/pods": "pods",
    "cpu": "cpu",
    "requests.cpu": "cpu",
    "memory": "memory",
    "requests.memory": "memory",
}


def quotas(ctx: Context) -> Found:
    """Find quotas that a second istiod would not fit into."""
    needs = _needs(ctx)
    for row in ctx.inspected["quotas"]:
        tight = [
            f"{name} ({row['used'].get(name, '0')} of {hard} used, {needs[_LIMITED[name]].normalize():f} more needed)"
            for name, hard in sorted(row["hard"].items())
            if _LIMITED.get(name) in needs
            and quantity(row["used"].get(name, "0")) + needs[_LIMITED[name]] > quantity(hard)
        ]
        if tight:
            what = f"ResourceQuota {ctx.istio}/{row['name']}"
            text = f"a second istiod does not fit: {', '.join(tight)}"
            names = {"namespace": ctx.istio, "name": row["name"], "what": ", ".join(t.split(" ")[0] for t in tight)}
            yield say("QUOTA_TIGHT", what, text, **names)


def nodes(ctx: Context) -> Found:
    """Find out whether any node could hold one more istiod, all else aside."""
    if not _needs(ctx):
        return
    wanted = _one_pod(ctx)
    fitting = [
        row
        for row in ctx.inspected["nodes"]
        if row["open"] and all(quantity(row["allocatable"][key]) >= value for key, value in wanted.items())
    ]
    if not fitting:
        asked = ", ".join(f"{value.normalize():f} {key}" for key, value in sorted(wanted.items())) or "a place"
        count = sum(1 for row in ctx.inspected["nodes"] if row["open"])
        yield say("NO_NODE_FITS", "Nodes", f"{count} nodes take pods, and none of them holds an istiod ({asked})")


def daemon_sets(ctx: Context) -> Found:
    """Find DaemonSets for the whole cluster that an uninstall of the old revision would take."""
    for row in ctx.inspected["daemon_sets"]:
        if row["revision"] == ctx.old:
            what = f"DaemonSet {row['namespace']}/{row['name']}"
            yield say("SHARED_DAEMON_SET", what, f"it carries istio.io/rev={ctx.old}")


def leftovers(ctx: Context) -> Found:
    """Tell what earlier revisions left (cases I11, H05); `default` is what charts for the whole cluster carry."""
    here = {*ctx.view["revisions"], *ctx.view["tags"], "default", ctx.new, "", None}
    rows: list[tuple[str, str]] = [
        (row["revision"], f"Service {row['name']}") for row in ctx.facts["services"] if not row["tag"]
    ]
    rows += [(r["revision"], f"{r['kind']} {r['name']}") for r in ctx.inspected["leftovers"]]
    rows += [(r["revision"], f"HorizontalPodAutoscaler {r['name']}") for r in ctx.inspected["scalers"]]
    rows += [(r["revision"], f"PodDisruptionBudget {r['name']}") for r in _budgets(ctx)]
    for revision in sorted({r for r, _ in rows if r not in here}):
        left = sorted(name for r, name in rows if r == revision)
        text = f"it has no istiod, and {len(left)} objects carry it: {some(left)}"
        yield say("REVISION_LEFT_OVER", f"Revision {revision}", text, namespace=ctx.istio, revision=revision)
