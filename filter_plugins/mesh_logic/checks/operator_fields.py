"""Fields of the operator file that no Istio knows: misspelt ones, which do nothing at all.

istioctl refuses them in the spec itself, in words without a place (operator/pkg/apis/validation/validation.go, 1.31),
and takes them silently in meshConfig: the ConfigMap holds them, and istiod reads past them (pkg/util/protomarshal,
1.31).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

from mesh_logic.checks.context import Context, Found, say, setting


def _words(names: str) -> list[str]:
    return names.split()


# operator/pkg/apis/types.go, 1.31.
SPEC = _words(
    "profile installPackagePath hub tag namespace revision compatibilityVersion meshConfig components values "
    "unvalidatedValues"
)
COMPONENTS = _words("base pilot cni ztunnel istiodRemote ingressGateways egressGateways")
COMPONENT = _words("enabled namespace hub tag k8s")
GATEWAY = [*COMPONENT, "name", "label"]
KUBERNETES = _words(
    "affinity env hpaSpec imagePullPolicy nodeSelector podDisruptionBudget podAnnotations priorityClassName "
    "readinessProbe replicaCount resources service strategy tolerations serviceAnnotations securityContext volumes "
    "volumeMounts overlays"
)
# istio.io/api mesh/v1alpha1/config.proto, MeshConfig, 1.31, as JSON writes them.
MESH = _words(
    "accessLogEncoding accessLogFile accessLogFormat ca caCertificates certificates configSources connectTimeout "
    "defaultConfig defaultDestinationRuleExportTo defaultHttpRetryPolicy defaultProviders defaultServiceExportTo "
    "defaultTrafficPolicy defaultVirtualServiceExportTo disableEnvoyListenerLog discoverySelectors dnsRefreshRate "
    "enableAutoMtls enableEnvoyAccessLogService enablePrometheusMerge enableTracing extensionProviders h2UpgradePolicy "
    "hboneIdleTimeout inboundClusterStatName inboundTrafficPolicy ingressClass ingressControllerMode ingressSelector "
    "ingressService localityLbSetting meshMTLS outboundClusterStatName outboundTrafficPolicy pathNormalization "
    "protocolDetectionTimeout proxyHttpPort proxyInboundListenPort proxyListenPort rootNamespace "
    "serviceEntryVisibility serviceScopeConfigs serviceSettings tcpKeepalive tlsDefaults trustDomain "
    "trustDomainAliases verifyCertificateAtClient zoneAwareLbSetting"
)
# istio.io/api mesh/v1alpha1/proxy.proto, ProxyConfig, 1.31.
PROXY = _words(
    "availabilityZone binaryPath caCertificatesPem concurrency configPath connectionSettings controlPlaneAuthPolicy "
    "customConfigFile discoveryAddress discoveryRefreshDelay drainDuration envoyAccessLogService envoyMetricsService "
    "envoyMetricsServiceAddress extraStatTags fileFlushInterval fileFlushMinSizeKb gatewayTopology "
    "holdApplicationUntilProxyStarts image interceptionMode meshId privateKeyProvider proxyAdminPort "
    "proxyBootstrapTemplatePath proxyHeaders proxyMetadata proxyStatsMatcher readinessProbe runtimeValues sds "
    "serviceCluster statNameLength statsCompression statsdUdpAddress statusPort terminationDrainDuration tracing "
    "tracingServiceName zipkinAddress"
)


def unknown_fields(spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (dotted path, nearest known name or "") of each field of an operator file's spec that Istio does not know.

    Looked at are the spec, its components with their k8s, meshConfig and its defaultConfig; `values` are the charts'.
    """
    yield from _among(spec, SPEC, "spec")
    components = _mapping(spec, "components")
    yield from _among(components, COMPONENTS, "spec.components")
    for name, found in components.items():
        path = f"spec.components.{name}"
        rows = enumerate(found) if isinstance(found, list) else [(None, found)]
        for number, component in rows:
            here = path if number is None else f"{path}[{number}]"
            if isinstance(component, dict):
                yield from _among(component, COMPONENT if number is None else GATEWAY, here)
                yield from _among(_mapping(component, "k8s"), KUBERNETES, f"{here}.k8s")
    for path in ("meshConfig", "values.meshConfig"):
        yield from _among(_mapping(spec, path), MESH, f"spec.{path}")
        yield from _among(_mapping(spec, f"{path}.defaultConfig"), PROXY, f"spec.{path}.defaultConfig")


def _mapping(spec: dict[str, Any], path: str) -> dict[str, Any]:
    found = setting(spec, path)
    return found if isinstance(found, dict) else {}


def _among(found: dict[str, Any], known: list[str], path: str) -> Iterator[tuple[str, str]]:
    for name in map(str, found):
        # protobuf's JSON takes the names of the .proto file too (mesh_mTLS, access_log_file)
        if name not in known and re.sub(r"_(\w)", lambda part: part[1].upper(), name) not in known:
            by_case = {item.lower(): item for item in known}
            near = difflib.get_close_matches(name.lower(), by_case, 1)
            yield f"{path}.{name}", by_case[near[0]] if near else ""


def unknown(ctx: Context) -> Found:
    """Find fields that no Istio knows, with the name that was probably meant."""
    for path, near in unknown_fields(ctx.operator):
        meant = f"; the nearest known name is {near}" if near else ""
        yield say(
            "OPERATOR_FIELD_UNKNOWN",
            f"Operator file {ctx.desired['operator_file']}",
            f"{path} is no field of Istio's{meant}",
            path=path,
            change=f"write {near} there" if near else "take it out",
        )
