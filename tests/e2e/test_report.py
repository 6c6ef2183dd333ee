"""The report on the lab: the folder is lost after every step and comes back from the cluster alone, true, checked."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.e2e.lab import KUBECONFIG, ROOT, Run, kubectl, lab_reset, living_state

pytestmark = [pytest.mark.lab, pytest.mark.more]

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


@dataclasses.dataclass
class Steps:
    """The playbooks of one upgrade, run with the account whose secrets must stay one."""

    play: Callable[..., Run]
    kubeconfig: Path
    evidence: Path

    def run(self, playbook: str, *cmdline: str, **extravars: Any) -> Run:
        return self.play(playbook, *cmdline, mesh_kubeconfig=str(self.kubeconfig), shop_token=CANARY, **extravars)

    def ok(self, playbook: str, *cmdline: str, **extravars: Any) -> Run:
        run = self.run(playbook, *cmdline, **extravars)
        assert run.status == "successful", run.messages() or run.text[-3000:]
        return run

    def text(self, name: str) -> str:
        return (self.evidence / name).read_text(encoding="utf-8")


def test_the_report_of_a_run_whose_folder_is_lost_after_every_step(
    play: Callable[..., Run], tmp_path: Path, kubeconfig: Path
) -> None:
    """One pass: a canary that is put back, then every step with the folder lost, the report, its check, no secret."""
    steps = Steps(play, kubeconfig, tmp_path / "evidence")
    for playbook, files in STEPS.items():
        if playbook == "canary.yml":
            a_canary_that_is_put_back(steps)
        steps.ok(playbook)
        assert sorted(path.name for path in steps.evidence.iterdir()) == files, "the folder was lost, only this is new"
        shutil.rmtree(steps.evidence)

    steps.ok("report.yml", "--check")
    assert not steps.evidence.exists(), "check mode writes no evidence"
    before = living_state()
    steps.ok("report.yml")
    the_report_is_true(steps)
    held = steps.ok("verify_evidence.yml")
    assert "The evidence is complete" in held.text
    assert held.count("changed") == 0
    again = steps.ok("report.yml")
    assert again.count("changed") == 0, "a second report changes nothing"
    assert living_state() == before, "report and check only read"
    a_changed_line_is_found(steps)
    no_secret_is_anywhere(steps, list(tmp_path.glob("runner-*/artifacts")))


def a_canary_that_is_put_back(steps: Steps) -> None:
    assert steps.run("canary.yml", mesh_probes=WRONG_PROBE).status == "failed"
    shutil.rmtree(steps.evidence)
    steps.ok("report.yml")
    data, page = report_of(steps.evidence), steps.text("report.html")
    assert (data["outcome"]["state"], data["outcome"]["step"]) == ("rolled_back", "canary")
    assert "418" in data["outcome"]["words"]
    assert "418" in page
    assert "Rolled back" in page
    assert "state=reverted" in steps.text("04-mixed.txt")
    steps.ok("verify_evidence.yml")
    shutil.rmtree(steps.evidence)


def the_report_is_true(steps: Steps) -> None:
    names = sorted([name for files in STEPS.values() for name in files] + MADE)
    assert sorted(path.name for path in steps.evidence.iterdir()) == names
    data = report_of(steps.evidence)
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
    assert len([line for line in steps.text("08-report.md").splitlines() if line.startswith("- ")]) >= 4


def a_changed_line_is_found(steps: Steps) -> None:
    mixed = steps.evidence / "04-mixed.txt"
    text = mixed.read_bytes()
    mixed.write_bytes(text.replace(b"200", b"201"))
    wrong = steps.run("verify_evidence.yml")
    assert wrong.status == "failed"
    assert "04-mixed.txt: its SHA-256 is" in wrong.messages()
    assert "04-mixed.txt: it is not what the record istio-upgrade-1-30-5-to-1-31-0-canary" in wrong.messages()
    mixed.write_bytes(text)


def no_secret_is_anywhere(steps: Steps, runs: list[Path]) -> None:
    secrets = secrets_of(steps.kubeconfig)
    assert CANARY in secrets
    assert len(secrets) > 1, "the key of the account that was used is looked for too"
    assert len(runs) > 10
    assert leaks(secrets, steps.evidence, *runs) == []
    records = kubectl(
        "get", "configmaps", "-n", "istio-system", "-l", "app.kubernetes.io/managed-by=istio-upgrade", "-o", "json"
    )
    assert "finished" in records
    assert [secret for secret in secrets if secret in records] == []
    assert leaks(secrets, steps.kubeconfig.parent) == [str(steps.kubeconfig)], "the search finds what is there"
