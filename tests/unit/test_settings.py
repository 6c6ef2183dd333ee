"""Settings are never lost: real renders of both versions, what would be lost, and files rebuilt from what runs."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.mesh_api import MeshApi, MeshApiError
from mesh_logic import operator_rebuild, settings, settings_diff
from mesh_logic.errors import MeshError

from tests.unit.mesh_stages import NEW, OLD, wants
from tests.unit.test_mesh_api import Server, api, server, status

mesh_settings: Any = importlib.import_module("mesh_settings")
__all__ = ["api", "server"]  # fixtures
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "settings"
ROOT = Path(__file__).resolve().parents[2]
LAB_FILE = (ROOT / "inventories" / "lab" / "files" / "istio-operator.yaml").read_text(encoding="utf-8")
BARE_FILE = "apiVersion: install.istio.io/v1alpha1\nkind: IstioOperator\nspec: {profile: minimal}\n"
RICH_FILE = (FIXTURES / "rich.yaml").read_text(encoding="utf-8")
ACCESS_LOG, EGRESS = "spec.meshConfig.accessLogFile", "spec.meshConfig.outboundTrafficPolicy.mode"
MESH_MAP = ("ConfigMap", "istio-1-30-5")
Live = dict[str, Any]


def text_of(name: str) -> str:
    """Return a recorded render."""
    return (FIXTURES / f"{name}.manifest").read_text(encoding="utf-8")


def live(name: str, revision: str = OLD) -> Live:
    """Return a recorded render as if it ran: what mesh_settings would return."""
    return {"revision": revision, "objects": settings.manifest_objects(text_of(name), revision)}


def recorded(name: str) -> Live:
    """Return what mesh_settings did return on the lab."""
    found: Live = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def part(found: Live, kind: str, name: str) -> dict[str, Any]:
    """Return one object of it to change."""
    return next(o for o in found["objects"] if (o["kind"], o["metadata"]["name"]) == (kind, name))


def edit_mesh(found: Live, **changes: Any) -> Live:
    """Edit the mesh config in place, as kubectl edit does."""
    data = part(found, *MESH_MAP)["data"]
    data["mesh"] = yaml.safe_dump(yaml.safe_load(data["mesh"]) | changes)
    return found


def edit_istiod(found: Live, change: Callable[[dict[str, Any]], Any]) -> Live:
    """Change the spec of istiod in place."""
    change(part(found, "Deployment", f"istiod-{OLD}")["spec"])
    return found


def findings(found: Live, new: str, file: str, *, old_render: str = "", **wished: Any) -> list[settings_diff.Finding]:
    """Compare what runs with a recorded render of the new version; without old_render there is no old istioctl."""
    rendered = {"install": text_of(new), "same_file": text_of(old_render) if old_render else ""}
    if new == "lab-new":
        rendered["compatible"] = text_of("lab-compatible")
    return settings_diff.before_install(found, rendered, file, wants(**wished), "2026-12-01")


def named(found: list[settings_diff.Finding], kind: str) -> list[str]:
    return [f["setting"] for f in found if f["kind"] == kind]


@pytest.mark.parametrize(
    ("found", "revision", "old_render"),
    [
        pytest.param(live("lab-old"), OLD, "lab-old", id="with-the-old-istioctl"),
        pytest.param(live("lab-old"), OLD, "", id="without-it"),
        pytest.param(recorded("live-old"), OLD, "lab-old", id="as-the-api-server-stores-it"),
        pytest.param(live("lab-old-unrevisioned", ""), "default", "lab-old-unrevisioned", id="without-a-revision"),
        pytest.param(live("lab-old-unrevisioned", ""), "default", "", id="without-a-revision-nor-istioctl"),
    ],
)
def test_the_labs_own_upgrade_has_no_blocker(found: Live, revision: str, old_render: str) -> None:
    """The same file, 1.30.5 to 1.31.0, with real renders: no wolf is cried."""
    result = findings(found, "lab-new", LAB_FILE, old_render=old_render, mesh_from_revision=revision)
    assert settings_diff.blockers(result) == []
    assert {f["kind"] for f in result} == {"changed_default"}
    # what 1.31 changes inside istiod, each with the way to keep it
    assert named(result, "changed_default") == [
        "spec.values.pilot.env.PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS",
        "spec.values.pilot.env.PILOT_ENABLE_STRICT_GATEWAY_MERGING",
        "spec.values.pilot.env.PILOT_SPAWN_UPSTREAM_SPAN_FOR_GATEWAY",
    ]
    assert all('Next: spec.compatibilityVersion: "1.30" in ' in f["text"] for f in result)


@pytest.mark.parametrize("old_render", ["bare-old", ""])
def test_the_incident_of_five_flags_is_named_line_by_line(old_render: str) -> None:  # case F11
    result = findings(live("incident-old"), "bare-new", BARE_FILE, old_render=old_render)
    assert {f["setting"]: f["line"] for f in result if f["kind"] == "lost"} == {
        ACCESS_LOG: f"{ACCESS_LOG}: /dev/stdout",
        EGRESS: f"{EGRESS}: REGISTRY_ONLY",
        "spec.values.global.proxy.logLevel": "spec.values.global.proxy.logLevel: info",
        "spec.values.pilot.autoscaleMin": "spec.values.pilot.autoscaleMin: 2",
        "spec.values.pilot.env.PILOT_ENABLE_IP_AUTOALLOCATE": (
            "spec.values.pilot.env.PILOT_ENABLE_IP_AUTOALLOCATE: 'true'"
        ),
    }
    assert {f["kind"] for f in result} == {"lost"}, "the budget goes with the second replica and is not told twice"
    (words,) = [text for text in settings_diff.blockers(result) if EGRESS in text]
    assert words == (
        f"{EGRESS} of revision 1-30-5 (ConfigMap istio-system/istio-1-30-5): it is "
        '"REGISTRY_ONLY", and revision 1-31-0 would have none: files/istio-operator.yaml does not set it (a --set '
        f"flag, or an edit, did). Next: add to files/istio-operator.yaml: {EGRESS}: REGISTRY_ONLY; or waive it in "
        f"mesh_waivers with id SETTING_LOST and resource {EGRESS}."
    )


def test_the_lines_of_the_incident_keep_its_settings() -> None:
    """A file with exactly those lines leaves nothing to block (the render is one of the same settings)."""
    document: dict[str, Any] = yaml.safe_load(BARE_FILE)
    for finding in findings(live("incident-old"), "bare-new", BARE_FILE):
        if finding["kind"] == "lost":
            name, _, value = finding["line"].partition(": ")
            operator_rebuild.put(document, tuple(name.split(".")), yaml.safe_load(value))
    assert document["spec"] == INCIDENT


INCIDENT = {
    "profile": "minimal",
    "meshConfig": {"accessLogFile": "/dev/stdout", "outboundTrafficPolicy": {"mode": "REGISTRY_ONLY"}},
    "values": {
        "global": {"proxy": {"logLevel": "info"}},
        "pilot": {"autoscaleMin": 2, "env": {"PILOT_ENABLE_IP_AUTOALLOCATE": "true"}},
    },
}

# how what runs was changed by hand -> the settings that would be lost
EDITS: dict[str, tuple[Callable[[Live], Live], list[str]]] = {
    "mesh-config": (lambda f: edit_mesh(f, enableTracing=True), ["spec.meshConfig.enableTracing"]),
    "trust-domain": (lambda f: edit_mesh(f, trustDomain="corp"), ["spec.meshConfig.trustDomain"]),
    "one-provider": (
        lambda f: edit_mesh(f, extensionProviders=[{"name": "a", "zipkin": {"port": 9411}}]),
        ["spec.meshConfig.extensionProviders[a].zipkin.port"],
    ),
    "resources": (
        lambda f: edit_istiod(f, lambda s: s["template"]["spec"]["containers"][0].update(resources={})),
        [],  # nothing to lose: the new one has some
    ),
    "a-limit": (
        lambda f: edit_istiod(
            f, lambda s: s["template"]["spec"]["containers"][0]["resources"].update(limits={"memory": "1Gi"})
        ),
        ["spec.components.pilot.k8s.resources.limits.memory"],
    ),
    "what-the-file-sets": (
        lambda f: edit_istiod(
            f, lambda s: s["template"]["spec"]["containers"][0]["resources"]["requests"].update(memory="1Gi")
        ),
        [],
    ),
    "the-same-memory": (
        lambda f: edit_istiod(
            f, lambda s: s["template"]["spec"]["containers"][0]["resources"]["requests"].update(memory="102400Ki")
        ),
        [],
    ),
    "environment": (
        lambda f: edit_istiod(
            f, lambda s: s["template"]["spec"]["containers"][0]["env"].append({"name": "A", "value": "b"})
        ),
        ["spec.values.pilot.env.A"],
    ),
    "argument": (
        lambda f: edit_istiod(f, lambda s: s["template"]["spec"]["containers"][0]["args"].append("--ctrlz_port=9876")),
        ["spec.unvalidatedValues.pilot.extraContainerArgs[--ctrlz_port]"],
    ),
    "volume": (
        lambda f: edit_istiod(f, lambda s: s["template"]["spec"]["volumes"].append({"name": "mine", "emptyDir": {}})),
        ["spec.values.pilot.volumes[mine]"],
    ),
    "host-network": (
        lambda f: edit_istiod(f, lambda s: s["template"]["spec"].update(hostNetwork=True)),
        ["spec.components.pilot.k8s.overlays[spec.template.spec.hostNetwork]"],
    ),
    "replicas-under-an-autoscaler": (lambda f: edit_istiod(f, lambda s: s.update(replicas=4)), []),
    "restarted-by-hand": (
        lambda f: edit_istiod(
            f,
            lambda s: s["template"]["metadata"]["annotations"].update({"kubectl.kubernetes.io/restartedAt": "now"}),
        ),
        [],
    ),
}


@pytest.mark.parametrize("old_render", ["lab-old", ""], ids=["with-old-istioctl", "without"])
@pytest.mark.parametrize("edit", EDITS)
def test_what_was_edited_in_the_cluster(edit: str, old_render: str) -> None:  # case F11
    change, expected = EDITS[edit]
    result = findings(change(live("lab-old")), "lab-new", LAB_FILE, old_render=old_render)
    assert named(result, "lost") == expected


@pytest.mark.parametrize("old_render", ["lab-old", ""], ids=["with-old-istioctl", "without"])
def test_a_budget_that_somebody_made(old_render: str) -> None:
    found = live("lab-old")
    budget = {"kind": "PodDisruptionBudget", "metadata": {"name": f"istiod-{OLD}"}, "spec": {"minAvailable": 1}}
    found["objects"].append(budget)
    result = findings(found, "lab-new", LAB_FILE, old_render=old_render)
    assert named(result, "lost") == ["spec.components.pilot.k8s.podDisruptionBudget.minAvailable"]
    assert "one is only made where autoscaleMin or replicaCount is at least 2" in result[0]["text"]


def test_replicas_without_an_autoscaler_are_settings() -> None:
    found = edit_istiod(live("lab-old"), lambda s: s.update(replicas=3))
    found["objects"] = [o for o in found["objects"] if o["kind"] != "HorizontalPodAutoscaler"]
    result = findings(found, "lab-new", LAB_FILE, old_render="lab-old")
    assert named(result, "lost") == ["spec.values.pilot.autoscaleEnabled", "spec.values.pilot.replicaCount"]


def test_what_the_file_says_on_purpose_does_not_block() -> None:
    file = BARE_FILE.replace(
        "{profile: minimal}",
        "{profile: minimal, meshConfig: {accessLogFile: '', outboundTrafficPolicy: {mode: ALLOW_ANY}}, "
        "values: {pilot: {autoscaleMin: 1}, global: {proxy: {logLevel: warning}}}}",
    )
    new = text_of("bare-new").replace("rootNamespace:", "outboundTrafficPolicy: {mode: ALLOW_ANY}\\nrootNamespace:")
    result = settings_diff.before_install(live("incident-old"), {"install": new}, file, wants())
    assert named(result, "lost") == ["spec.values.pilot.env.PILOT_ENABLE_IP_AUTOALLOCATE"]
    # the budget went with the second replica, which the file took away
    budget = "spec.components.pilot.k8s.podDisruptionBudget.minAvailable"
    level, least = "spec.values.global.proxy.logLevel", "spec.values.pilot.autoscaleMin"
    assert named(result, "changed") == [budget, ACCESS_LOG, EGRESS, level, least]


def test_what_the_file_adds_is_listed() -> None:
    result = findings(live("bare-old"), "rich-new", RICH_FILE, old_render="rich-old")
    assert named(result, "lost") == []
    assert {ACCESS_LOG, EGRESS, "spec.components.pilot.k8s.env[FROM_SECRET]"} <= set(named(result, "added"))
    assert "spec.values.pilot.autoscaleMax" in named(result, "changed")


@pytest.mark.parametrize("old_render", ["rich-old", ""])
def test_an_overlay_that_names_the_old_revision_does_nothing_for_the_new_one(old_render: str) -> None:
    """The same file twice, and still something is lost: an overlay is bound to one Deployment's name."""
    result = findings(live("rich-old"), "rich-new", RICH_FILE, old_render=old_render)
    assert named(result, "lost") == ["spec.components.pilot.k8s.overlays[spec.template.spec.hostNetwork]"]
    (words,) = settings_diff.blockers(result)
    assert "names istiod-1-30-5, and the new istiod is called istiod-1-31-0" in words
    assert "name: istiod-1-31-0, patches: [{path: spec.template.spec.hostNetwork, value: true}]" in words


