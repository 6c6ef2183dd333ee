"""`make unit`: run unit tests and the syntax check on every supported Python that this machine has.

The first Python is the one of the environment made by `make setup`; for every other one an environment of its own is
made once (.venv-<minor>), with the ansible-core that belongs to it. A Python that is not here is reported.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUPPORTED = ("3.11", "3.12", "3.13")
REQUIREMENTS = ROOT / "requirements" / "unit.txt"


def find(minor: str) -> str:
    """Return the path of a Python of this minor that really runs, or ""."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [
        shutil.which(f"python{minor}") or "",
        *(str(p) for p in sorted(pyenv.glob(f"versions/{minor}.*/bin/python"))),
    ]
    for path in filter(None, candidates):
        probe = subprocess.run(
            [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if probe.returncode == 0 and probe.stdout.strip() == minor:
            return path
    return ""


def environment(minor: str, python: str) -> Path:
    """Return the bin folder of an environment for a Python, made or renewed when the pins changed."""
    folder = ROOT / f".venv-{minor}"
    stamp = folder / ".ready"
    wanted = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(REQUIREMENTS.parent.glob("*.txt")))).hexdigest()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        print(f"Python {minor}: making {folder.name}", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", str(REQUIREMENTS)], check=True)
        stamp.write_text(wanted, encoding="utf-8")
    return folder / "bin"


def run_on(minor: str, folder: Path, lint: bool) -> bool:
    """Run unit tests, syntax check and, where asked, ansible-lint with one environment; returns whether all passed."""
    env = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "VIRTUAL_ENV": str(folder.parent)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    books = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "playbooks").glob("*.yml"))
    commands = [["python", "-m", "pytest", "-q"], ["ansible-playbook", "--syntax-check", *books]]
    if lint:
        commands.append(["ansible-lint", "--offline", "--strict", "playbooks", "roles"])
    for command in commands:
        print(f"Python {minor}: {' '.join(command[:4])}", flush=True)
        if subprocess.run([str(folder / command[0]), *command[1:]], cwd=ROOT, env=env, check=False).returncode:
            return False
    return True


def main() -> int:
    """Run on every Python; 1 when one of them failed."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    found = {minor: sys.executable if minor == here else find(minor) for minor in SUPPORTED}
    there = [minor for minor, python in found.items() if python]
    failed = []
    for minor in there:
        folder = Path(sys.executable).parent if minor == here else environment(minor, found[minor])
        # `make lint` covers the first Python; the newest has the newest ansible-core, which reads playbooks differently
        if not run_on(minor, folder, lint=minor == there[-1] != here):
            failed.append(minor)
    for minor in sorted(set(SUPPORTED) - set(there)):
        print(f"Python {minor}: not on this machine, so nothing was proven for it")
    passed = [minor for minor in there if minor not in failed]
    print(f"proven on: {', '.join(passed) or 'none'}; failed on: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
