"""Record what `mesh_read` returns from the lab as a fixture: `record_facts.py NAME [OPTION=VALUE]`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "fixtures" / "facts"


def main() -> None:
    """Read the lab once and write the fixture; the API server's address is made anonymous."""
    ansible = str(Path(sys.executable).parent / "ansible")
    options = "kubeconfig={{ mesh_kubeconfig }} " + " ".join(sys.argv[2:])
    env = os.environ | {"ANSIBLE_STDOUT_CALLBACK": "json", "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1"}
    done = subprocess.run(
        [ansible, "lab", "-m", "mesh_read", "-a", options],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    result = json.loads(done.stdout[done.stdout.index("{") :])["plays"][0]["tasks"][0]["hosts"]["lab"]
    if result.get("failed"):
        sys.exit(result["msg"])
    result["cluster"]["server"] = "https://127.0.0.1:6443"
    for key in ("invocation", "_ansible_no_log", "action", "seconds"):
        result.pop(key, None)
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / f"{sys.argv[1]}.json"
    target.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(target, len(result.get("workloads", [])), "workloads")


if __name__ == "__main__":
    main()