def test_a_setting_of_the_file_that_the_new_version_does_not_take() -> None:
    """Old and new render of the same file differ, and the file sets it: lost, not a changed default."""
    new = text_of("rich-new").replace("holdApplicationUntilProxyStarts: true", "drainDuration: 45s")
    rendered = {"install": new, "same_file": text_of("rich-old")}
    result = settings_diff.before_install(live("rich-old"), rendered, RICH_FILE, wants())
    name = "spec.meshConfig.defaultConfig.holdApplicationUntilProxyStarts"
    assert name in named(result, "lost")
    assert any("does not take it from there" in f["text"] for f in result if f["setting"] == name)


def test_a_default_that_changes_with_the_version_does_not_block() -> None:
    new = text_of("lab-new").replace('\\"logLevel\\": \\"warning\\"', '\\"logLevel\\": \\"error\\"')
    rendered = {"install": new, "same_file": text_of("lab-old")}
    (finding,) = settings_diff.before_install(live("lab-old"), rendered, LAB_FILE, wants())
    assert (finding["kind"], finding["running"], finding["new"]) == ("changed_default", '"warning"', '"error"')
    assert "its default changes from" in finding["text"]
    assert "keep it with spec.values.global.proxy.logLevel: warning" in finding["text"]
    rendered["compatible"] = text_of("lab-new")  # as if compatibilityVersion gave the old value
    (finding,) = settings_diff.before_install(live("lab-old"), rendered, LAB_FILE, wants())
    assert 'Next: spec.compatibilityVersion: "1.30" in files/istio-operator.yaml keeps the old one.' in finding["text"]


