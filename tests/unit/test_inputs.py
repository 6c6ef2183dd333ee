"""The inventory variables: every bad input with its message, all at once, and what a good one becomes."""

from __future__ import annotations

import copy
import datetime
import json
from typing import Any

import pytest
from mesh_logic.errors import MeshError
from mesh_logic.input_readers import read_flag
from mesh_logic.inputs import REQUIRED, evidence_keys, read_inputs

from tests.unit.mesh_stages import LAB, NEW, OLD, OPERATOR, SHA, controller, istioctl, wants


def errors(changes: dict[str, Any], control: dict[str, Any] | None = None) -> list[str]:
    inputs = copy.deepcopy(LAB) | changes
    if control is None:  # the binaries are those of the versions asked for, so that one thing alone is wrong
        asked = {"from": inputs["mesh_from_version"], "to": inputs["mesh_to_version"]}
        control = controller(istioctl={k: istioctl(v if isinstance(v, str) else "1") for k, v in asked.items()})
    found: list[str] = read_inputs(inputs, control)["errors"]
    return found


def test_a_good_lab_gives_what_is_wanted() -> None:
    assert wants() == {
        "environment": "lab",
        "connection": {"kubeconfig": "kubeconfig", "context": ""},
        "cluster_uid": "",
        "mesh_id": "",
        "istio_namespace": "istio-system",
        "from": {"version": "1.30.5", "revision": OLD, "istioctl": "istioctl-1.30.5"},
        "to": {"version": "1.31.0", "revision": NEW, "istioctl": "istioctl-1.31.0", "tag": ""},
        "installer": "istioctl",
        "operator_file": "files/istio-operator.yaml",
        "operator_sha256": SHA,
        "tags": ["prod-stable", "default"],
        "canary_namespaces": ["canary"],
        "drill": {"tags": ["prod-stable"], "workloads": [{"namespace": "shop", "name": "web"}]},
        "soak_seconds": 0,
        "gateways": "refuse",
        "on_failure": "stop",
        "probes": [
            {
                "name": "web",
                "from": {"namespace": "canary", "workload": "client", "container": "client"},
                "url": "http://web.shop/",
                "expect": 200,
                "timeout_ms": 5000,
            }
        ],
        "waivers": [],
        "waves": [],
        "consents": [],
        "stop_after": "",
        "evidence_workloads": [
            {"namespace": "shop", "name": "web", "key": "web_proxy"},
            {"namespace": "canary", "name": "client", "key": "client_proxy"},
        ],
        "lessons": [],
        "istioctl_flags": ["--kubeconfig", "kubeconfig", "--istioNamespace", "istio-system"],
        "concerned_namespaces": ["canary", "shop"],
    }


@pytest.mark.parametrize("name", sorted(REQUIRED))
@pytest.mark.parametrize("empty", [pytest.param(None, id="null"), pytest.param("", id="empty")])
def test_a_missing_variable_is_named_with_an_example(name: str, empty: object) -> None:
    control = controller()
    if name == "mesh_istioctl_to":
        del control["istioctl"]["to"]
    if name == "mesh_operator_file":
        control["operator_file"] = {}
    assert errors({name: empty}, control) == [
        f"{name}: this inventory variable is not set. Next: set it, such as {name}: {REQUIRED[name]}."
    ]


WAVE: dict[str, Any] = {"name": "one", "namespaces": ["shop"]}
CONSENT: dict[str, Any] = {"resource": "Job batch/import-*", "allow": "evict", "reason": "it never ends"}
PROBE: dict[str, Any] = {
    "name": "web",
    "from": {"namespace": "a", "workload": "b"},
    "url": "http://web.shop/",
}
TEXT_1_3 = "YAML reads the value as the number 1.3, not as text"

