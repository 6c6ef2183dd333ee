"""The checks about namespaces and workloads: `mesh_logic.findings` asks them, here they are described.

A test keeps ids and severities the same in both.
"""

from __future__ import annotations

from mesh_logic.checks.catalogue import Check, Severity


def _check(code: str, severity: Severity, title: str, why: str, remedy: str) -> Check:
    return Check(code, severity, title, "namespaces, templates and pods", why, remedy, asked="workloads")


_LABELS = "kubectl label namespace <name> istio-injection-"
_NOTHING = "nothing"
WORKLOADS = (
    _check("NAMESPACE_BOTH_LABELS", "warn", "Both labels on a namespace", "istio-injection wins.", _LABELS),
    _check("NAMESPACE_DISABLED", "warn", "Injection is off and a revision named", "Nothing is injected.", _LABELS),
    _check(
        "NAMESPACE_BAD_VALUE", "warn", "istio-injection has a value that means nothing", "Nothing is injected.", _LABELS
    ),
    _check(
        "NAMESPACE_UNKNOWN_REVISION",
        "warn",
        "A namespace names no tag and no revision",
        "New pods get no proxy.",
        "kubectl label namespace <name> istio.io/rev=<tag> --overwrite",
    ),
    _check(
        "NAMESPACE_WITHOUT_LABEL",
        "info",
        "Workloads are injected by their own labels",
        "Charts of gateways do so.",
        _NOTHING,
    ),
    _check(
        "TEMPLATE_LABEL_LOSES",
        "info",
        "A template names a revision, and its namespace wins",
        "The label of the template does nothing.",
        "change the label of the namespace instead",
    ),
    _check(
        "TEMPLATE_PINS_REVISION",
        "warn",
        "A template pins a revision",
        "No tag moves it.",
        "give the template istio.io/rev=<tag>",
    ),
    _check(
        "TEMPLATE_ANNOTATION",
        "info",
        "A revision as an annotation",
        "It does nothing.",
        "turn it into a label, or take it away",
    ),
    _check(
        "PINNED_IMAGE",
        "warn",
        "A proxy image is pinned",
        "A restart does not change it.",
        "take the annotation sidecar.istio.io/proxyImage away",
    ),
    _check("HOST_NETWORK", "info", "Pods on the host's network", "They are never injected.", _NOTHING),
    _check(
        "LEFT_TO_A_PERSON",
        "warn",
        "A workload that is not restarted by itself",
        "Its owner would undo it, or a restart does nothing (paused, OnDelete).",
        "move it by hand when its turn comes, or name it in mesh_consents",
    ),
    _check("PARTITION", "warn", "A partition keeps pods as they are", "They stay old.", "set the partition to 0"),
    _check("NO_REPLICAS", "info", "A workload without pods", "It is injected when it is scaled up.", _NOTHING),
    _check("ENDED_PODS", "info", "Pods that have ended", "They hold nothing.", _NOTHING),
    _check(
        "RESTART_TAKES_ALL",
        "warn",
        "A restart takes all pods at once",
        "Requests are lost.",
        "let it roll (RollingUpdate), or move it when nobody asks",
    ),
    _check(
        "SINGLE_REPLICA",
        "warn",
        "One replica",
        "The new pod must be ready before the old one goes.",
        "give it a second one for the upgrade",
    ),
    _check(
        "NO_PRE_STOP",
        "warn",
        "No preStop hook",
        "Requests on their way may meet a pod that ends.",
        "give its container a preStop of a few seconds",
    ),
    _check(
        "NOT_INJECTED",
        "warn",
        "A pod with the placeholder image auto",
        "Nothing injected it.",
        "check its labels, then delete it",
    ),
    _check("UNKNOWN_VERSION", "warn", "An image that says no version", "Its revision decides.", _NOTHING),
    _check(
        "IMAGE_DISAGREES",
        "warn",
        "A proxy of another version than its revision",
        "Something else chose the image.",
        "restart it before the upgrade",
    ),
    _check("BARE_POD", "warn", "A pod of nobody", "No restart moves it.", "replace it by hand when its turn comes"),
    _check(
        "TRUTH_DISAGREES",
        "warn",
        "A proxy is connected to another istiod than the one that injected it, or to none",
        "What is seen of it is not what runs.",
        "kubectl logs -n <namespace> <pod> -c istio-proxy",
    ),
    _check(
        "DEFAULT_TAG_MOVES",
        "info",
        "What moving the default tag changes",
        "Every namespace that follows it gets the new injector at its next restart.",
        _NOTHING,
    ),
    _check(
        "OUTDATED_SETTINGS",
        "info",
        "Proxies with older settings than a new one would get",
        "They apply at injection only.",
        "ansible-playbook playbooks/refresh.yml",
    ),
    _check(
        "NAMESPACE_WITHOUT_DEFAULT",
        "warn",
        "A namespace asks for the default tag, and there is none",
        "New pods get no proxy.",
        "istioctl tag set default --revision <revision>",
    ),
    _check(
        "TEMPLATE_UNKNOWN_REVISION",
        "warn",
        "A template names no tag and no revision",
        "New pods get no proxy.",
        "give the template istio.io/rev=<tag>",
    ),
    _check(
        "TEMPLATE_BAD_VALUE",
        "warn",
        "sidecar.istio.io/inject has a value that means nothing",
        "It does nothing.",
        "write true or false, or take it away",
    ),
    _check("PIN_IGNORED", "info", "A gateway names its proxy image", "Gateways ignore it.", _NOTHING),
    _check(
        "OLD_BY_PIN",
        "warn",
        "A proxy is older than its revision, because it is pinned",
        "A restart does not change it.",
        "take the annotation sidecar.istio.io/proxyImage away, then restart it",
    ),
    _check(
        "TRUTH_DISAGREES_MUCH",
        "warn",
        "Many proxies are connected to another istiod than the one that injected them",
        "What is seen of them is not what runs.",
        "istioctl proxy-status",
    ),
)
