"""Findings and waivers: what stops, what stays in the report, and waivers that are findings themselves."""

from __future__ import annotations

from typing import Any

import pytest
from mesh_logic.checks.context import SHOWN, say
from mesh_logic.checks.judge import RECORDED, judge, seen

from tests.unit.checks_world import OLD, TODAY, World


def waiver(code: str, resource: str = "", expires: str = "", reason: str = "agreed") -> dict[str, str]:
    return {"id": code, "resource": resource, "expires": expires, "reason": reason}


def bound(count: int = 1, kind: str = "VirtualService") -> list[dict[str, str]]:
    """Return findings of objects bound to the old revision."""
    world = World()
    for number in range(count):
        world.add_object(kind, OLD, name=f"web-{number}")
    return world.found()


def judged(*waivers: dict[str, str], count: int = 1, **more: Any) -> dict[str, Any]:
    return judge(bound(count), list(waivers), TODAY, **more)


def test_all_that_blocks_is_told_at_once_with_a_command() -> None:
    blockers = judged(count=30)["blockers"]
    assert len(blockers) == 30
    assert blockers[0] == (
        "OBJECT_OLD_REVISION VirtualService shop/web-0: it carries istio.io/rev=1-30-5: it stops applying to every "
        "proxy that moves to 1-31-0. Next: kubectl label virtualservice.networking.istio.io -n shop web-0 "
        "istio.io/rev-."
    )


@pytest.mark.parametrize("resource", ["", "VirtualService shop/web-0", "VirtualService shop/*", "*"])
def test_a_waived_finding_stops_nothing_and_stays(resource: str) -> None:
    verdict = judged(waiver("OBJECT_OLD_REVISION", resource))
    assert verdict["blockers"] == []
    assert [row["waived"] for row in verdict["findings"]] == ["agreed"]
    assert verdict["shown"][0].startswith("waived OBJECT_OLD_REVISION: VirtualService shop/web-0: it carries")
    assert "reason: agreed" in verdict["shown"][0]


def test_a_name_with_brackets_fits_itself() -> None:
    found = [{"id": "X", "severity": "block", "resource": "a[1]", "text": "t", "todo": "do"}]
    assert judge(found, [waiver("X", "a[1]")], TODAY)["blockers"] == []


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (waiver("OBJECT_OLD_REVISION", "VirtualService other/*"), "WAIVER_UNUSED"),
        (waiver("OBJECT_TAG_LABEL"), "WAIVER_UNUSED"),
        (waiver("NO_SUCH_CHECK"), "WAIVER_UNUSED"),
        (waiver("OBJECT_OLD_REVISION", expires="2026-11-30"), "WAIVER_EXPIRED"),
        (waiver("OBJECT_OLD_REVISION", expires="30-11-2027"), "WAIVER_EXPIRED"),
        (waiver("OBJECT_OLD_REVISION", expires="2027-02-30"), "WAIVER_EXPIRED"),
        (waiver("OBJECT_OLD_REVISION", expires="soon"), "WAIVER_EXPIRED"),
    ],
)
def test_a_waiver_that_fits_nothing_or_has_expired_is_told_and_lets_nothing_pass(
    given: dict[str, str], code: str
) -> None:
    verdict = judged(given)
    assert len(verdict["blockers"]) == 1
    assert [row["id"] for row in verdict["findings"]] == ["OBJECT_OLD_REVISION", code]
    assert [row["severity"] for row in verdict["findings"]] == ["block", "warn"]


def test_a_waiver_counts_on_its_last_day() -> None:
    assert judged(waiver("OBJECT_OLD_REVISION", expires=TODAY))["blockers"] == []


def test_an_id_that_does_not_exist_is_called_so() -> None:
    assert [row["text"] for row in judged(waiver("NO_SUCH_CHECK"))["findings"] if "text" in row][1] == (
        "there is no such check"
    )


def test_a_waiver_for_a_later_check_is_not_held_against_the_precheck() -> None:
    assert [row["id"] for row in judge([], [waiver("CA_DIFFERS")], TODAY)["findings"]] == []


def test_a_later_step_says_nothing_about_waivers_and_obeys_them() -> None:
    found = say("CA_DIFFERS", "Revision 1-31-0", "another one", namespace="istio-system")
    other = waiver("OBJECT_OLD_REVISION", expires="2026-01-01")
    assert judge([found], [other, waiver("CA_DIFFERS")], TODAY, about_waivers=False)["blockers"] == []
    verdict = judge([found], [other], TODAY, about_waivers=False)
    assert [row["id"] for row in verdict["findings"]] == ["CA_DIFFERS"]
    assert len(verdict["blockers"]) == 1


def test_waivers_for_what_others_found_are_used() -> None:  # case F02
    other = [{"id": "PINNED_IMAGE", "severity": "warn", "resource": "Deployment pay/app", "text": "t", "todo": "d"}]
    other += seen(
        {
            "clean": False,
            "messages": [
                {"level": "warning", "code": "IST0169", "resource": "DestinationRule a/b", "text": "x"},
                {"level": "info", "code": "IST0102", "resource": "Namespace a", "text": "y"},
            ],
        }
    )
    waivers = [waiver("IST0169", "DestinationRule a/b"), waiver("PINNED_IMAGE"), waiver("IST0102")]
    verdict = judge([], waivers, TODAY, elsewhere=other)
    assert verdict["blockers"] == []
    assert [row["resource"] for row in verdict["findings"]] == ["Waiver IST0102"]
    assert [line.split(":")[0] for line in verdict["shown"]] == [
        "warn WAIVER_UNUSED Waiver IST0102",
        "waived PINNED_IMAGE",
        "waived IST0169",
    ]


def test_a_precheck_that_failed_without_words_can_be_waived() -> None:
    assert seen({"clean": True, "messages": []}) == []
    assert [row["id"] for row in seen({"clean": False, "messages": []})] == ["PRECHECK"]


def test_a_thousand_findings_are_a_few_lines_and_fit_the_journal() -> None:
    world = World()
    for number in range(1000):
        world.add_object("VirtualService", "prod-stable", name=f"web-{number}")
    verdict = judge(world.found(), [], TODAY)
    assert len(verdict["shown"]) == SHOWN + 1
    assert verdict["shown"][-1] == "OBJECT_TAG_LABEL: and 995 more"
    assert len(verdict["recorded"]) == RECORDED + 1
    assert verdict["recorded"][-1]["text"] == "and 800 more"
    assert len(verdict["findings"]) == 1000