# id, changed inputs, parts of the one message
BAD: list[tuple[str, dict[str, Any], list[str]]] = [
    ("E01-dotted-revision", {"mesh_to_revision": "1.31.0"}, ['mesh_to_revision "1.31.0"', 'use "1-31-0"']),
    ("E01-dotted-old", {"mesh_from_revision": "1.30.5"}, ['mesh_from_revision "1.30.5"', 'use "1-30-5"']),
    (
        "E04-date",
        {"mesh_to_revision": datetime.date(2025, 1, 31)},
        ["mesh_to_revision", "the date 2025-01-31"],
    ),
    ("I05-object-name", {"mesh_from_revision": "istiod-1-30-5"}, ["not of a revision", 'use "1-30-5"']),
    (
        "float-from",
        {"mesh_from_version": 1.30},
        ["mesh_from_version", TEXT_1_3, 'quote it, such as "1.31.0"'],
    ),
    ("float-to", {"mesh_to_version": 1.30}, ["mesh_to_version", TEXT_1_3]),
    ("no-version", {"mesh_to_version": "latest"}, ["mesh_to_version", "latest"]),
    (
        "same-version",
        {"mesh_to_version": "1.30.5", "mesh_to_revision": NEW},
        ["both are the same, there is nothing to upgrade"],
    ),
    ("E09-older", {"mesh_to_version": "1.29.4"}, ["the target is older than what runs", "set the tags back"]),
    ("E07-three-minors", {"mesh_from_version": "1.28.6"}, ["3 minors in one step, 2 are supported", "1.30"]),
    ("minors-no-number", {"mesh_allowed_minors": "two"}, ["mesh_allowed_minors", "a whole number is needed"]),
    (
        "same-revision",
        {"mesh_to_revision": OLD},
        [f'mesh_from_revision and mesh_to_revision are both "{OLD}"'],
    ),
    (
        "C08-tag-as-revision",
        {"mesh_from_revision": "prod-stable"},
        ['mesh_tags: "prod-stable"', "a revision has this name"],
    ),
    (
        "tag-upper-case",
        {"mesh_tags": ["Prod_Stable"]},
        ['mesh_tags: "Prod_Stable"', "cannot be a Kubernetes name"],
    ),
    ("tag-number", {"mesh_tags": [1.3]}, ["an entry of mesh_tags", "the number 1.3"]),
    ("tags-mapping", {"mesh_tags": {"a": 1}}, ["mesh_tags", "a list is needed, found a mapping"]),
    (
        "tags-broken-json",
        {"mesh_tags": '["a",'},
        ["mesh_tags", "begins as a JSON list and is broken", "mend it"],
    ),
    ("canary-slash", {"mesh_canary_namespaces": ["a/b"]}, ['mesh_canary_namespaces: "a/b"']),
    (
        "evidence-no-slash",
        {"mesh_evidence_workloads": ["web"]},
        ['mesh_evidence_workloads: "web"', "namespace/name"],
    ),
    ("evidence-two-slashes", {"mesh_evidence_workloads": ["a/b/c"]}, ["namespace/name"]),
    (
        "drill-foreign-tag",
        {"mesh_drill": {"tags": ["blue"]}},
        ['mesh_drill.tags: "blue"', "use one of: prod-stable"],
    ),
    (
        "drill-unknown-key",
        {"mesh_drill": {"tag": "prod-stable"}},
        ["mesh_drill", "tags and workloads are needed"],
    ),
    ("drill-text", {"mesh_drill": "prod-stable"}, ["mesh_drill", "tags and workloads are needed"]),
    ("drill-workload", {"mesh_drill": {"workloads": ["web"]}}, ['mesh_drill.workloads: "web"']),
    ("installer", {"mesh_installer": "helm"}, ['mesh_installer: "helm"', "use one of: istioctl"]),
    ("on-failure", {"mesh_on_failure": "retry"}, ['mesh_on_failure: "retry"', "use one of: stop"]),
    ("stop-after", {"mesh_stop_after": "drill"}, ['mesh_stop_after: "drill"', "rollback_drill"]),
    (
        "soak-words",
        {"mesh_soak_before_uninstall": "1h"},
        ["mesh_soak_before_uninstall", "whole seconds", "3600"],
    ),
    ("soak-negative", {"mesh_soak_before_uninstall": -1}, ["mesh_soak_before_uninstall"]),
    ("soak-flag", {"mesh_soak_before_uninstall": True}, ["found the boolean true"]),
    ("probe-text", {"mesh_probes": ["http://web"]}, ["mesh_probes[1]", "a mapping is needed"]),
    (
        "probe-unknown-key",
        {"mesh_probes": [PROBE | {"expekt": 1}]},
        ["mesh_probes[1]", "unknown keys ['expekt']"],
    ),
    ("probe-no-url", {"mesh_probes": [PROBE, PROBE | {"url": "web"}]}, ["mesh_probes[2]", "name or url"]),
    ("probe-no-name", {"mesh_probes": [PROBE | {"name": ""}]}, ["mesh_probes[1]", "name or url"]),
    (
        "probe-from",
        {"mesh_probes": [PROBE | {"from": {"namespace": "a"}}]},
        ["mesh_probes[1].from", "workload"],
    ),
    ("probe-from-text", {"mesh_probes": [PROBE | {"from": "a/b"}]}, ["mesh_probes[1].from"]),
    ("probe-expect", {"mesh_probes": [PROBE | {"expect": "ok"}]}, ["mesh_probes[1].expect", "whole number"]),
    ("probe-expect-null", {"mesh_probes": [PROBE | {"expect": None}]}, ["mesh_probes[1].expect"]),
    ("probe-timeout", {"mesh_probes": [PROBE | {"timeout_ms": "5s"}]}, ["mesh_probes[1].timeout_ms"]),
    (
        "waiver-no-reason",
        {"mesh_waivers": [{"id": "IST0169"}]},
        ["mesh_waivers[1]", "id and reason are needed"],
    ),
    ("wave-both", {"mesh_waves": [WAVE | {"selector": "tier=a"}]}, ["mesh_waves[1]", "namespaces or selector"]),
    ("wave-neither", {"mesh_waves": [{"name": "one"}]}, ["mesh_waves[1]", "namespaces or selector"]),
    ("wave-typo", {"mesh_waves": [WAVE | {"soak": 3}]}, ["mesh_waves[1]", "unknown keys soak"]),
    ("wave-name-twice", {"mesh_waves": [WAVE, WAVE]}, ["mesh_waves[2].name", '"one"', "it is taken"]),
    ("wave-name-rest", {"mesh_waves": [WAVE | {"name": "rest"}]}, ["mesh_waves[1].name", "it is taken"]),
    ("wave-none-at-a-time", {"mesh_waves": [WAVE | {"max_concurrent": 0}]}, ["max_concurrent", "ever start"]),
    ("wave-no-mapping", {"mesh_waves": ["shop"]}, ["mesh_waves[1]", "a mapping is needed"]),
    ("consent-no-kind", {"mesh_consents": [CONSENT | {"resource": "batch/x"}]}, ["mesh_consents[1]", "namespace/name"]),
    ("consent-word", {"mesh_consents": [CONSENT | {"allow": "delete"}]}, ["mesh_consents[1].allow", "no such choice"]),
    ("consent-no-reason", {"mesh_consents": [CONSENT | {"reason": None}]}, ["mesh_consents[1].reason", "no value"]),
    ("lesson-number", {"mesh_lessons": ["fine", 3]}, ["mesh_lessons", "the number 3"]),
    ("environment-number", {"mesh_environment": 7}, ["mesh_environment", "the number 7"]),
    ("namespace-list", {"mesh_istio_namespace": ["a"]}, ["mesh_istio_namespace", "text is needed"]),
]


