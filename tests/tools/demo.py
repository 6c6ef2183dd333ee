"""`make demo`: run the upgrade on the lab and say where to look."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "evidence" / "lab" / "lab" / "1.30.5-to-1.31.0"
ORDER = ("01-before.txt", "04-mixed.txt", "05-tags.txt", "06-rollback.txt", "07-uninstall.txt", "08-report.md")


def main() -> int:
    """Run the chain; print the evidence; return ansible-playbook's exit code."""
    started = time.monotonic()
    playbook = [str(Path(sys.executable).parent / "ansible-playbook"), "playbooks/upgrade.yml"]
    code = subprocess.run(playbook, cwd=ROOT, check=False).returncode
    if code:
        print(f"The upgrade stopped (exit code {code}). The reason is in the last task above and in {EVIDENCE}.")
        print("Its report: ansible-playbook playbooks/report.yml writes report.html there.")
        return code
    print(f"\nThe upgrade is finished ({time.monotonic() - started:.0f} s). What it proved:\n")
    for name in ORDER:
        print(f"--- {name}\n{(EVIDENCE / name).read_text(encoding='utf-8')}")
    print(f"All evidence: {EVIDENCE}")
    print(
        "Look around:  export KUBECONFIG=${XDG_CACHE_HOME:-~/.cache}/istio-upgrade-lab/clusters/istio-upgrade/"
        "kubeconfig"
    )
    print("Once more:    make lab-reset demo      Remove the lab: make lab-down")
    print(f"The report:   {EVIDENCE / 'report.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
