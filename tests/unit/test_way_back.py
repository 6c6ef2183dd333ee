"""The way back as plans: rollback and abort from every recorded stage of a chain, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from mesh_logic import gates, way_back
from mesh_logic.plan import chain_plan, describe, step_plan

from tests.unit.mesh_stages import (
    NEW,
    OLD,
    facts,
    journal,
    namespace,
    row_of,
    set_tag,
    wants,
    workload,
)

Step = tuple[str, str, str, Any]
GATEWAY = {
    "kind": "Deployment",
    "namespace": "istio-system",
    "name": "istio-ingressgateway",
    "revision": NEW,
    "component": "IngressGateways",
    "tag": "",
}
ISTIOD = GATEWAY | {"name": f"istiod-{NEW}", "component": "Pilot"}
LABELS_BACK: Step = ("set_labels", "canary", "canary", {"istio.io/rev": "prod-stable"})
CLIENT: Step = ("restart", "canary", "Deployment canary/client", OLD)
REMOVE: Step = ("uninstall", "removal", NEW, None)


def plan(found: dict[str, Any], road: str, objects: list[dict[str, str]] | None = None, **changes: Any) -> Any:
    return way_back.way_back_plan(found, wants(**changes), objects or [], road)


def without_old_istioctl(found: dict[str, Any], road: str, *objects: dict[str, str]) -> Any:
    desired = wants()
    desired["from"]["istioctl"] = ""
    return way_back.way_back_plan(found, desired, list(objects), road)


def short(actions: list[dict[str, Any]]) -> list[Step]:
    return [(a["do"], a["phase"], a["object"], a["to"]) for a in actions]


def tag_back(tag: str) -> Step:
    return ("set_tag", "tags", tag, OLD)


TAGS_BACK = [
    tag_back("default"),
    tag_back("prod-stable"),
    ("restart", "tags", "Deployment canary/client", OLD),
    ("restart", "tags", "Deployment shop/web", OLD),
]


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        pytest.param("start", [], id="nothing-was-done"),
        pytest.param("after_install", [REMOVE], id="after-install"),
        pytest.param("after_canary", [LABELS_BACK, CLIENT, REMOVE], id="after-canary"),
        pytest.param("after_move_tags", [*TAGS_BACK, REMOVE], id="after-the-tags"),
        pytest.param("after_rollback_drill", [*TAGS_BACK, REMOVE], id="after-the-drill"),
    ],
)
def test_abort_from_every_stage(stage: str, expected: list[Step]) -> None:  # case I08
    found = plan(facts(stage), "abort")
    assert short(found["actions"]) == expected
    assert found["state"] == ("todo" if expected else "done")


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        pytest.param("after_install", [], id="after-install"),
        pytest.param(
            "after_canary",
            [("set_labels", "tags", "canary", LABELS_BACK[3]), ("restart", "tags", "Deployment canary/client", OLD)],
            id="after-canary",
        ),
        pytest.param("after_move_tags", TAGS_BACK, id="after-the-tags"),
        pytest.param("finished", [("install", "control_plane", OLD, "1.30.5"), *TAGS_BACK], id="after-the-uninstall"),
    ],
)
def test_rollback_from_every_stage(stage: str, expected: list[Step]) -> None:  # case G19
    assert short(plan(facts(stage), "rollback")["actions"]) == expected


def test_abort_gives_gateways_back_before_anything_else() -> None:  # case I08
    found = plan(facts("after_canary"), "abort", [ISTIOD, GATEWAY])
    assert short(found["actions"])[0] == ("install", "control_plane", OLD, "1.30.5")
    assert short(found["actions"])[-1] == REMOVE
    assert found["in_place"] == [GATEWAY]
    assert "istio-ingressgateway" in describe(found["actions"])[0]
    refused = without_old_istioctl(facts("after_canary"), "abort", GATEWAY)
    assert refused["state"] == "refused"
    assert "mesh_istioctl_from is not set" in refused["refused"]
    # without such gateways the old istioctl is not needed
    assert without_old_istioctl(facts("after_canary"), "abort", ISTIOD)["state"] == "todo"


def test_a_gateway_that_the_file_does_not_render_stops_the_reinstall() -> None:
    rendered = [{"kind": "Deployment", "namespace": "istio-system", "name": "istio-ingressgateway"}]
    assert way_back.not_given_back(rendered, [GATEWAY], wants()) == []
    (line,) = way_back.not_given_back([], [GATEWAY], wants())
    assert line.startswith("Deployment istio-system/istio-ingressgateway: it carries the new revision")


def test_abort_refuses_once_the_old_revision_is_gone() -> None:
    found = plan(facts("finished"), "abort")
    assert found["state"] == "refused"
    assert "playbooks/rollback.yml" in found["refused"]


def test_abort_refuses_an_old_istiod_that_does_not_serve_and_a_new_one_without_injector() -> None:
    broken = facts("after_install")
    next(r for r in broken["control_planes"] if r["revision"] == OLD)["available"] = 0
    assert "nothing may go back to it" in plan(broken, "abort")["refused"]
    half = facts("after_install")
    half["injectors"] = [i for i in half["injectors"] if i["revision"] != NEW or i["tag"]]
    assert "istioctl uninstall would not find it" in plan(half, "abort")["refused"]  # case I04


def test_what_a_broken_install_left_is_named() -> None:
    account = ISTIOD | {"kind": "ServiceAccount"}
    found = plan(facts("start"), "abort", [account])
    assert (found["state"], found["actions"]) == ("done", [])
    assert "left of it, for a person" in found["reason"]
    assert f"ServiceAccount istio-system/istiod-{NEW}" in found["reason"]
    assert "left of it" not in plan(facts("start"), "abort")["reason"]


def test_rollback_after_the_uninstall_needs_the_old_istioctl_and_a_default_tag() -> None:
    found = without_old_istioctl(facts("finished"), "rollback")
    assert "mesh_istioctl_from is not set" in found["refused"]
    without = facts("finished")
    for kind in ("injectors", "services", "validators"):
        without[kind] = [row for row in without[kind] if row["tag"] != "default"]
    assert "would make itself the default" in plan(without, "rollback")["refused"]


def test_a_tag_that_a_killed_run_left_half_moved_goes_back() -> None:  # case C08
    found = facts("after_canary")
    set_tag(found, "prod-stable", NEW, only="services")
    assert way_back.start_errors(found, wants()) == []
    assert tag_back("prod-stable") in short(plan(found, "abort")["actions"])
    set_tag(found, "prod-stable", "1-29-0", only="services")
    assert "1-29-0" in way_back.start_errors(found, wants())[0]


def test_only_what_runs_the_new_revision_is_restarted() -> None:
    found = facts("after_move_tags")
    found["workloads"].append(row_of("shop", "older", "1-29-0"))
    found["workloads"].append(row_of("shop", "plain", ""))
    names = [a["object"] for a in plan(found, "rollback")["actions"] if a["do"] == "restart"]
    assert names == ["Deployment canary/client", "Deployment shop/web"]


def test_restarts_go_in_waves() -> None:
    waves = [{"name": "first", "namespaces": ["shop"]}]
    found = [a for a in plan(facts("after_move_tags"), "rollback", mesh_waves=waves)["actions"] if a["do"] == "restart"]
    assert [(a["object"], a["wave"]) for a in found] == [
        ("Deployment shop/web", "first"),
        ("Deployment canary/client", "rest"),
    ]


def test_a_label_that_somebody_changed_since_is_left() -> None:
    found = facts("after_canary")
    namespace(found, "canary")["istio.io/rev"] = "prod-stable"
    assert not [a for a in plan(found, "abort")["actions"] if a["do"] == "set_labels"]


def test_a_run_that_broke_off_is_proven_by_the_next() -> None:
    found = facts("after_install")
    journal(found, "rollback")["state"] = "failed"
    assert (plan(found, "rollback")["state"], plan(found, "rollback")["actions"]) == ("todo", [])
    journal(found, "rollback")["state"] = "done"
    assert plan(found, "rollback")["state"] == "done"


def test_a_closed_record_proves_nothing_and_keeps_what_it_says() -> None:
    found = facts("after_rollback_drill")
    names = [r["name"].removeprefix(f"istio-upgrade-{OLD}-to-{NEW}-") for r in closed(found, "rollback", "begin")]
    assert names == ["move-tags", "rollback-drill"]
    for record in closed(found, "rollback", "begin") + closed(found, "rollback", "end"):
        assert record["record"]["state"] == "reverted"
        for text in record["files"].values():
            assert text.startswith("state=reverted\nreason=undone by rollback.yml at now\n")
        found["journal"][record["name"]] = record["record"]
    assert closed(found, "rollback", "begin") == []
    assert gates.uninstall_blockers(found, wants())[0].startswith("rollback drill: no rollback drill has passed")


def closed(found: dict[str, Any], road: str, moment: str) -> list[dict[str, Any]]:
    return way_back.closed_records(found, wants(), road, moment, "now")


def walked(stage: str, road: str) -> dict[str, Any]:
    """Return the facts of `after_install` or `start` with the journal of a stage that went a way back."""
    found = facts(stage)
    there = facts("after_install" if road == "rollback" else "start")
    there["journal"] = found["journal"]
    for moment in ("begin", "end"):
        there["journal"] |= {r["name"]: r["record"] for r in closed(found, road, moment)}
    return there


@pytest.mark.parametrize("stage", ["after_canary", "after_move_tags", "after_rollback_drill", "finished"])
def test_an_upgrade_after_a_rollback_starts_with_the_canary(stage: str) -> None:
    found = walked(stage, "rollback")
    assert chain_plan(found, wants()) == chain_plan(facts("after_install"), wants())
    assert step_plan(found, wants(), "canary")["state"] == "todo"
    assert "the canary has not passed" in step_plan(found, wants(), "move_tags")["refused"]


@pytest.mark.parametrize("stage", ["after_install", "after_canary", "after_move_tags", "after_rollback_drill"])
def test_an_upgrade_after_an_abort_starts_from_the_beginning(stage: str) -> None:
    found = walked(stage, "abort")
    assert chain_plan(found, wants()) == chain_plan(facts("start"), wants())
    assert journal(found, "before")["evidence"] == {}, "01-before is written anew"
    assert "not installed and proven" in step_plan(found, wants(), "canary")["refused"]


def test_the_swapped_wishes_drive_the_tasks_of_the_way_forward() -> None:
    found = facts("after_install")
    back = way_back.reversed_wants(wants(), found, "from")
    assert (back["from"]["revision"], back["to"]["revision"]) == (NEW, OLD)
    assert (back["to"]["istioctl"], back["to"]["tag"]) == ("istioctl-1.30.5", "1.30.5")
    assert way_back.reversed_wants(wants(), found)["to"]["istioctl"] == "istioctl-1.31.0"
    assert way_back.reversed_wants(wants(), facts("finished"))["to"]["tag"] == "", "the new one's suffix decides"


def test_the_guard_of_the_removal_with_swapped_sides() -> None:
    found = facts("after_canary") | {"xds": {"istiod": []}, "references": []}
    back = way_back.reversed_wants(wants(), found)
    lines = gates.uninstall_blockers(found, back)
    assert not [line for line in lines if "drill" in line]
    assert any(line.startswith("Deployment canary/client: 1 of its pods run the proxy of 1-31-0") for line in lines)
    assert any("pins the new revision 1-31-0" in line for line in lines)
    free = facts("after_install") | {"xds": {"istiod": []}, "references": []}
    assert gates.uninstall_blockers(free, back) == []
    set_tag(free, "prod-stable", NEW)
    assert "points to the new revision" in " ".join(gates.uninstall_blockers(free, back))


def test_what_stays_on_the_new_revision_is_told() -> None:
    found = facts("after_canary")
    assert way_back.still_on(found, wants()) == ["Deployment canary/client"]
    text = way_back.text(found, wants(), [], ["Deployment canary/client"])
    assert text.endswith("old_revision_left=yes\nnew_revision_left=yes\nstill_on_new=Deployment canary/client\n")
    assert workload(found, "client")["proxies"]


def test_what_the_reinstall_was_to_give_back_is_not_held_against_it() -> None:
    lines = ["Deployment istio-system/istio-ingressgateway: its pod template changed", "tag default: a -> b"]
    assert way_back.moved_by_reinstall(lines, [GATEWAY]) == ["tag default: a -> b"]
    assert way_back.moved_by_reinstall(lines, []) == lines
