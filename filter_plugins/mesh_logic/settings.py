"""The objects of one control plane -> its settings, each under the place of the operator file that sets it.

Live objects (module ``mesh_settings``) and rendered ones (``istioctl manifest generate``) are read by the same code, so
that they can be compared: ``spec.meshConfig.accessLogFile``, ``spec.values.global.proxy.logLevel``,
``spec.values.pilot.env.X``, ``spec.components.pilot.k8s.resources.requests.cpu``. What only says which revision it is
(names, labels, tags, addresses of istiod, live replicas under an autoscaler) is left out or made the same.

Sources: Istio manifests/charts/istio-control/istio-discovery/templates (1.26 to 1.31),
operator/pkg/render/postprocess.go (which field of components.pilot.k8s patches what), operator/pkg/render/manifest.go
``MergeInputs``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import yaml

from mesh_logic.errors import MeshError, one_line

Path: TypeAlias = tuple[str, ...]

MESH: Path = ("spec", "meshConfig")
VALUES: Path = ("spec", "values")
GLOBAL: Path = (*VALUES, "global")
PILOT: Path = (*VALUES, "pilot")
# The schema of values takes no text in extraContainerArgs, so istioctl refuses it there (seen with 1.30 and 1.31).
EXTRA_ARGS: Path = ("spec", "unvalidatedValues", "pilot", "extraContainerArgs")
ENV: Path = (*PILOT, "env")
K8S: Path = ("spec", "components", "pilot", "k8s")
BUDGET: Path = (*K8S, "podDisruptionBudget")

KINDS = ("ConfigMap", "Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget")
_MAY_HOLD = re.compile(rf"""kind["']?: ["']?({"|".join(KINDS)})\b""")
# ConfigMaps of a revision, before its suffix.
MESH_MAP, INJECTOR_MAP, VALUES_MAP = "istio", "istio-sidecar-injector", "values"

# Fields of k8s that are kept as values: as such they also decide whether there is a disruption budget (1.30 and older).
_IN_VALUES: dict[Path, str] = {
    ("hpaSpec", "minReplicas"): "autoscaleMin",
    ("hpaSpec", "maxReplicas"): "autoscaleMax",
    ("replicaCount",): "replicaCount",
}
# Variables of istiod that the chart makes from another value.
ENV_FROM: dict[str, Path] = {
    "PILOT_CERT_PROVIDER": (*GLOBAL, "pilotCertProvider"),
    "PILOT_TRACE_SAMPLING": (*PILOT, "traceSampling"),
    "PILOT_ENABLE_ANALYSIS": (*GLOBAL, "istiod", "enableAnalysis"),
    "CLUSTER_ID": (*GLOBAL, "multiCluster", "clusterName"),
    "PLATFORM": (*GLOBAL, "platform"),
    "EXTERNAL_ISTIOD": (*GLOBAL, "externalIstiod"),
    "PILOT_CA_CERT_CONFIGMAP": (*GLOBAL, "trustBundleName"),
    "PILOT_CRL_CONFIGMAP": (*PILOT, "crlConfigMapName"),
    "PILOT_ENABLE_NODE_UNTAINT_CONTROLLERS": (*PILOT, "taint", "enabled"),
    "PILOT_NODE_UNTAINT_CONTROLLERS_TAINT_NAME": (*PILOT, "taint", "name"),
}
ARGUMENTS: dict[str, Path] = {
    "log_output_level": (*GLOBAL, "logging", "level"),
    "log_as_json": (*GLOBAL, "logAsJson"),
    "domain": (*GLOBAL, "proxy", "clusterDomain"),
    "cniNamespace": (*PILOT, "taint", "namespace"),
    "keepaliveMaxServerConnectionAge": (*PILOT, "keepaliveMaxServerConnectionAge"),
}
# Written by the chart without a value behind them, or by kubectl.
OWN_ANNOTATIONS = ("prometheus.io/", "sidecar.istio.io/inject", "kubectl.kubernetes.io/restartedAt")
OWN_LABELS: tuple[str, ...] = (
    "istio",
    "app",
    "release",
    "install.operator.istio.io/",
    "operator.istio.io/",
    "app.kubernetes.io/",
)
OWN_LABELS += ("helm.sh/", "sidecar.istio.io/inject")
# Values that name the revision, where it comes from, or that istioctl itself writes.
NO_SETTINGS: tuple[Path, ...] = (
    (*VALUES, "revision"),
    (*VALUES, "revisionTags"),
    (*VALUES, "defaultRevision"),
    (*VALUES, "meshConfig"),
    (*VALUES, "ownerName"),
    (*VALUES, "compatibilityVersion"),
    (*VALUES, "profile"),
    (*VALUES, "ztunnel"),
    (*VALUES, "gateways", "istio-ingressgateway"),
    (*VALUES, "gateways", "istio-egressgateway"),
    (*GLOBAL, "hub"),
    (*GLOBAL, "tag"),
    (*PILOT, "hub"),
    (*PILOT, "tag"),
    (*PILOT, "enabled"),
)
# istioctl sets these from the cluster it installs into, whatever the file says (clusterSpecificSettings).
CLUSTER_SET: dict[Path, str] = {(*GLOBAL, "platform"): "gke"}
# Top-level keys of the istiod chart's merged values that are no values of pilot.
CHART_WIDE: tuple[str, ...] = (
    "global",
    "gateways",
    "sidecarInjectorWebhook",
    "telemetry",
    "base",
    "istiodRemote",
    "experimental",
)
CHART_WIDE += ("meshConfig", "revision", "revisionTags", "defaultRevision", "ownerName", "compatibilityVersion")
CHART_WIDE += ("profile", "platform", "ztunnel", "enabled", "configMap", "gatewayClasses")
# Other fields of istiod's pod that only an overlay sets: field -> what the API server fills in.
OVERLAID: dict[str, Any] = {"hostNetwork": False, "dnsPolicy": "ClusterFirst", "dnsConfig": None, "hostAliases": None}
# What the API server fills in where an autoscaler has any behavior.
_POLICY_PERCENT = {"type": "Percent", "value": 100, "periodSeconds": 15}
FILLED_BEHAVIOR: dict[str, Any] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _POLICY_PERCENT],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_POLICY_PERCENT]},
}
_UNITS = {"n": -3, "u": -2, "m": -1, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


@dataclass
class Side:
    """One control plane: ``settings`` by path, ``objects`` that each was read from.

    ``given`` holds what Helm was given (profile, file and flags; None where no ConfigMap says it), ``merged`` what the
    chart made of it.
    """

    revision: str
    settings: dict[Path, Any] = field(default_factory=dict)
    objects: dict[Path, str] = field(default_factory=dict)
    given: dict[Path, Any] | None = None
    merged: dict[Path, Any] = field(default_factory=dict)

    def value(self, path: Path) -> Any:
        """Return a setting, or what the chart's values say where no object could show it; None when it is nowhere."""
        if path in self.settings:
            return self.settings[path]
        shows = any(path[: len(top)] == top for top in (MESH, ENV, K8S))
        return None if shows else self.merged.get(path)


def suffix_of(revision: str) -> str:
    """Return what the names of a revision's objects end with."""
    return "" if revision in ("", "default") else f"-{revision}"


def manifest_objects(text: str, revision: str) -> list[dict[str, Any]]:
    """Return the objects of one revision that hold settings, from `istioctl manifest generate` output.

    Raises:
        MeshError: it is not YAML, or it holds no istiod of that revision.
    """
    try:
        # only those that may be meant are parsed: CRDs are most of a manifest
        documents = [
            yaml.load(part, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            for part in re.split(r"^---", text, flags=re.MULTILINE)
            if _MAY_HOLD.search(part)
        ]
    except yaml.YAMLError as error:
        raise MeshError("istioctl manifest generate", f"its output is not YAML: {error}", "run it by hand") from None
    suffix = suffix_of(revision)
    names = {f"{base}{suffix}" for base in (MESH_MAP, INJECTOR_MAP, VALUES_MAP, "istiod")}
    found = [
        item
        for item in documents
        if isinstance(item, dict) and item.get("kind") in KINDS and (item.get("metadata") or {}).get("name") in names
    ]
    if not any(item["kind"] == "Deployment" for item in found):
        raise MeshError(
            "istioctl manifest generate",
            f"it rendered no Deployment istiod{suffix}",
            "run it by hand with the operator file; the component pilot may be switched off",
        )
    return found


def read_side(objects: Iterable[dict[str, Any]], revision: str) -> Side:
    """Return the settings of one control plane.

    Args:
        objects: its ConfigMaps, Deployment, HorizontalPodAutoscalers and PodDisruptionBudgets, live or rendered.
        revision: its revision; "" or "default" for an install without one.

    Raises:
        MeshError: a ConfigMap does not hold the YAML or JSON that istiod needs.
    """
    side = Side(revision or "default")
    suffix = suffix_of(revision)
    by_name = {(o["kind"], o["metadata"]["name"]): o for o in objects}
    _read_values(side, by_name.get(("ConfigMap", VALUES_MAP + suffix)))
    _read_injector(side, by_name.get(("ConfigMap", INJECTOR_MAP + suffix)))
    _read_mesh(side, by_name.get(("ConfigMap", MESH_MAP + suffix)))
    scaler = by_name.get(("HorizontalPodAutoscaler", f"istiod{suffix}"))
    _read_deployment(side, by_name.get(("Deployment", f"istiod{suffix}")), scaler is not None)
    _read_autoscaler(side, scaler)
    _read_budget(side, by_name.get(("PodDisruptionBudget", f"istiod{suffix}")))
    _add_hidden(side, VALUES_MAP + suffix)
    return side


def autoscaler_faults(objects: Iterable[dict[str, Any]], revision: str) -> list[str]:
    """Return the autoscalers of a revision that scale another Deployment than its own (case F08)."""
    name = f"istiod{suffix_of(revision)}"
    found = []
    for item in objects:
        target = (item.get("spec") or {}).get("scaleTargetRef") or {}
        if item["kind"] != "HorizontalPodAutoscaler" or item["metadata"]["name"] != name:
            continue
        if target.get("name") != name:
            found.append(
                str(
                    MeshError(
                        f"HorizontalPodAutoscaler {item['metadata'].get('namespace', '')}/{name}",
                        f"it scales {target.get('kind')} {target.get('name')}, not Deployment {name} of its revision",
                        f"kubectl get hpa {name} -o yaml; correct scaleTargetRef, or delete it and run again",
                    )
                )
            )
    return found


def flatten(value: Any, prefix: Path) -> dict[Path, Any]:
    """Return the leaves of a tree by path. Lists whose items all have a name are taken apart, others are leaves.

    Empty text, lists and mappings and null are left out: to Istio and Helm they are the same as nothing.
    """
    if isinstance(value, dict):
        found: dict[Path, Any] = {}
        for key, item in value.items():
            found |= flatten(item, (*prefix, str(key)))
        return found
    if _named(value):
        found = {}
        for item in value:
            rest = {key: part for key, part in item.items() if key != "name"}
            found |= flatten(rest, (*prefix, f"[{item['name']}]")) or {(*prefix, f"[{item['name']}]"): True}
        return found
    return {} if value is None or value in ("", []) else {prefix: value}


def _named(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    names = [item.get("name") if isinstance(item, dict) else None for item in value]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def canonical(value: Any, path: Path) -> str:
    """Return a value so that two spellings of the same are equal: true and "true", 1 and "1", 1000m and 1."""
    if "resources" in path:
        amount = quantity(value)
        if amount is not None:
            return str(amount)
    return plain_text(value)


def plain_text(value: Any) -> str:
    """Return a value as text, independent of YAML types and of the order of keys."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, dict):
        return json.dumps({str(k): plain_text(v) for k, v in value.items()}, sort_keys=True)
    if isinstance(value, list):
        return json.dumps([plain_text(v) for v in value])
    return "" if value is None else str(value)


def quantity(value: Any) -> Fraction | None:
    """Return a Kubernetes quantity as a number, or None where it is none (1000m is 1, 2048Mi is 2Gi)."""
    text = str(value).strip()
    power = Fraction(1)
    if text[-2:-1] in _UNITS and text[-1:] == "i":
        power, text = Fraction(1024) ** _UNITS[text[-2]], text[:-2]
    elif text[-1:] in _UNITS:
        power, text = Fraction(1000) ** _UNITS[text[-1]], text[:-1]
    try:
        return Fraction(text) * power
    except (ValueError, ZeroDivisionError):
        return None


def shown_path(path: Path) -> str:
    """Return a path as it is written: spec.meshConfig.extensionProviders[otel].opentelemetry.port."""
    text = ""
    for part in path:
        if part.startswith("["):
            text += part
        elif "." in part or "/" in part:
            text += f'["{part}"]'
        else:
            text += f".{part}" if text else part
    return text


def alias(path: Path) -> Path:
    """Return the path under which a value is kept, where the operator file knows two places for the same setting."""
    if path[:3] == (*VALUES, "meshConfig"):
        return (*MESH, *path[3:])
    if path[: len(K8S)] == K8S:
        rest = path[len(K8S) :]
        return (*PILOT, _IN_VALUES[rest]) if rest in _IN_VALUES else path
    if path[: len(PILOT)] != PILOT or len(path) == len(PILOT):
        return path
    key, rest = path[len(PILOT)], path[len(PILOT) + 1 :]
    if key in ("resources", "nodeSelector", "podAnnotations", "affinity", "tolerations"):
        return (*K8S, key, *rest)
    return (*BUDGET, *rest) if key == "pdb" else path


def _parsed(item: dict[str, Any], key: str) -> dict[str, Any]:
    text = (item.get("data") or {}).get(key) or ""
    what = f"ConfigMap {item['metadata'].get('namespace', '')}/{item['metadata']['name']}, key {key}"
    todo = "look at it with kubectl get configmap -o yaml and correct it"
    try:
        found = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}
    except yaml.YAMLError as error:
        raise MeshError(what, f"it is not valid YAML: {one_line(str(error))}", todo) from None
    if not isinstance(found, dict):
        raise MeshError(what, "it is not a mapping", todo)
    return found


def _keep(side: Side, item: dict[str, Any], found: dict[Path, Any]) -> None:
    where = f"{item['kind']} {item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
    for path, value in found.items():
        if not any(path[: len(no)] == no for no in NO_SETTINGS):
            side.settings[path] = _without_revision(value, side.revision)
            side.objects[path] = where


def _without_revision(value: Any, revision: str) -> Any:
    """Return a value in which the Service of this revision's istiod is called like that of an unrevisioned one."""
    if isinstance(value, str):
        return value.replace(f"istiod{suffix_of(revision)}.", "istiod.")
    if isinstance(value, list):
        return [_without_revision(item, revision) for item in value]
    if isinstance(value, dict):
        return {key: _without_revision(item, revision) for key, item in value.items()}
    return value


def _read_mesh(side: Side, item: dict[str, Any] | None) -> None:
    if item is None:
        return
    _keep(side, item, flatten(_parsed(item, "mesh"), MESH))
    networks = flatten(_parsed(item, "meshNetworks").get("networks"), (*GLOBAL, "meshNetworks"))
    _keep(side, item, networks)


def _read_injector(side: Side, item: dict[str, Any] | None) -> None:
    if item is None:
        return
    found = flatten(_parsed(item, "values"), VALUES)
    # the environment is read from istiod itself
    _keep(side, item, {path: value for path, value in found.items() if path[: len(ENV)] != ENV})


def _read_values(side: Side, item: dict[str, Any] | None) -> None:
    """Read what Helm was given and what the chart made of it."""
    data = (item or {}).get("data") or {}
    if item is None or "original-values" not in data:
        return
    given: dict[Path, Any] = {}
    for key, value in _parsed(item, "original-values").items():
        given |= flatten(value, _place(key, cni_is_its_own=True))
    extra = given.pop((*PILOT, "extraContainerArgs"), [])
    side.given = {alias(path): value for path, value in given.items()} | arguments([str(word) for word in extra])
    for key, value in _parsed(item, "merged-values").items():
        # a value of pilot stands at the root, as the chart took it, and under pilot, as it was given: the root counts
        for path, leaf in flatten(value, _place(key)).items():
            if key != "pilot" or alias(path) not in side.merged:
                side.merged[alias(path)] = leaf


def _place(key: str, cni_is_its_own: bool = False) -> Path:
    """Return where the operator file has a top-level value of the istiod chart: most are values of pilot there.

    Helm is given them at the root, istioctl under pilot. What istioctl gives as cni is for the chart of that name.
    """
    own = key in CHART_WIDE or key == "pilot" or (key == "cni" and cni_is_its_own)
    return (*VALUES, key) if own else (*PILOT, key)


def _add_hidden(side: Side, name: str) -> None:
    """Add the given values that no object shows."""
    for path, value in (side.given or {}).items():
        shown_elsewhere = path in side.settings or path[: len(MESH)] == MESH or path[: len(ENV)] == ENV
        if not shown_elsewhere and not any(path[: len(no)] == no for no in NO_SETTINGS):
            side.settings[path] = value
            side.objects[path] = f"ConfigMap {name}"


def _read_deployment(side: Side, item: dict[str, Any] | None, autoscaled: bool) -> None:
    if item is None:
        return
    spec = item["spec"]
    template = spec.get("template") or {}
    pod, labelled = template.get("spec") or {}, template.get("metadata") or {}
    container: dict[str, Any] = next((c for c in pod.get("containers") or [] if c.get("name") == "discovery"), {})
    found = flatten(container.get("resources") or {}, (*K8S, "resources"))
    if not autoscaled:
        found[(*PILOT, "replicaCount")] = spec.get("replicas", 1)
    found |= arguments(container.get("args") or [])
    found |= _scheduling(pod)
    found |= _marks(labelled)
    found |= _volumes(pod, container)
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    found |= flatten({"rollingMaxSurge": rolling.get("maxSurge")}, PILOT)
    found |= flatten({"rollingMaxUnavailable": rolling.get("maxUnavailable")}, PILOT)
    _keep(side, item, found)
    _read_environment(side, item, container.get("env") or [])


def _read_environment(side: Side, item: dict[str, Any], entries: list[dict[str, Any]]) -> None:
    given = side.given or {}
    for entry in entries:
        name, value = entry["name"], entry.get("value", "")
        made = ENV_FROM.get(name)
        if name == "REVISION":
            continue
        if entry.get("valueFrom"):
            _keep(side, item, {(*K8S, "env", f"[{name}]"): _reference(entry["valueFrom"])})
        elif made and (*ENV, name) not in given:
            default = {"CLUSTER_ID": "Kubernetes"}.get(name, "")
            if value != default:
                _keep(side, item, {made: _typed(value)})
        else:
            _keep(side, item, {(*ENV, name): value})


def _typed(value: str) -> Any:
    """Return the text of a variable as the value that the chart makes it from."""
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value.isdecimal() else value


def _reference(source: dict[str, Any]) -> dict[str, Any]:
    """Return a valueFrom without what the API server fills in."""
    filled = {"apiVersion": ("v1",), "divisor": ("0", "1"), "optional": ("False",)}
    return {
        kind: {key: part for key, part in body.items() if str(part) not in filled.get(key, ())}
        for kind, body in source.items()
    }


def arguments(args: list[str]) -> dict[Path, Any]:
    """Return istiod's flags; one that no value of the chart makes is an extra container argument."""
    found: dict[Path, Any] = {}
    rest = [str(a) for a in args if str(a) != "discovery"]
    while rest:
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not equals and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        if name in ARGUMENTS:
            found[ARGUMENTS[name]] = value if value else True
        elif name != "monitoringAddr":
            found[(*EXTRA_ARGS, f"[--{name}]")] = value or True
    return found


def _scheduling(pod: dict[str, Any]) -> dict[Path, Any]:
    found = flatten(pod.get("nodeSelector"), (*K8S, "nodeSelector"))
    for key in ("affinity", "tolerations", "priorityClassName", "securityContext"):
        if pod.get(key):
            found[(*K8S, key)] = pod[key]
    if pod.get("topologySpreadConstraints"):
        found[(*PILOT, "topologySpreadConstraints")] = pod["topologySpreadConstraints"]
    for key, filled in OVERLAID.items():
        if pod.get(key) and pod[key] != filled:
            found[(*K8S, "overlays", f"[spec.template.spec.{key}]")] = pod[key]
    return found


def _marks(metadata: dict[str, Any]) -> dict[Path, Any]:
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if not k.startswith(OWN_ANNOTATIONS)}
    own = {k: v for k, v in (metadata.get("labels") or {}).items() if not k.startswith(OWN_LABELS)}
    return flatten(annotations, (*K8S, "podAnnotations")) | flatten(own, (*PILOT, "podLabels"))


def _volumes(pod: dict[str, Any], container: dict[str, Any]) -> dict[Path, Any]:
    found: dict[Path, Any] = {}
    for volume in pod.get("volumes") or []:
        body = {key: _without_mode(part) for key, part in volume.items() if key != "name"}
        found[(*PILOT, "volumes", f"[{volume['name']}]")] = body
    for mount in container.get("volumeMounts") or []:
        body = {key: part for key, part in mount.items() if key not in ("name", "recursiveReadOnly")}
        found[(*PILOT, "volumeMounts", f"[{mount['name']}]")] = body
    return found


def _without_mode(part: Any) -> Any:
    """Return a volume source without the file mode 0644 that the API server fills in."""
    if not isinstance(part, dict):
        return part
    return {key: value for key, value in part.items() if (key, value) != ("defaultMode", 420)}


def _read_autoscaler(side: Side, item: dict[str, Any] | None) -> None:
    if item is None:
        side.settings[(*PILOT, "autoscaleEnabled")] = False
        return
    spec = item["spec"]
    found: dict[Path, Any] = {
        (*PILOT, "autoscaleEnabled"): True,
        (*PILOT, "autoscaleMin"): spec.get("minReplicas", 1),
        (*PILOT, "autoscaleMax"): spec.get("maxReplicas"),
    }
    others = []
    for metric in spec.get("metrics") or []:
        resource = metric.get("resource") or {}
        percent = (resource.get("target") or {}).get("averageUtilization")
        if resource.get("name") in ("cpu", "memory") and percent is not None:
            found[(*PILOT, resource["name"], "targetAverageUtilization")] = percent
        else:
            others.append(metric)
    if others:
        found[(*K8S, "hpaSpec", "metrics")] = others
    behavior = flatten(spec.get("behavior"), (*PILOT, "autoscaleBehavior"))
    filled = flatten(FILLED_BEHAVIOR, (*PILOT, "autoscaleBehavior"))
    found |= {path: value for path, value in behavior.items() if value != filled.get(path)}
    _keep(side, item, found)


def _read_budget(side: Side, item: dict[str, Any] | None) -> None:
    if item is None:
        return
    spec = item["spec"]
    keys = ("minAvailable", "maxUnavailable", "unhealthyPodEvictionPolicy")
    _keep(side, item, {(*BUDGET, key): spec[key] for key in keys if spec.get(key) is not None})
