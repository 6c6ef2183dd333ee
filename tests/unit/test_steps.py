"""The order of the steps, and where a run is to end."""

from __future__ import annotations

import pytest
from mesh_logic.errors import MeshError
from mesh_logic.steps import STEPS, step_wanted


def test_the_order() -> None:
    assert list(STEPS) == [
        "precheck",
        "install",
        "canary",
        "move_tags",
        "rollback_drill",
        "uninstall",
        "report",
    ]
    assert [s[2][:2] for s in STEPS.values()] == ["02", "03", "04", "05", "06", "07", "08"]


@pytest.mark.parametrize("last", ["", *STEPS])
def test_a_run_ends_after_a_step(last: str) -> None:
    wanted = [s for s in STEPS if step_wanted(last, s)]
    assert wanted == (list(STEPS)[: list(STEPS).index(last) + 1] if last else list(STEPS))


@pytest.mark.parametrize(("last", "step"), [("drill", "canary"), ("", "before"), ("", "Canary")])
def test_no_such_step(last: str, step: str) -> None:
    with pytest.raises(MeshError, match=r"no such step.*use one of: precheck, install"):
        step_wanted(last, step)
