"""The workflow of awx/ on the lab: every job started as AWX starts it, in a checkout that is gone afterwards."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ansible_runner
import pytest
import yaml

from tests import awx_rules as awx
from tests.e2e.lab import CACHE, KUBECONFIG, LAB_INVENTORY, ROOT, kubectl, lab_reset, living_state

pytestmark = [pytest.mark.lab, pytest.mark.more]

DATA = awx.load_data()
TEMPLATES = awx.job_templates(DATA)
CREDENTIAL = DATA["awx_credential_types"][0]
BIN = Path(sys.executable).parent
# What a person types into the workflow's survey, in the types of AWX.
ANSWERS: dict[str, Any] = {
    "mesh_from_version": "1.30.5",
    "mesh_to_version": "1.31.0",
    "mesh_soak_before_uninstall": 0,
    "mesh_lessons": "AWX ran it.\nThe canary was {{ not }} needed.",
}


@dataclass
class Job:
    """One finished job: what AWX keeps of it, and the evidence that the job's folder held until it was deleted."""

    status: str
    text: str
    messages: str
    artifacts: dict[str, Any]
    variables: dict[str, Any]
    evidence: dict[str, str] = field(default_factory=dict)


class Awx:
    """Starts jobs the way AWX does (awx/main/tasks/jobs.py, RunJob), with ansible-runner."""

    def __init__(self, folder: Path, inputs: dict[str, str]) -> None:
        """Keep the credential's inputs; every job gets a folder of its own below `folder`."""
        self.folder, self.inputs = folder, inputs
        self.script = awx.inventory_script(LAB_INVENTORY, BIN / "ansible-inventory")
        files = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(files, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        self.files = [name for name in listed if (ROOT / name).is_symlink() or (ROOT / name).is_file()]

    def run(self, template: dict[str, Any], variables: dict[str, Any], artifacts: dict[str, Any]) -> Job:
        """Run one job template with a workflow's variables and artifacts, then delete its folder."""
        assert awx.survey_errors(template["survey_spec"], variables) == []
        home = Path(tempfile.mkdtemp(prefix="job-", dir=self.folder))
        extra = awx.job_variables(template, variables, artifacts)
        try:
            return self._run(home, template, extra)
        finally:
            shutil.rmtree(home)

    def _run(self, home: Path, template: dict[str, Any], extra: dict[str, Any]) -> Job:
        project = home / "project"
        for name in self.files:
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, project / name, follow_symlinks=False)
        (home / "inventory").mkdir()
        script = home / "inventory" / "hosts"
        script.write_text(self.script, encoding="utf-8")
        script.chmod(0o700)
        environment, arguments = awx.inject(CREDENTIAL, self.inputs, home)
        (home / "env" / "extravars").write_text(awx.dump_variables(extra, template["extra_vars"]), encoding="utf-8")
        check = ["--check"] if template["job_type"] == "check" else []
        diff = ["--diff"] if template.get("diff_mode") else []
        (home / "env" / "cmdline").write_text(" ".join([*check, "-u root", *diff, *arguments]), encoding="utf-8")
        runner = ansible_runner.run(
            private_data_dir=str(home),
            playbook=template["playbook"],
            inventory=str(script),
            envvars={
                **environment,
                "ANSIBLE_RETRY_FILES_ENABLED": "False",
                "ANSIBLE_FORCE_COLOR": "1",
                # an image has no kubeconfig of a login shell; the binaries of the lab are found through these
                "HOME": str(home),
                "XDG_CACHE_HOME": str(CACHE.parent),
                "PATH": f"{BIN}:{os.environ['PATH']}",
            },
            suppress_env_files=True,
            quiet=True,
            timeout=900,
        )
        with runner.stdout as stream:
            text = stream.read()
        events = list(runner.events)
        secrets = [value for key, value in self.inputs.items() if key != "host" and len(value) > 20]
        seen = "".join(path.read_text(errors="replace") for path in (home / "artifacts").rglob("*") if path.is_file())
        assert [s[:4] for s in secrets if s in seen] == [], "a secret of the credential is in the job's output"
        left = {p.name: p.read_text(encoding="utf-8") for p in project.glob("evidence/*/*/*/*")}
        return Job(
            status=runner.status,
            text=text,
            messages="\n".join(
                str(e["event_data"].get("res", {}).get("msg", "")) for e in events if e["event"] == "runner_on_failed"
            ),
            artifacts=next(
                (e["event_data"].get("artifact_data") or {} for e in events if e["event"] == "playbook_on_stats"), {}
            ),
            variables=extra,
            evidence=left,
        )


def launch(awx_: Awx, answers: dict[str, Any], denied: str = "") -> tuple[awx.Walk, dict[str, Job]]:
    """Launch the workflow: every approval but the denied one is granted."""
    assert awx.survey_errors(DATA["awx_workflow"]["survey_spec"], answers) == []
    jobs: dict[str, Job] = {}

    def run(node: dict[str, Any], led: list[str]) -> str:
        name = node["identifier"]
        if "approval_node" in node:
            return "failed" if name == denied else "successful"
        artifacts: dict[str, Any] = {}
        for parent in reversed(led):
            artifacts |= jobs[parent].artifacts if parent in jobs else {}
        jobs[name] = awx_.run(TEMPLATES[node["unified_job_template"]], answers, artifacts)
        return jobs[name].status

    return awx.walk(DATA["awx_workflow_nodes"], run), jobs


