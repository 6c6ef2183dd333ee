"""What is still to happen before an upgrade is over, asked of recorded facts."""

from __future__ import annotations

import pytest
from mesh_logic.outcome import unfinished

from tests.unit.mesh_stages import NEW, OLD, STAGES, facts, journal, wants

OLD_IS_THERE = f'the old revision "{OLD}" is still there'
TAGS = [f'tag "prod-stable" points at "{OLD}"', f'tag "default" points at "{OLD}"']

# stage, what is left
LEFT: dict[str, list[str]] = {
    "start": [f'revision "{NEW}" is not installed', *TAGS, OLD_IS_THERE],
    "after_install": [*TAGS, OLD_IS_THERE],
    "after_canary": [*TAGS, OLD_IS_THERE],
    "after_move_tags": [OLD_IS_THERE],
    "after_rollback_drill": [OLD_IS_THERE],
    "finished": [],
}


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_left_at_each_stage(stage: str) -> None:
    assert unfinished(facts(stage), wants()) == LEFT[stage]


def test_a_failed_step_comes_first_with_its_reason() -> None:
    found = facts("after_install")
    journal(found, "canary").update(state="failed", reason="web answered 503")
    assert unfinished(found, wants())[0] == "the step canary failed (web answered 503)"


def test_a_new_revision_of_another_version_is_told() -> None:
    found = facts("finished")
    for row in found["control_planes"]:
        row["image"] = "docker.io/istio/pilot:1.31.1"
    assert unfinished(found, wants()) == [f'revision "{NEW}" does not run version 1.31.0']


def test_a_new_revision_that_is_not_ready_is_told() -> None:
    found = facts("finished")
    for row in found["control_planes"]:
        row["available"] = 0
    assert unfinished(found, wants()) == [f'revision "{NEW}" is not ready']
