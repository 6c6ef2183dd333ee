"""What each check is: its id, its weight, what it looks at, why, and what to do. docs/checks.md is made of this.

An id is a promise to users: waivers name it. A check is never renamed, and a new meaning gets a new id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["block", "warn", "info"]
# Where a check is asked: by this package before anything changes; by this package after the install and before the
# canary; at the start of every step (`inputs`, `gates`); about namespaces and workloads (`findings`).
Asked = Literal["precheck", "after_install", "start", "workloads"]
PAGE = "docs/checks.md"


@dataclass(frozen=True)
class Check:
    """One check. `remedy` is a command template; {names} are filled in by the finding."""

    id: str
    severity: Severity
    title: str
    looks_at: str
    why: str
    remedy: str
    asked: Asked = "precheck"

    @property
    def anchor(self) -> str:
        """Return where the page describes it; the page's headings are the ids."""
        return f"{PAGE}#{self.id.lower()}"


def by_id(checks: Iterable[Check]) -> dict[str, Check]:
    """Return checks by id; two with one id are a mistake of the code."""
    found: dict[str, Check] = {}
    for check in checks:
        if check.id in found:
            raise ValueError(f"two checks are called {check.id}")
        found[check.id] = check
    return found


_EVERY_FILE = "the operator file of the environment"

RIGHTS = (
    Check(
        "RIGHT_MISSING",
        "block",
        "The account lacks a right that a step will use",
        "reviews of the account's own access, for every row of rights.md",
        "The run would stop half way, where a step needs it.",
        "grant it (docs/rights.md), then ask: kubectl auth can-i {verb} {right}{namespace_flag}",
    ),
    Check(
        "RIGHTS_NOT_ASKED",
        "warn",
        "The cluster does not let the account ask what it may do",
        "the answer to reviews of its own access",
        "A right that is missing then shows only at the step that uses it.",
        "kubectl auth can-i --list, with an account that may create selfsubjectaccessreviews (system:basic-user)",
    ),
)

