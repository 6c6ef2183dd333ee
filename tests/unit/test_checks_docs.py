"""docs/checks.md and the table of docs/rights.md are what the catalogue and the table of rights say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def generate(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "tests" / "tools" / "generate_checks.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_pages_are_fresh() -> None:
    done = generate(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_stale_page_is_told(tmp_path: Path) -> None:
    for name in ("filter_plugins", "module_utils", "docs", "tests/tools"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", str(ROOT / name), str(tmp_path / name)], check=True)
    table = tmp_path / "module_utils" / "mesh_rights.py"
    table.write_text(table.read_text(encoding="utf-8").replace('"rollouts"', '"something"'), encoding="utf-8")
    done = generate(tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "differs: docs/rights.md",
        "Next: .venv/bin/python tests/tools/generate_checks.py",
    ]
