"""Settings of the running revision against those of the new one: what would be lost, what changes, what is new.

DESIGN rule 7: a setting that the running mesh has and the new one would lose stops the run before the install. What
changes because the version changed, or because the operator file says so, does not.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypedDict

import yaml

from mesh_logic.errors import MeshError, one_line, shown
from mesh_logic.settings import (
    BUDGET,
    CLUSTER_SET,
    ENV,
    GLOBAL,
    K8S,
    MESH,
    PILOT,
    VALUES,
    Path,
    Side,
    alias,
    arguments,
    autoscaler_faults,
    canonical,
    flatten,
    manifest_objects,
    plain_text,
    read_side,
    shown_path,
    suffix_of,
)

WAIVER = "SETTING_LOST"
# What a setting is made from besides its own place in the file.
SOURCES: tuple[tuple[Path, tuple[Path, ...]], ...] = (
    ((*MESH, "defaultConfig", "meshId"), ((*GLOBAL, "meshID"),)),
    ((*MESH, "defaultConfig", "image"), ((*GLOBAL, "variant"), (*GLOBAL, "proxy", "variant"))),
    ((*MESH, "defaultConfig", "tracing"), ((*GLOBAL, "tracer"), (*GLOBAL, "proxy", "tracer"))),
    ((*MESH, "defaultProviders"), ((*VALUES, "telemetry"),)),
    ((*MESH, "rootNamespace"), ((*GLOBAL, "istioNamespace"),)),
    ((*K8S, "priorityClassName"), ((*GLOBAL, "priorityClassName"),)),
    ((*K8S, "resources"), ((*GLOBAL, "defaultResources"),)),
    (BUDGET, ((*GLOBAL, "defaultPodDisruptionBudget"), (*PILOT, "autoscaleMin"), (*PILOT, "replicaCount"))),
)
# Made by the chart without being a value of it (templates/configmap.yaml, deployment.yaml): path -> its usual values.
# The second part is for meshes before 1.26, which keep no ConfigMap with the chart's values.
CHART_MADE: dict[Path, tuple[Any, ...]] = {
    (*MESH, "trustDomain"): ("cluster.local",),
    (*MESH, "enablePrometheusMerge"): (True,),
    (*MESH, "defaultProviders", "metrics"): (["prometheus"],),
    (*K8S, "tolerations"): ([{"key": "cni.istio.io/not-ready", "operator": "Exists"}],),
    (*BUDGET, "minAvailable"): (1,),
    (*PILOT, "replicaCount"): (1,),
    (*PILOT, "autoscaleEnabled"): (True,),
    (*PILOT, "autoscaleMin"): (1,),
    (*PILOT, "autoscaleMax"): (5,),
    (*PILOT, "cpu", "targetAverageUtilization"): (80,),
    (*PILOT, "traceSampling"): (1,),
    (*PILOT, "keepaliveMaxServerConnectionAge"): ("30m",),
    (*PILOT, "rollingMaxSurge"): ("100%",),
    (*PILOT, "rollingMaxUnavailable"): ("25%",),
    (*K8S, "resources", "requests", "cpu"): ("500m",),
    (*K8S, "resources", "requests", "memory"): ("2048Mi",),
}
CHART_ENV: tuple[str, ...] = (
    "KUBECONFIG",
    "CA_TRUSTED_NODE_ACCOUNTS",
    "POD_NAME",
    "POD_NAMESPACE",
    "SERVICE_ACCOUNT",
    "GOMEMLIMIT",
)
CHART_ENV += ("GOMAXPROCS", "GODEBUG", "VALIDATION_ENABLED", "INJECTION_WEBHOOK_CONFIG_NAME", "SHARED_MESH_CONFIG")
CHART_VOLUMES: tuple[str, ...] = (
    "local-certs",
    "istio-token",
    "cacerts",
    "istio-kubeconfig",
    "istio-csr-dns-cert",
    "extracacerts",
)
CHART_VOLUMES += ("istio-csr-ca-configmap", "config-volume", "inject", "istio-csr-certs")
_OFF = ("", "false", "0")
_SECRET = re.compile(r"token|password|passwd|secret(?!Key|Name)|api_?key|private_?key", re.IGNORECASE)


class Finding(TypedDict):
    """One setting that differs; ``text`` is the whole message, ``waived`` the reason of the waiver that fits, or ""."""

    kind: str  # lost, changed_default, changed, added
    setting: str
    running: str
    new: str
    line: str
    object: str
    waived: str
    text: str


@dataclass
class Case:
    """What a comparison knows: both control planes, the file, and what the file gives with the old istioctl."""

    old: Side
    new: Side
    document: dict[str, Any]
    names: dict[str, str]  # old and new revision and version, path of the operator file
    same_file: Side | None = None
    compatible: Side | None = None
    compatibility: str = ""
    waivers: list[dict[str, str]] = field(default_factory=list)


def same(path: Path, one: Any, other: Any) -> bool:
    """Tell whether two values of a setting are the same; a Helm value that is off equals one that is not there."""
    if canonical(one, path) == canonical(other, path):
        return True
    if path in CLUSTER_SET and plain_text(one) == CLUSTER_SET[path] and other is None:
        return True
    is_value = path[: len(VALUES)] == VALUES and path[: len(ENV)] != ENV
    return is_value and plain_text(one) in _OFF and plain_text(other) in _OFF


def compare(case: Case) -> list[Finding]:
    """Return every setting that differs, the lost ones first."""
    found = []
    for path in sorted({*case.old.settings, *case.new.settings}):
        was, will = case.old.value(path), case.new.value(path)
        if not same(path, was, will):
            kind, cause = _classify(case, path, was, will)
            found.append((path, kind, cause))
    lost = [path for path, kind, _ in found if kind == "lost"]
    # what restores the source restores what is made from it
    found = [item for item in found if item[1] in ("changed", "added") or not made_from(item[0], lost)]
    findings = [_finding(case, *item) for item in found]
    findings += _behaviors(case, {path for path, _, _ in found})
    order = ("lost", "changed_default", "changed", "added")
    return sorted(findings, key=lambda f: order.index(f["kind"]))


def made_from(path: Path, others: Iterable[Path]) -> list[Path]:
    """Return those of some paths that a setting is made from besides its own place in the file."""
    sources = [source for made, found in SOURCES if path[: len(made)] == made for source in found]
    return [other for other in others if any(other[: len(source)] == source for source in sources)]


def file_value(document: dict[str, Any], path: Path) -> tuple[bool, Any]:
    """Return (the operator file sets this, its value), whichever of the two places of a setting it uses."""
    spec = document.get("spec") or {}
    leaves = {alias(p): v for p, v in flatten(spec, ("spec",)).items()}
    for given in [p for p in leaves if p[-1] == "extraContainerArgs"]:
        leaves |= arguments([str(item) for item in leaves.pop(given)])
    k8s_env = (*K8S, "env")
    for found, value in list(leaves.items()):
        if found[: len(k8s_env)] == k8s_env and found[-1] == "value":
            leaves[(*ENV, found[len(k8s_env)].strip("[]"))] = value
    if path in leaves:
        return True, leaves[path]
    inside = [p for p in leaves if p[: len(path)] == path or path[: len(p)] == p]
    if inside:
        return True, _under(spec, path)
    node: Any = spec
    for key in path[1:]:  # an empty value, such as accessLogFile: "", is no leaf but still said on purpose
        if not isinstance(node, dict) or key not in node:
            return False, None
        node = node[key]
    return True, node


def _under(spec: Any, path: Path) -> Any:
    """Return what stands at a path of the file, where that is a mapping or a list."""
    node = spec
    for key in path[1:]:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def _classify(case: Case, path: Path, was: Any, will: Any) -> tuple[str, str]:
    """Return the kind of a difference and, for a lost setting, its cause."""
    if was is None:
        return "added", ""
    in_file, wanted = file_value(case.document, path)
    if in_file and same(path, wanted, will):
        return "changed", ""
    sources = made_from(path, {*case.old.settings, *case.new.settings}) if not in_file else []
    if any(_changed_by_file(case, source) for source in sources):
        return "changed", ""
    ignored = _not_taken(case, path, in_file)
    if ignored:
        return "lost", ignored
    if case.same_file is not None:
        from_version = same(path, was, case.same_file.value(path))
    else:
        from_version = not is_explicit(case.old, case.new, path, was)
    file = case.names["file"]
    return (
        ("changed_default", "") if from_version else ("lost", f"{file} does not set it (a --set flag, or an edit, did)")
    )


def _changed_by_file(case: Case, path: Path) -> bool:
    return file_value(case.document, path)[0] and not same(path, case.old.value(path), case.new.value(path))


def _not_taken(case: Case, path: Path, in_file: bool) -> str:
    """Return why a setting of the file does not reach the new revision, or ""."""
    if in_file:
        return f"{case.names['file']} sets it, but Istio {case.names['new_version']} does not take it from there"
    name = f"istiod{suffix_of(case.names['new'])}"
    overlays = _under(case.document.get("spec"), ("spec", "components", "pilot", "k8s", "overlays")) or []
    others = [str(o.get("name")) for o in overlays if isinstance(o, dict) and o.get("name") != name]
    from_file = case.same_file is not None and same(path, case.old.value(path), case.same_file.value(path))
    if others and (from_file or (case.same_file is None and "overlays" in path)):
        return f"the overlay in {case.names['file']} names {others[0]}, and the new istiod is called {name}"
    return ""


def is_explicit(old: Side, new: Side, path: Path, was: Any) -> bool:
    """Tell whether somebody set what runs, where the old istioctl is not there to render the old version's defaults.

    Source: the ConfigMap with what Helm was given (since 1.26). Without it a value counts as set unless it is the
    chart's usual one, or the new version knows no such value.
    """
    # no version of the chart takes a budget away by itself
    budget_goes = path[: len(BUDGET)] == BUDGET and new.value(path) is None
    if budget_goes or path in (old.given or {}):
        return True
    if _made_by_chart(old, path, was):
        return False
    if old.given is not None:
        return not same(path, was, old.merged.get(path))
    in_injector = path[: len(VALUES)] == VALUES and path[: len(PILOT)] != PILOT
    return not in_injector or new.value(path) is not None


def _made_by_chart(old: Side, path: Path, was: Any) -> bool:
    """Tell whether a setting is what the chart makes by itself."""
    if path == (*MESH, "rootNamespace"):
        return same(path, was, old.value((*GLOBAL, "istioNamespace")))
    name = path[-1].strip("[]")
    if path[: len(PILOT)] == PILOT and path[len(PILOT)] in ("volumes", "volumeMounts"):
        return name in CHART_VOLUMES
    usual = any(same(path, was, value) for value in CHART_MADE.get(path, ()))
    return usual or name in CHART_ENV


def _behaviors(case: Case, told: set[Path]) -> list[Finding]:
    """Return the defaults inside istiod that change with the version: what compatibilityVersion would set back."""
    if case.compatible is None:
        return []
    paths = [
        path
        for path in sorted(case.compatible.settings)
        if path not in told and not same(path, case.compatible.settings[path], case.new.value(path))
    ]
    return [_finding(case, path, "changed_default", "") for path in paths]


def _finding(case: Case, path: Path, kind: str, cause: str) -> Finding:
    was, will = case.old.value(path), case.new.value(path)
    where = (case.old if was is not None else case.new).objects.get(path, "")
    name = shown_path(path)
    finding = Finding(
        kind=kind,
        setting=name,
        running=_said(path, was),
        new=_said(path, will),
        line=line_for(case.names["new"], path, was),
        object=where,
        waived="",
        text="",
    )
    if kind == "lost":
        finding["waived"] = waived(case.waivers, name)
        finding["text"] = _lost_text(case, finding, cause, path)
    elif kind == "changed_default":
        finding["text"] = _default_text(case, finding, path)
    elif kind == "changed":
        finding["text"] = f"{name} changes from {finding['running']} to {finding['new']}: {case.names['file']} says so."
    else:
        by = case.names["file"] if file_value(case.document, path)[0] else f"Istio {case.names['new_version']}"
        finding["text"] = f"{name} is new: {finding['new']}, from {by}."
    return finding


def _lost_text(case: Case, finding: Finding, cause: str, path: Path) -> str:
    hint = (
        " (one is only made where autoscaleMin or replicaCount is at least 2)" if path[: len(BUDGET)] == BUDGET else ""
    )
    unsure = "" if case.same_file is not None else _unsure(case)
    return str(
        MeshError(
            f"{finding['setting']} of revision {case.old.revision} ({finding['object']})",
            f"it is {finding['running']}, and revision {case.names['new']} would have {finding['new']}: {cause}",
            f"add to {case.names['file']}: {finding['line']}{hint}; or waive it in mesh_waivers with id {WAIVER} and "
            f"resource {finding['setting']}{unsure}",
        )
    )


def _unsure(case: Case) -> str:
    if case.old.given is not None:
        return ""
    version = case.names["old_version"]
    return f"; with mesh_istioctl_from (istioctl {version}) changed defaults are told from settings"


def _default_text(case: Case, finding: Finding, path: Path) -> str:
    version, compatible = case.names["new_version"], case.compatible
    change = f"from {finding['running']} to {finding['new']}" if path in case.old.settings else "inside istiod"
    kept = compatible.value(path) if compatible is not None else None
    helps = compatible is not None and not same(path, kept, case.new.value(path))
    line = f'spec.compatibilityVersion: "{case.compatibility}" in {case.names["file"]} keeps the old one'
    if helps and path not in case.old.settings:
        todo = f"{line} (sets {shown(kept)})"
    elif helps and same(path, kept, case.old.value(path)):
        todo = line
    else:
        todo = f"nothing, or keep it with {finding['line']}"
    return str(MeshError(finding["setting"], f"its default changes {change} with Istio {version}", todo))


def waived(waivers: list[dict[str, str]], setting: str) -> str:
    """Return the reason of the waiver that fits a lost setting, or "" (one without a reason is refused as input)."""
    for waiver in waivers:
        names = ("", setting, setting.removeprefix("spec."))
        if waiver["id"] == WAIVER and waiver["resource"] in names:
            return waiver["reason"]
    return ""


def _said(path: Path, value: Any) -> str:
    if value is None:
        return "none"
    if is_secret(path):
        return "(hidden)"
    return shown(value) if isinstance(value, str) else shown(yaml_of(value)).strip('"')


def is_secret(path: Path) -> bool:
    """Tell whether a setting may hold a secret by its name: then no message shows it."""
    return any(_SECRET.search(part) for part in path[-2:])


def line_for(revision: str, path: Path, value: Any) -> str:
    """Return the line of the operator file that would keep a setting."""
    if value is None:
        return ""
    if "overlays" in path:
        patch = {"path": path[-1].strip("[]"), "value": value}
        value = [{"kind": "Deployment", "name": f"istiod{suffix_of(revision)}", "patches": [patch]}]
        path = path[:-1]
    elif "extraContainerArgs" in path:
        flag = path[-1].strip("[]")
        value, path = [flag if value is True else f"{flag}={value}"], path[:-1]
    elif path[-1].startswith("["):
        value, path = [{"name": path[-1].strip("[]"), **_entry(path, value)}], path[:-1]
    said = "(its value)" if is_secret(path) else yaml_of(value, quoted=path[: len(ENV)] == ENV)
    return f"{shown_path(path)}: {said}"


def _entry(path: Path, value: Any) -> dict[str, Any]:
    if path[-2] == "env":
        return {"valueFrom": value}
    return value if isinstance(value, dict) else {}


def yaml_of(value: Any, quoted: bool = False) -> str:
    """Return a value as YAML on one line."""
    if quoted:
        value = plain_text(value)
    text: str = yaml.safe_dump(value, default_flow_style=True, width=100000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def blockers(findings: list[Finding]) -> list[str]:
    """Return why the install must not begin: every lost setting that no waiver fits."""
    return [f["text"] for f in findings if f["kind"] == "lost" and not f["waived"]]


def lines(findings: list[Finding]) -> list[str]:
    """Return the findings for a person, the waived ones with their reason."""
    heads = {"lost": "LOST", "changed_default": "changed default", "changed": "changed by the file", "added": "added"}
    found = [
        f"waived ({f['waived']}): {f['text']}" if f["waived"] else f"{heads[f['kind']]}: {f['text']}" for f in findings
    ]
    return found or ["no setting differs"]


def renders(document_text: str, desired: dict[str, Any]) -> list[dict[str, str]]:
    """Return what else must be rendered to explain a difference: list of name, istioctl, text.

    ``same_file`` is the same file with the old istioctl, where that is there; ``compatible`` the new version with the
    compatibilityVersion of the old minor, where the minor changes and the file sets none. Both without the component
    base, which holds a megabyte of CRDs and no setting.
    """
    found = []
    document = yaml.safe_load(document_text)
    spec = document["spec"] = without_crds(document.get("spec"))
    if desired["from"]["istioctl"]:
        other = copy.deepcopy(document)
        other["spec"]["revision"] = desired["from"]["revision"]
        if desired["from"]["revision"] == "default":
            del other["spec"]["revision"]
        found.append({"name": "same_file", "istioctl": desired["from"]["istioctl"], "text": _dump(other)})
    version = compatibility_version(document, desired)
    if version:
        spec["compatibilityVersion"] = version
        found.append({"name": "compatible", "istioctl": desired["to"]["istioctl"], "text": _dump(document)})
    return found


def without_crds(spec: dict[str, Any] | None) -> dict[str, Any]:
    """Return the spec of an operator document with the component base switched off."""
    found = copy.deepcopy(spec or {})
    components = found["components"] = found.get("components") or {}
    components["base"] = (components.get("base") or {}) | {"enabled": False}
    return found


def _dump(document: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text


def compatibility_version(document: dict[str, Any], desired: dict[str, Any]) -> str:
    """Return the old minor where compatibilityVersion could keep its defaults: the minor rises, the file sets none."""
    old, new = (tuple(int(n) for n in desired[side]["version"].split(".")[:2]) for side in ("from", "to"))
    spec = document.get("spec") or {}
    is_set = spec.get("compatibilityVersion") or (spec.get("values") or {}).get("compatibilityVersion")
    return f"{old[0]}.{old[1]}" if old < new and not is_set else ""


def _case(
    live: dict[str, Any], rendered: dict[str, str], document_text: str, desired: dict[str, Any], today: str
) -> Case:
    document = yaml.safe_load(document_text)
    old, to = desired["from"], desired["to"]
    same_file, compatible = rendered.get("same_file", ""), rendered.get("compatible", "")
    return Case(
        old=read_side(live["objects"], old["revision"]),
        new=_rendered(rendered["install"], to["revision"]),
        document=document,
        names={
            "new": to["revision"],
            "old_version": old["version"],
            "new_version": to["version"],
            "file": desired["operator_file"],
        },
        same_file=_rendered(same_file, old["revision"]) if same_file else None,
        compatible=_rendered(compatible, to["revision"]) if compatible else None,
        compatibility=compatibility_version(document, desired),
        waivers=[w for w in desired["waivers"] if not (w["expires"] and w["expires"] < today)],
    )


def _rendered(text: str, revision: str) -> Side:
    return read_side(manifest_objects(text, revision), revision)


def before_install(
    live: dict[str, Any], rendered: dict[str, str], document_text: str, desired: dict[str, Any], today: str = ""
) -> list[Finding]:
    """Return what differs between the running revision and what the install would apply.

    Args:
        live: the result of the module `mesh_settings` for the old revision.
        rendered: ``install``, what the install would apply as `istioctl manifest generate` renders it, and the outputs
            of `renders` by name; missing or empty ones are done without.
        document_text: the operator document that ``install`` was rendered from.
        desired: what is wanted (`mesh_inputs`).
        today: an ISO date; a waiver that expired before counts no more.

    Raises:
        MeshError: a ConfigMap or a render cannot be read.
    """
    return compare(_case(live, rendered, document_text, desired, today))


def after_install(
    live: dict[str, dict[str, Any]],
    rendered: dict[str, str],
    document_text: str,
    desired: dict[str, Any],
    today: str = "",
) -> dict[str, Any]:
    """Return {findings, faults} of two revisions that both run.

    In: as `before_install`, with ``live`` as {old, new}. ``findings`` are against what really runs; ``faults`` says
    where that is not what was rendered, and which autoscaler scales a foreign Deployment.
    """
    case = _case(live["old"], rendered, document_text, desired, today)
    planned, case.new = case.new, read_side(live["new"]["objects"], desired["to"]["revision"])
    faults = [
        _not_as_rendered(path, planned, case.new, desired)
        for path in sorted({*planned.settings, *case.new.settings})
        if not same(path, case.new.value(path), planned.value(path))
    ]
    return {
        "findings": compare(case),
        "faults": faults + autoscaler_faults(live["new"]["objects"], desired["to"]["revision"]),
    }


def _not_as_rendered(path: Path, planned: Side, runs: Side, desired: dict[str, Any]) -> str:
    where = runs.objects.get(path) or planned.objects.get(path, "")
    renders_as = _said(path, planned.value(path))
    return str(
        MeshError(
            f"{shown_path(path)} of revision {runs.revision} ({where})",
            f"it is {_said(path, runs.value(path))}, and {desired['operator_file']} renders {renders_as}",
            "find what changed it (an admission policy, a GitOps tool, an older object of that name)",
        )
    )


def rendered_by_name(results: list[dict[str, Any]]) -> dict[str, str]:
    """Return the output of each of `renders` by name, from a looped command's results.

    One that failed is left out: the old istioctl may refuse a file that is meant for the new version, and not every old
    minor has a compatibilityVersion. The comparison then works with what it has.
    """
    return {r["item"]["name"]: r["stdout"] for r in results if r.get("rc") == 0}


def unexplained(results: list[dict[str, Any]]) -> list[str]:
    """Return which of `renders` failed and what that means, for a person."""
    effects = {
        "same_file": "so changed defaults are told from settings by what Helm was given",
        "compatible": "so no compatibilityVersion is offered",
    }
    return [
        f"{r['item']['istioctl']} could not render the file ({r['item']['name']}), {effects[r['item']['name']]}: "
        f"{one_line(str(r.get('stderr') or r.get('msg') or ''))[:300]}"
        for r in results
        if r.get("rc") != 0
    ]