# what another version of the chart might make otherwise: text in a render, and what stands there instead
CHART_CHANGES = {
    "trust-domain": ("trustDomain: cluster.local", "trustDomain: mesh.local", "spec.meshConfig.trustDomain"),
    "volume": ('"name": "cacerts"', '"name": "ca-certs"', "spec.values.pilot.volumes[cacerts]"),
    "sampling": (
        '"name": "PILOT_TRACE_SAMPLING", "value": "1"',
        '"name": "PILOT_TRACE_SAMPLING", "value": "2"',
        "spec.values.pilot.traceSampling",
    ),
    "own-variable": ('"name": "KUBECONFIG", "value": "', '"name": "KUBECONFIG", "value": "/x', "KUBECONFIG"),
}


@pytest.mark.parametrize("helm_values", [True, False], ids=["helm-values", "before-1.26"])
@pytest.mark.parametrize("change", CHART_CHANGES)
def test_what_the_chart_makes_is_told_from_settings_without_the_old_istioctl(change: str, helm_values: bool) -> None:
    before, after, setting = CHART_CHANGES[change]
    assert before in text_of("bare-new")
    found = live("bare-old")
    if not helm_values:
        found["objects"] = [o for o in found["objects"] if o["metadata"]["name"] != "values-1-30-5"]
    rendered = {"install": text_of("bare-new").replace(before, after)}
    result = settings_diff.before_install(found, rendered, BARE_FILE, wants())
    assert named(result, "lost") == []
    assert any(name.endswith(setting) for name in named(result, "changed_default"))


