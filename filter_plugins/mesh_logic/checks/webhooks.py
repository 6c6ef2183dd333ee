"""Tags, injectors and validators: that each calls somebody, and that no two call for the same pods."""

from __future__ import annotations

from mesh_logic.checks.context import REVISION, Context, Found, Row, say, some

VALIDATOR = "istiod-default-validator"


def _live(row: Row) -> list[Row]:
    return [entry for entry in row["entries"] if not entry["deactivated"]]


def _rows(ctx: Context) -> list[tuple[str, Row]]:
    """Return every webhook configuration of Istio with its kind."""
    return [("MutatingWebhookConfiguration", row) for row in ctx.facts["injectors"]] + [
        ("ValidatingWebhookConfiguration", row) for row in ctx.facts["validators"]
    ]


def dangling(ctx: Context) -> Found:
    """Find tags whose revision is gone, with the namespaces that use them (case C05)."""
    for tag, revision in sorted(ctx.view["tags"].items()):
        if revision not in ctx.view["revisions"]:
            users = ctx.users_of(tag)
            used = f"no pod can start in {some(users)}" if users else "no namespace uses it"
            text = f"it points to {revision}, which is not installed: {used}"
            yield say("TAG_DANGLING", f"Tag {tag}", text, tag=tag, revision=ctx.old)


def ambiguous(ctx: Context) -> Found:
    """Find tags whose webhook and Service disagree; the start of every step asks the same."""
    for tag, both in sorted(ctx.view["ambiguous"].items()):
        text = f"its webhook and its Service point to {' and '.join(both)}"
        yield say("TAG_AMBIGUOUS", f"Tag {tag}", text, tag=tag, revision=ctx.old)


def overlaps(ctx: Context) -> Found:
    """Find injectors that claim the same pods (cases H02, E03): the same tag or revision name, or both the default."""
    claims: dict[str, list[str]] = {}
    for row in ctx.facts["injectors"]:
        if _live(row):
            claims.setdefault(row["tag"] or row["revision"] or "default", []).append(row["name"])
    for claim, names in sorted(claims.items()):
        if len(names) > 1:
            text = f"both answer for istio.io/rev={claim}" + (" and istio-injection" if claim == "default" else "")
            what = f"MutatingWebhookConfigurations {' and '.join(sorted(names))}"
            yield say("INJECTORS_OVERLAP", what, text, names=" or ".join(sorted(names)))


def bundles(ctx: Context) -> Found:
    """Find webhooks without a CA bundle (case H08), and validators that take everything."""
    for kind, row in _rows(ctx):
        what, names = f"{kind} {row['name']}", {"name": row["name"], "namespace": ctx.istio}
        empty = [e["name"] for e in _live(row) if not e["ca"] and not e["url"]]
        if kind.startswith("Mutating") and empty:
            yield say("CA_BUNDLE_EMPTY", what, f"no caBundle in {some(empty)}", **names)
        if kind.startswith("Validating"):
            ignoring = [e["name"] for e in _live(row) if e["failure_policy"] == "Ignore"]
            why = "no caBundle" if empty else "failurePolicy Ignore" if ignoring else ""
            if why:
                yield say("VALIDATOR_ASLEEP", what, f"{why} in {some(empty or ignoring)}", **names)


def endpoints(ctx: Context) -> Found:
    """Find Services that webhooks call and nobody answers for (case I10), and webhooks of revisions that are gone."""
    ready = ctx.inspected["endpoints"]
    silent: dict[str, list[str]] = {}
    for kind, row in _rows(ctx):
        asked = sorted({e["service"] for e in _live(row) if e["service"] and e["service_namespace"] == ctx.istio})
        dead = [service for service in asked if not ready.get(service)]
        gone = row["revision"] and row["revision"] not in ctx.view["revisions"]
        if dead and dead == asked and gone:
            if not row["tag"] or kind.startswith("Validating"):  # a tag that points nowhere is told as a tag
                text = f"its revision {row['revision']} is gone, and its Service {', '.join(dead)} has no endpoints"
                yield say("WEBHOOK_LEFT_OVER", f"{kind} {row['name']}", text, kind=kind.lower(), name=row["name"])
            continue
        for service in dead:
            silent.setdefault(service, []).append(row["name"])
    for service, names in sorted(silent.items()):
        text = f"it has no ready endpoint, and {len(names)} webhooks call it: {some(sorted(names))}"
        yield say("WEBHOOK_NO_ENDPOINTS", f"Service {ctx.istio}/{service}", text, namespace=ctx.istio)


def default(ctx: Context) -> Found:
    """Look at the default tag and its validator (case H03)."""
    tag = ctx.view["tags"].get("default")
    revision = tag or ("default" if ctx.view["default_injects"] else "")
    names = {"revision": tag or ctx.old}
    if not revision:
        yield say("DEFAULT_TAG_MISSING", "Tag default", "there is none", **names)
    found = [row for row in ctx.facts["validators"] if row["name"].startswith(VALIDATOR)]
    if not found:
        text = "there is none: Istio's objects without a revision are not validated"
        yield say("DEFAULT_VALIDATOR_MISSING", f"ValidatingWebhookConfiguration {VALIDATOR}", text, **names)
    wanted = (ctx.view["revisions"].get(revision) or {}).get("deployment")
    for row in found:
        asked = sorted({entry["service"] for entry in row["entries"] if entry["service"]})
        if wanted and asked and asked != [wanted]:
            text = f"it calls {', '.join(asked)}, and the default tag is on {revision} ({wanted})"
            yield say("DEFAULT_VALIDATOR_DISAGREES", f"ValidatingWebhookConfiguration {row['name']}", text, **names)


def gateways(ctx: Context) -> Found:
    """Tell which Gateways a tag moves at once (case H06), and which need a default tag (case H07).

    Source: pkg/revisions/tag_watcher.go `IsMine` (1.31): the label of the Gateway, else of its namespace, else default.
    """
    following: dict[str, list[str]] = {}
    classes = ctx.inspected["gateway_classes"]
    for row in ctx.inspected["objects"]:
        if row["kind"] == "Gateway" and row["group"].startswith("gateway.") and row["class"] in classes:
            space = ctx.view["namespaces"].get(row["namespace"], {})
            asked = row["revision"] if row["revision"] is not None else space.get(REVISION, "")
            following.setdefault(asked or "default", []).append(f"{row['namespace']}/{row['name']}")
    for tag, names in sorted(following.items()):
        if tag in ctx.desired["tags"]:
            text = f"moving it restarts {len(names)} Gateways at that moment: {some(sorted(names))}"
            yield say("GATEWAYS_FOLLOW_TAG", f"Tag {tag}", text)
    missing = "default" not in ctx.view["tags"] and "default" not in ctx.view["revisions"]
    validated = any(row["name"].startswith(VALIDATOR) for row in ctx.facts["validators"])
    for name in sorted(following.get("default", [])) if missing and not validated else []:
        text = "neither it nor its namespace names a revision, and there is no default tag"
        yield say("GATEWAY_WITHOUT_DEFAULT", f"Gateway {name}", text, revision=ctx.old)
