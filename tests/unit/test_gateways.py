"""Gateways of the Gateway API: which ones a tag moves, who agreed, and what they are afterwards (cases H06, H07)."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.module_utils.mesh_rows import gateway_row
from mesh_logic import gateways
from mesh_logic.plan import step_plan

from tests.unit.mesh_stages import facts, namespace, wants

Facts = dict[str, Any]


def row(name: str = "public", space: str = "edge", revision: str | None = None, **more: Any) -> dict[str, Any]:
    base = {"namespace": space, "name": name, "class": "istio", "revision": revision}
    return base | {"managed": True, "programmed": "True"} | more


def world(*rows: dict[str, Any]) -> tuple[Facts, list[dict[str, Any]]]:
    """Return facts of before the tag move with some Gateways, and the plan of the move."""
    found = facts("after_canary") | {"gateways": list(rows)}
    namespace(found, "edge")
    namespace(found, "tagged", **{"istio.io/rev": "prod-stable"})
    actions: list[dict[str, Any]] = step_plan(found, wants(), "move_tags")["actions"]
    return found, actions


@pytest.mark.parametrize(
    ("gateway", "tag"),
    [
        pytest.param(row(), "default", id="H07-no-label-at-all"),
        pytest.param(row(space="tagged"), "prod-stable", id="H06-label-of-the-namespace"),
        pytest.param(row(space="tagged", revision="default"), "default", id="own-label-wins"),
        pytest.param(row(revision="1-30-5"), "", id="a-revision-moves-with-no-tag"),
        pytest.param(row(revision="other-tag"), "", id="another-tag"),
        pytest.param(row(managed=False), "", id="brings-its-own-pods"),
    ],
)
def test_which_gateways_a_tag_move_restarts(gateway: dict[str, Any], tag: str) -> None:  # case H06
    found, plan = world(gateway)
    assert [r["tag"] for r in gateways.moving(found, plan)] == ([tag] if tag else [])


def test_they_are_listed_before_the_move_and_each_needs_an_agreement() -> None:  # case H06
    found, plan = world(row(), row("inner", "tagged", programmed="Unknown"))
    assert gateways.lines(found, plan) == [
        "Gateway edge/public names no revision and follows tag default: it will restart now, when that tag moves, with "
        "errors for some seconds",
        "Gateway tagged/inner names no revision and follows tag prod-stable: it will restart now, when that tag moves, "
        "with errors for some seconds; before, its condition Programmed is Unknown",
    ]
    agreed = {"resource": "Gateway edge/*", "allow": "restart", "reason": "night"}
    left = gateways.unconfirmed(found, plan, [agreed])
    assert len(left) == 1
    assert left[0].startswith("Gateway tagged/inner: it follows tag prod-stable and will restart at once")
    assert 'mesh_consents: {resource: "Gateway tagged/inner", allow: restart' in left[0]
    assert len(gateways.unconfirmed(found, plan, [agreed | {"allow": "evict"}])) == 2, (
        "another agreement does not count"
    )
    desired = wants(mesh_consents=[agreed])
    assert len(gateways.unconfirmed(found, plan, desired["consents"])) == 1, "the inputs take such an agreement"


def test_a_move_without_tags_restarts_no_gateway() -> None:
    found, plan = world(row())
    assert gateways.unconfirmed(found, [a for a in plan if a["do"] != "set_tag"], []) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        pytest.param("True", "True", "", id="programmed"),
        pytest.param("True", "Unknown", "was True before tag default moved, and is Unknown", id="H07-not-any-more"),
        pytest.param("True", None, "is gone", id="gone"),
        pytest.param("Unknown", "Unknown", "", id="never-was"),
        pytest.param("Unknown", "True", "", id="healed"),
    ],
)
def test_programmed_is_checked_again_after_the_move(before: str, after: str | None, said: str) -> None:  # case H07
    was, plan = world(row(programmed=before))
    now = {"gateways": [row(programmed=after)] if after else []}
    found = gateways.not_programmed(now, was, plan)
    assert bool(found) == bool(said)
    assert said in " ".join(found)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({}, {"programmed": "True", "managed": True}, id="plain"),
        pytest.param({"generation": 3}, {"programmed": "Unknown"}, id="condition-of-an-older-spec"),
        pytest.param({"conditions": None}, {"programmed": "Unknown"}, id="no-condition"),
        pytest.param({"addresses": [{"type": "Hostname", "value": "gw.edge"}]}, {"managed": False}, id="by-name"),
        pytest.param({"addresses": [{"value": "10.0.0.1"}]}, {"managed": True}, id="by-address"),
    ],
)
def test_the_row_of_a_gateway(change: dict[str, Any], expected: dict[str, Any]) -> None:
    item = {
        "metadata": {"namespace": "edge", "name": "public", "generation": change.get("generation", 2)},
        "spec": {"gatewayClassName": "istio", "addresses": change.get("addresses")},
        "status": {
            "conditions": change.get("conditions", [{"type": "Programmed", "status": "True", "observedGeneration": 2}])
        },
    }
    found = gateway_row(item)
    assert expected.items() <= found.items()
    assert (found["namespace"], found["name"], found["class"], found["revision"]) == ("edge", "public", "istio", None)