def test_a_mesh_that_keeps_no_helm_values_says_what_would_help() -> None:
    """Before 1.26 nothing says what was set: no false alarm over usual values, and a way to be sure."""
    found = edit_mesh(live("lab-old"), enableTracing=True)
    found["objects"] = [o for o in found["objects"] if o["metadata"]["name"] != "values-1-30-5"]
    result = findings(found, "lab-new", LAB_FILE, mesh_istioctl_from="")
    assert named(result, "lost") == ["spec.meshConfig.enableTracing"]
    assert "with mesh_istioctl_from (istioctl 1.30.5) changed defaults are told from settings" in result[0]["text"]
    found = live("bare-old")
    found["objects"] = [o for o in found["objects"] if o["metadata"]["name"] != "values-1-30-5"]
    assert named(findings(found, "bare-new", BARE_FILE, mesh_istioctl_from=""), "lost") == []


def test_values_that_helm_was_given_at_the_root_are_those_of_pilot() -> None:
    found = live("incident-old")
    data = part(found, "ConfigMap", "values-1-30-5")["data"]
    given = json.loads(data["original-values"])
    given |= {key: given["pilot"].pop(key) for key in ("autoscaleMin", "env")} | {"serviceAnnotations": {"a": "b"}}
    data["original-values"] = json.dumps(given)
    result = findings(found, "bare-new", BARE_FILE)
    assert named(result, "lost") == [
        ACCESS_LOG,
        EGRESS,
        "spec.values.global.proxy.logLevel",
        "spec.values.pilot.autoscaleMin",
        "spec.values.pilot.env.PILOT_ENABLE_IP_AUTOALLOCATE",
        "spec.values.pilot.serviceAnnotations.a",  # shown by no object that is read
    ]


