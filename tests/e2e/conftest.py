"""Fixtures of the end-to-end tests: real kind, real istiod, real sidecars."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ansible_runner
import pytest
from mesh_logic.text import strip_ansi

from tests.e2e.lab import KUBECONFIG, LAB_INVENTORY, LAB_NAME, ROOT, Run


@pytest.fixture(scope="session")
def lab() -> None:
    """Stop with one clear word where the lab is not up."""
    if not KUBECONFIG.exists():
        pytest.fail(f"the lab {LAB_NAME} is not up: run `make lab` first", pytrace=False)


@pytest.fixture
def play(tmp_path: Path, lab: None) -> Callable[..., Run]:
    """Return a function that runs a playbook of this project on the lab through ansible-runner."""

    def run(playbook: str, *cmdline: str, inventory: Path = LAB_INVENTORY, **extravars: Any) -> Run:
        folder = Path(tempfile.mkdtemp(prefix="runner-", dir=tmp_path))
        runner = ansible_runner.run(
            private_data_dir=str(folder),
            project_dir=str(ROOT),
            playbook=f"playbooks/{playbook}",
            inventory=str(inventory),
            extravars={"mesh_evidence_dir": str(tmp_path / "evidence"), **extravars},
            cmdline=" ".join(cmdline) or None,
            envvars={
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            },
            quiet=True,
            timeout=900,
        )
        with runner.stdout as stream:
            text = strip_ansi(stream.read())  # a line that is wrapped has its colour again on each part
        stats = runner.stats or {}
        return Run(runner.status, runner.rc, stats, list(runner.events), text)

    return run
