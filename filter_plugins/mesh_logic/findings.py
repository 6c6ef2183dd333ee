"""Facts -> what is worth knowing about namespaces, labels and workloads before anything is restarted.

A finding is {id, severity, resource, text, todo}; severity is `warn` (it can hurt) or `info` (good to know). None stops
a run by itself: what must stop is asked by the gates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mesh_logic.model import MOVABLE, build_view, image_version, live_revisions, restartable, workload_ref

Finding = dict[str, str]
View = dict[str, Any]
Row = dict[str, Any]

INJECTION, REVISION, INJECT = "istio-injection", "istio.io/rev", "sidecar.istio.io/inject"
PIN = "sidecar.istio.io/proxyImage"
# Findings of one kind that are shown one by one; a mesh of thousands must not print thousands of lines.
SHOWN = 5


def finding(code: str, severity: str, resource: str, text: str, todo: str) -> Finding:
    """Return one finding."""
    return {"id": code, "severity": severity, "resource": resource, "text": text, "todo": todo}


def find_all(facts: dict[str, Any], desired: dict[str, Any], fresh: dict[str, str] | None = None) -> list[Finding]:
    """Return every finding.

    Args:
        facts: result of `mesh_read`, with `connections` where the third source of truth was asked.
        desired: what the run wants.
        fresh: workload -> hash of the settings a new proxy would get (of `mesh_proof`); none are compared without it.
    """
    view = build_view(facts, desired["consents"])
    found: list[Finding] = []
    injected: dict[str, list[str]] = {}
    for row in view["workloads"]:
        if live_revisions(row):
            injected.setdefault(row["namespace"], []).append(workload_ref(row))
    for pod in view["loose_pods"]:
        if pod["live"] and pod["revision"] and not pod["terminating"]:
            injected.setdefault(pod["namespace"], []).append(f"Pod {pod['namespace']}/{pod['name']}")
    for name, labels in sorted(view["namespaces"].items()):
        found += _namespace(view, name, labels, injected.get(name, []))
    for row in view["workloads"]:
        for check in WORKLOAD_CHECKS:
            found += check(view, row)
    found += _default_moves(view, desired)
    found += [_loose(pod) for pod in view["loose_pods"]]
    found += _disagreements(facts.get("truth") or {})
    return found + list(_outdated(view, fresh or {}))


def asked(facts: dict[str, Any], desired: dict[str, Any]) -> list[dict[str, str]]:
    """Return the workloads with live proxies that are injected now, as `mesh_proof` takes them."""
    return [
        {"kind": row["kind"], "namespace": row["namespace"], "name": row["name"], "revision": row["target"]}
        for row in build_view(facts, desired["consents"])["workloads"]
        if row["kind"] in MOVABLE and row["target"] and live_revisions(row)
    ]


def fresh_settings(proof: dict[str, Any]) -> dict[str, str]:
    """Return workload -> hash of the settings a new proxy would get, from the dry runs that were answered."""
    return {ref: g["settings"] for g in proof["groups"] if g["settings"] for ref in g["covers"]}


def lines(findings: list[Finding]) -> list[str]:
    """Return findings as lines for people: of many of one kind the first ones, and how many more."""
    shown: list[str] = []
    count: dict[str, int] = {}
    for item in sorted(findings, key=lambda f: (f["severity"] != "warn", f["id"])):
        count[item["id"]] = count.get(item["id"], 0) + 1
        if count[item["id"]] <= SHOWN:
            shown.append(f"{item['severity']} {item['id']}: {item['resource']}: {item['text']}. Next: {item['todo']}.")
    return shown + [f"{code}: and {n - SHOWN} more" for code, n in sorted(count.items()) if n > SHOWN]


def _exists(view: View, name: str) -> bool:
    """Tell whether a value of `istio.io/rev` names a tag, a revision, or the injector of an install without one."""
    return name in view["tags"] or name in view["revisions"] or (name == "default" and view["default_injects"])


def _namespace(view: View, name: str, labels: dict[str, str], injected: list[str]) -> Iterator[Finding]:
    what, injection, revision = f"Namespace {name}", labels.get(INJECTION), labels.get(REVISION)
    if injection == "enabled" and revision:  # case D01
        text = f"it has both labels: {INJECTION} wins and {REVISION}={revision} does nothing"
        yield finding("NAMESPACE_BOTH_LABELS", "warn", what, text, f"kubectl label namespace {name} {INJECTION}-")
    elif injection == "disabled" and revision:  # case D02
        text = f"{INJECTION}=disabled wins over {REVISION}={revision}: nothing is injected"
        yield finding("NAMESPACE_DISABLED", "warn", what, text, f"kubectl label namespace {name} {INJECTION}-")
    elif injection not in (None, "enabled", "disabled"):  # case D05
        text = f"{INJECTION}={injection} injects nothing and hides {REVISION} as well"
        yield finding("NAMESPACE_BAD_VALUE", "warn", what, text, f"kubectl label namespace {name} {INJECTION}-")
    elif injection == "enabled" and not _exists(view, "default"):  # case H03
        text = f"{INJECTION}=enabled asks for the default tag, and there is none: new pods get no proxy"
        yield finding("NAMESPACE_WITHOUT_DEFAULT", "warn", what, text, "istioctl tag set default --revision <revision>")
    elif revision and not _exists(view, revision):
        text = f"{REVISION}={revision} names no tag and no revision: new pods get no proxy"
        yield finding("NAMESPACE_UNKNOWN_REVISION", "warn", what, text, "label it with a tag: istioctl tag list")
    elif injected and not injection and not revision:
        text = f"{len(injected)} workloads in it are injected without a label of the namespace, such as {injected[0]}"
        yield finding("NAMESPACE_WITHOUT_LABEL", "info", what, text, "nothing; charts of gateways do so")


def _template(view: View, row: Row) -> Iterator[Finding]:
    labels, ref = row["template_labels"], workload_ref(row)
    if labels.get(INJECT) == "false":  # istiod itself, and the gateways that it makes
        return
    space = view["namespaces"].get(row["namespace"], {})
    asked, wins = labels.get(REVISION), INJECTION in space or REVISION in space
    if asked and wins and asked != space.get(REVISION):  # case D03
        text = f"its template asks for {asked}, and the namespace's label wins"
        yield finding("TEMPLATE_LABEL_LOSES", "info", ref, text, "change the label of the namespace instead")
    elif asked and not wins and not _exists(view, asked):
        text = f"its template asks for {asked}, which is no tag and no revision: new pods get no proxy"
        yield finding("TEMPLATE_UNKNOWN_REVISION", "warn", ref, text, f"give its template {REVISION}=<tag>")
    elif asked and not wins and asked in view["revisions"] and asked not in view["tags"]:
        text = f"its template pins revision {asked}: no tag moves it"
        yield finding("TEMPLATE_PINS_REVISION", "warn", ref, text, f"give its template {REVISION}=<tag>")
    if labels.get(INJECT, "true") not in ("true", "false"):
        text = f"its template has {INJECT}={labels[INJECT]}, which is neither true nor false and does nothing"
        yield finding("TEMPLATE_BAD_VALUE", "warn", ref, text, "make it true or false, or take it away")
    if REVISION in row["template_annotations"]:  # case D04
        text = f"its template has {REVISION} as an annotation, which does nothing"
        yield finding("TEMPLATE_ANNOTATION", "info", ref, text, "make it a label, or take it away")
    pin = row["template_annotations"].get(PIN)
    if pin and row["gateway"]:  # case B06
        text = f"its template names the proxy {pin}, which gateways ignore"
        yield finding("PIN_IGNORED", "info", ref, text, f"nothing, or take the annotation {PIN} away")
    elif pin:  # case B05
        text = f"its proxy is pinned to {pin}: a restart does not change it"
        yield finding("PINNED_IMAGE", "warn", ref, text, f"take the annotation {PIN} away")
    injects = space.get(INJECTION) == "enabled" or (INJECTION not in space and REVISION in space)
    if row["host_network"] and (injects or (not wins and labels.get(INJECT) == "true")):  # case B08
        text = "its pods use the host's network and are never injected"
        yield finding("HOST_NETWORK", "info", ref, text, "nothing; it does not count as unmigrated")


def _kind(_view: View, row: Row) -> Iterator[Finding]:
    ref = workload_ref(row)
    why = restartable(row)
    if why and live_revisions(row) and not row.get("finished"):  # cases B15, B16, G01, G04
        todo = f'move it by hand when its turn comes, or name it in mesh_consents: {{resource: "{ref}", allow: evict}}'
        yield finding("LEFT_TO_A_PERSON", "warn", ref, why, todo)
    if row.get("partition") and live_revisions(row):
        text = f"its partition {row['partition']} keeps the pods below that ordinal as they are"
        yield finding("PARTITION", "warn", ref, text, "set the partition to 0 when its turn comes")
    if row["replicas"] == 0 and row["target"] and row["kind"] not in ("Job", "CronJob", "DaemonSet"):
        text = f"it has no pods; when it is scaled up, {row['target']} injects them"
        yield finding("NO_REPLICAS", "info", ref, text, "nothing")
    if row["ended"]:  # case B12
        text = f"{row['ended']} of its pods have ended and hold nothing"
        yield finding("ENDED_PODS", "info", ref, text, "nothing")


def _takes_all(row: Row) -> bool:
    """Tell whether a restart takes the last pod of a workload away before another one is ready.

    A StatefulSet ends a pod before it makes the next one; a Deployment makes one more first, unless maxUnavailable
    lets it be without. A percentage below 100 is rounded down there (Kubernetes pkg/controller/deployment/util).
    """
    allowed = row.get("max_unavailable") or ""
    if row["strategy"] == "Recreate" or allowed == "100%":
        return True
    if row["kind"] == "StatefulSet" and row["replicas"] == 1:
        return True
    return row["kind"] == "Deployment" and allowed.isdigit() and int(allowed) >= row["replicas"] > 0


def _risk(_view: View, row: Row) -> Iterator[Finding]:
    if not live_revisions(row) or restartable(row):
        return
    ref = workload_ref(row)
    if _takes_all(row):
        text = "a restart takes all of its pods before a new one is ready: requests are lost"
        todo = "give it a second pod and let it roll one by one, or move it when nobody asks"
        yield finding("RESTART_TAKES_ALL", "warn", ref, text, todo)
    elif row["kind"] != "DaemonSet" and row["replicas"] == 1:
        text = "it has one replica: requests may be lost when the new pod is not ready in time"
        more = "" if row.get("readiness", True) else ", and no readiness probe says when it is"
        yield finding("SINGLE_REPLICA", "warn", ref, text + more, "give it a second one for the upgrade")
    elif row.get("pre_stop") is False:
        text = "no preStop hook: requests may be lost that are on their way to a pod that ends"
        yield finding("NO_PRE_STOP", "warn", ref, text, "give its container a preStop of a few seconds")


def _images(view: View, row: Row) -> Iterator[Finding]:
    ref = workload_ref(row)
    for group in row["proxies"]:
        if group["terminating"]:
            continue
        version = image_version(group["image"])
        expected = (view["revisions"].get(group["revision"]) or {}).get("version")
        if group["image"] == "auto":  # case B07
            text = f"{group['pods']} of its pods have the placeholder image auto: they were not injected"
            yield finding("NOT_INJECTED", "warn", ref, text, "check its labels, then delete these pods")
        elif not version:  # case A11
            text = f"the image {group['image']} says no version; {group['revision']} injected it"
            yield finding("UNKNOWN_VERSION", "warn", ref, text, "nothing; its revision decides")
        elif expected and version != expected and row["template_annotations"].get(PIN) and not row["gateway"]:
            text = f"it runs {version} by its pin, and {group['revision']} that injected it is {expected}"  # case B05
            yield finding("OLD_BY_PIN", "warn", ref, text, f"take the annotation {PIN} away, then restart it")
        elif expected and version != expected:  # case C11
            text = f"it runs {version} ({group['image']}), and {group['revision']} that injected it is {expected}"
            yield finding("IMAGE_DISAGREES", "warn", ref, text, "restart it before the upgrade")


def _loose(pod: dict[str, Any]) -> Finding:
    ref = f"Pod {pod['namespace']}/{pod['name']}"
    if pod["image"] == "auto":  # case B07
        text = "it has the placeholder image auto: it was not injected"
        return finding("NOT_INJECTED", "warn", ref, text, "check its labels, then delete it")
    if not pod["live"]:  # case B12
        return finding("ENDED_PODS", "info", ref, "it has ended and holds nothing", "nothing")
    owner = f"{pod['owner_kind']} {pod['owner_name']}" if pod["owner_kind"] else "nothing"
    text = f"it belongs to {owner}: no restart moves it"
    return finding("BARE_POD", "warn", ref, text, "replace it by hand when its turn comes")


def _disagreements(truth: dict[str, Any]) -> Iterator[Finding]:  # cases C10, C11
    told = truth.get("disagreements") or []
    for item in told:
        space, name = item["namespace"], item["pod"]
        todo = f"kubectl logs -n {space} {name} -c istio-proxy"
        yield finding("TRUTH_DISAGREES", "warn", f"Pod {space}/{name}", item["why"], todo)
    if truth.get("count", 0) > len(told):
        text = f"{truth['count']} proxies in all are not connected to the revision that injected them"
        yield finding("TRUTH_DISAGREES_MUCH", "warn", "Mesh", text, "look at istiod first: istioctl proxy-status")


def _default_moves(view: View, desired: dict[str, Any]) -> Iterator[Finding]:
    """Tell which namespaces the move of `default` hands over at their next restart (case D07)."""
    if "default" not in desired["tags"]:
        return
    names = [
        name
        for name, labels in sorted(view["namespaces"].items())
        if labels.get(INJECTION) == "enabled" or (INJECTION not in labels and labels.get(REVISION) == "default")
    ]
    if names:
        now = view["tags"].get("default", "no revision")
        some = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        to = desired["to"]["revision"]
        text = f"moving it from {now} to {to} changes the injector of {len(names)} namespaces: {some}"
        yield finding("DEFAULT_TAG_MOVES", "info", "Tag default", text, "nothing; they restart with the others")


def outdated(view: View, fresh: dict[str, str]) -> list[tuple[Row, int]]:
    """Return the workloads with proxies whose version is right and whose settings are not, each with how many.

    Args:
        view: of `build_view`.
        fresh: workload -> hash of the settings a new proxy would get.

    Proxies of another revision are not among them: the tag move restarts them anyway.
    """
    found = []
    for row in view["workloads"]:
        wanted = fresh.get(workload_ref(row))
        live = [p for p in row["proxies"] if not p["terminating"] and p["revision"] == row["target"]]
        if wanted and (pods := sum(p["pods"] for p in live if (p.get("settings") or wanted) != wanted)):
            found.append((row, pods))
    return found


def _outdated(view: View, fresh: dict[str, str]) -> Iterator[Finding]:
    for row, pods in outdated(view, fresh):
        text = f"{pods} of its proxies have older settings than a new one would get (they apply at injection only)"
        todo = "ansible-playbook playbooks/refresh.yml restarts what has older settings, and nothing else"
        yield finding("OUTDATED_SETTINGS", "info", workload_ref(row), text, todo)


WORKLOAD_CHECKS: tuple[Callable[[View, Row], Iterator[Finding]], ...] = (_template, _kind, _risk, _images)
