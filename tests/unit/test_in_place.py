"""The in-place road: its conditions, and what it restarts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mesh_logic.in_place import ALONE, PIN, blocking, in_place_plan, one_side, text

from tests.unit.mesh_stages import OLD, facts, wants, workload


def mesh(version: str = "1.30.5") -> dict[str, Any]:
    """Return the recorded start as a mesh without revisions: no tags, istio-injection=enabled."""
    plain = json.dumps(facts("start")).replace(f'"{OLD}"', f'"{ALONE}"').replace(f"istiod-{OLD}", "istiod")
    found: dict[str, Any] = json.loads(plain)
    for kind in ("injectors", "services", "validators"):
        found[kind] = [row for row in found[kind] if not row["tag"]]
    for row in found["namespaces"]:
        if "istio.io/rev" in row["labels"]:
            row["labels"] = {"istio-injection": "enabled"}
    for row in found["control_planes"]:
        row["image"] = row["image"].replace("1.30.5", version)
        row["helm"] = False  # the facts are of a time when istioctl's own charts counted as Helm's
    return found


def desired(**changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"mesh_from_revision": ALONE, "mesh_allowed_minors": 2} | changes
    return one_side(wants(**given))


def moved(plan: dict[str, Any]) -> list[str]:
    return [f"{item['do']} {item['object']}" for item in plan["actions"]]


def test_the_control_plane_goes_first_then_every_proxy_of_the_old_version() -> None:
    plan = in_place_plan(mesh(), desired())
    assert moved(plan) == ["install default", "restart Deployment canary/client", "restart Deployment shop/web"]
    assert plan["actions"][0]["to"] == "1.31.0"
    assert {item["step"] for item in plan["actions"]} == {"in_place"}
    assert (plan["refused"], plan["for_a_person"], plan["state"]) == ([], [], "todo")


def test_after_the_install_only_what_is_old_is_restarted_and_then_nothing() -> None:
    found = mesh("1.31.0")
    web = workload(found, "web")
    web["proxies"] = [p | {"image": "m/proxyv2:1.31.0"} for p in web["proxies"]]
    assert moved(in_place_plan(found, desired())) == ["restart Deployment canary/client"]
    client = workload(found, "client")
    client["proxies"] = [p | {"image": "m/proxyv2:1.31.0-distroless"} for p in client["proxies"]]
    plan = in_place_plan(found, desired())
    assert (plan["state"], plan["finished"], plan["actions"]) == ("done", True, [])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"revision": OLD}, "it was installed with a revision"),  # case E08
        ({"version": "1.29.1"}, "an in-place upgrade skips no minor version"),
        ({"version": "1.30.4"}, "it runs Istio 1.30.5, neither 1.30.4 nor 1.31.0"),
    ],
)
def test_a_condition_that_does_not_hold_names_itself(change: dict[str, Any], words: str) -> None:
    changed = desired()
    changed["from"] |= change
    plan = in_place_plan(mesh(), changed)
    assert plan["actions"] == []
    assert words in " ".join(plan["refused"])


def test_what_helm_installed_and_what_is_not_there_is_refused() -> None:
    found = mesh()
    found["control_planes"][0]["helm"] = True
    assert "Helm installed it" in in_place_plan(found, desired())["refused"][0]
    found["control_planes"] = []
    assert "there is no control plane without a revision" in in_place_plan(found, desired())["refused"][0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"template_annotations": {PIN: "m/proxyv2:1.30.5"}}, "its proxy image is pinned"),
        ({"paused": True}, "paused"),
        ({"kind": "ReplicaSet"}, "it moves by eviction"),
    ],
)
def test_what_a_restart_does_not_renew_is_left_to_a_person(change: dict[str, Any], words: str) -> None:
    found = mesh()
    workload(found, "web").update(change)
    plan = in_place_plan(found, desired())
    assert moved(plan) == ["install default", "restart Deployment canary/client"]
    (line,) = plan["for_a_person"]
    assert words in line


def test_an_image_without_a_version_is_not_guessed() -> None:
    found = mesh("1.31.0")
    for name in ("web", "client"):
        workload(found, name)["proxies"] = [
            p | {"image": "m/proxyv2@sha256:00"} for p in workload(found, name)["proxies"]
        ]
    plan = in_place_plan(found, desired())
    assert (plan["actions"], len(plan["for_a_person"])) == ([], 2)


def test_waves_hold() -> None:
    plan = in_place_plan(mesh(), desired(mesh_waves=[{"name": "first", "namespaces": ["shop"]}]))
    assert [item.get("wave") for item in plan["actions"]] == [None, "first", "rest"]


def test_one_istiod_blocks_here() -> None:
    rows = [{"id": "ISTIOD_SINGLE_REPLICA", "severity": "warn"}, {"id": "PROFILE_DEMO", "severity": "warn"}]
    assert [row["severity"] for row in blocking(rows)] == ["block", "warn"]


def test_the_evidence_names_the_control_plane_and_every_proxy() -> None:
    probe = {"name": "web", "code": "200"}
    assert text(mesh("1.31.0"), desired(), [probe]).splitlines() == [
        "istiod=1.31.0",
        "web_proxy=1.30.5",
        "client_proxy=1.30.5",
        "code=200",
    ]
