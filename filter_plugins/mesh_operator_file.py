"""Filters for the IstioOperator file. Thin: the meaning is in ``mesh_logic.operator_file``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Ansible imports this file alone

from mesh_logic import operator_file
from mesh_logic.errors import as_filter


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "overlay_operator": as_filter(operator_file.overlay_operator, AnsibleFilterError),
        }
