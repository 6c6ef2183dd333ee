"""Record what real istioctl binaries render, shortened to the objects that hold settings (tests/fixtures/settings).

    record_settings.py <folder with istioctl-1.30.5 and istioctl-1.31.0>
    record_settings.py live    # from the lab, with both revisions installed: what `mesh_settings` returns

Each file of a render holds JSON documents, which are YAML too; injection templates and CRDs are left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "fixtures" / "settings"
LAB = ROOT / "inventories" / "lab" / "files" / "istio-operator.yaml"
OLD, NEW = "1.30.5", "1.31.0"
# The flags of the incident that seed 000 tells: five --set, kept nowhere.
FLAGS = [
    "meshConfig.accessLogFile=/dev/stdout",
    "meshConfig.outboundTrafficPolicy.mode=REGISTRY_ONLY",
    "values.global.proxy.logLevel=info",
    "values.pilot.autoscaleMin=2",
    "values.pilot.env.PILOT_ENABLE_IP_AUTOALLOCATE=true",
]
BARE = "apiVersion: install.istio.io/v1alpha1\nkind: IstioOperator\nspec: {profile: minimal}\n"
# name -> (version, operator file, further --set flags)
RENDERS: dict[str, tuple[str, str, list[str]]] = {
    "lab-old": (OLD, LAB.read_text(encoding="utf-8"), ["revision=1-30-5"]),
    "lab-old-unrevisioned": (OLD, LAB.read_text(encoding="utf-8"), []),
    "lab-new": (NEW, LAB.read_text(encoding="utf-8"), ["revision=1-31-0"]),
    "lab-compatible": (NEW, LAB.read_text(encoding="utf-8"), ["revision=1-31-0", "compatibilityVersion=1.30"]),
    "bare-old": (OLD, BARE, ["revision=1-30-5"]),
    "bare-new": (NEW, BARE, ["revision=1-31-0"]),
    "incident-old": (OLD, BARE, ["revision=1-30-5", *FLAGS]),
    "demo-old": (OLD, BARE, ["revision=1-30-5", "values.profile=demo"]),
    "rich-old": (OLD, (OUT / "rich.yaml").read_text(encoding="utf-8"), ["revision=1-30-5"]),
    "rich-new": (NEW, (OUT / "rich.yaml").read_text(encoding="utf-8"), ["revision=1-31-0"]),
}
KINDS = ("ConfigMap", "Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget")


def main() -> int:
    """Write every file; returns the exit code."""
    if sys.argv[1] == "live":
        record_live()
        return 0
    folder = Path(sys.argv[1])
    for name, (version, text, flags) in RENDERS.items():
        command = [str(folder / f"istioctl-{version}"), "manifest", "generate", "-f", "-"]
        command += [word for flag in flags for word in ("--set", flag)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        documents = [shortened(d) for d in yaml.safe_load_all(done.stdout) if d and d["kind"] in KINDS]
        (OUT / f"{name}.manifest").write_text("---\n".join(json.dumps(d) + "\n" for d in documents), encoding="utf-8")
    return 0


def record_live() -> None:
    """Read both revisions of the lab through Ansible, as a run does."""
    env = os.environ | {"ANSIBLE_STDOUT_CALLBACK": "json", "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1"}
    for name, revision in (("live-old", "1-30-5"), ("live-new", "1-31-0")):
        options = f"kubeconfig={{{{ mesh_kubeconfig }}}} revision={revision}"
        command = [str(Path(sys.executable).parent / "ansible"), "lab", "-m", "mesh_settings", "-a", options]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
        result = json.loads(done.stdout[done.stdout.index("{") :])["plays"][0]["tasks"][0]["hosts"]["lab"]
        kept = {key: result[key] for key in ("revision", "objects")}
        (OUT / f"{name}.json").write_text(json.dumps(kept) + "\n", encoding="utf-8")


def shortened(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without the injection templates."""
    if document["kind"] == "ConfigMap":
        document["data"].pop("config", None)
    return document


if __name__ == "__main__":
    sys.exit(main())