@pytest.mark.parametrize(
    ("waiver", "waived"),
    [
        pytest.param({"id": "SETTING_LOST", "resource": EGRESS}, "meant", id="by-path"),
        pytest.param({"id": "SETTING_LOST", "resource": EGRESS[5:], "reason": "old"}, "old", id="without-spec"),
        pytest.param({"id": "SETTING_LOST", "resource": "", "reason": "all"}, "all", id="every-one"),
        pytest.param({"id": "SETTING_LOST", "resource": EGRESS, "expires": "2026-11-30"}, "", id="expired"),
        pytest.param({"id": "SETTING_LOST", "resource": EGRESS, "expires": "2026-12-01"}, "meant", id="today"),
        pytest.param({"id": "SETTING_LOST", "resource": ACCESS_LOG}, "", id="another-setting"),
        pytest.param({"id": "IST0142", "resource": EGRESS}, "", id="another-check"),
    ],
)
def test_waivers(waiver: dict[str, str], waived: str) -> None:
    whole = {"reason": "meant", "expires": ""} | waiver
    found = edit_mesh(live("lab-old"), outboundTrafficPolicy={"mode": "REGISTRY_ONLY"})
    result = findings(found, "lab-new", LAB_FILE, old_render="lab-old", mesh_waivers=[whole])
    assert [f["waived"] for f in result if f["setting"] == EGRESS] == [waived]
    assert len(settings_diff.blockers(result)) == (0 if waived else 1)
    # what is waived stays in sight
    assert settings_diff.lines(result)[0].startswith(f"waived ({waived}): {EGRESS}" if waived else f"LOST: {EGRESS}")


def test_no_message_shows_a_secret() -> None:
    provider = {"name": "p", "lightstep": {"accessToken": "s3cr3t", "port": 1}}
    found = edit_mesh(live("lab-old"), extensionProviders=[provider])
    result = findings(found, "lab-new", LAB_FILE, old_render="lab-old")
    assert len(settings_diff.blockers(result)) == 2
    assert "s3cr3t" not in json.dumps(result)
    assert any("(hidden)" in f["text"] for f in result)


@pytest.mark.parametrize(
    ("path", "one", "other", "equal"),
    [
        pytest.param("a.resources.cpu", "1000m", 1, True, id="cpu"),
        pytest.param("a.resources.memory", "2048Mi", "2Gi", True, id="memory"),
        pytest.param("a.resources.memory", "1024Ki", "1Mi", True, id="small-memory"),
        pytest.param("a.resources.memory", "2G", "2Gi", False, id="other-memory"),
        pytest.param("a.b", "true", True, True, id="text-and-boolean"),
        pytest.param("a.b", 1.0, 1, True, id="numbers"),
        pytest.param("a.b", {"x": 1, "y": 2}, {"y": "2", "x": "1"}, True, id="order"),
        pytest.param("spec.values.x", False, None, True, id="a-value-that-is-off"),
        pytest.param("spec.values.pilot.env.X", "false", None, False, id="a-variable-that-is-off"),
        pytest.param("spec.meshConfig.enableAutoMtls", False, None, False, id="a-mesh-setting-that-is-off"),
        pytest.param("spec.values.global.platform", "gke", None, True, id="set-by-istioctl-itself"),
        pytest.param("spec.values.global.platform", "eks", None, False, id="set-by-a-person"),
    ],
)
def test_what_counts_as_the_same(path: str, one: Any, other: Any, equal: bool) -> None:
    assert settings_diff.same(tuple(path.split(".")), one, other) is equal