@pytest.mark.parametrize(("changes", "parts"), [pytest.param(*case[1:], id=case[0]) for case in BAD])
def test_a_bad_input_gives_one_clear_message(changes: dict[str, Any], parts: list[str]) -> None:
    found = errors(changes)
    assert len(found) == 1, found
    assert "\n" not in found[0]
    assert ". Next: " in found[0]
    for part in parts:
        assert part in found[0]


def operator(text: str) -> dict[str, Any]:
    return controller(operator_file={"path": "op.yaml", "text": text, "sha256": SHA, "error": ""})


def with_to(**changes: Any) -> dict[str, Any]:
    return controller(istioctl={"from": istioctl("1.30.5"), "to": istioctl("1.31.0", **changes)})


# id, what the controller has, parts of the one message
BAD_CONTROLLERS: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "istioctl-missing",
        with_to(error="does not exist"),
        ['mesh_istioctl_to "istioctl-1.31.0": does not exist'],
    ),
    ("istioctl-not-executable", with_to(error="is not executable"), ["is not executable", "Istio 1.31.0"]),
    (
        "istioctl-other",
        with_to(output=istioctl("1.30.5")["output"]),
        ["it is istioctl 1.30.5, and 1.31.0 is needed"],
    ),
    ("no-istioctl", with_to(output="GNU bash 5.2"), ["it did not say its version, so it is no istioctl"]),
    ("silent-istioctl", with_to(output=""), ["it did not say its version"]),
    ("json-list", with_to(output="[]"), ["it did not say its version"]),
    (
        "old-istioctl-other",
        controller(istioctl={"from": istioctl("1.29.0"), "to": istioctl("1.31.0")}),
        ['mesh_istioctl_from "istioctl-1.29.0"', "1.30.5 is needed"],
    ),
    (
        "file-missing",
        controller(operator_file={"path": "op.yaml", "text": "", "sha256": "", "error": "No such file or directory"}),
        ['mesh_operator_file "op.yaml": No such file or directory'],
    ),
    ("F12-other-kind", operator(OPERATOR.replace("IstioOperator", "ConfigMap")), ["op.yaml", '"ConfigMap"']),
    (
        "foreign-revision",
        operator(OPERATOR + "  revision: 1-29-0\n"),
        ["1-29-0", "neither the old nor the new"],
    ),
    (
        "python-without-kubernetes",
        controller(python={"executable": "python3", "version": "3.12.1", "error": "No module named 'kubernetes'"}),
        ["Python python3 (3.12.1)", "No module named 'kubernetes'", "ansible_playbook_python"],
    ),
]


