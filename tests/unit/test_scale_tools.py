"""The benchmark's own arithmetic: what the mesh holds, and when a target counts as missed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def bench() -> Any:
    return importlib.import_module("tests.tools.bench_scale")


@pytest.fixture(scope="module")
def scale_mesh() -> Any:
    return importlib.import_module("tests.tools.scale_mesh")


@pytest.mark.parametrize(("namespaces", "pods"), [(1, 13), (10, 103), (20, 205), (50, 513), (200, 2050), (1000, 10250)])
def test_size_counts_the_pods_of_its_workloads(scale_mesh: Any, namespaces: int, pods: int) -> None:
    size = scale_mesh.Size(namespaces)
    made = [item for number in range(namespaces) for item in scale_mesh.workloads_of(number, size.nodes)]
    # a DaemonSet is bound to one node by its name
    assert sum(item["spec"].get("replicas", 1) for item in made) == size.pods == pods
    assert len(size.nodes) * scale_mesh.PODS_PER_NODE >= 2 * pods


@pytest.mark.parametrize(
    ("value", "limit", "above", "missed"),
    [
        (1.5, 1.5, False, False),
        (1.51, 1.5, False, True),
        (4.0, 4.0, True, False),
        (3.9, 4.0, True, True),
        (0, 0, False, False),
        (1, 0, False, True),
        (99, None, False, False),
    ],
)
def test_a_target_is_missed_on_its_own_side_only(
    bench: Any, value: float, limit: float | None, above: bool, missed: bool
) -> None:
    figure = bench.Figure("some figure", value, " x", limit, above)
    assert figure.missed is missed
    assert ("(missed)" in figure.row()) is missed


def test_a_table_replaces_only_its_own_place(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [
        f"<!-- measured {p} {n} -->\nold {p} {n}\n<!-- end {p} {n} -->\n" for n in (200, 7) for p in ("read", "move")
    ]
    document = tmp_path / "scale.md"
    document.write_text("before\n" + "".join(places) + "after\n", encoding="utf-8")
    monkeypatch.setattr(bench, "DOCUMENT", document)
    monkeypatch.setattr(bench, "SIZE", bench.Size(200))
    bench.write("move", "new\n")
    assert (
        document.read_text(encoding="utf-8")
        == "before\n" + places[0] + places[1].replace("old move 200", "new") + "".join(places[2:]) + "after\n"
    )


def test_a_size_without_a_place_is_not_written(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = tmp_path / "scale.md"
    document.write_text("no place\n", encoding="utf-8")
    monkeypatch.setattr(bench, "DOCUMENT", document)
    bench.write("read", "new\n")
    assert document.read_text(encoding="utf-8") == "no place\n"
