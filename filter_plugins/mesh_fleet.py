"""Filters of `playbooks/fleet.yml`. Thin: the meaning is in ``mesh_logic.fleet``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Ansible imports this file alone

from mesh_logic import fleet, steps
from mesh_logic.plain import plain_filter


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        found: dict[str, Callable[..., Any]] = {
            "mesh_fleet_role": steps.step_role,
            "mesh_fleet_seen": fleet.seen,
            "mesh_fleet_errors": fleet.errors,
            "mesh_fleet_warnings": fleet.warnings,
            "mesh_fleet_row": fleet.row,
            "mesh_fleet_lines": fleet.lines,
            "mesh_fleet_files": fleet.files,
        }
        return {name: plain_filter(function, AnsibleFilterError) for name, function in found.items()}
