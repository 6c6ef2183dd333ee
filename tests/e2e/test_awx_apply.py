"""awx/apply.yml against an API that keeps what it is given: everything is made, a second run changes nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import awx_rules as awx
from tests.e2e.awx_server import AwxServer
from tests.e2e.lab import ROOT
from tests.tools.record_awx import collection_version

pytestmark = pytest.mark.lab

SECRET = "apiVersion: v1 # hush-hush"


@pytest.fixture
def server() -> Iterator[AwxServer]:
    """Return an AWX without anything but an organization."""
    if not collection_version():
        pytest.skip("awx.awx is not installed: it comes with the package ansible 12, for Python 3.11")
    found = AwxServer()
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found
    found.shutdown()


def apply(server: AwxServer, *more: str, token: str = "open-sesame") -> subprocess.CompletedProcess[str]:
    """Run the playbook for one environment."""
    given = {
        "awx_scm_url": "https://git.example.com/istio-upgrade.git",
        "awx_execution_environment_image": "registry.example.com/istio-upgrade:1",
        "awx_environments": [{"name": "staging"}],
        "awx_credential_inputs": {"staging": {"kubeconfig": SECRET}},
    }
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "CONTROLLER_", "TOWER_"))}
    env |= {"CONTROLLER_HOST": server.address, "CONTROLLER_OAUTH_TOKEN": token}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    command = ["ansible-playbook", "-i", "localhost,", "awx/apply.yml", "-e", json.dumps(given), *more]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=600)


def changed(text: str) -> int:
    """Return the recap's figure."""
    (figure,) = re.findall(r"changed=(\d+)", text)
    return int(figure)


def test_everything_is_made_once(server: AwxServer) -> None:
    data = awx.load_data()
    first = apply(server, "-vv")
    assert first.returncode == 0, first.stdout[-3000:] + first.stderr[-2000:]
    assert "hush-hush" not in first.stdout + first.stderr
    assert "open-sesame" not in first.stdout + first.stderr

    made = {
        kind: {str(t.get("name") or t.get("identifier")) for t in rows.values()} for kind, rows in server.things.items()
    }
    assert made["job_templates"] == set(awx.job_templates(data))
    assert made["workflow_job_template_nodes"] == {n["identifier"] for n in data["awx_workflow_nodes"]}
    assert made["workflow_approval_templates"] == {"Move the tags", "Remove the old revision"}
    for kind in ("inventories", "inventory_sources", "credentials", "workflow_job_templates"):
        assert made[kind] == {"Istio upgrade staging"}
    ids = {row["identifier"]: number for number, row in server.things["workflow_job_template_nodes"].items()}
    for node in data["awx_workflow_nodes"]:
        for edge in awx.EDGES:
            linked = server.links.get(("workflow_job_template_nodes", ids[node["identifier"]], edge), [])
            assert sorted(linked) == sorted(ids[child] for child in node[edge])
        credentials = server.links.get(("workflow_job_template_nodes", ids[node["identifier"]], "credentials"), [])
        assert len(credentials) == (0 if "approval_node" in node else 1)
    (source,) = server.things["inventory_sources"].values()
    assert source["source_path"] == "inventories/staging/hosts.yml"
    (report,) = [t for t in server.things["job_templates"].values() if t["name"] == "Istio upgrade: report"]
    # braces are for AWX's jobs, and came through Ansible as they are
    assert "{{ playbook_dir }}/../inventories/{{ mesh_environment }}/" in report["extra_vars"]
    (credential_type,) = server.things["credential_types"].values()
    assert credential_type["injectors"] == data["awx_credential_types"][0]["injectors"]

    server.changes.clear()
    second = apply(server)
    assert second.returncode == 0, second.stdout[-3000:] + second.stderr[-2000:]
    assert server.changes == []
    assert changed(second.stdout) == 0


def test_what_is_missing_is_told_before_anything_is_made(server: AwxServer) -> None:
    for given, words in (
        ("awx_scm_url=", "awx_scm_url is empty"),
        ("awx_execution_environment_image=", "awx_execution_environment_image is empty"),
    ):
        done = apply(server, "-e", given)
        assert done.returncode != 0
        assert f"Nothing was changed. {words}" in re.sub(r"\s+", " ", done.stdout)
    assert server.changes == []
