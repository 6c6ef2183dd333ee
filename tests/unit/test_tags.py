"""``istioctl tag list``: cases C01, C02, C13 and the three fixtures of appendix 1."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from mesh_logic.errors import MeshError
from mesh_logic.tags import revision_tags, tag_map, tag_revision

FIXTURES = Path(__file__).parent.parent / "fixtures" / "istioctl"


def row(tag: str, revision: str, *namespaces: str) -> dict[str, Any]:
    return {"tag": tag, "revision": revision, "namespaces": list(namespaces)}


ONE = [row("default", "1-30-5"), row("prod-stable", "1-30-5", "canary", "shop"), row("", "1-31-0")]
TWO = [row("", "1-31-0")]
THREE = [row("prod-stable", "1-30-5", "shop"), row("prod-stable", "1-31-0", "shop")]
TABLE = (FIXTURES / "tag-list-mixed.txt").read_text()
SENTENCES = [
    "No Istio revision tags found.\n",
    "No Istio revision tag MutatingWebhookConfigurations to list\n",
    "warning: something\nNo Istio revision tags found.\r\n",
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("tag-list-mixed.txt", ONE, id="C02-fixture-1"),
        pytest.param("tag-list-untagged.txt", TWO, id="C02-fixture-2"),
        pytest.param("tag-list-ambiguous.txt", THREE, id="fixture-3"),
        pytest.param("tag-list.json", ONE, id="json"),
        pytest.param("tag-list.yaml", ONE, id="yaml"),
    ],
)
def test_fixtures(name: str, expected: list[dict[str, Any]]) -> None:
    assert revision_tags((FIXTURES / name).read_text()) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TABLE, id="C01-table-although-json-was-asked"),
        pytest.param(TABLE.replace("\n", "\r\n"), id="crlf"),
        pytest.param("\x1b[32mok\x1b[0m\n" + TABLE.replace("TAG ", "\x1b[1mTAG\x1b[0m "), id="C13-ansi"),
        pytest.param("W1130 10:00:00.0 1 warnings.go:70] x is deprecated\n\n" + TABLE, id="junk-before"),
        pytest.param(TABLE.rstrip(), id="stripped-end"),
        pytest.param("\n".join(line.rstrip() for line in TABLE.split("\n")), id="stripped-lines"),
        pytest.param("\n".join("  " + line for line in TABLE.rstrip().split("\n")), id="indented"),
        pytest.param("I0101 [x] starting\n" + json.dumps(ONE, indent="\t"), id="json-after-junk"),
        pytest.param("W0101 x\n" + yaml.safe_dump(ONE, sort_keys=True), id="yaml-after-junk"),
    ],
)
def test_tolerated_forms(text: str) -> None:
    assert revision_tags(text) == ONE


@pytest.mark.parametrize("text", [*SENTENCES, "[]\n", "TAG REVISION NAMESPACES\n"])
def test_nothing_there_is_an_empty_list(text: str) -> None:
    assert revision_tags(text) == []


def test_plain_default_and_long_names() -> None:
    assert revision_tags("TAG     REVISION NAMESPACES\ndefault default  \n") == [row("default", "default")]
    long = "TAG            REVISION              NAMESPACES\na-long-tag-nam 1-31-0-a-long-revisio a,b\n"
    assert revision_tags(long) == [row("a-long-tag-nam", "1-31-0-a-long-revisio", "a", "b")]


def test_yaml_names_stay_text() -> None:
    assert revision_tags("- namespaces: []\n  revision: 1-31-0\n  tag: 2025-01-31\n") == [row("2025-01-31", "1-31-0")]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param(" \n\n", "is empty", id="blank"),
        pytest.param(None, "no value", id="null"),
        pytest.param({"rc": 1}, "a mapping", id="mapping"),
        pytest.param("Error: Unauthorized\n", "Unauthorized", id="error-line"),
        pytest.param(TABLE + "Error: connection refused\n", "connection refused", id="error-after-the-table"),
        pytest.param("hello\n", "neither table", id="C01-other-text"),
        pytest.param("TAG REVISION NAMESPACES\nprod-stable 1-30-5 shop\n", "does not fit", id="collapsed-columns"),
        pytest.param(TABLE + "W1130 10:00 some warning at the end\n", "does not fit", id="junk-after"),
        pytest.param("  TAG REVISION NAMESPACES\nx a   1-30-5   shop\n", "does not fit", id="outside-the-columns"),
        pytest.param('[{"tag": "a"}]', "lacks tag, revision", id="json-without-revision"),
        pytest.param('[{"tag": "a", "revision": ""}]', "lacks tag, revision", id="json-empty-revision"),
        pytest.param('[{"tag":"a","revision":"b","namespaces":[', "neither table", id="json-cut"),
        pytest.param("- tag: [\n", "broken", id="yaml-broken"),
    ],
)
def test_an_error_is_never_an_empty_list(text: object, cause: str) -> None:
    with pytest.raises(MeshError, match=cause) as error:
        revision_tags(text, "1.27.3")
    assert "1.27.3" in str(error.value)  # case C01: names the istioctl


def test_recorded_failure_is_no_empty_list() -> None:
    recorded = (FIXTURES / "recorded" / "tag-list-unreachable.stderr.txt").read_text()
    with pytest.raises(MeshError, match="connection refused"):
        revision_tags(recorded)


def test_lookup() -> None:
    assert tag_revision(ONE, "prod-stable") == "1-30-5"
    assert tag_map(ONE) == {"default": "1-30-5", "prod-stable": "1-30-5"}
    assert tag_revision(ONE + ONE, "default") == "1-30-5"  # the same answer twice is no contradiction


@pytest.mark.parametrize(
    ("rows", "tag", "cause"),
    [
        pytest.param(ONE, "1-31-0", "a revision, not a tag", id="C02-revision-is-no-tag"),
        pytest.param(ONE, "canary", "use one of: default, prod-stable", id="missing"),
        pytest.param(TWO, "canary", "there are no tags", id="none-at-all"),
        pytest.param(THREE, "prod-stable", "1-30-5 and 1-31-0", id="fixture-3-ambiguous"),
        pytest.param(ONE, "", "no such tag", id="empty-tag"),
        pytest.param(ONE, 1.3, "quote it", id="number"),
        pytest.param("text", "a", "a list is needed", id="text-for-rows"),
        pytest.param([{"tag": "a"}], "a", "lacks tag, revision", id="odd-row"),
    ],
)
def test_lookup_refuses(rows: object, tag: object, cause: str) -> None:
    with pytest.raises(MeshError, match=cause):
        tag_revision(rows, tag)


def test_map_refuses_ambiguous() -> None:
    with pytest.raises(MeshError, match="at once"):
        tag_map(THREE)


def tabwriter(rows: list[dict[str, Any]]) -> str:
    """Print rows as Go's tabwriter does with minimum width 0 and padding 1; the last cell is not padded."""
    cells = [("TAG", "REVISION", "NAMESPACES")] + [(r["tag"], r["revision"], ",".join(r["namespaces"])) for r in rows]
    widths = [max(len(line[i]) for line in cells) + 1 for i in (0, 1)]
    return "".join(f"{a:<{widths[0]}}{b:<{widths[1]}}{c}\n" for a, b, c in cells)


LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "tag": st.one_of(st.just(""), LABELS),
            "revision": LABELS,
            "namespaces": st.lists(LABELS, max_size=3),
        }
    ),
    max_size=6,
)


def test_tabwriter_is_the_real_one() -> None:
    assert tabwriter(ONE) == TABLE


@settings(max_examples=150, deadline=None)
@given(ROWS, st.sampled_from([tabwriter, json.dumps, lambda rows: yaml.safe_dump(rows) if rows else "[]"]))
def test_round_trip(rows: list[dict[str, Any]], writer: Any) -> None:
    assert revision_tags(writer(rows)) == rows


@settings(max_examples=150, deadline=None)
@given(st.text(string.printable, max_size=80))
def test_any_other_text_is_an_error(text: str) -> None:
    try:
        rows = revision_tags(text)
    except MeshError:
        return
    assert rows or "No Istio revision tag" in text or "[" in text or "TAG" in text
