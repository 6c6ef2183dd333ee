"""Predicted injector: every row of CASES appendix 3, D01-D05, B08, and what names nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mesh_logic.errors import MeshError
from mesh_logic.injection import injecting_revision

TAGS = {"default": "1-30-5", "prod-stable": "1-30-5", "prod-canary": "1-31-0"}
REVISIONS = ["1-30-5", "1-31-0"]
REV, INJECTION, INJECT = "istio.io/rev", "istio-injection", "sidecar.istio.io/inject"
NEW, OLD = "1-31-0", "1-30-5"

# id, namespace labels, pod labels, expected revision, via, tag
ROWS: list[tuple[str, dict[str, str], dict[str, str], str | None, str, str | None]] = [
    ("enabled", {INJECTION: "enabled"}, {}, OLD, "default", "default"),
    ("enabled-any-pod-rev", {INJECTION: "enabled"}, {REV: NEW}, OLD, "default", "default"),
    ("enabled-inject-true", {INJECTION: "enabled"}, {INJECT: "true"}, OLD, "default", "default"),
    ("D01-both-labels", {INJECTION: "enabled", REV: NEW}, {}, OLD, "default", "default"),
    ("disabled", {INJECTION: "disabled"}, {}, None, "none", None),
    ("D02-disabled-and-tag", {INJECTION: "disabled", REV: "prod-stable"}, {}, None, "none", None),
    ("disabled-pod-true", {INJECTION: "disabled"}, {INJECT: "true", REV: NEW}, None, "none", None),
    ("D05-true", {INJECTION: "true", REV: "default"}, {}, None, "none", None),
    ("D05-empty", {INJECTION: ""}, {INJECT: "true"}, None, "none", None),
    ("ns-revision", {REV: NEW}, {}, NEW, "namespace", None),
    ("ns-tag", {REV: "prod-stable"}, {}, OLD, "namespace", "prod-stable"),
    ("ns-default-tag", {REV: "default"}, {}, OLD, "namespace", "default"),
    ("D03-pod-label-loses", {REV: OLD}, {REV: NEW}, OLD, "namespace", None),
    ("pod-revision", {}, {REV: NEW}, NEW, "pod", None),
    ("pod-tag", {}, {REV: "prod-canary"}, NEW, "pod", "prod-canary"),
    ("pod-revision-and-true", {}, {REV: NEW, INJECT: "true"}, NEW, "pod", None),
    ("pod-true", {}, {INJECT: "true"}, OLD, "default", "default"),
    ("pod-yes-is-not-true", {}, {INJECT: "yes"}, None, "none", None),
    ("nothing", {}, {}, None, "none", None),
    ("other-labels", {"team": "a"}, {"app": "web"}, None, "none", None),
    ("opt-out-enabled", {INJECTION: "enabled"}, {INJECT: "false"}, None, "none", None),
    ("opt-out-ns-rev", {REV: NEW}, {INJECT: "false"}, None, "none", None),
    ("opt-out-pod-rev", {}, {REV: NEW, INJECT: "false"}, None, "none", None),
]


@pytest.mark.parametrize(
    ("namespace", "pod", "revision", "via", "tag"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_selectors(
    namespace: dict[str, str], pod: dict[str, str], *, revision: str | None, via: str, tag: str | None
) -> None:
    answer = injecting_revision(namespace, pod, TAGS, REVISIONS)
    assert (answer["revision"], answer["via"], answer["tag"]) == (revision, via, tag)
    assert answer["reason"]


FINDINGS: list[tuple[str, dict[str, str], dict[str, str], dict[str, Any], str]] = [
    ("D01", {INJECTION: "enabled", REV: NEW}, {}, {}, "remove istio-injection to use it"),
    ("D02", {INJECTION: "disabled", REV: NEW}, {}, {}, "is ignored because of istio-injection=disabled"),
    ("D03", {REV: OLD}, {REV: NEW}, {}, "change the namespace label"),
    ("D04", {}, {}, {"pod_annotations": {REV: NEW}}, "set it as a label"),
    ("D05", {INJECTION: "true", REV: "default"}, {}, {}, '"true" is neither enabled nor disabled'),
    ("pod-rev-hidden", {INJECTION: "enabled"}, {REV: NEW}, {}, "because of namespace label istio-injection"),
    ("inject-yes", {REV: NEW}, {INJECT: "yes"}, {}, "neither true nor false"),
    ("unknown-namespace-label", {REV: "canray"}, {}, {}, "tags: default, prod-canary, prod-stable"),
    ("unknown-pod-label", {}, {REV: "1-29-0"}, {}, "revisions: 1-30-5, 1-31-0"),
    ("empty-label", {REV: ""}, {}, {}, 'called ""'),
]


@pytest.mark.parametrize(
    ("namespace", "pod", "more", "finding"), [row[1:] for row in FINDINGS], ids=[row[0] for row in FINDINGS]
)
def test_findings(namespace: dict[str, str], pod: dict[str, str], more: dict[str, Any], finding: str) -> None:
    answer = injecting_revision(namespace, pod, TAGS, REVISIONS, **more)
    assert any(finding in text for text in answer["findings"]), answer["findings"]


def test_a_label_that_names_nothing_injects_nothing() -> None:
    for labels, pod in (({REV: "canray"}, {}), ({}, {REV: "1-29-0"}), ({REV: ""}, {})):
        answer = injecting_revision(labels, pod, TAGS, REVISIONS)
        assert (answer["revision"], answer["via"]) == (None, "none")


def test_d04_annotation_is_ignored_and_silent_where_it_is_true() -> None:
    ignored = injecting_revision({REV: OLD}, {}, TAGS, REVISIONS, pod_annotations={REV: NEW})
    assert ignored["revision"] == OLD
    # A running pod carries the annotation as a result: no hint when it agrees.
    assert injecting_revision({REV: OLD}, {}, TAGS, REVISIONS, pod_annotations={REV: OLD})["findings"] == []


@pytest.mark.parametrize("labels", [{INJECTION: "enabled"}, {REV: NEW}, {}])
def test_host_network_is_never_injected(labels: dict[str, str]) -> None:  # case B08
    answer = injecting_revision(labels, {INJECT: "true"}, TAGS, REVISIONS, host_network=True)
    assert answer["revision"] is None
    assert "not injectable" in answer["reason"]


@pytest.mark.parametrize("name", ["kube-system", "kube-public", "kube-node-lease", "local-path-storage"])
def test_system_namespaces_are_skipped(name: str) -> None:
    assert injecting_revision({REV: NEW}, {}, TAGS, REVISIONS, namespace=name)["revision"] is None


def test_opt_out_by_annotation_unless_a_label_says_otherwise() -> None:
    out = {"pod_annotations": {INJECT: "false"}}
    assert injecting_revision({REV: NEW}, {}, TAGS, REVISIONS, **out)["revision"] is None  # type: ignore[arg-type]
    labelled = injecting_revision({REV: NEW}, {INJECT: "true"}, TAGS, REVISIONS, pod_annotations={INJECT: "false"})
    assert labelled["revision"] == NEW


@pytest.mark.parametrize(
    ("tags", "revisions", "default_injects", "revision"),
    [
        pytest.param({}, ["default", NEW], None, "default", id="non-revisioned-install"),
        pytest.param({}, ["default", NEW], False, None, id="its-injector-is-off"),
        pytest.param({}, [NEW], None, None, id="nobody"),
        pytest.param({}, None, None, None, id="not-known"),
        pytest.param({}, None, True, "default", id="said-so"),
        pytest.param({"default": NEW}, ["default", NEW], None, NEW, id="tag-beats-it"),
        pytest.param({"default": NEW}, ["default", NEW], True, NEW, id="tag-beats-what-was-said"),
        pytest.param({"default": "default"}, ["default"], None, "default", id="default-to-default"),
    ],
)
@pytest.mark.parametrize("namespace", [{INJECTION: "enabled"}, {REV: "default"}])
def test_who_serves_default(
    namespace: dict[str, str],
    tags: dict[str, str],
    revisions: list[str] | None,
    default_injects: bool | None,
    *,
    revision: str | None,
) -> None:
    answer = injecting_revision(namespace, {}, tags, revisions, default_injects=default_injects)
    assert answer["revision"] == revision
    assert bool(answer["findings"]) is (revision is None)


def test_dangling_tag_blocks_pod_creation() -> None:
    answer = injecting_revision({REV: "prod-stable"}, {}, {"prod-stable": "1-24-2"}, REVISIONS)
    assert (answer["revision"], answer["tag"]) == (None, "prod-stable")
    assert "pod creation fails" in answer["findings"][0]


def test_tag_that_shadows_a_revision_is_told() -> None:
    answer = injecting_revision({REV: NEW}, {}, {NEW: OLD}, REVISIONS)
    assert answer["revision"] == OLD
    assert "two injectors match" in answer["findings"][0]


def test_inject_by_default() -> None:
    assert injecting_revision({}, {}, TAGS, REVISIONS, inject_by_default=True)["revision"] == OLD
    assert injecting_revision({}, {INJECT: "false"}, TAGS, REVISIONS, inject_by_default=True)["revision"] is None
    assert injecting_revision({}, {REV: NEW}, TAGS, REVISIONS, inject_by_default=True)["revision"] == NEW


def test_rows_of_tag_list_and_missing_maps_are_accepted() -> None:
    rows = [
        {"tag": "prod", "revision": NEW, "namespaces": []},
        {"tag": "", "revision": OLD, "namespaces": []},
    ]
    assert injecting_revision({REV: "prod"}, None, rows)["revision"] == NEW
    assert injecting_revision(None, None, {})["revision"] is None
    with pytest.raises(MeshError, match="at once"):
        injecting_revision({REV: "prod"}, {}, [*rows, {"tag": "prod", "revision": OLD, "namespaces": []}])


@pytest.mark.parametrize(
    ("arguments", "more", "cause"),
    [
        (("x", {}, {}), {}, "namespace labels: a mapping is needed"),
        (({INJECTION: True}, {}, {}), {}, 'namespace labels "istio-injection": YAML reads'),
        (({}, [], {}), {}, "pod labels: a mapping is needed"),
        (({}, {}, "prod"), {}, "tags: a mapping is needed"),
        (({}, {}, {}, "1-30-5"), {}, "revisions: a list is needed"),
        (({}, {}, {}), {"host_network": "false"}, "host_network: true or false is needed"),
        (({}, {}, {}), {"namespace": None}, "namespace: no value"),
    ],
)
def test_wrong_types_are_named(arguments: tuple[Any, ...], more: dict[str, Any], cause: str) -> None:
    with pytest.raises(MeshError, match=cause):
        injecting_revision(*arguments, **more)


VALUES = st.sampled_from(["enabled", "disabled", "true", "false", "", "default", "prod-stable", OLD, NEW, "gone"])
LABELS = st.dictionaries(st.sampled_from([REV, INJECTION, INJECT]), VALUES)


def webhook_model(ns: dict[str, str], pod: dict[str, str]) -> str | None:
    """Evaluate the selectors of ISTIO_FORMATS 4.1 entry by entry, an independent second opinion."""
    injectors = {**{name: name for name in REVISIONS}, **TAGS}
    hits = set()
    for name, revision in injectors.items():
        wanted = pod.get(INJECT) != "false"
        neither = INJECTION not in ns and REV not in ns
        if wanted and ns.get(REV) == name and INJECTION not in ns:
            hits.add(revision)
        if wanted and neither and pod.get(REV) == name:
            hits.add(revision)
        if name == "default" and wanted and ns.get(INJECTION) == "enabled":
            hits.add(revision)
        if name == "default" and neither and pod.get(INJECT) == "true" and REV not in pod:
            hits.add(revision)
    assert len(hits) <= 1
    return hits.pop() if hits else None


@settings(max_examples=300, deadline=None)
@given(LABELS, LABELS)
def test_prediction_equals_the_selectors(ns: dict[str, str], pod: dict[str, str]) -> None:
    assert injecting_revision(ns, pod, TAGS, REVISIONS)["revision"] == webhook_model(ns, pod)
