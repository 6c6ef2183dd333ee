"""The environments that come with the project work as they are: read by Ansible, taken by the input check."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mesh_logic.inputs import read_inputs

from tests.unit.mesh_stages import controller, istioctl

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ("staging", "production")


def ansible(*command: str) -> str:
    """Return what an Ansible command prints, with the project's configuration."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")} | {"HOME": "/home/ops"}
    tool = str(Path(sys.executable).parent / command[0])
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def variables(environment: str) -> dict[str, Any]:
    """Return the `mesh_*` variables of an environment's one host, as a task sees them."""
    inventory = f"inventories/{environment}/hosts.yml"
    names = [name for name in host_variables(environment) if name.startswith("mesh_")]
    asked = "{" + ", ".join(f"'{name}': {name}" for name in names) + "}"
    text = ansible(
        *("ansible", "all", "-i", inventory, "-m", "ansible.builtin.debug", "-a", f"msg={{{{ {asked} }}}}", "-o"),
        *("-e", "ansible_connection=local"),
    )
    found: dict[str, Any] = json.loads(text[text.index("{") :])["msg"]
    return found


def host_variables(environment: str) -> dict[str, Any]:
    """Return the variables of an environment's one host, as they are written."""
    listed = json.loads(ansible("ansible-inventory", "-i", f"inventories/{environment}/hosts.yml", "--list"))
    (host,) = listed["_meta"]["hostvars"].values()
    assert isinstance(host, dict)
    return host


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_inputs_of_an_environment_are_good(environment: str) -> None:
    inputs = variables(environment)
    operator = ROOT / "inventories" / environment / "files" / "istio-operator.yaml"
    assert inputs["mesh_operator_file"] == str(operator)
    assert inputs["mesh_environment"] == environment
    assert inputs["mesh_kubeconfig"] == f"/home/ops/.kube/{environment}"
    assert inputs["mesh_istioctl_to"] == "/usr/local/bin/istioctl-1.31.0"
    text = {"path": str(operator), "text": operator.read_text(encoding="utf-8"), "sha256": "x", "error": ""}
    binaries = {"from": istioctl("1.30.5"), "to": istioctl("1.31.0")}
    read = read_inputs(inputs, controller(operator_file=text, istioctl=binaries))
    assert read["errors"] == []
    assert read["desired"]["probes"]
    assert read["desired"]["soak_seconds"] > 0


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_modules_run_with_the_python_of_ansible(environment: str) -> None:
    written = host_variables(environment)
    assert written["ansible_python_interpreter"] == "{{ ansible_playbook_python }}"
    assert written["ansible_connection"] == "local"


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_group_vars_hold_no_secret(environment: str) -> None:
    for path in (ROOT / "inventories" / environment).rglob("*.yml"):
        text = path.read_text(encoding="utf-8")
        assert "token:" not in text or "vault_" in text, path


def test_a_token_comes_from_a_vault(tmp_path: Path) -> None:
    """The way that group_vars/all/cluster.yml describes: an encrypted file beside it, found without another word."""
    shutil.copytree(ROOT / "inventories" / "production", tmp_path / "production")
    folder = tmp_path / "production" / "group_vars" / "all"
    (tmp_path / "password").write_text("of a test\n", encoding="utf-8")
    (folder / "vault.yml").write_text("vault_mesh_api_token: from-the-vault\n", encoding="utf-8")
    secret = f"--vault-password-file={tmp_path / 'password'}"
    ansible("ansible-vault", "encrypt", secret, str(folder / "vault.yml"))
    assert "from-the-vault" not in (folder / "vault.yml").read_text(encoding="utf-8")
    text = (folder / "cluster.yml").read_text(encoding="utf-8").replace("# mesh_api_token:", "mesh_api_token:")
    (folder / "cluster.yml").write_text(text, encoding="utf-8")
    said = ansible(
        *("ansible", "all", "-i", str(tmp_path / "production" / "hosts.yml"), secret),
        *("-m", "ansible.builtin.debug", "-a", "var=mesh_api_token"),
    )
    assert "mesh_api_token: from-the-vault" in said
