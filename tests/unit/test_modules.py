"""Every module runs in Ansible's own process too: it has what that takes, and a name of its own."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
# They ask no cluster: one looks at the controller, one reads a folder on it.
WITHOUT_CLUSTER = ("mesh_controller", "mesh_evidence")
MODULES = sorted(path.stem for path in (ROOT / "library").glob("*.py"))


def test_no_module_has_the_name_of_a_filter_file() -> None:
    filters = {path.stem for path in (ROOT / "filter_plugins").iterdir()}
    assert not filters & set(MODULES), "both folders are on one import path"


@pytest.mark.parametrize("name", [name for name in MODULES if name not in WITHOUT_CLUSTER])
def test_a_module_has_its_link_its_run_and_its_options_described(name: str) -> None:
    link = ROOT / "action_plugins" / f"{name}.py"
    assert link.is_symlink()
    assert link.readlink() == Path("in_process.py")
    module = importlib.import_module(name)
    assert callable(module.run)
    described = yaml.safe_load(module.DOCUMENTATION)
    assert described["module"] == name
    assert set(described["options"]) == set(module.SPEC)
    for option, spec in module.SPEC.items():
        told = described["options"][option]
        assert told["type"] == spec["type"], option
        assert told.get("default") == spec.get("default"), option
        assert told.get("required", False) == spec.get("required", False), option


def test_no_result_has_the_key_that_ansible_owns() -> None:
    for name in MODULES:
        text = (ROOT / "library" / f"{name}.py").read_text(encoding="utf-8")
        assert '"failed":' not in text, f"{name}: a result key named failed means that the task failed"
