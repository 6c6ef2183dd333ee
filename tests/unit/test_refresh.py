"""A refresh restarts what has older injected settings, and nothing else."""

from __future__ import annotations

from typing import Any

from mesh_logic.refresh import REASON, refresh_plan

from tests.unit.mesh_stages import OLD, facts, namespace, row_of, wants

PROXY = row_of("pay", "app")["proxies"][0]


def mesh(**more: Any) -> dict[str, Any]:
    """Return a mesh with one more workload, whose two proxies were injected with the settings `old`."""
    found = facts("start")
    namespace(found, "pay")["istio.io/rev"] = "prod-stable"
    group = PROXY | {"settings": "old", "revision": OLD, "image": "m/proxyv2:1.30.5", "pods": 2}
    found["workloads"].append(row_of("pay", "app", **({"proxies": [group]} | more)))
    return found


def proof(settings: str) -> dict[str, Any]:
    """Return what dry runs say: a new proxy of pay/app would get these settings; nobody knows those of the others."""
    return {"groups": [{"settings": settings, "covers": ["Deployment pay/app"]}, {"settings": "", "covers": ["x"]}]}


def test_what_has_older_settings_is_restarted_for_its_own_revision() -> None:
    plan = refresh_plan(mesh(), wants(), proof("new"))
    assert plan["actions"] == [
        {
            "step": "refresh",
            "do": "restart",
            "object": "Deployment pay/app",
            "from": OLD,
            "to": OLD,
            "reason": REASON,
        }
    ]
    assert (plan["state"], plan["finished"], plan["for_a_person"]) == ("todo", False, [])


def test_equal_settings_are_a_finished_run() -> None:
    plan = refresh_plan(mesh(), wants(), proof("old"))
    assert (plan["state"], plan["finished"], plan["actions"]) == ("done", True, [])


def test_waves_hold() -> None:
    plan = refresh_plan(mesh(), wants(mesh_waves=[{"name": "money", "namespaces": ["pay"]}]), proof("new"))
    assert [a["wave"] for a in plan["actions"]] == ["money"]


def test_a_paused_workload_is_named_and_left() -> None:
    plan = refresh_plan(mesh(paused=True), wants(), proof("new"))
    assert plan["actions"] == []
    assert plan["for_a_person"] == ["Deployment pay/app: 2 proxies"]
