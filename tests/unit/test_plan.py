"""The plan: what each step would do from a recorded stage, and what is left when a run is taken up again."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mesh_logic import gates
from mesh_logic.model import build_view, is_stale, journal_name, restartable, workload_ref
from mesh_logic.plan import (
    action,
    canary_before,
    chain_plan,
    describe,
    drill_workloads,
    finished,
    groups,
    plan_drill,
    plan_labels_back,
    step_plan,
    tags_before,
    tags_to,
    towards,
)
from mesh_logic.steps import STEPS

from tests.unit.mesh_stages import (
    NEW,
    OLD,
    STAGES,
    drop_tag,
    facts,
    journal,
    namespace,
    row_of,
    set_tag,
    wants,
    workload,
)

Short = tuple[str, str, str, Any, Any]


def short(actions: list[dict[str, Any]]) -> list[Short]:
    """Return actions without their reasons."""
    return [(a.get("step", ""), a["do"], a["object"], a["from"], a["to"]) for a in actions]


def back_and_forward(*tags: str) -> list[Short]:
    step, web = "rollback_drill", "Deployment shop/web"
    found: list[Short] = [(step, "set_tag", t, NEW, OLD) for t in tags]
    found.append((step, "restart", web, NEW, OLD))
    found += [(step, "set_tag", t, OLD, NEW) for t in reversed(tags)]
    return [*found, (step, "restart", web, OLD, NEW)]


INSTALL: list[Short] = [("install", "install", NEW, None, "1.31.0")]
CANARY: list[Short] = [
    ("canary", "set_labels", "canary", {"istio.io/rev": "prod-stable"}, {"istio.io/rev": NEW}),
    ("canary", "restart", "Deployment canary/client", OLD, NEW),
]
MOVE: list[Short] = [
    ("move_tags", "set_tag", "prod-stable", OLD, NEW),
    ("move_tags", "set_labels", "canary", {"istio.io/rev": NEW}, {"istio.io/rev": "prod-stable"}),
    ("move_tags", "restart", "Deployment shop/web", OLD, NEW),
    ("move_tags", "set_tag", "default", OLD, NEW),
]
DRILL = back_and_forward("prod-stable")
UNINSTALL: list[Short] = [("uninstall", "uninstall", OLD, "1.30.5", None)]
WHOLE = [*INSTALL, *CANARY, *MOVE, *DRILL, *UNINSTALL]


@pytest.mark.parametrize(
    ("stage", "left"),
    [
        pytest.param("start", WHOLE, id="start"),
        pytest.param("after_install", WHOLE[1:], id="after-install"),
        pytest.param("after_canary", [*MOVE, *DRILL, *UNINSTALL], id="after-canary"),
        pytest.param("after_move_tags", [*DRILL, *UNINSTALL], id="after-move-tags"),
        pytest.param("after_rollback_drill", UNINSTALL, id="after-drill"),
        pytest.param("finished", [], id="finished"),
    ],
)
def test_the_chain_from_every_stage(stage: str, left: list[Short]) -> None:
    assert short(chain_plan(facts(stage), wants())) == left


def test_planning_changes_no_fact() -> None:
    found = facts("start")
    chain_plan(found, wants())
    assert found == facts("start")


ACTING = ("install", "canary", "move_tags", "rollback_drill", "uninstall")
# stage -> steps that are done there; the others are to do
DONE: dict[str, tuple[str, ...]] = {
    "start": (),
    "after_install": ("install",),
    "after_canary": ("install", "canary"),
    "after_move_tags": ("install", "canary", "move_tags"),
    "after_rollback_drill": ("install", "canary", "move_tags", "rollback_drill"),
    "finished": tuple(STEPS),
}


# what a step builds on must be proven first, also when its playbook is run alone
REFUSED: dict[str, dict[str, str]] = {
    "start": dict.fromkeys(("canary", "move_tags", "rollback_drill"), "the new revision is not installed and proven"),
    "after_install": {"move_tags": "the canary has not passed"},
}


@pytest.mark.parametrize("stage", STAGES)
def test_each_step_at_each_stage(stage: str) -> None:
    for step in ACTING:
        found = step_plan(facts(stage), wants(), step)
        refused = REFUSED.get(stage, {}).get(step, "")
        expected = "refused" if refused else "done" if step in DONE[stage] else "todo"
        assert found["state"] == expected, step
        assert refused in found["refused"]
        assert ("Next: " in found["refused"]) == bool(refused)
        assert bool(found["actions"]) == (found["state"] == "todo"), step
        assert found["finished"] is (stage == "finished")
        assert all(a["step"] == step for a in found["actions"])


def test_no_drill_towards_an_istiod_that_does_not_serve() -> None:
    found = facts("after_move_tags")
    next(row for row in found["control_planes"] if row["revision"] == OLD)["available"] = 0
    assert f"the old revision {OLD} does not serve" in step_plan(found, wants(), "rollback_drill")["refused"]
    found = facts("after_rollback_drill")
    next(row for row in found["control_planes"] if row["revision"] == OLD)["available"] = 0
    assert step_plan(found, wants(), "rollback_drill")["state"] == "done", "it has passed already"


@pytest.mark.parametrize("step", ["precheck", "report"])
def test_precheck_and_report_are_always_worth_a_look(step: str) -> None:
    for stage in STAGES[:-1]:
        assert step_plan(facts(stage), wants(), step)["state"] == "todo"
    assert step_plan(facts("finished"), wants(), step)["state"] == "done"


def test_check_mode_plans_against_the_expected_state() -> None:
    found = [a for step in STEPS for a in step_plan(facts("start"), wants(), step, from_start=True)["actions"]]
    assert short(found) == WHOLE


@pytest.mark.parametrize("last", ["precheck", "canary", "uninstall"])
def test_stop_after(last: str) -> None:
    desired = wants(mesh_stop_after=last)
    after = False
    for step in STEPS:
        assert (step_plan(facts("start"), desired, step)["state"] == "after_stop") is after
        after = after or step == last
    kept = list(STEPS)[: list(STEPS).index(last) + 1]
    assert short(chain_plan(facts("start"), desired)) == [a for a in WHOLE if a[0] in kept]


# --- taking a run up again ---------------------------------------------------------------------------------


def test_an_install_that_does_not_serve_is_installed_again() -> None:
    found = facts("after_install")
    next(c for c in found["control_planes"] if c["revision"] == NEW)["available"] = 0
    assert short(step_plan(found, wants(), "install")["actions"]) == [("install", "install", NEW, "1.31.0", "1.31.0")]
    found = facts("after_install")
    found["injectors"] = [i for i in found["injectors"] if i["tag"] or i["revision"] != NEW]
    assert len(step_plan(found, wants(), "install")["actions"]) == 1


def test_killed_between_relabel_and_restart() -> None:
    found = facts("after_install")
    namespace(found, "canary")["istio.io/rev"] = NEW
    assert short(step_plan(found, wants(), "canary")["actions"]) == CANARY[1:]


def test_killed_while_the_tags_moved() -> None:
    found = facts("after_canary")
    set_tag(found, "prod-stable", NEW)
    assert step_plan(found, wants(), "canary")["state"] == "done"  # no second canary once a tag moved
    assert short(step_plan(found, wants(), "move_tags")["actions"]) == MOVE[1:]


def test_killed_while_the_drill_was_back() -> None:
    found = facts("after_move_tags")
    set_tag(found, "prod-stable", OLD)
    web = workload(found, "web")
    web["proxies"][0]["revision"] = OLD
    assert short(step_plan(found, wants(), "rollback_drill")["actions"]) == DRILL[2:]


def test_only_part_of_a_workload_is_new() -> None:  # one pod of two was replaced
    found = facts("after_canary")
    web = workload(found, "web")
    web["proxies"].append(web["proxies"][0] | {"revision": NEW})
    plan = step_plan(found, wants(), "move_tags")["actions"]
    assert ("move_tags", "restart", "Deployment shop/web", f"{OLD},{NEW}", NEW) in short(plan)


def test_a_pod_on_its_way_out_needs_no_restart() -> None:  # case B13
    found = facts("after_move_tags")
    web = workload(found, "web")
    web["proxies"].append(web["proxies"][0] | {"revision": OLD, "terminating": True})
    assert step_plan(found, wants(), "move_tags")["state"] == "done"


# --- labels ------------------------------------------------------------------------------------------------


def test_an_enabled_canary_namespace_loses_the_label_and_gets_it_back() -> None:  # case D01
    found = facts("start")
    labels = namespace(found, "canary")
    labels.clear()
    labels["istio-injection"] = "enabled"
    there = {"istio-injection": "enabled", "istio.io/rev": None}
    away = {"istio-injection": None, "istio.io/rev": NEW}
    plan = [a for a in short(chain_plan(found, wants())) if a[1] == "set_labels"]
    assert plan == [
        ("canary", "set_labels", "canary", there, away),
        ("move_tags", "set_labels", "canary", away, there),
    ]


def test_labels_go_back_to_null_where_the_key_was_absent() -> None:
    found = facts("after_canary")
    journal(found, "canary")["labels_before"] = {"canary": {"istio-injection": "enabled", "istio.io/rev": None}}
    plan = plan_labels_back(build_view(found), wants())
    assert [(a["from"], a["to"]) for a in plan] == [
        ({"istio-injection": None, "istio.io/rev": NEW}, {"istio-injection": "enabled", "istio.io/rev": None})
    ]


def test_a_reverted_canary_record_is_not_trusted() -> None:
    found = facts("after_install")
    journal(found, "canary").update(
        state="reverted", labels_before={"canary": {"istio-injection": "enabled", "istio.io/rev": None}}
    )
    assert plan_labels_back(build_view(found), wants()) == []
    # the labels of now are those from before: also for check mode, which plans what the real run does
    assert canary_before(found, wants()) == {"canary": {"istio-injection": None, "istio.io/rev": "prod-stable"}}
    assert short(chain_plan(found, wants())) == WHOLE[1:]


def test_a_started_canary_record_counts() -> None:
    found = facts("after_canary")
    journal(found, "canary")["state"] = "started"
    assert canary_before(found, wants())["canary"]["istio.io/rev"] == "prod-stable"


def test_a_canary_namespace_that_joins_later_is_remembered_too() -> None:
    found = facts("after_canary")
    namespace(found, "team", **{"istio.io/rev": "prod-stable"})
    desired = wants(mesh_canary_namespaces=["canary", "team"])
    had = {"istio-injection": None, "istio.io/rev": "prod-stable"}
    assert canary_before(found, desired) == {"canary": had, "team": had}
    back = [a[2] for a in short(chain_plan(found, desired)) if a[:2] == ("move_tags", "set_labels")]
    assert sorted(back) == ["canary", "team"]


def test_a_canary_namespace_that_is_gone_gets_no_labels() -> None:
    found = facts("after_canary")
    journal(found, "canary")["labels_before"]["gone"] = {"istio.io/rev": "prod-stable"}
    assert [a["object"] for a in plan_labels_back(build_view(found), wants())] == ["canary"]


# --- tags --------------------------------------------------------------------------------------------------


def test_an_absent_default_tag_is_set_to_the_old_revision_first() -> None:  # case H03
    found = facts("start")
    drop_tag(found, "default")
    first = step_plan(found, wants(), "precheck")["actions"]
    assert short(first) == [("precheck", "set_tag", "default", None, OLD)]
    assert "no default tag exists" in first[0]["reason"]
    assert short(chain_plan(found, wants())) == [*short(first), *WHOLE]


def test_a_default_tag_that_is_there_is_left_alone() -> None:
    assert step_plan(facts("start"), wants(), "precheck")["actions"] == []


def test_tags_before_come_from_the_record_unless_it_was_reverted() -> None:
    found = facts("after_move_tags")
    assert tags_before(found, wants()) == {"prod-stable": OLD, "default": OLD}
    journal(found, "move-tags")["state"] = "reverted"
    assert tags_before(found, wants()) == {"prod-stable": NEW, "default": NEW}


def test_tags_go_back_default_first() -> None:
    targets = {"prod-stable": OLD, "default": OLD, "blue": None, "gone": ""}
    plan = tags_to(facts("after_move_tags"), targets, "why")
    assert short(plan) == [("", "set_tag", "default", NEW, OLD), ("", "set_tag", "prod-stable", NEW, OLD)]
    assert tags_to(facts("start"), {"default": OLD}, "why") == []


# --- an install without a revision -------------------------------------------------------------------------


def unrevisioned() -> dict[str, Any]:
    """The start, with an old install without a revision and without tags; both namespaces are enabled."""
    found = facts("start")
    for tag in ("default", "prod-stable"):
        drop_tag(found, tag)
    for row in [*found["control_planes"], *found["injectors"], *found["services"], *found["validators"]]:
        row["revision"] = "default"
    for name in ("canary", "shop"):
        labels = namespace(found, name)
        labels.clear()
        labels["istio-injection"] = "enabled"
    for name in ("client", "web"):
        workload(found, name)["proxies"][0]["revision"] = "default"
    return found


def test_an_install_without_a_revision() -> None:
    desired = wants(mesh_from_revision="default", mesh_tags=["default"], mesh_drill={"workloads": ["shop/web"]})
    assert gates.start_errors(unrevisioned(), desired) == []
    web, client = "Deployment shop/web", "Deployment canary/client"
    there = {"istio-injection": "enabled", "istio.io/rev": None}
    away = {"istio-injection": None, "istio.io/rev": NEW}
    assert short(chain_plan(unrevisioned(), desired)) == [
        ("precheck", "set_tag", "default", None, "default"),
        ("install", "install", NEW, None, "1.31.0"),
        ("canary", "set_labels", "canary", there, away),
        ("canary", "restart", client, "default", NEW),
        ("move_tags", "set_labels", "canary", away, there),
        ("move_tags", "set_tag", "default", "default", NEW),
        ("move_tags", "restart", web, "default", NEW),
        ("rollback_drill", "set_tag", "default", NEW, "default"),
        ("rollback_drill", "restart", web, NEW, "default"),
        ("rollback_drill", "set_tag", "default", "default", NEW),
        ("rollback_drill", "restart", web, "default", NEW),
        ("uninstall", "uninstall", "default", "1.30.5", None),
    ]


def test_a_deactivated_injector_injects_nothing() -> None:
    found = unrevisioned()
    for entry in found["injectors"][0]["entries"]:
        entry["deactivated"] = True
    assert build_view(found)["default_injects"] is False
    assert workload(build_view(found), "web")["target"] is None
    assert workload(build_view(unrevisioned()), "web")["target"] == "default"


# --- the drill ---------------------------------------------------------------------------------------------


def test_default_goes_back_first_and_forward_last() -> None:
    desired = wants(mesh_drill={"tags": ["prod-stable", "default"], "workloads": ["shop/web"]})
    plan = step_plan(facts("after_move_tags"), desired, "rollback_drill")["actions"]
    assert short(plan) == back_and_forward("default", "prod-stable")


def test_an_image_of_another_variant_is_not_restarted_for_ever() -> None:  # case G14
    found = facts("after_rollback_drill")
    for row in found["workloads"]:
        for group in row["proxies"]:
            group["image"] += "-distroless"
    assert [a for a in chain_plan(found, wants()) if a["do"] == "restart"] == []


def test_the_way_back_moves_the_tag_before_it_restarts() -> None:  # case G19
    plan = plan_drill(build_view(facts("after_move_tags")), wants())
    back = [a["do"] for a in towards(plan, OLD)]
    assert back == ["set_tag", "restart"], "an undone rollout would be injected by the tag as it stands"


def test_the_two_ways_of_a_drill() -> None:
    plan = step_plan(facts("after_move_tags"), wants(), "rollback_drill")["actions"]
    assert short(towards(plan, OLD)) == DRILL[:2]
    assert short(towards(plan, NEW)) == DRILL[2:]


def test_without_a_name_the_first_workload_that_a_tag_moves_is_drilled() -> None:
    desired = wants(mesh_drill={"tags": ["prod-stable"]})
    found = facts("after_move_tags")
    found["workloads"].insert(0, row_of("canary", "agent", NEW, kind="DaemonSet", strategy="OnDelete"))
    found["workloads"].insert(0, row_of("default", "lonely", NEW))
    view = build_view(found)
    assert [workload_ref(r) for r in drill_workloads(view, desired)] == ["Deployment canary/client"]


def test_a_named_drill_workload_that_cannot_be_restarted_is_not() -> None:
    found = facts("after_move_tags")
    workload(found, "web")["paused"] = True
    plan = plan_drill(build_view(found), wants())
    assert [a["do"] for a in plan] == ["set_tag", "set_tag"]


def _old_uid(found: dict[str, Any]) -> None:
    next(c for c in found["control_planes"] if c["revision"] == OLD)["uid"] = "another"


def _old_generation(found: dict[str, Any]) -> None:
    row = next(c for c in found["control_planes"] if c["revision"] == OLD)
    row["generation"] = row["observed"] = 2


def _proof_sha(found: dict[str, Any]) -> None:
    journal(found, "rollback-drill")["proof"]["operator_sha256"] = "0"


def _failed(found: dict[str, Any]) -> None:
    journal(found, "rollback-drill")["state"] = "failed"


def _no_record(found: dict[str, Any]) -> None:
    del found["journal"][f"istio-upgrade-{OLD}-to-{NEW}-rollback-drill"]


def _no_proof(found: dict[str, Any]) -> None:
    del journal(found, "rollback-drill")["proof"]


@pytest.mark.parametrize("change", [_old_uid, _old_generation, _proof_sha, _failed, _no_record, _no_proof])
def test_a_drill_pass_expires(change: Any) -> None:
    found = facts("after_rollback_drill")
    change(found)
    assert short(step_plan(found, wants(), "rollback_drill")["actions"]) == DRILL


def test_a_drill_pass_names_its_tags() -> None:
    desired = wants(mesh_drill={"tags": ["default"], "workloads": ["shop/web"]})
    assert step_plan(facts("after_rollback_drill"), desired, "rollback_drill")["state"] == "todo"


def test_the_drill_of_another_pair_does_not_count() -> None:
    found = facts("after_rollback_drill")
    found["journal"] = {k.replace(OLD, "1-29-9"): v for k, v in found["journal"].items()}
    # nothing of this pair is recorded, its install neither
    assert step_plan(found, wants(), "rollback_drill")["state"] == "refused"
    found["journal"][journal_name(wants(), "install")] = {"state": "done"}
    assert step_plan(found, wants(), "rollback_drill")["state"] == "todo"


def with_state(stage: str, step: str, state: str) -> dict[str, Any]:
    found = facts(stage)
    found["journal"][journal_name(wants(), step)]["state"] = state
    return found


@pytest.mark.parametrize(
    ("stage", "step"), [("after_canary", "canary"), ("after_move_tags", "move_tags"), ("finished", "uninstall")]
)
@pytest.mark.parametrize("state", ["started", "failed"])
def test_a_step_that_was_killed_before_its_proof_is_proven_again(stage: str, step: str, state: str) -> None:
    assert step_plan(facts(stage), wants(), step)["state"] == "done"
    found = step_plan(with_state(stage, step, state), wants(), step)
    assert (found["state"], found["actions"], found["finished"]) == ("todo", [], False)


def test_tags_do_not_move_on_a_canary_without_proof() -> None:
    for state in ("started", "failed", "reverted"):
        assert step_plan(with_state("after_canary", "canary", state), wants(), "move_tags")["state"] == "refused"


def test_an_install_alone_does_not_let_itself_be_the_default() -> None:
    # DESIGN rule 9, for playbooks/install.yml without precheck
    found = facts("start")
    drop_tag(found, "default")
    assert "no default tag" in step_plan(found, wants(), "install")["refused"]
    assert step_plan(found, wants(), "install", True)["refused"] == ""


def test_a_label_that_a_person_changed_since_is_left_alone() -> None:
    found = facts("after_move_tags")
    for row in found["namespaces"]:
        if row["name"] == "canary":
            row["labels"] = {"istio.io/rev": "default"}
    assert [a for a in chain_plan(found, wants()) if a["do"] == "set_labels"] == []


# --- finished ----------------------------------------------------------------------------------------------


def _tag_elsewhere(found: dict[str, Any]) -> None:
    set_tag(found, "prod-stable", OLD)


def _not_ready(found: dict[str, Any]) -> None:
    found["control_planes"][0]["available"] = 0


def _scaled_to_zero(found: dict[str, Any]) -> None:
    found["control_planes"][0].update(replicas=0, updated=0, available=0, total=0)


def _unseen(found: dict[str, Any]) -> None:
    found["control_planes"][0].update(generation=5, observed=4)  # case G05


def _other_version(found: dict[str, Any]) -> None:
    found["control_planes"][0]["image"] = "docker.io/istio/pilot:1.31.1"


@pytest.mark.parametrize("change", [_tag_elsewhere, _not_ready, _scaled_to_zero, _unseen, _other_version])
def test_not_finished(change: Any) -> None:
    found = facts("finished")
    assert finished(build_view(found), wants())
    change(found)
    assert not finished(build_view(found), wants())


# --- groups and words --------------------------------------------------------------------------------------


def test_groups_join_restarts_only() -> None:
    plan = [action(do, name, None, None, "") for do, name in [("set_tag", "a"), ("set_tag", "b"), ("restart", "c")]]
    plan += [action("restart", "d", None, None, ""), action("set_tag", "e", None, None, "")]
    plan.append(action("restart", "f", None, None, ""))
    assert [[a["object"] for a in g] for g in groups(plan)] == [["a"], ["b"], ["c", "d"], ["e"], ["f"]]
    assert groups([]) == []


def test_the_plan_in_words() -> None:
    assert describe(chain_plan(facts("start"), wants())) == [
        "install revision 1-31-0 (1.31.0) (the new revision runs beside the old one)",
        "namespace canary: labels {'istio.io/rev': 'prod-stable'} -> {'istio.io/rev': '1-31-0'} (canary namespace)",
        "restart Deployment canary/client: 1-30-5 -> 1-31-0 "
        "(canary namespace: injection happens when a pod is created)",
        "tag prod-stable: 1-30-5 -> 1-31-0 (the tag moves its namespaces to the new revision)",
        "namespace canary: labels {'istio.io/rev': '1-31-0'} -> {'istio.io/rev': 'prod-stable'} "
        "(the canary namespace gets back the labels it had)",
        "restart Deployment shop/web: 1-30-5 -> 1-31-0 (its tag moved)",
        "tag default: 1-30-5 -> 1-31-0 (the tag moves its namespaces to the new revision)",
        "tag prod-stable: 1-31-0 -> 1-30-5 (rollback drill, back)",
        "restart Deployment shop/web: 1-31-0 -> 1-30-5 (rollback drill, back)",
        "tag prod-stable: 1-30-5 -> 1-31-0 (rollback drill, forward)",
        "restart Deployment shop/web: 1-30-5 -> 1-31-0 (rollback drill, forward)",
        "uninstall revision 1-30-5 (everything runs on the new revision)",
    ]


# --- any small mesh ----------------------------------------------------------------------------------------


def carry_out(found: dict[str, Any], item: dict[str, Any]) -> None:
    """Do to the facts what an action does to a cluster; written apart from `plan.apply` on purpose."""
    if item["do"] == "install":
        later = facts("after_install")
        for kind in ("control_planes", "injectors", "services", "validators"):
            found[kind] += [r for r in later[kind] if r["revision"] == NEW]
    elif item["do"] == "uninstall":
        for kind in ("control_planes", "injectors", "services", "validators"):
            found[kind] = [r for r in found[kind] if r["revision"] != OLD]
    elif item["do"] == "set_tag":
        known = {row["tag"] for row in found["injectors"]}
        if item["object"] not in known:  # made anew, as the recorded one looks
            start = facts("start")
            for kind in ("injectors", "services", "validators"):
                found[kind] += [r for r in start[kind] if r["tag"] == item["object"]]
        set_tag(found, item["object"], item["to"])
    elif item["do"] == "set_labels":
        labels = namespace(found, item["object"])
        record = journal(found, "canary").setdefault("labels_before", {})
        if item["step"] == "canary":
            record[item["object"]] = {k: labels.get(k) for k in item["to"]}
        labels.update({k: v for k, v in item["to"].items() if v is not None})
        for key in [k for k, v in item["to"].items() if v is None]:
            labels.pop(key, None)
    else:
        targets = {workload_ref(r): r["target"] for r in build_view(found)["workloads"]}
        row = next(r for r in found["workloads"] if workload_ref(r) == item["object"])
        assert targets[item["object"]] == item["to"], "the cluster injects another revision than was planned"
        row["proxies"] = [row["proxies"][0] | {"revision": item["to"]}]


NAMESPACE = st.sampled_from(
    [{"istio.io/rev": "prod-stable"}, {"istio-injection": "enabled"}, {}, {"istio-injection": "disabled"}]
)
ROW = st.fixed_dictionaries(
    {
        "namespace": st.sampled_from(["canary", "shop", "team"]),
        "kind": st.sampled_from(["Deployment", "StatefulSet", "DaemonSet", "Job"]),
        "paused": st.booleans(),
        "strategy": st.sampled_from(["RollingUpdate", "OnDelete"]),
        "managed_by": st.sampled_from(["", "Cluster/db"]),
        "template_labels": st.sampled_from([{}, {"sidecar.istio.io/inject": "true"}, {"istio.io/rev": "prod-stable"}]),
    }
)


@settings(max_examples=60, deadline=None)
@given(
    labels=st.fixed_dictionaries({"canary": NAMESPACE, "shop": NAMESPACE, "team": NAMESPACE}),
    rows=st.lists(ROW, max_size=5),
    default_tag=st.booleans(),
)
def test_the_chain_moves_any_mesh(
    labels: dict[str, dict[str, str]], rows: list[dict[str, Any]], default_tag: bool
) -> None:
    found = facts("start")
    if not default_tag:
        drop_tag(found, "default")
    for name, wanted in labels.items():
        there = namespace(found, name)
        there.clear()
        there.update(copy.deepcopy(wanted))
    found["workloads"] = [row_of(name=f"w{n}", **copy.deepcopy(row)) for n, row in enumerate(rows)]
    # what the old mesh injects runs the old proxy, the rest runs none
    for row, seen in zip(found["workloads"], build_view(found)["workloads"], strict=True):
        if seen["target"] != OLD:
            row["proxies"] = []
    before = copy.deepcopy(found)
    desired = wants(mesh_drill={})
    plan = chain_plan(found, desired)
    assert found == before
    for item in plan:
        carry_out(found, item)
    view = build_view(found)
    assert all(view["tags"][tag] == NEW for tag in desired["tags"])
    assert list(view["revisions"]) == [NEW]
    for row in view["workloads"]:
        if not restartable(row):
            assert not is_stale(row)
            assert OLD not in [p["revision"] for p in row["proxies"]]
    # the labels are what they were, and who runs no proxy was not touched
    assert {n["name"]: n["labels"] for n in found["namespaces"] if n["name"] in labels} == labels
    touched = {a["object"] for a in plan if a["do"] == "restart"}
    assert touched <= {workload_ref(r) for r in before["workloads"] if r["proxies"] and not restartable(r)}
    assert chain_plan(found, desired) == []