@pytest.mark.parametrize(
    ("spec", "path", "value"),
    [
        pytest.param({"meshConfig": {"a": 1}}, "spec.meshConfig.a", 1, id="its-own-place"),
        pytest.param({"values": {"meshConfig": {"a": 1}}}, "spec.meshConfig.a", 1, id="mesh-config-in-values"),
        pytest.param({"meshConfig": {"a": ""}}, "spec.meshConfig.a", "", id="empty-on-purpose"),
        pytest.param({"meshConfig": {"a": {"b": 1}}}, "spec.meshConfig.a", {"b": 1}, id="above"),
        pytest.param(
            {"values": {"pilot": {"resources": {"requests": {"cpu": 1}}}}},
            "spec.components.pilot.k8s.resources.requests.cpu",
            1,
            id="resources-in-values",
        ),
        pytest.param(
            {"components": {"pilot": {"k8s": {"env": [{"name": "A", "value": "b"}]}}}},
            "spec.values.pilot.env.A",
            "b",
            id="variable-in-k8s",
        ),
        pytest.param(
            {"components": {"pilot": {"k8s": {"hpaSpec": {"minReplicas": 2}}}}},
            "spec.values.pilot.autoscaleMin",
            2,
            id="replicas-in-hpaSpec",
        ),
        pytest.param(
            {"values": {"pilot": {"pdb": {"minAvailable": 2}}}},
            "spec.components.pilot.k8s.podDisruptionBudget.minAvailable",
            2,
            id="budget-in-values",
        ),
    ],
)
def test_a_setting_is_found_wherever_the_file_puts_it(spec: dict[str, Any], path: str, value: Any) -> None:
    keys = tuple(path.split("."))
    assert settings_diff.file_value({"spec": spec}, keys) == (True, value)
    assert settings_diff.file_value({"spec": {"profile": "minimal"}}, keys) == (False, None)
    assert settings_diff.file_value({"spec": None}, keys) == (False, None)


def test_two_running_revisions_are_compared_as_they_run() -> None:
    both = {"old": recorded("live-old"), "new": recorded("live-new")}
    rendered = {"install": text_of("lab-new"), "same_file": text_of("lab-old")}
    result = settings_diff.after_install(both, rendered, LAB_FILE, wants())
    assert result == {"findings": [], "faults": []}

    scaler = part(both["new"], "HorizontalPodAutoscaler", f"istiod-{NEW}")
    scaler["spec"]["scaleTargetRef"]["name"] = "istiod"  # case F08
    data = part(both["new"], "ConfigMap", f"istio-{NEW}")["data"]
    data["mesh"] = data["mesh"].replace("/dev/stdout", "/dev/stderr")
    result = settings_diff.after_install(both, rendered, LAB_FILE, wants())
    assert len(result["faults"]) == 2
    assert 'it is "/dev/stderr", and files/istio-operator.yaml renders "/dev/stdout"' in result["faults"][0]
    assert "it scales Deployment istiod, not Deployment istiod-1-31-0 of its revision" in result["faults"][1]
    assert named(result["findings"], "changed") == []
    assert named(result["findings"], "lost") == [ACCESS_LOG]


def test_an_autoscaler_of_another_deployment() -> None:  # case F08
    found = recorded("live-new")
    assert settings.autoscaler_faults(found["objects"], NEW) == []
    part(found, "HorizontalPodAutoscaler", f"istiod-{NEW}")["spec"]["scaleTargetRef"]["name"] = "istiod"
    (words,) = settings.autoscaler_faults(found["objects"], NEW)
    assert words.startswith(f"HorizontalPodAutoscaler istio-system/istiod-{NEW}: ")
    assert "Next: kubectl get hpa" in words


def test_a_broken_config_map_is_an_error_not_nothing() -> None:
    found = live("lab-old")
    part(found, *MESH_MAP)["data"]["mesh"] = "a: [b"
    with pytest.raises(MeshError, match="ConfigMap istio-system/istio-1-30-5, key mesh: it is not valid YAML"):
        findings(found, "lab-new", LAB_FILE)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("kind: ConfigMap\na: [b", "not YAML", id="broken"),
        pytest.param("", "rendered no Deployment istiod-1-31-0", id="empty"),
        pytest.param(text_of("lab-old"), "rendered no Deployment istiod-1-31-0", id="another-revision"),
    ],
)
def test_a_render_without_istiod_is_an_error(text: str, why: str) -> None:
    with pytest.raises(MeshError, match=why):
        settings.manifest_objects(text, NEW)


