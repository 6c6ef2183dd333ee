"""Versions and revision names: cases A09, C08, E01, E04-E07, E09, F04, I05."""

from __future__ import annotations

import datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mesh_logic import versions
from mesh_logic.errors import MeshError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.31.0", (1, 31, 0)),
        ("1.30.5-corp.2-distroless", (1, 30, 5)),
        ("1.31.0-rc.0", (1, 31, 0)),
        ("v1.2.3", (1, 2, 3)),
    ],
)
def test_parse(text: str, expected: tuple[int, int, int]) -> None:
    assert versions.parse_version(text) == expected


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        pytest.param(1.3, "the number 1.3", id="1.30-as-yaml-float"),
        pytest.param(131, "the number 131", id="int"),
        pytest.param(True, "the boolean true", id="bool"),
        pytest.param(None, "no value is set", id="null"),
        pytest.param(datetime.date(2025, 1, 31), "the date 2025-01-31", id="E04-date"),
        pytest.param(["1.31.0"], "a list", id="list"),
        pytest.param("1.30", "patch number is missing", id="two-parts"),
        pytest.param("latest", "not a version", id="latest"),
        pytest.param("release-1.3-20190829-10-16", "not a version", id="A09-branch"),
        pytest.param("", "not a version", id="empty"),
        pytest.param("1.31.0\n", "not a version", id="newline"),
    ],
)
def test_parse_refuses(value: object, cause: str) -> None:
    with pytest.raises(MeshError) as error:
        versions.parse_version(value, "mesh_to_version")
    assert str(error.value).startswith("mesh_to_version")
    assert cause in str(error.value)


def test_revision_name() -> None:
    assert versions.revision_name("1.31.0") == "1-31-0"
    assert versions.revision_name("1.31.0-rc.0") == "1-31-0-rc-0"
    with pytest.raises(MeshError, match="quote it"):
        versions.revision_name(1.31)


@pytest.mark.parametrize("value", ["1-31-0", "default", "canary", "a", "1-31-0-rc-0", "r" * 56])
def test_good_revision_names(value: str) -> None:
    assert versions.check_revision_name(value) == value


@pytest.mark.parametrize(
    ("value", "todo"),
    [
        pytest.param("1.31.0", 'use "1-31-0"', id="E01-dotted"),
        pytest.param(datetime.date(2025, 1, 31), "quote it", id="E04-date"),
        pytest.param(131, "quote it", id="E04-number"),
        pytest.param({}, "one string", id="E04-mapping"),
        pytest.param("", "set it", id="empty"),
        pytest.param("Canary", 'use "canary"', id="upper-case"),
        pytest.param("-1-31-0", 'use "1-31-0"', id="leading-dash"),
        pytest.param("1_31_0", 'use "1-31-0"', id="underscore"),
        pytest.param("r" * 57, "at most 56", id="too-long"),
        pytest.param("istiod-1-30-5", 'use "1-30-5"', id="I05-deployment-name"),
        pytest.param("istio-sidecar-injector-1-30-5", 'use "1-30-5"', id="I05-webhook-name"),
    ],
)
def test_bad_revision_names(value: object, todo: str) -> None:
    with pytest.raises(MeshError) as error:
        versions.check_revision_name(value, "mesh_to_revision")
    assert "mesh_to_revision" in str(error.value)
    assert todo in error.value.todo


def test_revision_against_the_cluster() -> None:
    known, tags = ["1-30-5", "1-31-0"], {"prod-stable": "1-30-5"}
    assert versions.check_revision_name("1-30-5", known=known) == "1-30-5"
    with pytest.raises(MeshError, match="use one of: 1-30-5, 1-31-0"):
        versions.check_revision_name("1-29-0", known=known)
    with pytest.raises(MeshError, match='use "1-30-5"; revisions in the cluster: 1-30-5, 1-31-0'):
        versions.check_revision_name("istiod-1-30-5", known=known)  # case I05
    with pytest.raises(MeshError, match="this is a tag that points to 1-30-5"):
        versions.check_revision_name("prod-stable", known=known, tags=tags)  # case C08
    # A revision that is really called so is accepted.
    assert versions.check_revision_name("istiod-odd", known=["istiod-odd"]) == "istiod-odd"


ASCENDING = [
    "1.9.3",
    "1.10.0",
    "1.30.5",
    "1.31-dev",
    "1.31-alpha.79957a3",
    "1.31.0-beta.1",
    "1.31.0-beta.2",
    "1.31.0-rc.0",
    "1.31.0-rc.2",
    "1.31.0-rc.10",
    "1.31.0",
    "1.31.1",
]


