"""Filters of the checks before an upgrade and of the judge over waivers. Thin: the meaning is in ``mesh_logic``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Ansible imports this file alone

from mesh_logic.checks import judge, rights, run
from mesh_logic.plain import plain_filter


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        found: dict[str, Callable[..., Any]] = {
            "mesh_account_steps": run.account_steps,
            "mesh_check_questions": run.questions,
            "mesh_checks_before": run.before,
            "mesh_checks_after_install": run.after_install,
            "mesh_judge": judge.judge,
            "mesh_precheck_seen": judge.seen,
            "mesh_rights_first": rights.first,
        }
        return {name: plain_filter(function, AnsibleFilterError) for name, function in found.items()}
