"""Record the options of the AWX modules that awx/apply.yml uses: run it where awx.awx is installed.

The record lets the data files be checked where no AWX collection is there (tests/unit/test_awx.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

RECORD = Path(__file__).resolve().parents[1] / "fixtures" / "awx" / "module_options.json"
MODULES = (
    *("execution_environment", "project", "inventory", "inventory_source", "credential_type", "credential"),
    *("job_template", "workflow_job_template", "workflow_job_template_node"),
)
KEPT = ("type", "elements", "choices", "required", "aliases")


def module_options() -> dict[str, Any]:
    """Return {collection, version, modules: {module: {option: {type, ...}}}} of the awx.awx that is installed.

    Raises:
        RuntimeError: ansible-doc does not know a module.
    """
    command = [str(Path(sys.executable).parent / "ansible-doc"), "-t", "module", "-j"]
    done = subprocess.run([*command, *(f"awx.awx.{m}" for m in MODULES)], capture_output=True, text=True, check=False)
    found = json.loads(done.stdout or "{}")
    if len(found) != len(MODULES):
        raise RuntimeError(f"ansible-doc: {done.stderr.strip() or 'awx.awx is not installed'}")
    modules = {}
    for name in MODULES:
        doc = found[f"awx.awx.{name}"]["doc"]
        modules[name] = {
            option: {key: text[key] for key in KEPT if text.get(key)} for option, text in sorted(doc["options"].items())
        }
    return {"collection": "awx.awx", "version": collection_version(), "modules": modules}


def collection_version() -> str:
    """Return the version of the awx.awx that is installed."""
    command = [str(Path(sys.executable).parent / "ansible-galaxy"), "collection", "list", "awx.awx", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout or "{}")
    return next((str(row["awx.awx"]["version"]) for row in found.values() if "awx.awx" in row), "")


if __name__ == "__main__":
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(module_options(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"written: {RECORD}")