CONTROL_PLANE = (
    Check(
        "ISTIO_NOT_SUPPORTED",
        "block",
        "A version of Istio outside of the supported range",
        "mesh_from_version and mesh_to_version, and the table of versions.md",
        "Objects and outputs differ between versions. A step could take what it does not know for something else.",
        "set mesh_{side}_version to one of Istio {range}; or read what that version changed, try it on a lab, and "
        "waive this with the reason",
    ),
    Check(
        "ISTIO_NOT_TRIED",
        "warn",
        "A minor of Istio that is newer than the supported range",
        "mesh_from_version and mesh_to_version, and the table of versions.md",
        "It came after this version of the project; most minors change nothing that matters here, and some do.",
        "try it on a lab first, with a newer version of this project where there is one",
    ),
    Check(
        "KUBERNETES_TOO_OLD",
        "block",
        "Kubernetes is older than the new Istio supports",
        "the server's version, and the minimum in the sources of the new istioctl",
        "istioctl warns and installs; what breaks shows later.",
        "upgrade Kubernetes to 1.{minimum} first, or choose an older mesh_to_version",
    ),
    Check(
        "ISTIOD_SINGLE_REPLICA",
        "warn",
        "The old istiod has one replica",
        "replicas of the istiod Deployment of mesh_from_revision",
        "While it restarts, nothing is injected and pods of the mesh cannot start. The new one comes up beside it, so "
        "the upgrade itself can do with one.",
        "set values.pilot.autoscaleMin: 2 in the operator file and install it again, or: kubectl scale deployment -n "
        "{namespace} {name} --replicas=2",
    ),
    Check(
        "ISTIOD_NO_BUDGET",
        "warn",
        "Nothing keeps a drain from taking every istiod at once",
        "PodDisruptionBudgets of the Istio namespace that select the old istiod",
        "With several replicas a budget costs nothing, and a node drain during the upgrade takes them one by one.",
        "kubectl create poddisruptionbudget {name} -n {namespace} --selector=app=istiod,istio.io/rev={revision} "
        "--min-available=1",
    ),
    Check(
        "ISTIOD_BUDGET_BLOCKS",
        "warn",
        "The budget of the old istiod allows no disruption",
        "disruptionsAllowed of the PodDisruptionBudgets that select it",
        "A node drain waits for ever. Rollouts and the upgrade do not ask budgets.",
        "kubectl scale deployment -n {namespace} {name} --replicas=2",
    ),
    Check(
        "AUTOSCALER_OTHER_TARGET",
        "warn",
        "An autoscaler of a revision scales something else",
        "scaleTargetRef of the HorizontalPodAutoscalers in the Istio namespace that carry a revision",
        "The istiod of that revision never grows with the mesh.",
        "kubectl get hpa -n {namespace} {name} -o yaml; install that revision again with its operator file",
    ),
    Check(
        "QUOTA_TIGHT",
        "warn",
        "A quota leaves no room for a second istiod",
        "ResourceQuotas of the Istio namespace, and what the old istiod asks for",
        "The pods of the new revision would not be made, and the install would wait until its time is up.",
        "kubectl describe resourcequota -n {namespace} {name}, and raise {what}",
    ),
    Check(
        "NO_NODE_FITS",
        "warn",
        "No node is large enough for another istiod",
        "allocatable cpu and memory of nodes that take pods, and what one pod of the old istiod asks for",
        "The new istiod would stay Pending, unless an autoscaler of nodes makes a larger one.",
        "kubectl describe nodes, and add a node; or lower the requests of pilot in the operator file",
    ),
    Check(
        "SHARED_DAEMON_SET",
        "warn",
        "A DaemonSet for the whole cluster carries the old revision",
        "label istio.io/rev of the DaemonSets of istio-cni and ztunnel",
        "There is one for all revisions. An uninstall of the old revision takes what carries its label; the guard "
        "of the uninstall stops there.",
        "install it from a file of its own, without a revision: istioctl install -f istio-cni.yaml",
    ),
)

