"""One row per minor of Istio, and which versions are supported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mesh_logic.errors import MeshError
from mesh_logic.releases import NEWEST, OLDEST, RANGE, RELEASES, release_of, support

from tests.unit.checks_world import World

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_has_no_gap_and_kubernetes_never_goes_back() -> None:
    assert [row.minor for row in RELEASES] == list(range(OLDEST.minor, NEWEST.minor + 1))
    assert [row.kubernetes for row in RELEASES] == sorted(row.kubernetes for row in RELEASES)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.23.6", "unsupported"),
        ("1.24.0", "supported"),
        ("1.30.5-corp.1-distroless", "supported"),
        ("1.31.9", "supported"),
        ("1.32.0", "next"),
        ("1.32.0-rc.0", "next"),
        ("1.33.0", "unsupported"),
        ("2.30.0", "unsupported"),
        ("0.30.0", "unsupported"),
    ],
)
def test_what_is_supported(version: str, expected: str) -> None:
    assert support(version) == expected


def test_what_is_no_version_is_refused() -> None:
    with pytest.raises(MeshError, match="this is not a version"):
        support("latest")


@pytest.mark.parametrize(("version", "minor"), [("1.20.1", 24), ("1.28.3", 28), ("1.31.0", 31), ("1.34.0", 31)])
def test_the_row_of_a_version(version: str, minor: int) -> None:
    assert release_of(version).minor == minor


def test_the_messages_name_the_variable_its_value_and_the_range() -> None:
    world = World()
    world.desired["from"]["version"], world.desired["to"]["version"] = "1.23.6", "1.32.1"
    old, new = (row for row in world.found() if row["id"].startswith("ISTIO_NOT"))
    assert (old["id"], old["severity"], old["resource"]) == ("ISTIO_NOT_SUPPORTED", "block", "mesh_from_version 1.23.6")
    assert "Istio 1.24 to 1.31 is supported" in old["text"]
    assert old["todo"].startswith("set mesh_from_version to one of Istio 1.24 to 1.31;")
    assert (new["id"], new["severity"], new["resource"]) == ("ISTIO_NOT_TRIED", "warn", "mesh_to_version 1.32.1")


def test_the_first_page_states_the_range() -> None:
    for name in ("README.md", "docs/versions.md"):
        assert f"Istio {RANGE}" in (ROOT / name).read_text(encoding="utf-8"), name


def test_the_lab_runs_what_is_said_to_have_run() -> None:
    text = (ROOT / "lab" / "vars" / "lab.yml").read_text(encoding="utf-8")
    run = {int(found) for found in re.findall(r"^lab_istio_(?:old|new): 1\.(\d+)\.", text, re.MULTILINE)}
    assert run == {row.minor for row in RELEASES if row.known == "run"}
