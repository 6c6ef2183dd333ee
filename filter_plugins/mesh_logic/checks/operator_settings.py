"""The operator file: what an install beside a running mesh must not do, and what does not do what it says."""

from __future__ import annotations

from typing import Any

from mesh_logic.checks.context import Context, Found, say, setting

# Profiles that turn istio-cni on (manifests/profiles, 1.31).
CNI_PROFILES = ("ambient", "openshift", "openshift-ambient")
LABS = ("lab", "demo", "test", "sandbox", "dev")
# values -> the field of the operator file for the same thing (operator/pkg/apis IstioOperatorSpec, 1.31).
FIELDS = {
    "values.global.hub": "spec.hub",
    "values.global.tag": "spec.tag",
    "values.meshConfig": "spec.meshConfig",
    "values.pilot.replicaCount": "spec.components.pilot.k8s.replicaCount",
    "values.pilot.resources": "spec.components.pilot.k8s.resources",
    "values.pilot.nodeSelector": "spec.components.pilot.k8s.nodeSelector",
    "values.pilot.tolerations": "spec.components.pilot.k8s.tolerations",
    "values.pilot.affinity": "spec.components.pilot.k8s.affinity",
}


def cni(ctx: Context) -> Found:
    """Find istio-cni in the file of the control plane."""
    profile, asked = str(setting(ctx.operator, "profile") or ""), setting(ctx.operator, "components.cni.enabled")
    by_profile = profile in CNI_PROFILES and asked is not False
    if asked is True or by_profile:
        text = f"it installs istio-cni ({'profile ' + profile if by_profile else 'components.cni.enabled'})"
        off = " and components.cni.enabled: false" if by_profile else ""
        yield say("CNI_IN_FILE", _file(ctx), text, profile=off)


def _file(ctx: Context) -> str:
    return f"Operator file {ctx.desired['operator_file']}"


def _mesh(ctx: Context) -> dict[str, Any]:
    """Return meshConfig; one in values is merged over the field (operator/pkg/render/manifest.go MergeInputs, 1.31)."""
    return {**(setting(ctx.operator, "meshConfig") or {}), **(setting(ctx.operator, "values.meshConfig") or {})}


def tracing(ctx: Context) -> Found:
    """Find tracing that nothing takes."""
    mesh = _mesh(ctx)
    takers = ("extensionProviders", "defaultProviders.tracing", "defaultConfig.tracing")
    if setting(mesh, "enableTracing") is True and not any(setting(mesh, path) for path in takers):
        yield say("TRACING_WITHOUT_PROVIDER", _file(ctx), "meshConfig.enableTracing is true and no provider is named")


def profile(ctx: Context) -> Found:
    """Find the profile for showing, where the environment does not call itself a lab."""
    environment = str(ctx.desired["environment"]).lower()
    if setting(ctx.operator, "profile") == "demo" and not any(word in environment for word in LABS):
        yield say("PROFILE_DEMO", _file(ctx), f"environment {environment} uses the profile demo")


def fields(ctx: Context) -> Found:
    """Find values for which there is a field."""
    for value, field in FIELDS.items():
        if setting(ctx.operator, value) is not None:
            yield say("VALUES_OVER_FIELD", _file(ctx), f"spec.{value} is set", value=f"spec.{value}", field=field)


def discovery(ctx: Context) -> Found:
    """Find namespaces with proxies that the new revision would not look at; no selectors select everything."""
    selectors = _mesh(ctx).get("discoverySelectors") or []
    labels = {row["name"]: row["labels"] for row in ctx.inspected["namespaces"]}
    for name in ctx.proxy_namespaces if selectors else []:
        if not any(selects(selector, labels.get(name, {})) for selector in selectors):
            text = (
                f"it has proxies, and none of the {len(selectors)} discoverySelectors of the operator file selects it"
            )
            yield say("DISCOVERY_LEAVES_OUT", f"Namespace {name}", text, name=name)


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Tell whether a label selector of Kubernetes selects some labels; one without terms selects everything."""
    return all(labels.get(key) == str(value) for key, value in (selector.get("matchLabels") or {}).items()) and all(
        _matches(term, labels) for term in selector.get("matchExpressions") or []
    )


def _matches(term: dict[str, Any], labels: dict[str, str]) -> bool:
    there, values = labels.get(str(term.get("key"))), [str(v) for v in term.get("values") or []]
    return {
        "In": there in values,
        "NotIn": there not in values,
        "Exists": there is not None,
        "DoesNotExist": there is None,
    }.get(str(term.get("operator")), False)