def test_what_else_is_rendered() -> None:
    both = settings_diff.renders(LAB_FILE, wants())
    assert [(r["name"], r["istioctl"]) for r in both] == [
        ("same_file", "istioctl-1.30.5"),
        ("compatible", "istioctl-1.31.0"),
    ]
    specs = [yaml.safe_load(r["text"])["spec"] for r in both]
    assert [s["components"]["base"] for s in specs] == [{"enabled": False}] * 2, "the CRDs hold no setting"
    assert (specs[0]["revision"], specs[1]["compatibilityVersion"]) == (OLD, "1.30")
    assert "compatibilityVersion" not in specs[0]
    own = LAB_FILE.replace("  profile: minimal", '  profile: minimal\n  compatibilityVersion: "1.29"')
    assert [r["name"] for r in settings_diff.renders(own, wants())] == ["same_file"]
    unrevisioned = settings_diff.renders(LAB_FILE, wants(mesh_from_revision="default"))
    assert "revision" not in yaml.safe_load(unrevisioned[0]["text"])["spec"]


def test_a_render_that_failed_is_told_and_done_without() -> None:
    item = {"name": "compatible", "istioctl": "istioctl-1.31.0"}
    failed = {"rc": 1, "stdout": "", "stderr": "Error: unknown compatibility version", "item": item}
    done = {"rc": 0, "stdout": "x", "item": {"name": "same_file", "istioctl": "istioctl-1.30.5"}}
    assert settings_diff.rendered_by_name([done, failed]) == {"same_file": "x"}
    (words,) = settings_diff.unexplained([done, failed])
    assert words == (
        "istioctl-1.31.0 could not render the file (compatible), so no compatibilityVersion is offered: "
        "Error: unknown compatibility version"
    )


def rebuilt(name: str) -> dict[str, Any]:
    text = operator_rebuild.rebuild(live(name), text_of("bare-old"), "minimal", "istio-system")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_a_file_is_rebuilt_from_what_five_flags_made() -> None:
    found = rebuilt("incident-old")
    assert found["metadata"] == {"name": "control-plane", "namespace": "istio-system"}
    assert found["spec"] == {"hub": "docker.io/istio", **INCIDENT}


def test_the_labs_own_file_is_rebuilt() -> None:
    """What comes out is what the lab's file says, by other words: the proof on the lab renders it."""
    spec, own = rebuilt("lab-old")["spec"], yaml.safe_load(LAB_FILE)["spec"]
    assert spec == own


def test_a_rich_file_is_rebuilt_but_for_its_overlay() -> None:
    found = live("rich-old")
    with pytest.raises(MeshError, match="hostNetwork of istiod is true: only an overlay sets it"):
        operator_rebuild.rebuild(found, text_of("bare-old"), "minimal", "istio-system")
    edit_istiod(found, lambda s: s["template"]["spec"].pop("hostNetwork"))
    text = operator_rebuild.rebuild(found, text_of("bare-old"), "minimal", "istio-system")
    spec, own = yaml.safe_load(text)["spec"], yaml.safe_load(RICH_FILE)["spec"]
    assert spec["unvalidatedValues"] == own["unvalidatedValues"]
    assert spec["meshConfig"] == own["meshConfig"]
    assert spec["values"]["pilot"] == own["values"]["pilot"] | {"env": {"FOO": "bar", "BAR": "x"}, "autoscaleMax": 7}
    assert spec["components"]["pilot"]["k8s"]["podDisruptionBudget"] == {"minAvailable": 2}


def test_a_helm_profile_is_named_not_written_out() -> None:
    found = live("demo-old")
    bare = yaml.safe_load(operator_rebuild.bare_document(found, "minimal"))
    assert bare["spec"]["values"] == {"profile": "demo"}
    text = operator_rebuild.rebuild(found, text_of("demo-old"), "minimal", "istio-system")
    assert yaml.safe_load(text)["spec"] == {
        "profile": "minimal",
        "hub": "docker.io/istio",
        "values": {"profile": "demo"},
    }


def test_a_file_that_does_not_render_what_runs_is_not_proven() -> None:
    assert operator_rebuild.unlike(live("incident-old"), text_of("incident-old")) == []
    assert operator_rebuild.unlike(recorded("live-old"), text_of("lab-old")) == []
    unlike = operator_rebuild.unlike(live("incident-old"), text_of("bare-old"))
    assert f"{ACCESS_LOG} is /dev/stdout, rendered none" in unlike


def test_the_proof_renders_with_the_running_revision() -> None:
    spec = yaml.safe_load(operator_rebuild.proof_document(LAB_FILE, OLD))["spec"]
    assert (spec["revision"], spec["components"]["base"]) == (OLD, {"enabled": False})
    assert "revision" not in yaml.safe_load(operator_rebuild.proof_document(LAB_FILE, "default"))["spec"]