TAGS = (
    Check(
        "TAG_AMBIGUOUS",
        "block",
        "A tag points to two revisions",
        "the webhook and the Service of each tag",
        "Injection follows the webhook, discovery the Service: pods of one revision talk to the other.",
        "istioctl tag set {tag} --revision {revision} --overwrite (newest istioctl)",
        asked="start",
    ),
    Check(
        "TAG_DANGLING",
        "block",
        "A tag points to a revision that is gone",
        "the revision of each tag, and the istiod Deployments",
        "No pod can start in a namespace that uses it.",
        "istioctl tag set {tag} --revision {revision} --overwrite, or: istioctl tag remove {tag}",
    ),
    Check(
        "INJECTORS_OVERLAP",
        "block",
        "Two injectors answer for the same pods",
        "what each mutating webhook of Istio claims: a tag, a revision, istio-injection=enabled",
        "Which one injects is chance, and istioctl refuses to install or to move tags (IST0139).",
        "kubectl get mutatingwebhookconfigurations -l istio.io/rev -L istio.io/rev,istio.io/tag, then remove what is "
        "wrong: {names}",
    ),
    Check(
        "CA_BUNDLE_EMPTY",
        "block",
        "An injector has no CA bundle",
        "caBundle of every entry of Istio's mutating webhooks",
        "The API server cannot trust the answer, so pods of its namespaces cannot start. istiod fills it in within "
        "seconds; a tool that keeps the webhook as it stands in git empties it again.",
        "wait for a moment and run again; then: kubectl get mutatingwebhookconfiguration {name} -o yaml",
    ),
    Check(
        "WEBHOOK_NO_ENDPOINTS",
        "block",
        "Webhooks call a Service that nobody answers for",
        "endpoints of the Services that Istio's webhooks call",
        "Pods of the namespaces concerned cannot start, and Istio's objects cannot be changed.",
        "kubectl get pods -n {namespace} -l app=istiod; bring that istiod back",
    ),
    Check(
        "WEBHOOK_LEFT_OVER",
        "block",
        "A webhook of a revision that is gone",
        "webhooks without a tag whose revision has no istiod, and whose Service has no endpoints",
        "It calls nobody: pods that it matches cannot start, Istio's objects that it validates cannot be changed, and "
        "it disturbs the next install.",
        "kubectl delete {kind} {name}",
    ),
    Check(
        "REVISION_LEFT_OVER",
        "warn",
        "Objects of a revision that is gone",
        "Services, autoscalers, budgets and ConfigMaps that carry a revision without an istiod",
        "Nothing uses them; a later revision of that name would find them.",
        "kubectl get service,hpa,pdb,configmap -n {namespace} -l istio.io/rev={revision}; kubectl get clusterrole -l "
        "istio.io/rev={revision}; delete what nothing needs",
    ),
    Check(
        "DEFAULT_TAG_MISSING",
        "info",
        "There is no default tag",
        "the tags, and whether an install without a revision injects",
        "An install would take it. The run points it at the old revision first, as a recorded change.",
        "nothing, or set it yourself: istioctl tag set default --revision {revision}",
    ),
    Check(
        "DEFAULT_VALIDATOR_MISSING",
        "warn",
        "There is no default validator",
        "the validating webhook istiod-default-validator",
        "Istio's objects without a revision label are taken as they come, wrong ones too.",
        "istioctl tag set default --revision {revision} --overwrite",
    ),
    Check(
        "DEFAULT_VALIDATOR_DISAGREES",
        "warn",
        "The default tag and the default validator follow different revisions",
        "the revision of the tag default, and the Service that istiod-default-validator calls",
        "Objects are checked by another version than the one that reads them, and leader locks follow the other one.",
        "istioctl tag set default --revision {revision} --overwrite",
    ),
    Check(
        "VALIDATOR_ASLEEP",
        "warn",
        "A validator takes everything",
        "caBundle and failurePolicy of Istio's validating webhooks",
        "With the policy Ignore, or without a CA bundle, a wrong object is taken. istiod sets both within seconds; "
        "what stays so is kept by something else.",
        "kubectl get validatingwebhookconfiguration {name} -o yaml; kubectl logs -n {namespace} -l app=istiod",
    ),
    Check(
        "GATEWAYS_FOLLOW_TAG",
        "info",
        "Gateways of the Gateway API restart when a tag moves",
        "Gateways of Istio's classes by the revision that they or their namespaces name",
        "istiod itself replaces their pods at that moment, outside of any wave, with errors for some seconds.",
        "nothing, or give a Gateway a tag of its own: kubectl label gateway -n <namespace> <name> istio.io/rev=<tag>",
    ),
    Check(
        "GATEWAY_WITHOUT_DEFAULT",
        "warn",
        "A Gateway that nothing programs",
        "Gateways of Istio's classes without a revision, where there is no default tag",
        "Without a revision it follows the default tag; without that tag no revision takes it.",
        "istioctl tag set default --revision {revision}",
    ),
)

