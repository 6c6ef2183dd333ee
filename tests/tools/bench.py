"""`make bench`: the chain against a plain script of the same steps, on the same lab, in one run, as a ratio."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "istio-upgrade-lab"
LAB_NAME = os.environ.get("LAB_NAME", "istio-upgrade")
OPERATOR = ROOT / "inventories" / "lab" / "files" / "istio-operator.yaml"
RUNS = int(os.environ.get("BENCH_RUNS", "1"))


def reset() -> None:
    """Bring the lab back to its starting point; not measured."""
    timed(["make", "--no-print-directory", "lab-reset"], {})


def timed(command: list[str], env: dict[str, str]) -> tuple[float, str]:
    """Run a command; return (seconds, output). A failure ends the benchmark: its time would mean nothing."""
    started = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=os.environ | env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed ({done.returncode}):\n{done.stdout[-3000:]}\n{done.stderr[-1000:]}")
    return time.monotonic() - started, done.stdout


def script() -> tuple[float, str]:
    """Run the hand-written script."""
    return timed(
        ["bash", str(ROOT / "tests" / "tools" / "bench.sh")],
        {
            "KUBECONFIG": str(CACHE / "clusters" / LAB_NAME / "kubeconfig"),
            "ISTIOCTL": str(CACHE / "current" / "istioctl-1.31.0"),
            "KUBECTL": str(CACHE / "current" / "kubectl"),
            "OPERATOR_FILE": str(OPERATOR),
        },
    )


def chain(evidence: str) -> tuple[float, str]:
    """Run the chain, with the time of every task printed."""
    playbook = str(Path(sys.executable).parent / "ansible-playbook")
    return timed(
        [playbook, "playbooks/upgrade.yml", "-e", f"mesh_evidence_dir={evidence}"],
        {"ANSIBLE_CALLBACKS_ENABLED": "ansible.posix.profile_tasks", "PROFILE_TASKS_TASK_OUTPUT_LIMIT": "25"},
    )


def main() -> None:
    """Measure both, alternating, and print the ratio of the medians."""
    scripts, chains, second = [], [], 0.0
    text = ""
    for number in range(RUNS):
        reset()
        seconds, text = script()
        scripts.append(seconds)
        print(f"script {number + 1}: {seconds:.1f} s\n{text}", flush=True)
        reset()
        evidence = str(ROOT / ".cache" / f"bench-{time.time_ns()}")
        seconds, text = chain(evidence)
        chains.append(seconds)
        print(f"chain {number + 1}: {seconds:.1f} s", flush=True)
        second, again = chain(evidence)
        changed = re.search(r"changed=(\d+)", again)
        print(f"second run (nothing to do): {second:.1f} s, changed={changed and changed.group(1)}", flush=True)
    print("\nwhere the chain's time goes:\n" + text[text.rfind("=====") :])
    middle = sorted(chains)[len(chains) // 2] / sorted(scripts)[len(scripts) // 2]
    print(f"chain / script = {middle:.2f} (target <= 1.5), second run {second:.1f} s (target <= 10)")


if __name__ == "__main__":
    main()