@pytest.mark.parametrize(
    ("output", "why"),
    [
        pytest.param('{"clientVersion": {"version": "1.30.5"}}', "", id="the-same"),
        pytest.param('{"clientVersion": {"version": "1.31.0"}}', "it is 1.31.0, and revision 1-30-5 runs", id="newer"),
        pytest.param("bash: no such thing", "it did not say its version", id="no-istioctl"),
    ],
)
def test_only_the_istioctl_of_the_running_version_can_prove(output: str, why: str) -> None:
    found = " ".join(operator_rebuild.version_errors(live("lab-old"), output, "istioctl"))
    assert (why in found) if why else found == ""


def test_another_file_is_not_replaced_without_consent() -> None:
    def errors(found: list[dict[str, str]], overwrite: bool = False) -> list[str]:
        return operator_rebuild.write_errors("a\n", "/x/file", found, overwrite)

    assert errors([]) == errors([{"text": "a\n"}]) == errors([{"text": "b\n"}], overwrite=True) == []
    assert "it is there and holds something else" in errors([{"text": "b\n"}])[0]


class FakeTask:
    """What a module asks of its task."""

    check_mode = False

    def __init__(self, **params: Any) -> None:
        self.params = {"istio_namespace": "istio-system", "revision": OLD, "other_components": False} | params

    def tell(self, line: str) -> None:
        """Say nothing."""


def answers(found: Live) -> Iterator[tuple[int, Any]]:
    """Return what an API server answers to the module, in its order."""
    for base in ("istio", "istio-sidecar-injector", "values"):
        yield 200, part(found, "ConfigMap", f"{base}-{OLD}")
    yield 200, part(found, "Deployment", f"istiod-{OLD}")
    yield 200, {"items": [part(found, "HorizontalPodAutoscaler", f"istiod-{OLD}")]}
    yield 200, {"items": []}


def test_the_module_reads_what_holds_settings(api: MeshApi, server: Server) -> None:
    found = recorded("live-old")
    stored = copy.deepcopy(found)
    part(stored, "ConfigMap", f"istio-sidecar-injector-{OLD}")["data"]["config"] = "templates: " + "x" * 1000
    server.answers = list(answers(stored))
    result = mesh_settings.run(FakeTask(), api)
    assert result["objects"] == found["objects"]
    assert (result["changed"], result["requests"]) == (False, 6)
    assert result["_ansible_verbose_override"] is True, "a secret in there must not be printed with -v"
    assert {r["method"] for r in server.asked} == {"GET"}


def test_the_module_lists_other_components(api: MeshApi, server: Server) -> None:
    gateway = {"metadata": {"namespace": "istio-system", "name": "istio-ingressgateway"}}
    server.answers = [*answers(recorded("live-old")), (200, {"items": [gateway]}), (200, {"items": []})]
    result = mesh_settings.run(FakeTask(other_components=True), api)
    assert result["others"] == ["Deployment istio-system/istio-ingressgateway"]


@pytest.mark.parametrize(
    ("position", "answer", "why"),
    [
        pytest.param(0, status(404, "not found"), "ConfigMap istio-system/istio-1-30-5 does not exist", id="mesh"),
        pytest.param(3, status(404, "not found"), "Deployment istio-system/istiod-1-30-5 does not exist", id="istiod"),
        pytest.param(0, status(403, "forbidden"), "this account lacks that right", id="config-map-refused"),
        pytest.param(2, status(403, "forbidden"), "this account lacks that right", id="an-optional-one-refused"),
        pytest.param(4, status(403, "forbidden"), "this account lacks that right", id="autoscalers-refused"),
    ],
)
def test_what_cannot_be_read_is_an_error(
    api: MeshApi, server: Server, position: int, answer: tuple[int, Any], why: str
) -> None:  # case F16, F17
    server.answers = list(answers(recorded("live-old")))
    server.answers[position] = answer
    with pytest.raises(MeshApiError, match=why):
        mesh_settings.run(FakeTask(), api)


def test_an_optional_object_may_be_absent(api: MeshApi, server: Server) -> None:
    server.answers = list(answers(recorded("live-old")))
    server.answers[2] = status(404, "not found")
    result = mesh_settings.run(FakeTask(), api)
    assert [o["metadata"]["name"] for o in result["objects"] if o["kind"] == "ConfigMap"] == [
        f"istio-{OLD}",
        f"istio-sidecar-injector-{OLD}",
    ]
