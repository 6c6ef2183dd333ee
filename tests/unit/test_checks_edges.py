"""Edges of the checks: names that begin alike, selectors, settings in values, thousands that block."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
from mesh_logic.checks.judge import TOLD, judge

from tests.unit.checks_world import OLD, TODAY, World
from tests.unit.mesh_stages import row_of

mesh_inspect = importlib.import_module("mesh_inspect")
ONE_MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("kind", "holder", "blocks"),
    [
        ("Deployment", "ReplicaSet shop/lone-7d9f8b6c5d", True),
        ("Deployment", "ReplicaSet shop/lone-admin-7d9f8b6c5d", False),
        ("ReplicaSet", "ReplicaSet shop/lone", True),
        ("ReplicaSet", "ReplicaSet shop/lone-7d9f8b6c5d", False),
        ("StatefulSet", "StatefulSet shop/lone", True),
    ],
)
def test_a_budget_of_a_workload_whose_name_begins_alike_blocks_nothing(kind: str, holder: str, blocks: bool) -> None:
    world = World()
    world.facts["workloads"].append(row_of("shop", "lone", kind=kind))
    world.desired["consents"] = [{"resource": f"{kind} shop/lone", "allow": "evict", "reason": "r"}]
    budget: dict[str, Any] = {
        "namespace": "shop",
        "name": "b",
        "revision": None,
        "selector": {},
        "expressions": [],
        "allowed": 0,
    }
    world.inspected["budgets"].append(budget | {"expected": 1, "holds": [holder]})
    assert ("BUDGET_BLOCKS_EVICTION" in world.ids()) is blocks


@pytest.mark.parametrize(
    ("selector", "expressions", "text"),
    [
        ({}, [], ""),
        ({"b": "2", "a": "1"}, [], "a=1,b=2"),
        ({"a": "1"}, [{"key": "b", "operator": "In", "values": ["x", "y"]}], "a=1,b in (x,y)"),
        ({}, [{"key": "b", "operator": "NotIn", "values": ["x"]}], "b notin (x)"),
        ({}, [{"key": "b", "operator": "Exists"}, {"key": "c", "operator": "DoesNotExist"}], "b,!c"),
    ],
)
def test_every_selector_of_a_budget_is_asked(
    selector: dict[str, str], expressions: list[dict[str, Any]], text: str
) -> None:
    assert mesh_inspect.selector_of({"selector": selector, "expressions": expressions}) == text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("discoverySelectors:\n      - matchLabels: {tier: first}", "DISCOVERY_LEAVES_OUT"),
        ("enableTracing: true", "TRACING_WITHOUT_PROVIDER"),
    ],
)
def test_mesh_config_in_values_counts_as_the_field_does(text: str, code: str) -> None:
    world = World()
    world.operator(f"  values:\n    meshConfig:\n      {text}\n")
    assert code in world.ids()


def test_values_win_over_the_field() -> None:
    world = World()
    world.operator("  meshConfig:\n    enableTracing: true\n  values:\n    meshConfig:\n      enableTracing: false\n")
    assert "TRACING_WITHOUT_PROVIDER" not in world.ids()


def thousands() -> World:
    world = World()
    for number in range(5000):
        world.add_object("VirtualService", OLD, name=f"a-route-with-a-long-name-{number:05}")
    return world


def test_thousands_that_block_still_stop_the_run_and_fit_its_record() -> None:
    verdict = judge(thousands().found(), [], TODAY)
    assert len(verdict["blockers"]) == TOLD + 1
    assert verdict["blockers"][-1] == "OBJECT_OLD_REVISION: and 4950 more that must be mended or waived"
    recorded = {key: verdict[key] for key in ("blockers", "shown", "recorded")}
    assert len(json.dumps(recorded)) < ONE_MIB / 4


def test_thousands_that_are_waived_fit_the_record() -> None:
    waiver = {"id": "OBJECT_OLD_REVISION", "resource": "", "reason": "agreed", "expires": ""}
    verdict = judge(thousands().found(), [waiver], TODAY)
    assert verdict["blockers"] == []
    assert verdict["shown"][-1] == "OBJECT_OLD_REVISION: and 4950 more"
    assert len(json.dumps(verdict["shown"])) < ONE_MIB / 4
