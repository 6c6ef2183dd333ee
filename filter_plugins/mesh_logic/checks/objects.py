"""Objects of Istio and of the Gateway API, and who keeps what the run changes."""

from __future__ import annotations

from mesh_logic.checks.context import Context, Found, Row, in_namespace, say, some
from mesh_logic.checks.webhooks import VALIDATOR
from mesh_logic.model import how_moved, live_revisions, workload_ref


def _ref(row: Row) -> str:
    return f"{row['kind']} {row['namespace'] + '/' if row['namespace'] else ''}{row['name']}"


def bound(ctx: Context) -> Found:
    """Find objects with a revision label.

    istiod compares it with its very own revision (pkg/config/model.go `LabelsInRevision`, 1.31); only a Gateway of the
    Gateway API may name a tag (pilot/pkg/config/kube/gateway/controller.go `buildClient`).
    """
    for row in ctx.inspected["objects"]:
        label, gateway = row["revision"], row["kind"] == "Gateway" and row["group"].startswith("gateway.")
        if label is None or gateway or label == ctx.new:
            continue
        names = {
            "plural": f"{row['kind'].lower()}.{row['group']}",
            "namespace_flag": in_namespace(row["namespace"]),
            "name": row["name"],
        }
        what, has = _ref(row), f"it carries istio.io/rev={label}"
        if label == ctx.old:
            text = f"{has}: it stops applying to every proxy that moves to {ctx.new}"
            yield say("OBJECT_OLD_REVISION", what, text, **names)
        elif label in ctx.view["tags"]:
            yield say("OBJECT_TAG_LABEL", what, f"{has}, a tag: no istiod reads it", **names)
        elif label not in ctx.view["revisions"]:
            yield say("OBJECT_UNKNOWN_REVISION", what, f"{has}, which is not installed: no istiod reads it", **names)


def of_a_version(ctx: Context) -> Found:
    """Count what is bound to a version of the proxy."""
    for kind, code in (("EnvoyFilter", "ENVOY_FILTERS"), ("WasmPlugin", "WASM_PLUGINS")):
        names = sorted(f"{r['namespace']}/{r['name']}" for r in ctx.inspected["objects"] if r["kind"] == kind)
        if names:
            yield say(code, kind, f"{len(names)} of them: {some(names)}")


def operators(ctx: Context) -> Found:
    """Find IstioOperator objects that somebody applied."""
    for row in ctx.inspected["operators"]:
        names = {"namespace_flag": in_namespace(row["namespace"]), "name": row["name"]}
        yield say("OPERATOR_OBJECT", _ref(row), "nothing in the cluster reads it", **names)


def kept(ctx: Context) -> Found:
    """Find namespaces and webhooks that the run changes and a tool keeps as they stand in git."""
    tags = {row["name"] for row in ctx.facts["injectors"] if row["tag"] in ctx.desired["tags"] and row["tag"]}
    tags |= {row["name"] for row in ctx.facts["validators"] if row["name"].startswith(VALIDATOR)}
    for row in ctx.inspected["owners"]:
        what = f"{row['kind']} {row['name']}"
        if row["kind"] == "Namespace" and row["name"] in ctx.desired["canary_namespaces"]:
            yield say("NAMESPACE_KEPT", what, f"{row['by']} keeps it, and would put its old label back", by=row["by"])
        elif row["kind"] != "Namespace" and row["name"] in tags:
            yield say("TAG_KEPT", what, f"{row['by']} keeps it, and would move the tag back", by=row["by"])


def evictions(ctx: Context) -> Found:
    """Find budgets that would refuse the evictions of the run; a restart does not ask budgets."""
    moved = [row for row in ctx.view["workloads"] if how_moved(row) in ("evict", "rescue") and live_revisions(row)]
    for budget in ctx.inspected["budgets"]:
        held = sorted(workload_ref(row) for row in moved if any(_holds(owner, row) for owner in budget["holds"]))
        if held and not budget["allowed"]:
            names = {"namespace": budget["namespace"], "name": budget["name"]}
            text = f"it allows no eviction now, and {some(held)} moves by eviction"
            yield say(
                "BUDGET_BLOCKS_EVICTION", f"PodDisruptionBudget {names['namespace']}/{names['name']}", text, **names
            )


def _holds(owner: str, row: Row) -> bool:
    """Tell whether the controller of a pod is a workload, or a ReplicaSet made by it (its name and one hash)."""
    made = f"ReplicaSet {row['namespace']}/{row['name']}"
    return owner == workload_ref(row) or (row["kind"] != "ReplicaSet" and owner.rpartition("-")[0] == made)