OBJECTS = (
    Check(
        "OBJECT_OLD_REVISION",
        "block",
        "An object of Istio is bound to the old revision",
        "label istio.io/rev of Istio's and Gateway API objects",
        "istiod reads only objects whose label is its very own revision. Policies and routes with the old one stop "
        "applying to every proxy that moves.",
        "kubectl label {plural}{namespace_flag} {name} istio.io/rev-",
    ),
    Check(
        "OBJECT_TAG_LABEL",
        "warn",
        "An object of Istio is bound to a tag",
        "label istio.io/rev of Istio's and Gateway API objects",
        "Tags do not count for objects: no istiod reads it today.",
        "kubectl label {plural}{namespace_flag} {name} istio.io/rev-",
    ),
    Check(
        "OBJECT_UNKNOWN_REVISION",
        "warn",
        "An object of Istio is bound to a revision that is not there",
        "label istio.io/rev of Istio's and Gateway API objects",
        "No istiod reads it.",
        "kubectl label {plural}{namespace_flag} {name} istio.io/rev-",
    ),
    Check(
        "ENVOY_FILTERS",
        "warn",
        "EnvoyFilters are there",
        "EnvoyFilter objects",
        "They patch Envoy's own configuration, whose shape changes between versions without a word.",
        "try each with the new version in the canary: istioctl proxy-config listeners <pod>",
    ),
    Check(
        "WASM_PLUGINS",
        "warn",
        "WasmPlugins are there",
        "WasmPlugin objects",
        "A plugin is built for an ABI of the proxy, and fetched anew by new proxies.",
        "try each with the new version in the canary, and see that its image can be pulled",
    ),
    Check(
        "OPERATOR_OBJECT",
        "warn",
        "An IstioOperator object lies in the cluster",
        "objects of kind IstioOperator, where the cluster knows the kind",
        "Nothing reads it since the in-cluster operator is gone: its settings are not those of the mesh.",
        "compare it with the operator file, then: kubectl delete istiooperator{namespace_flag} {name}",
    ),
)

OWNERS = (
    Check(
        "NAMESPACE_KEPT",
        "warn",
        "A tool keeps a namespace as it stands in git",
        "labels and annotations of Argo CD and Flux on the namespaces whose labels the run changes",
        "It puts the old label back, and the next restart injects the old revision.",
        "change the label in git as well, or pause the sync of {by} for the canary",
    ),
    Check(
        "TAG_KEPT",
        "warn",
        "A tool keeps a tag's webhook as it stands in git",
        "labels and annotations of Argo CD and Flux on the webhooks of mesh_tags and on the default validator",
        "It moves the tag back, or empties the CA bundle that istiod filled in.",
        "move the tag in git as well, or pause the sync of {by} until the upgrade has ended",
    ),
    Check(
        "BUDGET_BLOCKS_EVICTION",
        "block",
        "A budget allows no eviction of what moves by eviction",
        "budgets that allow no disruption now, and the owners of the pods they hold",
        "The eviction would be refused until the time is up.",
        "kubectl get poddisruptionbudget -n {namespace} {name}; add a replica, or raise what it allows",
    ),
)

OPERATOR_FILE = (
    Check(
        "CNI_IN_FILE",
        "block",
        "The operator file installs istio-cni with the control plane",
        f"components and profile in {_EVERY_FILE}",
        "There is one istio-cni for all revisions. The install would replace it for every pod of the cluster and give "
        "it the new revision, and an uninstall of that revision would take it away.",
        "split the file. Keep in it values.pilot.cni.enabled: true{profile}; move components.cni to a file with "
        "profile: empty and metadata.name: istio-cni, and install that by itself: istioctl install -f istio-cni.yaml",
    ),
    Check(
        "OPERATOR_FIELD_UNKNOWN",
        "block",
        "The operator file has a field that Istio does not know",
        f"names of the fields of spec, components, k8s, meshConfig and defaultConfig in {_EVERY_FILE}",
        "It does nothing: a setting that is meant to be there is not. istioctl refuses some of them, without saying "
        "where they stand, and passes over those of meshConfig.",
        "{change}: {path}",
    ),
    Check(
        "TRACING_WITHOUT_PROVIDER",
        "warn",
        "Tracing is on and nothing takes the traces",
        f"meshConfig.enableTracing and the providers in {_EVERY_FILE}",
        "Without a provider the switch does nothing.",
        "add meshConfig.extensionProviders and defaultProviders.tracing, or take enableTracing out",
    ),
    Check(
        "PROFILE_DEMO",
        "warn",
        "The profile demo outside of a lab",
        f"spec.profile in {_EVERY_FILE}",
        "It is made for showing: small requests, verbose logs, gateways with the control plane.",
        "write the settings that are meant, with profile: minimal",
    ),
    Check(
        "VALUES_OVER_FIELD",
        "warn",
        "values are used where the operator file has a field",
        f"spec.values in {_EVERY_FILE}",
        "values win over the field silently, and the field is the one that people look at.",
        "write {field} instead of {value}",
    ),
    Check(
        "DISCOVERY_LEAVES_OUT",
        "block",
        "The new revision would not see a namespace with proxies",
        f"meshConfig.discoverySelectors in {_EVERY_FILE}, and the labels of namespaces with proxies",
        "Its proxies would get no configuration for it, and no root certificate after it is made anew.",
        "kubectl label namespace {name} <a label that discoverySelectors select>, or widen the selectors",
    ),
)