@pytest.mark.parametrize(("control", "parts"), [pytest.param(*case[1:], id=case[0]) for case in BAD_CONTROLLERS])
def test_a_bad_controller_gives_one_clear_message(control: dict[str, Any], parts: list[str]) -> None:
    found = errors({}, control)
    assert len(found) == 1, found
    assert ". Next: " in found[0]
    for part in parts:
        assert part in found[0]


def test_a_revision_of_the_file_that_is_old_or_new_is_fine() -> None:
    for revision in (OLD, NEW):
        assert errors({}, operator(OPERATOR + f"  revision: {revision}\n")) == []


def test_all_errors_come_at_once() -> None:
    control = with_to(error="does not exist")
    control["operator_file"]["error"] = "No such file or directory"
    control["python"]["error"] = "No module named 'kubernetes'"
    bad = {
        "mesh_environment": None,
        "mesh_to_revision": "1.31.0",
        "mesh_from_version": 1.30,
        "mesh_tags": ["prod-stable", "A"],
        "mesh_probes": ["x"],
        "mesh_lessons": [1],
        "mesh_soak_before_uninstall": "soon",
    }
    found = errors(bad, control)
    for part in (*bad, "mesh_istioctl_to", "mesh_operator_file", "kubernetes"):
        assert any(part in line for line in found), part
    assert len(found) == 10


def test_three_minors_with_the_override() -> None:  # case E07
    old = controller(istioctl={"from": istioctl("1.28.6"), "to": istioctl("1.31.0")})
    assert errors({"mesh_from_version": "1.28.6", "mesh_allowed_minors": 3}, old) == []
    assert errors({"mesh_from_version": "1.28.6", "mesh_allowed_minors": "3"}, old) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("b,a", ["b", "a"], id="commas"),
        pytest.param(" a \n b,", ["a", "b"], id="lines-and-spaces"),
        pytest.param('["b", "a"]', ["b", "a"], id="json"),
        pytest.param(("a", "b"), ["a", "b"], id="tuple"),
        pytest.param(["a", "b", "a"], ["a", "b"], id="each-once"),
        pytest.param("default,a", ["a", "default"], id="default-last"),
    ],
)
def test_lists_from_an_awx_survey(value: object, expected: list[str]) -> None:
    read = read_inputs(copy.deepcopy(LAB) | {"mesh_tags": value, "mesh_drill": {}}, controller())
    assert read["errors"] == []
    assert read["desired"]["tags"] == expected


