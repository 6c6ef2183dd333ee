"""An evidence folder is checked against itself, the journal and the cluster: each mismatch has its name."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mesh_logic.evidence_check import claims, evidence_errors
from mesh_logic.report_folder import MANIFEST, chain, manifest, report_folder, sha256

from tests.unit.mesh_stages import NEW, OLD, facts, journal, set_tag, wants, workload
from tests.unit.test_report import TEMPLATE, finished, recorded

ROOT = Path(__file__).resolve().parents[2]
Files = dict[str, str]


def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mesh_evidence", ROOT / "library" / "mesh_evidence.py")
    assert spec
    assert spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def read(files: Files) -> dict[str, Any]:
    """Return texts as `mesh_evidence` reads them."""
    rows = {name: {"sha256": sha256(text), "text": text, "error": ""} for name, text in files.items()}
    return {"folder": "evidence", "files": rows, "error": ""}


def written(found: dict[str, Any]) -> Files:
    return report_folder(found, wants(), TEMPLATE)


def errors(files: Files, found: dict[str, Any], **changes: Any) -> list[str]:
    return evidence_errors(read(files), found, wants(**changes), TEMPLATE)


@pytest.mark.parametrize("stage", ["start", "after_install", "after_canary", "after_move_tags", "finished"])
def test_what_the_report_writes_holds(stage: str) -> None:
    found = recorded(stage)
    assert errors(written(found), found) == []


def test_one_changed_byte_is_found_in_every_file() -> None:
    found = finished()
    files = written(found)
    for name, text in files.items():
        middle = len(text) // 2
        other = "x" if text[middle] != "x" else "y"
        wrong = errors(files | {name: text[:middle] + other + text[middle + 1 :]}, found)
        named = [line for line in wrong if name in line.split(": ")[0] or (name == MANIFEST and MANIFEST in line)]
        assert named, f"{name}: {wrong}"
        assert all("Next:" in line for line in wrong)


def test_a_forged_file_with_new_hashes_is_found_against_the_journal() -> None:
    found = finished()
    files = written(found)
    files["04-mixed.txt"] = files["04-mixed.txt"].replace("code=200", "code=201")
    data = json.loads(files["report.json"])
    old = data["evidence"]["chain"]
    rows = chain({row["name"]: sha256(files[row["name"]]) for row in data["evidence"]["files"]})
    data["evidence"] = {"files": rows, "chain": rows[-1]["chain"]}
    files["report.json"] = json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    files["report.html"] = files["report.html"].replace(old, rows[-1]["chain"])
    files[MANIFEST] = manifest({name: text for name, text in files.items() if name != MANIFEST})
    wrong = errors(files, found)
    assert (
        f"04-mixed.txt: it is not what the record istio-upgrade-{OLD}-to-{NEW}-canary in the cluster holds" in wrong[0]
    )
    assert [line.split(":")[0] for line in wrong] == ["04-mixed.txt", "report.json, evidence"]


def test_a_forged_verdict_is_found() -> None:
    found = finished()
    files = written(found)
    data = json.loads(files["report.json"])
    data["outcome"]["words"] = "All well."
    files["report.json"] = json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    files[MANIFEST] = manifest({name: text for name, text in files.items() if name != MANIFEST})
    (wrong,) = errors(files, found)
    assert wrong.startswith("report.json, outcome: it says ")
    assert "All well." in wrong


def test_a_missing_and_an_unknown_file_are_named_with_where_to_get_them() -> None:
    found = finished()
    files = written(found)
    del files["06-rollback.txt"]
    wrong = errors(files | {"notes.txt": "x"}, found)
    assert f"the record istio-upgrade-{OLD}-to-{NEW}-rollback-drill in the cluster has it" in wrong[0]
    assert wrong[1].startswith("notes.txt: no record and no manifest knows this file")
    assert any(line.startswith(f"06-rollback.txt: {MANIFEST} lists it and it is not there") for line in wrong)


def test_a_folder_without_a_report_says_what_writes_it() -> None:
    found = recorded("after_canary")
    files = {name: text for name, text in written(found).items() if name[:2] in ("01", "02", "03", "04")}
    wrong = errors(files, found)
    assert [line.split(":")[0] for line in wrong] == ["08-report.md", MANIFEST, "report.html", "report.json"]
    assert all("playbooks/report.yml" in line for line in wrong)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"evidence": {"files": [1]}}', '{"evidence": {"files": [{}]}}'])
def test_a_report_that_is_none(text: str) -> None:
    found = finished()
    assert any(
        line.startswith("report.json: it is no report")
        for line in errors(written(found) | {"report.json": text}, found)
    )


def test_a_manifest_line_that_is_none() -> None:
    found = finished()
    files = written(found)
    wrong = errors(files | {MANIFEST: files[MANIFEST] + "hello\n"}, found)
    assert any(line.startswith(f'{MANIFEST}, line 11: "hello" is no hash and name') for line in wrong)


def test_a_changed_form_is_a_change() -> None:
    found = finished()
    files = written(found)
    (wrong,) = errors(files | {MANIFEST: files[MANIFEST].rstrip()}, found)
    assert wrong.startswith(f"{MANIFEST}: its lines are right")
    files["report.json"] = json.dumps(json.loads(files["report.json"]))
    files[MANIFEST] = manifest({name: text for name, text in files.items() if name != MANIFEST})
    (wrong,) = errors(files, found)
    assert wrong.startswith("report.json: it says what the records give, in another form")


def test_the_journal_has_moved_on() -> None:
    found = finished()
    files = written(found)
    journal(found, "precheck").update(state="failed", finished="2026-12-02T00:00:00Z", blockers=["x"])
    named = {line.split(":")[0] for line in errors(files, found)}
    assert {"report.json, steps", "report.json, outcome"} <= named


def test_the_old_revision_is_there_again() -> None:
    found = finished()
    files = written(found)
    before = facts("after_rollback_drill")
    found["control_planes"], found["injectors"] = before["control_planes"], before["injectors"]
    wrong = errors(files, found)
    assert any(
        line.startswith(f"Deployment istiod-{OLD}: it serves {OLD}, and 07-uninstall.txt says") for line in wrong
    )
    assert any(line.startswith(f"webhook istio-sidecar-injector-{OLD}: it serves {OLD}") for line in wrong)


def test_a_tag_a_proxy_and_a_version_moved_since() -> None:
    found = finished()
    files = written(found)
    set_tag(found, "prod-stable", "1-32-0")
    workload(found, "web")["proxies"][0]["image"] = "docker.io/istio/proxyv2:1.29.0"
    found["control_planes"][0]["image"] = "docker.io/istio/pilot:1.31.9"
    wrong = errors(files, found)
    assert [line.split(". Next")[0] for line in wrong] == [
        f"Deployment istiod-{NEW}: it runs 1.31.9, and the evidence is about 1.31.0",
        "web_proxy in 07-uninstall.txt: it says 1.31.0, and the cluster has 1.29.0 now",
        "prod_stable in 05-tags.txt: it says 1-31-0, and the cluster has 1-32-0 now",
    ]


def test_the_new_revision_is_gone_or_incomplete() -> None:
    found = recorded("after_install")
    files = written(found)
    found["control_planes"][1]["available"] = 0
    assert any("it is not complete" in line for line in errors(files, found))
    found["control_planes"] = found["control_planes"][:1]
    assert any(
        line.startswith(f"revision {NEW}: 03-install.txt says it was installed") for line in errors(files, found)
    )


def test_another_cluster() -> None:
    found = finished()
    files = written(found)
    found["cluster"]["uid"] = "other"
    assert any(line.startswith("report.json, cluster.uid: it says ") for line in errors(files, found))


def test_after_a_rollback_the_steps_claim_nothing_of_the_cluster() -> None:
    found = recorded("start")
    found["journal"] = recorded("after_move_tags")["journal"]
    journal(found, "rollback").update(step="rollback", state="done", finished="2026-12-01T01:00:00Z")
    assert errors(written(found), found) == []


def test_a_folder_is_read_byte_by_byte(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"k=v\r\n\xff")
    (tmp_path / "inner").mkdir()
    found = module().look_at_folder(str(tmp_path))
    assert found["error"] == ""
    assert found["files"]["a.txt"]["error"] == ""
    assert len(found["files"]["a.txt"]["sha256"]) == 64
    assert found["files"]["inner"] == {"sha256": "", "text": "", "error": "it is no file"}
    gone = module().look_at_folder(str(tmp_path / "gone"))
    assert gone["error"] == "No such file or directory"
    (first, *_rest) = evidence_errors(gone, finished(), wants(), TEMPLATE)
    assert "No such file or directory. Next: give the folder in mesh_evidence_dir" in first
    assert any(
        "inner: it cannot be read: it is no file" in e for e in evidence_errors(found, finished(), wants(), TEMPLATE)
    )


def test_what_was_checked_is_said() -> None:
    found = finished()
    assert claims(read(written(found)), found) == ["11 files in evidence", "7 records in the cluster"]
