"""The evidence: exact texts of a recorded upgrade, and the whole folder from its journal alone."""

from __future__ import annotations

from typing import Any

import pytest
from mesh_logic import evidence

from tests.unit.mesh_stages import OLD, facts, journal, row_of, wants, workload

PROBES: list[dict[str, Any]] = [{"name": "web", "code": "200"}]


def test_01_before() -> None:
    assert evidence.before_text(facts("start"), wants()) == (
        "web_proxy=1.30.5\nclient_proxy=1.30.5\nprod_stable=1-30-5\n"
    )


def test_01_before_with_default_alone() -> None:
    desired = wants(mesh_tags=["default"], mesh_drill={})
    assert evidence.before_text(facts("start"), desired).splitlines()[-1] == "default=1-30-5"


def test_03_install() -> None:
    said = "\x1b[1mTAG         REVISION NAMESPACES\x1b[0m\ndefault     1-30-5   \n            1-31-0   \n\n"
    text = evidence.install_text(
        facts("after_install"),
        wants(),
        [],
        [],
        "a dry-run pod was injected",
        ['spec.tag set to "1.31.0"'],
        said,
    )
    assert text == (
        "old_revision=1-30-5\nnew_revision=1-31-0\nold_istiod=1.30.5\nnew_istiod=1.31.0\npruned=none\nmoved=none\n"
        'injector=a dry-run pod was injected\n\n# laid over the operator file\n# spec.tag set to "1.31.0"\n\n'
        "# istioctl tag list\nTAG         REVISION NAMESPACES\ndefault     1-30-5   \n            1-31-0\n"
    )


def test_03_install_names_what_it_took_and_moved() -> None:
    text = evidence.install_text(facts("start"), wants(), ["Service a/b", "c"], ["tag x"], "none", [], "")
    assert "new_istiod=none\npruned=Service a/b,c\nmoved=tag x\n" in text


def test_04_mixed_begins_with_the_canary() -> None:
    assert evidence.mixed_text(facts("after_canary"), wants(), PROBES) == (
        "client_proxy=1.31.0\nweb_proxy=1.30.5\ncode=200\n"
    )


def test_05_tags() -> None:
    assert evidence.tags_text(facts("after_move_tags"), wants(), PROBES) == (
        "prod_stable=1-31-0\ndefault=1-31-0\nweb_proxy=1.31.0\nclient_proxy=1.31.0\ncode=200\n"
    )


def test_06_rollback_values() -> None:
    def pods(*images: str) -> list[dict[str, Any]]:
        return [{"image": f"docker.io/istio/proxyv2:{i}", "terminating": False} for i in images]

    assert evidence.tags_of_pods(pods("1.30.5", "1.30.5")) == "1.30.5"
    assert evidence.tags_of_pods(pods("1.31.0", "1.30.5")) == "1.30.5,1.31.0"
    assert evidence.tags_of_pods(pods("1.31.0-distroless")) == "1.31.0-distroless"  # case A06
    assert evidence.tags_of_pods([]) == "none"
    going = pods("1.30.5")[0] | {"terminating": True}
    assert evidence.tags_of_pods([going, *pods("1.31.0")]) == "1.31.0"  # case B13
    assert evidence.tags_of_pods([{"image": "auto", "terminating": False}]) == "auto"  # case B07


def test_07_uninstall() -> None:
    assert evidence.uninstall_text(facts("finished"), wants(), PROBES) == (
        "old_istiod_left=no\nold_injector_left=no\nweb_proxy=1.31.0\nclient_proxy=1.31.0\ncode=200\n"
    )
    left = evidence.uninstall_text(facts("after_rollback_drill"), wants(), PROBES)
    assert left.startswith("old_istiod_left=yes\nold_injector_left=yes\n")


def test_a_leftover_injector_is_seen_without_its_istiod() -> None:  # case I11
    found = facts("after_rollback_drill")
    found["control_planes"] = facts("finished")["control_planes"]
    assert evidence.uninstall_text(found, wants(), PROBES).startswith("old_istiod_left=no\nold_injector_left=yes\n")


def test_a_second_probe_has_its_own_key() -> None:
    text = evidence.mixed_text(facts("after_canary"), wants(), [*PROBES, {"name": "db", "code": "000"}])
    assert text.endswith("code=200\ndb_code=000\n")