def test_a_wave_has_every_field() -> None:
    selector = {"name": "two", "selector": "tier=a", "max_concurrent": "3", "soak_seconds": 60, "max_failed": 1}
    assert wants(mesh_waves=[WAVE, selector])["waves"] == [
        WAVE | {"selector": "", "max_concurrent": 8, "soak_seconds": 0, "max_failed": 0},
        selector | {"namespaces": [], "max_concurrent": 3},
    ]


def test_probes_and_waivers_from_json_text() -> None:
    waiver = {"id": "IST0169", "resource": "DestinationRule shop/web", "reason": "known"}
    desired = wants(mesh_probes=json.dumps([PROBE]), mesh_waivers=json.dumps([waiver]))
    assert desired["probes"][0]["expect"] == 200
    assert desired["waivers"] == [waiver | {"expires": ""}]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        pytest.param(["default", "blue", "green"], ["blue"], id="first-that-is-not-default"),
        pytest.param(["default"], ["default"], id="default-alone"),
    ],
)
def test_the_drill_defaults_to_the_first_tag(tags: list[str], expected: list[str]) -> None:
    assert wants(mesh_tags=tags, mesh_drill={})["drill"] == {"tags": expected, "workloads": []}


def test_a_given_revision_and_an_install_without_one() -> None:
    assert wants(mesh_from_revision="default")["from"]["revision"] == "default"
    assert wants(mesh_to_revision="canary-31")["to"]["revision"] == "canary-31"


def test_the_old_istioctl_is_optional() -> None:
    assert errors({"mesh_istioctl_from": ""}, controller(istioctl={"to": istioctl("1.31.0")})) == []


def test_evidence_keys_tell_equal_names_apart() -> None:
    found = evidence_keys(
        [
            {"namespace": "shop", "name": "web"},
            {"namespace": "canary", "name": "web"},
            {"namespace": "canary", "name": "client"},
        ]
    )
    assert [w["key"] for w in found] == ["shop_web_proxy", "canary_web_proxy", "client_proxy"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), (False, False), ("true", True), ("No", False), ("1", True), ("", False)],
)
def test_flags(value: object, expected: bool) -> None:
    assert read_flag(value, "x") is expected


@pytest.mark.parametrize("value", ["maybe", 2, None, ["true"]])
def test_a_flag_that_says_nothing_is_refused(value: object) -> None:
    with pytest.raises(MeshError, match="true or false is needed"):
        read_flag(value, "precheck_set_default_tag")


def test_the_settled_connection_is_the_one_that_is_used() -> None:
    read = read_inputs(LAB, controller(), {"kubeconfig": "/run/kubeconfig-1", "made": "paths", "error": ""})
    assert read["errors"] == []
    assert read["desired"]["connection"] == {"kubeconfig": "/run/kubeconfig-1", "context": ""}
    assert read["desired"]["istioctl_flags"][:2] == ["--kubeconfig", "/run/kubeconfig-1"]


def test_a_connection_that_cannot_be_is_told_with_all_other_errors() -> None:
    settled = {"kubeconfig": "", "made": "", "error": "mesh_api_token is not set. Next: set it."}
    found = read_inputs(LAB | {"mesh_tags": {"a": 1}}, controller(), settled)["errors"]
    assert len(found) == 2
    assert settled["error"] in found


def test_a_token_that_is_no_text_is_not_quoted() -> None:
    (error,) = read_inputs(LAB | {"mesh_api_token": 12345678}, controller())["errors"]
    assert error == "mesh_api_token: it is not text. Next: write it in quotes."
