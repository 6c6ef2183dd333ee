"""The report on the lab: the folder is lost after every step and comes back from the cluster alone, true and checked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.e2e.lab import KUBECONFIG, ROOT, Run, kubectl, lab_reset, living_state

pytestmark = pytest.mark.lab

SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
# What must be found nowhere. It has no form that a pattern could know.
CANARY = "kanarienvogel7f3a9"
STEPS = {
    "precheck.yml": ["01-before.txt", "02-precheck.txt"],
    "install.yml": ["03-install.txt"],
    "canary.yml": ["04-mixed.txt"],
    "move_tags.yml": ["05-tags.txt"],
    "rollback_drill.yml": ["06-rollback.txt"],
    "uninstall.yml": ["07-uninstall.txt"],
}
MADE = ["08-report.md", "evidence.sha256", "report.html", "report.json"]
WRONG_PROBE = [
    {
        "name": "web",
        "from": {"namespace": "canary", "workload": "client", "container": "client"},
        "url": "http://web.shop/",
        "expect": 418,
    }
]


@pytest.fixture(scope="module", autouse=True)
def starting_point(lab: None) -> None:
    lab_reset()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Return the lab's kubeconfig with one more user, whose token is the canary."""
    data: dict[str, Any] = yaml.safe_load(KUBECONFIG.read_text(encoding="utf-8"))
    data["users"].append({"name": "canary", "user": {"token": CANARY}})
    path = tmp_path / "secret" / "kubeconfig"
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    path.chmod(0o600)
    return path


def secrets_of(kubeconfig: Path) -> list[str]:
    """Return everything that must be found nowhere: the canary and what the kubeconfig really lets in with."""
    users = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["users"]
    return [str(value) for user in users for key, value in user["user"].items() if key in ("token", "client-key-data")]


def leaks(secrets: list[str], *folders: Path) -> list[str]:
    """Return the files under some folders that hold a secret."""
    found = []
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and any(secret.encode() in path.read_bytes() for secret in secrets):
                found.append(str(path))
    return found


def report_of(evidence: Path) -> dict[str, Any]:
    """Return report.json, valid against the published schema."""
    data: dict[str, Any] = json.loads((evidence / "report.json").read_text(encoding="utf-8"))
    Draft202012Validator(SCHEMA).validate(data)
    return data


def test_the_report_of_a_run_whose_folder_is_lost_after_every_step(
    play: Callable[..., Run], tmp_path: Path, kubeconfig: Path
) -> None:
    """One pass: a canary that is put back, then every step with the folder lost, the report, its check, no secret."""
    evidence = tmp_path / "evidence"

    def ok(playbook: str, *cmdline: str, **extravars: Any) -> Run:
        run = play(playbook, *cmdline, mesh_kubeconfig=str(kubeconfig), shop_token=CANARY, **extravars)
        assert run.status == "successful", run.messages() or run.text[-3000:]
        return run

    for playbook, files in STEPS.items():
        if playbook == "canary.yml":
            broken = play(playbook, mesh_kubeconfig=str(kubeconfig), shop_token=CANARY, mesh_probes=WRONG_PROBE)
            assert broken.status == "failed"
            shutil.rmtree(evidence)
            ok("report.yml")
            data, page = report_of(evidence), (evidence / "report.html").read_text(encoding="utf-8")
            assert (data["outcome"]["state"], data["outcome"]["step"]) == ("rolled_back", "canary")
            assert "418" in data["outcome"]["words"]
            assert "418" in page
            assert "Rolled back" in page
            assert "state=reverted" in (evidence / "04-mixed.txt").read_text(encoding="utf-8")
            ok("verify_evidence.yml")
            shutil.rmtree(evidence)
        ok(playbook)
        assert sorted(path.name for path in evidence.iterdir()) == files, "the folder was lost, and only this is new"
        shutil.rmtree(evidence)

    ok("report.yml", "--check")
    assert not evidence.exists(), "check mode writes no evidence"

    before = living_state()
    ok("report.yml")
    names = sorted([name for files in STEPS.values() for name in files] + MADE)
    assert sorted(path.name for path in evidence.iterdir()) == names
    data = report_of(evidence)
    assert data["outcome"]["state"] == "finished"
    assert {row["verdict"] for row in data["steps"]} == {"passed"}
    assert [gate for row in data["steps"] for gate in row["gates"] if gate["verdict"] != "pass"] == []
    assert {probe["code"] for row in data["steps"] for probe in row["probes"]} == {"200"}
    assert [who["user"] for who in data["who"] if not who["user"] or not who["ansible"]] == []
    assert all(row["started"] <= row["finished"] for row in data["steps"])
    moments = {row["step"]: row["versions"] for row in data["proxies"]}
    total = sum(moments["install"].values())
    assert moments["install"] == moments["canary"] == {"1.30.5": total}
    assert moments["move_tags"] == {"1.30.5": total - 1, "1.31.0": 1}
    assert moments["rollback_drill"] == moments["uninstall"] == {"1.31.0": total}
    lessons = (evidence / "08-report.md").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lessons if line.startswith("- ")]) >= 4

    held = ok("verify_evidence.yml")
    assert "The evidence is complete" in held.text
    assert held.count("changed") == 0
    again = ok("report.yml")
    assert again.count("changed") == 0, "a second report changes nothing"
    assert living_state() == before, "report and check only read"

    mixed = evidence / "04-mixed.txt"
    text = mixed.read_bytes()
    mixed.write_bytes(text.replace(b"200", b"201"))
    wrong = play("verify_evidence.yml", mesh_kubeconfig=str(kubeconfig))
    assert wrong.status == "failed"
    assert "04-mixed.txt: its SHA-256 is" in wrong.messages()
    assert "04-mixed.txt: it is not what the record istio-upgrade-1-30-5-to-1-31-0-canary" in wrong.messages()
    mixed.write_bytes(text)

    secrets = secrets_of(kubeconfig)
    assert CANARY in secrets
    assert len(secrets) > 1, "the key of the account that was used is looked for too"
    runs = list(tmp_path.glob("runner-*/artifacts"))
    assert len(runs) > 10
    assert leaks(secrets, evidence, *runs) == []
    records = kubectl(
        "get", "configmaps", "-n", "istio-system", "-l", "app.kubernetes.io/managed-by=istio-upgrade", "-o", "json"
    )
    assert "finished" in records
    assert [secret for secret in secrets if secret in records] == []
    assert leaks(secrets, kubeconfig.parent) == [str(kubeconfig)], "the search finds what is there"
