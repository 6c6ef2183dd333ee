"""The order of the steps: it exists here once, and playbooks are tested against it."""

from __future__ import annotations

from mesh_logic.errors import MeshError, shown

# step -> (role, playbook, evidence file or "")
STEPS: dict[str, tuple[str, str, str]] = {
    "precheck": ("precheck", "precheck.yml", "02-precheck.txt"),
    "install": ("revision_install", "install.yml", "03-install.txt"),
    "canary": ("canary_relabel", "canary.yml", "04-mixed.txt"),
    "move_tags": ("tag_move", "move_tags.yml", "05-tags.txt"),
    "rollback_drill": ("rollback_drill", "rollback_drill.yml", "06-rollback.txt"),
    "uninstall": ("revision_uninstall", "uninstall.yml", "07-uninstall.txt"),
    "report": ("report", "report.yml", "08-report.md"),
}


def _check(step: str) -> None:
    if step not in STEPS:
        raise MeshError(f"step {shown(step)}", "no such step", f"use one of: {', '.join(STEPS)}")


def step_role(step: str) -> str:
    """Return the role of a step.

    Raises:
        MeshError: no such step.
    """
    _check(step)
    return STEPS[step][0]


def step_wanted(stop_after: str, step: str) -> bool:
    """Tell whether a step runs when the chain is to end after `stop_after` ("" means it runs to its end).

    Raises:
        MeshError: no such step.
    """
    order = list(STEPS)
    for name in filter(None, (stop_after, step)):
        _check(name)
    return not stop_after or order.index(step) <= order.index(stop_after)