CERTIFICATES = (
    Check(
        "CA_EXPIRED",
        "block",
        "A certificate of the mesh's CA has expired",
        "the CA bundles of Istio's webhooks",
        "The API server refuses the webhooks, and new pods cannot start.",
        "renew the CA (secret cacerts or istio-ca-secret in {namespace}), then restart istiod",
    ),
    Check(
        "CA_EXPIRES_SOON",
        "warn",
        "A certificate of the mesh's CA expires soon",
        "the CA bundles of Istio's webhooks; 30 days",
        "Two changes at once are hard to tell apart.",
        "renew the CA before or well after the upgrade (secret cacerts or istio-ca-secret in {namespace})",
    ),
    Check(
        "ROOT_MISSING",
        "block",
        "A namespace with proxies has no root certificate",
        "ConfigMap istio-ca-root-cert of every namespace with proxies, where the mesh uses it",
        "New proxies do not start without it.",
        "kubectl get configmap -n {name} istio-ca-root-cert; look at discoverySelectors and at the log of istiod",
    ),
    Check(
        "ROOTS_DIFFER",
        "warn",
        "Namespaces hold different root certificates",
        "ConfigMap istio-ca-root-cert of every namespace with proxies",
        "Proxies of one trust the others only where both hold both roots; so looks a root that is being replaced.",
        "kubectl get configmap -n {name} istio-ca-root-cert -o yaml; wait until the change of the root has ended",
    ),
    Check(
        "CA_DIFFERS",
        "block",
        "The two revisions do not have the same CA",
        "the CA bundles of the injectors of both revisions",
        "Proxies of the two would refuse each other, and mixed versions could not talk.",
        "kubectl get secret -n {namespace} cacerts istio-ca-secret; install the new revision with the same CA",
        asked="after_install",
    ),
)

WAIVERS = (
    Check(
        "WAIVER_EXPIRED",
        "warn",
        "A waiver has expired",
        "expires of each of mesh_waivers, and today's date",
        "It counts no more: what it let pass stops the run again.",
        "mend what it was for, or give it another date in mesh_waivers",
    ),
    Check(
        "WAIVER_UNUSED",
        "warn",
        "A waiver that nothing needs",
        "mesh_waivers, and everything that was found",
        "What it let pass is gone or has another name; tomorrow it may let something else pass.",
        "take it out of mesh_waivers",
    ),
)

START = (
    Check(
        "VERSION_SKEW",
        "block",
        "Too many minor versions at once",
        "mesh_from_version, mesh_to_version and mesh_allowed_minors",
        "Istio supports two minors by revision, and never a step back.",
        "take a version in between",
        asked="start",
    ),
    Check(
        "REVISION_VERSION",
        "block",
        "A revision runs another version than the inventory says",
        "the image of each istiod",
        "The report would name versions that never ran.",
        "correct mesh_from_version or mesh_to_version",
        asked="start",
    ),
    Check(
        "OTHER_CLUSTER",
        "block",
        "This is another cluster",
        "the UID of the namespace kube-system, and mesh_cluster_uid",
        "The right change in the wrong cluster.",
        "check mesh_kubeconfig and mesh_context",
        asked="start",
    ),
)