@pytest.mark.parametrize(("older", "newer"), list(pairwise(ASCENDING)))
def test_order(older: str, newer: str) -> None:  # cases A09, E05, E06
    assert versions.compare_versions(older, newer) == -1
    assert versions.compare_versions(newer, older) == 1


@pytest.mark.parametrize("other", ["1.31.0-distroless", "1.31.0-corp.1", "v1.31.0", "1.31.0-solo-fips-debug"])
def test_suffix_and_variant_do_not_order(other: str) -> None:
    assert versions.compare_versions("1.31.0", other) == 0


def test_compare_refuses_numbers_and_names() -> None:
    with pytest.raises(MeshError, match="quote it"):
        versions.compare_versions("1.30.5", 1.29)  # case E05
    with pytest.raises(MeshError, match="not a version"):
        versions.compare_versions("1.30.5", "latest")  # case A08


@pytest.mark.parametrize(
    ("tag", "early"),
    [
        ("1.31-alpha.79957a3", True),
        ("1.31.0-rc.0-distroless", True),
        ("1.31.0-rc0", True),
        ("1.31-dev", True),
        ("1.31.0", False),
        ("1.31.0-corp.2", False),
        ("1.31.0-preview-corp", False),
        ("release-1.3-20190829-10-16", False),
        ("latest", False),
    ],
)
def test_is_prerelease(tag: str, early: bool) -> None:  # case A09
    assert versions.is_prerelease(tag) is early


VERSIONS = st.builds(
    "{}.{}.{}{}".format,
    st.integers(0, 3),
    st.integers(0, 40),
    st.integers(0, 12),
    st.sampled_from(["", "-rc.0", "-rc.1", "-rc.10", "-alpha.1f", "-alpha.7", "-beta", "-dev", "-rc0", "-corp.1"]),
)


@settings(max_examples=200, deadline=None)
@given(VERSIONS, VERSIONS, VERSIONS)
def test_order_is_total(a: str, b: str, c: str) -> None:
    compare = versions.compare_versions
    assert compare(a, a) == 0
    assert compare(a, b) == -compare(b, a)
    if compare(a, b) <= 0 and compare(b, c) <= 0:
        assert compare(a, c) <= 0


def test_newest_revision() -> None:
    assert versions.newest_revision(["1-9-3", "1-31-0", "1-10-0"]) == "1-31-0"  # case E06
    assert versions.newest_revision(["1-31-0", "1-31-0-rc-0"]) == "1-31-0"
    assert versions.newest_revision(["1-31", "1-30-5"]) == "1-31"
    for bad, cause in (([], "empty"), (["default"], "cannot be ordered"), ("1-31-0", "a list is needed")):
        with pytest.raises(MeshError, match=cause):
            versions.newest_revision(bad)


@pytest.mark.parametrize(
    ("old", "new", "skew"),
    [
        pytest.param("1.29.9", "1.31.0", 2, id="E07-two-minors"),
        pytest.param("1.30.5", "1.31.0", 1, id="one-minor"),
        pytest.param("1.30.4", "1.30.5", 0, id="patch"),
        pytest.param("1.31.0-rc.0", "1.31.0", 0, id="from-rc"),
        pytest.param("1.31.0-corp.1", "1.31.0-corp.2", 0, id="rebuild"),
    ],
)
def test_allowed_skew(old: str, new: str, skew: int) -> None:
    assert versions.check_skew(old, new) == skew


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        pytest.param("1.28.6", "1.31.0", "3 minors", id="E07-three-minors"),
        pytest.param("1.30.5", "1.29.4", "older than what runs", id="E09-downgrade"),
        pytest.param("1.30.5", "1.30.4", "older than what runs", id="E09-older-patch"),
        pytest.param("1.31.0", "1.31.0-rc.0", "older than what runs", id="back-to-rc"),
        pytest.param("1.31.0", "1.31.0", "the same", id="same"),
        pytest.param("1.31.0", "1.31.0-distroless", "the same", id="only-the-variant"),
        pytest.param("1.31.0", "2.0.0", "different major", id="major"),
        pytest.param("1.30.5", 1.31, "quote it", id="float"),
    ],
)
def test_refused_skew(old: str, new: object, cause: str) -> None:
    with pytest.raises(MeshError, match=cause):
        versions.check_skew(old, new)


def test_skew_can_be_raised_and_names_the_stop_between() -> None:
    assert versions.check_skew("1.28.6", "1.31.0", allowed_minors=3) == 3
    with pytest.raises(MeshError, match=r"upgrade to a 1\.30 release first"):
        versions.check_skew("1.28.6", "1.31.0")


def test_from_version_flag() -> None:
    assert versions.from_version_flag("1.30.5") == "1.30"  # case F04