@pytest.fixture(scope="module", autouse=True)
def starting_point(lab: None) -> None:
    """Begin at the starting point; the tests go on from each other in the order of this file."""
    lab_reset()


@pytest.fixture(scope="module")
def with_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Awx:
    """Return an AWX whose credential is the lab's kubeconfig."""
    return Awx(tmp_path_factory.mktemp("awx"), {"kubeconfig": KUBECONFIG.read_text(encoding="utf-8")})


def lines(text: str) -> list[str]:
    """Return the lines of a message, each once, for an assertion that fails."""
    return text.splitlines()[-40:]


def test_a_plan_with_address_token_and_ca(tmp_path: Path) -> None:
    """The template that plans, reached through a service account instead of a kubeconfig; nothing is changed."""
    cluster = yaml.safe_load(KUBECONFIG.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
    kubectl("create", "serviceaccount", "awx", "-n", "default")
    kubectl("create", "clusterrolebinding", "awx", "--clusterrole=cluster-admin", "--serviceaccount=default:awx")
    try:
        before = living_state()
        inputs = {
            "host": cluster["server"],
            "bearer_token": kubectl("create", "token", "awx", "-n", "default").strip(),
            "ca_certificate": base64.b64decode(cluster["certificate-authority-data"]).decode(),
        }
        job = Awx(tmp_path, inputs).run(
            TEMPLATES["Istio upgrade: plan"], {k: ANSWERS[k] for k in list(ANSWERS)[:2]}, {}
        )
        assert job.status == "successful", lines(job.messages + job.text)
        assert "set_tag" in job.text or "tag prod-stable" in job.text, lines(job.text)
        assert job.evidence == {}
        assert living_state() == before
    finally:
        kubectl("delete", "clusterrolebinding", "awx")
        kubectl("delete", "serviceaccount", "awx", "-n", "default")


def test_a_failure_leads_to_the_report(with_kubeconfig: Awx) -> None:
    """A version that does not run: the precheck fails, only the report follows, and the workflow has failed."""
    before = living_state()
    gone, jobs = launch(with_kubeconfig, ANSWERS | {"mesh_from_version": "1.30.4"})
    assert gone.order == ["precheck", "report"]
    assert gone.status == {"precheck": "failed", "report": "failed"}
    assert gone.failed
    assert "point mesh_istioctl_from at the istioctl of Istio 1.30.4" in jobs["precheck"].messages
    assert living_state() == before


def test_a_denied_approval_leaves_both_revisions(with_kubeconfig: Awx) -> None:
    """All goes well until a person says no to the uninstall: the report is written, and says what is left."""
    gone, jobs = launch(with_kubeconfig, ANSWERS, denied="approve-uninstall")
    told = "\n".join(f"{name}: {job.messages}" for name, job in jobs.items())
    assert gone.order == [
        *("precheck", "install", "canary", "approve-tags", "move-tags", "rollback-drill", "approve-uninstall", "report")
    ], told
    assert gone.failed
    assert gone.status["report"] == "failed"
    assert 'the old revision "1-30-5" is still there' in jobs["report"].messages
    assert {name for name, status in gone.status.items() if status == "failed"} == {"approve-uninstall", "report"}
    deployments = kubectl("get", "deployments", "-n", "istio-system", "-o", "name")
    assert "istiod-1-30-5" in deployments
    assert "istiod-1-31-0" in deployments

    # each job began with an empty folder: what the report wrote comes from the cluster
    assert sorted(jobs["canary"].evidence) == ["04-mixed.txt"]
    assert sorted(jobs["report"].evidence)[:2] == ["01-before.txt", "02-precheck.txt"]
    assert "08-report.md" in jobs["report"].evidence
    # what a step published came to the steps after it as an extra var, and no input did
    assert jobs["canary"].artifacts["istio_upgrade_canary"] == {"lab": "done"}
    assert jobs["move-tags"].variables["istio_upgrade_canary"] == {"lab": "done"}
    assert jobs["report"].artifacts["istio_upgrade_finished"] == {"lab": False}
    assert [name for job in jobs.values() for name in job.artifacts if name.startswith("mesh_")] == []


def test_the_workflow_goes_on_to_its_end(with_kubeconfig: Awx) -> None:
    """Launched again with both approvals: what is done stays untouched, the old revision goes, nothing has failed."""
    gone, jobs = launch(with_kubeconfig, ANSWERS)
    told = "\n".join(f"{name}: {job.messages}" for name, job in jobs.items())
    assert gone.order[-3:] == ["approve-uninstall", "uninstall", "report"], told
    assert set(gone.status.values()) == {"successful"}, told
    assert not gone.failed
    assert sorted(gone.skipped) == ["abort", "rollback"]
    assert "istiod-1-30-5" not in kubectl("get", "deployments", "-n", "istio-system", "-o", "name")
    assert jobs["report"].artifacts["istio_upgrade_finished"] == {"lab": True}
    evidence = jobs["report"].evidence
    assert evidence["07-uninstall.txt"].startswith("old_istiod_left=no\nold_injector_left=no\n")
    assert "- AWX ran it." in evidence["08-report.md"]
    # a survey's answer is text, also where it has braces
    assert "- The canary was {{ not }} needed." in evidence["08-report.md"]
    assert len(evidence) == 11
