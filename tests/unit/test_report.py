"""The report: valid against its schema, true for every way an upgrade can stand, one page without network."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mesh_logic import report_page, report_steps
from mesh_logic.record import digest, inputs_of, proxies_by_version, record_context
from mesh_logic.report_data import report_data
from mesh_logic.report_folder import MANIFEST, START, chain, report_folder, sha256

from tests.unit.mesh_stages import LAB, NEW, OLD, SHA, facts, journal, row_of, wants

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
TEMPLATE = (ROOT / "roles" / "report" / "templates" / "report.html.j2").read_text(encoding="utf-8")
WHO = {"user": "ops", "host": "controller", "ansible": "2.21.5", "job": "", "job_user": ""}
# step -> when it began, and the proxies then
BEGAN: dict[str, tuple[str, dict[str, int]]] = {
    "precheck": ("2026-11-30T23:58:40Z", {"1.30.5": 3}),
    "install": ("2026-11-30T23:59:05Z", {"1.30.5": 3}),
    "canary": ("2026-11-30T23:59:29Z", {"1.30.5": 3}),
    "move-tags": ("2026-12-01T00:00:20Z", {"1.30.5": 2, "1.31.0": 1}),
    "rollback-drill": ("2026-12-01T00:01:35Z", {"1.31.0": 3}),
    "uninstall": ("2026-12-01T00:02:45Z", {"1.31.0": 3}),
}
Facts = dict[str, Any]


def recorded(stage: str) -> Facts:
    """Return a stage whose records have what every record says besides its own data."""
    found = facts(stage)
    for name, record in found["journal"].items():
        step = name.removeprefix(f"istio-upgrade-{OLD}-to-{NEW}-")
        if step in BEGAN:
            started, versions = BEGAN[step]
            context = {"started": started, "proxies_before": versions, "who": WHO}
            record.update(context, inputs_sha256=digest(inputs_of(wants())), operator_sha256=SHA)
    if (precheck := f"istio-upgrade-{OLD}-to-{NEW}-precheck") in found["journal"]:
        found["journal"][precheck]["finished"] = "2026-11-30T23:58:59Z"
    return found


def finished() -> Facts:
    return recorded("finished")


def without(found: Facts, *steps: str) -> Facts:
    for step in steps:
        found["journal"].pop(f"istio-upgrade-{OLD}-to-{NEW}-{step}", None)
    return found


def failing(stage: str, step: str, state: str, reason: str, **more: Any) -> Facts:
    """Return a stage where a step has failed; its record holds little, as the rescue writes it."""
    found = recorded(stage)
    record = journal(found, step)
    record.clear()
    record.update(step=step.replace("-", "_"), state=state, reason=reason, finished="2026-12-01T00:05:00Z", **more)
    return found


def blocked_precheck() -> Facts:
    found = without(recorded("start"), "install", "canary")
    journal(found, "precheck").update(
        step="precheck",
        state="failed",
        finished="2026-12-01T00:00:00Z",
        level="none",
        messages=[],
        blockers=["PDB_BLOCKS shop/web: no pod may go. Next: raise it."],
        checks=[
            {"id": "PDB_BLOCKS", "severity": "block", "resource": "shop/web", "text": "no pod may go", "todo": "x"},
            {"id": "OLD_ISTIO", "severity": "warn", "resource": "x", "text": "y", "todo": "z", "waived": "known"},
        ],
    )
    return found


def way_back(road: str) -> Facts:
    found = recorded("after_move_tags")
    record = {"step": road, "state": "done", "finished": "2026-12-01T01:00:00Z", "evidence": {"rollback.txt": "a=b\n"}}
    journal(found, road).update(record)
    return found


# name -> (facts, outcome state, step, step with a verdict, verdict)
STANDS: dict[str, tuple[Callable[[], Facts], str, str, str]] = {
    "success": (finished, "finished", "uninstall", "passed"),
    "nothing yet": (lambda: {**facts("start"), "journal": {}}, "not_started", "precheck", "not_reached"),
    "stopped by the precheck": (blocked_precheck, "stopped", "precheck", "failed"),
    "stopped by the install": (
        lambda: failing("after_install", "install", "failed", "istiod not ready"),
        "stopped",
        "install",
        "failed",
    ),
    "the canary was put back": (
        lambda: failing("after_install", "canary", "reverted", "probe web: 503"),
        "rolled_back",
        "canary",
        "reverted",
    ),
    "the canary could not be put back": (
        lambda: failing("after_install", "canary", "failed", "403"),
        "stopped",
        "canary",
        "failed",
    ),
    "the tags were put back": (
        lambda: failing("after_canary", "move-tags", "reverted", "probe web: 503"),
        "rolled_back",
        "move_tags",
        "reverted",
    ),
    "stopped by the drill": (
        lambda: failing("after_move_tags", "rollback-drill", "failed", "503"),
        "stopped",
        "rollback_drill",
        "failed",
    ),
    "stopped by the uninstall": (
        lambda: failing("after_rollback_drill", "uninstall", "failed", "a probe"),
        "stopped",
        "uninstall",
        "failed",
    ),
    "half-way": (lambda: recorded("after_canary"), "unfinished", "move_tags", "not_reached"),
    "killed in a step": (
        lambda: failing("after_canary", "move-tags", "started", ""),
        "unfinished",
        "move_tags",
        "not_ended",
    ),
    "rolled back": (lambda: way_back("rollback"), "rolled_back", "rollback", "passed"),
    "aborted": (lambda: way_back("abort"), "aborted", "abort", "passed"),
}


def folder(found: Facts, **changes: Any) -> dict[str, str]:
    return report_folder(found, wants(**changes), TEMPLATE)


@cache
def folder_of(case: str) -> dict[str, str]:
    return folder(STANDS[case][0]())


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("case", STANDS)
def test_every_way_an_upgrade_stands_is_told_and_valid(case: str) -> None:
    _make, state, step, verdict = STANDS[case]
    files = folder_of(case)
    data = json.loads(files["report.json"])
    Draft202012Validator(SCHEMA).validate(data)
    assert (data["outcome"]["state"], data["outcome"]["step"]) == (state, step)
    row = next(s for s in data["steps"] if s["step"] == step)
    assert row["verdict"] == verdict
    page = files["report.html"]
    assert report_steps.TITLES[step] in page
    assert f'class="mark {verdict}"' in page
    if row["reason"]:
        assert row["reason"] in data["outcome"]["words"]
        assert row["reason"] in page


def test_a_key_that_the_schema_does_not_know_is_refused() -> None:
    data = json.loads(folder(finished())["report.json"])
    for broken in (data | {"more": 1}, {k: v for k, v in data.items() if k != "outcome"}):
        assert list(Draft202012Validator(SCHEMA).iter_errors(broken))


def test_the_report_for_programs() -> None:
    data = report_data(finished(), wants())
    assert data["schema"] == 1
    assert data["environment"] == "lab"
    assert data["from"] == {"version": "1.30.5", "revision": OLD}
    assert data["to"] == {"version": "1.31.0", "revision": NEW}
    assert data["inputs"]["operator_sha256"] == SHA
    assert data["who"] == [WHO]
    assert (data["started"], data["finished"]) == ("2026-11-30T23:58:40Z", "2026-12-01T00:03:19Z")
    assert list(data["result"].values()) == [OLD, NEW, "200", "1.30.5", "no"]
    assert [s["step"] for s in data["steps"]] == ["before", *report_steps.ROAD]
    assert {s["inputs_sha256"] for s in data["steps"]} == {"", data["inputs"]["sha256"]}
    assert [s["seconds"] for s in data["steps"]] == [None, 19, 22, 46, 71, 64, 34]


def test_every_gate_has_its_verdict_and_data() -> None:
    steps = {s["step"]: s["gates"] for s in report_data(finished(), wants())["steps"]}
    seen = {step: [(g["gate"], g["verdict"]) for g in gates] for step, gates in steps.items()}
    assert seen["before"] == []
    assert seen["precheck"] == [("istioctl's precheck", "pass"), ("checks", "pass")]
    assert ("nothing else moved", "pass") in seen["install"]
    assert seen["canary"] == [("mixed versions", "pass"), ("probes", "pass")]
    assert seen["rollback_drill"] == [("the way back", "pass"), ("forward again", "pass")]
    assert seen["uninstall"][:2] == [("the old istiod is gone", "pass"), ("the old injector is gone", "pass")]
    assert steps["canary"][1]["data"] == "web gave 200"


def test_a_failed_gate_says_what_was_seen() -> None:
    found = finished()
    journal(found, "canary")["probes"][0].update(ok=False, code="503", error="it gave 503 and 200 is expected")
    journal(found, "install").update(
        settings=[{"kind": "lost", "setting": "spec.a", "running": "1", "new": "", "waived": "", "text": "lost"}]
    )
    steps = {s["step"]: s["gates"] for s in report_data(found, wants())["steps"]}
    assert steps["canary"][-1] == {"gate": "probes", "verdict": "fail", "data": "web: it gave 503 and 200 is expected"}
    assert {"gate": "settings kept", "verdict": "fail", "data": "1 differ, 1 would be lost"} in steps["install"]


def test_findings_waivers_and_drift() -> None:
    desired = wants(mesh_waivers=[{"id": "OLD_ISTIO", "reason": "known"}, {"id": "PDB_BLOCKS", "reason": "other"}])
    data = report_data(blocked_precheck(), desired)
    assert [(f["id"], f["severity"], f["waived"]) for f in data["findings"]] == [
        ("PDB_BLOCKS", "block", ""),
        ("OLD_ISTIO", "warn", "known"),
    ]
    assert [(w["id"], w["used"]) for w in data["waivers"]] == [("OLD_ISTIO", 1), ("PDB_BLOCKS", 0)]
    found = finished()
    row = {"kind": "changed_default", "setting": "spec.b", "running": "1", "new": "2", "waived": "", "text": "t"}
    journal(found, "install")["settings"] = [row]
    assert report_data(found, wants())["drift"] == [{k: v for k, v in row.items() if k != "text"}]
    page = folder(found)["report.html"]
    assert "<code>spec.b</code>" in page


def test_the_bars_are_stacked_to_one_scale() -> None:
    rows = report_page.bars(report_data(finished(), wants()))
    assert [row["title"] for row in rows] == [report_steps.MOMENTS[step] for step in report_steps.ROAD]
    mixed = rows[3]["parts"]
    assert [(p["side"], p["count"], p["x"], p["width"]) for p in mixed] == [
        ("old", 2, 0.0, 666.67),
        ("new", 1, 666.67, 333.33),
    ]
    page = folder(finished())["report.html"]
    assert '<rect class="new" x="666.67" y="1" width="333.33"' in page
    assert "2 × 1.30.5, 1 × 1.31.0" in page


def test_the_timeline_has_every_step_in_its_place() -> None:
    rows = report_page.timeline(report_data(finished(), wants())["steps"])
    assert rows[0]["x"] == 0
    assert rows[-1]["x"] + rows[-1]["width"] == pytest.approx(report_page.WIDTH)
    assert all(row["width"] >= report_page.THIN for row in rows)
    waiting = report_page.timeline(report_data(recorded("after_canary"), wants())["steps"])
    assert [row["x"] is None for row in waiting] == [False, False, False, True, True, True]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.4, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (12000, "3 h 20 min"),
        (187200, "2 d 4 h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert report_page.duration(seconds) == text


class Page(HTMLParser):
    """What a page would load, run or leave open."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "img", "iframe", "object", "embed", "base", "form", "use", "image", "a"):
            self.loads.append(tag)
        self.loads += [name for name, _ in attrs if name in ("src", "href", "xlink:href") or name.startswith("on")]
        if tag not in ("meta", "br", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("case", STANDS)
def test_the_page_loads_nothing_and_is_closed(case: str) -> None:
    page = folder_of(case)["report.html"]
    parser = Page()
    parser.feed(page)
    assert (parser.loads, parser.open) == ([], [])
    assert not re.search(r"url\(|@import", page)


def test_what_a_record_says_is_text_and_no_markup() -> None:
    attack = "<script>alert(1)</script>\"'><img src=x>"
    page = folder(failing("after_install", "canary", "reverted", attack), mesh_environment=attack)["report.html"]
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_same_records_give_the_same_files() -> None:
    assert folder(finished()) == folder(finished())
    found = finished()
    for row in found["workloads"]:
        row["proxies"] = []  # the report is made of the records and of the control planes
    assert folder(found) == folder(finished())


def test_the_chain_stands_for_every_byte_name_and_order() -> None:
    files = folder(finished())
    data = json.loads(files["report.json"])["evidence"]
    last = START
    for row in data["files"]:
        assert row["sha256"] == sha256(files[row["name"]])
        last = sha256(f"{last} {row['sha256']} {row['name']}")
        assert row["chain"] == last
    assert data["chain"] == last
    assert last in files["report.html"]
    listed = {line.split("  ")[1]: line.split("  ")[0] for line in files[MANIFEST].splitlines()}
    assert listed == {name: sha256(text) for name, text in files.items() if name != MANIFEST}
    ends = [chain(hashes)[-1]["chain"] for hashes in ({"a": "1", "b": "2"}, {"a": "2", "b": "1"}, {"a": "1", "c": "2"})]
    assert len(set(ends)) == 3


def test_a_record_says_who_when_with_what_and_the_proxies() -> None:
    found = facts("after_canary")
    found["workloads"].append(row_of("x", "y", revision="latest"))
    found["loose_pods"] = [
        {"live": True, "terminating": gone, "image": "docker.io/istio/proxyv2:1.29.0"} for gone in (False, True)
    ]
    context = record_context(found, wants() | {"who": WHO}, "2026-12-01T00:00:00Z")
    assert context["who"] == WHO
    assert context["started"] == "2026-12-01T00:00:00Z"
    assert context["operator_sha256"] == SHA
    assert context["proxies_before"] == {"1.29.0": 1, "1.30.5": 2, "1.31.0": 1, "latest": 1}
    assert "proxies_before" not in record_context({}, wants(), "")
    assert proxies_by_version({}) == {}


def test_the_hash_of_the_inputs_is_that_of_the_inputs_and_of_no_path() -> None:
    def of(**changes: Any) -> str:
        return digest(inputs_of(wants(**changes)))

    assert of() == of(mesh_kubeconfig="/else/where", mesh_stop_after="canary", mesh_lessons=["x"])
    others = (of(mesh_soak_before_uninstall=9), of(mesh_environment="x"), of(mesh_canary_namespaces=["x"]))
    assert len({of(), *others}) == 4
    assert "kubeconfig" not in json.dumps(inputs_of(wants()))
    assert LAB["mesh_environment"] == inputs_of(wants())["environment"]
