"""What the end-to-end tests ask of the lab, and what a run says afterwards."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LAB_NAME = os.environ.get("LAB_NAME", "istio-upgrade")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "istio-upgrade-lab"
KUBECONFIG = CACHE / "clusters" / LAB_NAME / "kubeconfig"
LAB_INVENTORY = ROOT / "inventories" / "lab" / "hosts.yml"


@dataclass
class Run:
    """One finished run: what ansible-runner's artifacts say, never its own exit code (case J03)."""

    status: str
    rc: int
    stats: dict[str, dict[str, int]]
    events: list[dict[str, Any]]
    text: str

    def count(self, what: str) -> int:
        """Return a recap figure (`changed`, `failures`, `ok`) over all hosts."""
        return sum(self.stats.get(what, {}).values())

    def results(self, module: str) -> list[dict[str, Any]]:
        """Return the results of every task that used a module."""
        found = []
        for event in self.events:
            data = event.get("event_data", {})
            if event["event"] in ("runner_on_ok", "runner_on_failed") and data.get("task_action") == module:
                found.append(data.get("res", {}))
        return found

    def messages(self) -> str:
        """Return the messages of all failed tasks."""
        return "\n".join(
            str(e["event_data"].get("res", {}).get("msg", "")) for e in self.events if e["event"] == "runner_on_failed"
        )


def kubectl(*args: str, stdin: str | None = None, kubeconfig: Path = KUBECONFIG) -> str:
    """Run kubectl against the lab, or another cluster, and return its output; a failure is an error."""
    done = subprocess.run(
        [str(CACHE / "current" / "kubectl"), "--kubeconfig", str(kubeconfig), *args],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode != 0:
        raise RuntimeError(f"kubectl {' '.join(args)}: {done.stderr}")
    return done.stdout


def make(*words: str, timeout: int) -> None:
    """Run a target of make; a failure is an error."""
    done = subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=ROOT,
        env=os.environ | {"ANSIBLE_DISPLAY_TRACEBACK": "error"},
        check=False,
        timeout=timeout,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        told = f"{done.stdout[-4000:]}\n{done.stderr[-1000:]}"
        raise RuntimeError(f"make {' '.join(words)} ended with {done.returncode}:\n{told}")


def lab_reset(start: str = "revisioned") -> None:
    """Bring the lab back to the starting point.

    Once more where that failed: it is not what is tested, and the API server of a busy machine may need a moment.
    """
    reset = ("lab-reset", f"LAB_START={start}", f"LAB_NAME={LAB_NAME}")
    try:
        make(*reset, timeout=400)
    except RuntimeError as error:
        print(error)
        make(*reset, timeout=400)


def living_state(kubeconfig: Path = KUBECONFIG) -> dict[str, str]:
    """Return what a run could change, with the version the API server gives it: equal means nothing was touched."""
    kinds = (
        "deployments,namespaces,services,configmaps,mutatingwebhookconfigurations,validatingwebhookconfigurations,pods"
    )
    name = "{.kind}/{.metadata.namespace}/{.metadata.name}"
    template = "{range .items[*]}" + name + " {.metadata.uid} {.metadata.generation}{'\\n'}{end}"
    listed = kubectl("get", kinds, "-A", "-o", f"jsonpath={template}", kubeconfig=kubeconfig)
    labels = kubectl(
        *("get", "namespaces", "-o", "jsonpath={range .items[*]}{.metadata.name} {.metadata.labels}{'\\n'}{end}"),
        kubeconfig=kubeconfig,
    )
    return {line.split(" ", 1)[0]: line for line in (listed + labels).splitlines() if "kube-system" not in line}
