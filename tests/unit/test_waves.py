"""Waves: the order of restarts, what holds between them, and what a plan of thousands shows and keeps."""

from __future__ import annotations

from typing import Any

import pytest
from mesh_logic import gates
from mesh_logic.plan import SHOWN_RESTARTS, action, chain_plan, describe, expected_labels, groups, kept
from mesh_logic.waves import REST, failed_words, selectors, wave_name, wave_of

from tests.unit.mesh_stages import NEW, OLD, facts, namespace, row_of, wants

WAVES = [
    {"name": "inner", "selector": "tier=inner", "max_concurrent": 2, "soak_seconds": 5, "max_failed": 1},
    {"name": "shop", "namespaces": ["shop", "pay"]},
]


def mesh() -> dict[str, Any]:
    """Return the canary stage with workloads in four more namespaces, all of them on the tag."""
    found = facts("after_canary")
    for name in ("pay", "inner-a", "inner-b", "else"):
        namespace(found, name)["istio.io/rev"] = "prod-stable"
        found["workloads"].append(row_of(name, "app"))
    found["selected"] = {"tier=inner": ["inner-a", "inner-b", "shop"]}
    return found


def test_restarts_come_in_the_order_of_their_waves() -> None:
    plan = [a for a in chain_plan(mesh(), wants(mesh_waves=WAVES)) if a["step"] == "move_tags" and a["do"] == "restart"]
    assert [(a["wave"], a["object"].split()[1]) for a in plan] == [
        ("inner", "shop/web"),  # the first wave that takes a namespace has it
        ("inner", "inner-a/app"),
        ("inner", "inner-b/app"),
        ("shop", "pay/app"),
        (REST, "else/app"),
    ]
    assert [[a["object"].split()[1] for a in cut] for cut in groups(plan)][1:] == [["pay/app"], ["else/app"]]


def test_without_waves_nothing_is_cut() -> None:
    plan = [a for a in chain_plan(mesh(), wants()) if a["step"] == "move_tags" and a["do"] == "restart"]
    assert len(plan) == 5
    assert len(groups(plan)) == 1
    assert not any("wave" in a for a in plan)


@pytest.mark.parametrize(
    ("name", "wave"),
    [("inner-a", "inner"), ("pay", "shop"), ("else", REST)],
    ids=["by-selector", "by-name", "the-rest"],
)
def test_the_wave_of_a_namespace(name: str, wave: str) -> None:
    desired = wants(mesh_waves=WAVES)
    assert wave_name(desired["waves"], mesh()["selected"], name) == wave
    assert wave_name([], {}, name) == ""
    bounds = wave_of(desired, [{"do": "restart", "wave": wave}])
    assert bounds["name"] == wave
    assert (bounds["max_concurrent"], bounds["max_failed"]) == {"inner": (2, 1), "shop": (8, 0), REST: (0, 0)}[wave]
    assert selectors(desired) == ["tier=inner"]


def test_a_wave_that_takes_nothing_is_an_input_error() -> None:
    found = mesh() | {"selected": {"tier=inner": []}}
    desired = wants(mesh_waves=[*WAVES, {"name": "lost", "namespaces": ["nowhere"]}])
    said = [e for e in gates.start_errors(found, desired) if e.startswith("mesh_waves")]
    assert ["tier=inner" in said[0], "nowhere" in said[1], len(said)] == [True, True, 2]
    assert "it selects no namespace" in said[0]


# --- between waves ---------------------------------------------------------------------------------------

GROUP = [action("restart", "Deployment pay/app", OLD, NEW, "its tag moved")]
LABELS: dict[str, dict[str, Any]] = {"pay": {"istio-injection": None, "istio.io/rev": "prod-stable"}}


def moved() -> dict[str, Any]:
    found = mesh()
    found["workloads"] = [row_of("pay", "app", NEW)]
    return found


def test_a_wave_that_holds_has_no_errors() -> None:
    assert gates.wave_errors(moved(), mesh(), GROUP, LABELS, []) == []


def test_a_label_that_something_put_back_stops_the_next_wave() -> None:
    found = moved()
    namespace(found, "pay")["istio.io/rev"] = OLD
    assert gates.wave_errors(found, mesh(), GROUP, LABELS, []) == [
        f'namespace pay: label istio.io/rev is "{OLD}", the wave left "prod-stable": something else changed it'
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param({"workloads": []}, "Deployment pay/app is gone", id="deleted"),
        pytest.param({"workloads": [row_of("pay", "app", OLD)]}, f"injected by {OLD}, expected {NEW}", id="born-old"),
        pytest.param({"workloads": [row_of("pay", "app", "")]}, "injected by nothing", id="no-proxy"),
    ],
)
def test_a_wave_that_does_not_hold(change: dict[str, Any], why: str) -> None:
    found = moved() | change
    said = gates.wave_errors(found, mesh(), GROUP, LABELS, [])
    assert len(said) == 1
    assert why in said[0]
    failed = {"kind": "Deployment", "namespace": "pay", "name": "app", "cause": "image pull"}
    assert gates.wave_errors(found, mesh(), GROUP, LABELS, [failed]) == [], "what the wave may let pass does not count"
    assert failed_words(failed) == "Deployment pay/app: image pull"


def test_proxies_that_turn_unready_stop_the_next_wave() -> None:
    found = moved()
    found["workloads"][0]["proxies"][0]["ready"] = False
    assert "are not ready" in gates.wave_errors(found, mesh(), GROUP, LABELS, [])[0]
    assert gates.wave_errors(found, found, GROUP, LABELS, []) == [], "what was not ready before is not its doing"


# --- thousands of restarts ---------------------------------------------------------------------------------


def test_a_record_and_a_plan_of_thousands_stay_readable() -> None:
    many = [action("restart", f"Deployment ns-{i % 3}/app-{i}", OLD, NEW, "its tag moved") for i in range(2000)]
    plan = [action("set_tag", "prod-stable", OLD, NEW, "moves"), *many]
    lines = describe(plan)
    assert len(lines) == SHOWN_RESTARTS + 3
    assert lines[-1] == "restart 500 more workloads of namespace ns-2"
    short = kept(plan)
    assert len(short) == SHOWN_RESTARTS + 2
    assert short[-1]["object"] == f"{2000 - SHOWN_RESTARTS} more workloads"
    assert kept(plan[:10]) == plan[:10]


def test_expected_labels_are_those_that_the_plan_leaves() -> None:
    plan = [action("set_labels", "pay", {}, {"istio.io/rev": NEW, "istio-injection": None}, "canary"), *GROUP]
    assert expected_labels(GROUP, mesh(), plan) == {"pay": {"istio-injection": None, "istio.io/rev": NEW}}
    assert expected_labels(GROUP, mesh(), GROUP) == LABELS