def test_equal_names_get_their_namespace() -> None:
    found = facts("start")
    found["workloads"].append(row_of("canary", "web"))
    desired = wants(mesh_evidence_workloads=["shop/web", "canary/web"])
    assert evidence.before_text(found, desired).splitlines()[:2] == [
        "shop_web_proxy=1.30.5",
        "canary_web_proxy=1.30.5",
    ]


def test_a_workload_without_proxies_and_an_unknown_one_say_none() -> None:
    found = facts("start")
    workload(found, "web")["proxies"] = []
    desired = wants(mesh_evidence_workloads=["shop/web", "shop/gone"])
    assert evidence.before_text(found, desired).startswith("web_proxy=none\ngone_proxy=none\n")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("code=200\n", "200", id="one"),
        pytest.param("code=503\nweb_code=1\ncode=200\n", "200", id="the-last"),
        pytest.param("web_code=200\n", "none", id="whole-key"),
        pytest.param("a=b=c\ncode=a=b\n", "a=b", id="equals-in-value"),
        pytest.param("", "none", id="empty"),
    ],
)
def test_find_line(text: str, value: str) -> None:
    assert evidence.find_line(text, "code") == value


REPORT = """\
old_revision=1-30-5
new_revision=1-31-0
mixed_versions_code=200
rollback_version=1.30.5
old_injector_left=no
"""
LESSONS = [
    "Beside, not instead: installing 1-31-0 next to 1-30-5 left 2 workloads with 3 proxies as they were; "
    "the install took 18 s.",
    "What the revision road gained over in-place: only 1 of 3 proxies met the new version first, and the "
    "way back of 1 workload(s) took 22 s, without a reinstall.",
    "Mixed versions worked together: with client_proxy=1.31.0 and web_proxy=1.30.5 the request gave 200.",
    "Moving the tags restarted 1 workload(s), those that were stale and no others, in 37 s.",
    "When the old revision may go: after all proxies ran 1.31.0, the drill had passed at "
    "2026-12-01T00:02:39Z, nothing used 1-30-5 any more, and 0 s of soak were over; "
    "it went at 2026-12-01T00:03:19Z.",
    "Not drilled: tag(s) default; their way back is the same command, but this run did not prove it.",
]


def test_the_lessons_are_this_runs_own_figures() -> None:
    assert evidence.lessons(facts("finished"), wants()) == LESSONS
    assert evidence.lessons(facts("finished"), wants(mesh_lessons=["Ask the payments team first."]))[-1] == (
        "Ask the payments team first."
    )


def test_the_lessons_of_an_unfinished_run_claim_nothing() -> None:
    found = evidence.lessons(facts("start"), wants())
    assert len(found) >= 4
    assert "an unknown time" in found[0]
    assert "with no measurement the request gave none" in found[2]
    assert "it has not gone yet" in found[4]


def test_the_whole_folder_comes_from_the_journal_alone() -> None:
    found = facts("finished")
    for row in found["workloads"]:
        row["proxies"] = []  # nothing but the journal and the live webhooks may be used
    files = evidence.report_files(found, wants())
    assert sorted(files) == [
        "01-before.txt",
        "02-precheck.txt",
        "03-install.txt",
        "04-mixed.txt",
        "05-tags.txt",
        "06-rollback.txt",
        "07-uninstall.txt",
        "08-report.md",
    ]
    assert files["01-before.txt"] == "web_proxy=1.30.5\nclient_proxy=1.30.5\nprod_stable=1-30-5\n"
    assert files["02-precheck.txt"].endswith("rc=0\n")
    assert files["04-mixed.txt"] == "client_proxy=1.31.0\nweb_proxy=1.30.5\ncode=200\n"
    assert files["06-rollback.txt"] == "after_rollback=1.30.5\nafter_forward=1.31.0\n"
    assert "old_injector_left=no\n" in files["07-uninstall.txt"]
    assert files["08-report.md"] == REPORT + "\n" + "".join(f"- {x}\n" for x in LESSONS)


def test_the_journal_of_another_pair_is_not_mixed_in() -> None:
    found = facts("finished")
    found["journal"] = {k.replace(OLD, "1-29-9"): v for k, v in found["journal"].items()}
    assert list(evidence.report_files(found, wants())) == ["08-report.md"]


def test_a_failed_step_stays_in_the_folder() -> None:
    found = facts("after_install")
    journal(found, "canary").update(state="reverted", evidence={"04-mixed.txt": "state=reverted\nreason=503\n"})
    files = evidence.report_files(found, wants())
    assert files["04-mixed.txt"] == "state=reverted\nreason=503\n"
    assert "mixed_versions_code=none" in files["08-report.md"]
