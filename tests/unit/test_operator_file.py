"""The IstioOperator file: case F12 and the bad inputs that must be refused before anything changes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from mesh_logic.errors import MeshError
from mesh_logic.operator_file import check_operator_file, overlay_operator

PATH, ALLOWED = "files/istio-operator.yaml", ["1-30-5", "1-31-0"]
HEAD = "apiVersion: install.istio.io/v1alpha1\nkind: IstioOperator\n"
GOOD = HEAD + "metadata:\n  name: control-plane\nspec:\n  profile: minimal\n  hub: registry.example/istio\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(GOOD, id="plain"),
        pytest.param(HEAD, id="no-spec"),
        pytest.param(HEAD + "spec:\n", id="empty-spec"),
        pytest.param(f"---\n{GOOD}---\n", id="empty-document-behind"),
        pytest.param(GOOD + "  revision: 1-30-5\n", id="old-revision"),
        pytest.param(GOOD + "  values: {revision: 1-31-0}\n", id="new-revision-in-values"),
        pytest.param(GOOD + "  revision: default\n", id="default"),
        pytest.param(GOOD + "  revision: ''\n", id="no-revision"),
        pytest.param(GOOD + "  values: {revisionTags: []}\n", id="no-revision-tags"),
    ],
)
def test_good_files(text: str) -> None:
    assert check_operator_file(text, PATH, ALLOWED)["kind"] == "IstioOperator"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param("---\n# nothing\n", "is empty", id="only-a-comment"),
        pytest.param("kind: [", "not valid YAML", id="broken"),
        pytest.param("a\tb: {", "not valid YAML", id="tab"),
        pytest.param("- a\n", "a list", id="list"),
        pytest.param("text", "not a mapping", id="scalar"),
        pytest.param("apiVersion: install.istio.io/v1alpha1\nspec: {}\n", "kind none", id="no-kind"),
        pytest.param("apiVersion: apps/v1\nkind: Deployment\n", 'kind "Deployment"', id="F12-other-kind"),
        pytest.param(
            "apiVersion: sailoperator.io/v1\nkind: Istio\n",
            'kind "Istio" of "sailoperator.io/v1"',
            id="sail-operator",
        ),
        pytest.param("apiVersion: other/v1\nkind: IstioOperator\n", 'of "other/v1"', id="other-api"),
        pytest.param(
            "kind: Service\n---\nkind: ConfigMap\n---\nkind: Service\n",
            "3 documents (Service, ConfigMap)",
            id="F12-rendered-manifest",
        ),
        pytest.param(f"{GOOD}---\n{GOOD}", "2 documents (IstioOperator)", id="two-operators"),
        pytest.param(GOOD + "  revision: 1-29-0\n", "neither the old nor the new", id="foreign-revision"),
        pytest.param(GOOD + "  values: {revision: 1-29-0}\n", "spec.values.revision", id="foreign-revision-in-values"),
        pytest.param(GOOD + "  revision: 1.31\n", "quote it", id="float-revision"),
        pytest.param(GOOD + "  revision: 2025-01-31\n", "the date 2025-01-31", id="E04-date-revision"),
        pytest.param(GOOD + "  tag: 1.31\n", "spec.tag", id="float-tag"),
        pytest.param(GOOD + "  hub: other\n", "given twice", id="key-twice"),
        pytest.param(GOOD + "  values: {revisionTags: [prod]}\n", "before any canary", id="tags-in-the-file"),
        pytest.param(HEAD + "spec: minimal\n", "not a mapping", id="spec-is-text"),
    ],
)
def test_refused_files(text: str, cause: str) -> None:
    with pytest.raises(MeshError) as error:
        check_operator_file(text, PATH, ALLOWED)
    assert cause in str(error.value)
    assert PATH in str(error.value)


def test_argument_types_are_named() -> None:
    with pytest.raises(MeshError, match="allowed revisions"):
        check_operator_file(GOOD, PATH, "1-30-5")
    with pytest.raises(MeshError, match="path of the operator file"):
        check_operator_file(GOOD, None, ALLOWED)  # type: ignore[arg-type]
    with pytest.raises(MeshError, match="operator file"):
        check_operator_file(None, PATH, ALLOWED)


def overlay(text: str, revision: str = "1-31-0", tag: str = "1.31.0-distroless") -> tuple[dict[str, Any], list[str]]:
    found = overlay_operator(text, PATH, revision, tag, ALLOWED)
    assert yaml.safe_load(found["text"]) == found["document"]
    spec: dict[str, Any] = found["document"]["spec"]
    return spec, found["overlaid"]


def test_revision_and_tag_are_laid_over_and_hub_stays() -> None:
    spec, notes = overlay(GOOD + "  revision: 1-30-5\n  tag: 1.30.5\n")
    assert spec == {
        "profile": "minimal",
        "hub": "registry.example/istio",
        "revision": "1-31-0",
        "tag": "1.31.0-distroless",
    }
    assert notes == [
        'spec.revision set to "1-31-0", the file has "1-30-5"',
        'spec.tag set to "1.31.0-distroless", the file has "1.30.5"',
    ]


def test_laying_over_twice_changes_nothing() -> None:
    once = overlay_operator(GOOD, PATH, "1-31-0", "1.31.0", ALLOWED)
    again = overlay_operator(once["text"], PATH, "1-31-0", "1.31.0", ALLOWED)
    assert (again["text"], again["overlaid"]) == (once["text"], [])


@pytest.mark.parametrize("revision", ["default", ""])
def test_an_install_without_revision_has_none_in_the_file(revision: str) -> None:
    spec, notes = overlay(GOOD + "  revision: 1-30-5\n  values: {revision: 1-30-5}\n", revision, "1.30.5")
    assert "revision" not in spec
    assert spec["values"] == {}
    assert len(notes) == 3


def test_what_would_win_is_removed() -> None:
    # Istio merges user values last, so these would beat spec.revision and spec.tag.
    spec, notes = overlay(
        GOOD + "  values: {revision: 1-30-5, global: {tag: 1.30.5, logging: {a: b}}, pilot: {tag: 1.30.5}}\n"
        "  components: {pilot: {tag: 1.30.5, enabled: true}}\n"
    )
    assert spec["values"] == {"global": {"logging": {"a": "b"}}, "pilot": {}}
    assert spec["components"] == {"pilot": {"enabled": True}}
    assert sum("would win" in note for note in notes) == 4


def test_no_tag_keeps_the_one_of_the_file() -> None:
    spec, notes = overlay(GOOD + "  tag: 1.31.0-corp.2\n", tag="")
    assert spec["tag"] == "1.31.0-corp.2"
    assert notes == ['spec.revision set to "1-31-0"']


def test_pinned_image_is_refused_unless_it_has_the_tag() -> None:
    image = GOOD + "  values: {global: {proxy: {image: 'registry.example:5000/istio/proxyv2:%s'}}}\n"
    with pytest.raises(MeshError, match=r"global\.proxy\.image .* is used verbatim"):
        overlay(image % "1.30.5")
    assert overlay(image % "1.31.0-distroless")[0]["tag"] == "1.31.0-distroless"
    assert overlay(GOOD + "  values: {global: {proxy: {image: proxyv2}}}\n")[0]["tag"]


def test_settings_survive_as_they_were() -> None:
    text = GOOD + "  meshConfig: {accessLogFile: /dev/stdout}\n  values: {pilot: {env: {A: 'false', B: '１'}}}\n"
    spec, _ = overlay(text)
    assert spec["meshConfig"] == {"accessLogFile": "/dev/stdout"}
    assert spec["values"]["pilot"]["env"] == {"A": "false", "B": "１"}


def test_wrong_revision_and_tag_types() -> None:
    with pytest.raises(MeshError, match="revision: YAML reads"):
        overlay_operator(GOOD, PATH, 1.31, "1.31.0", ALLOWED)
    with pytest.raises(MeshError, match="tag: YAML reads"):
        overlay_operator(GOOD, PATH, "1-31-0", 1.31, ALLOWED)
