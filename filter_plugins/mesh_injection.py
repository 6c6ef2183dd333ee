"""Filters for the prediction of the injector. Thin: the meaning is in ``mesh_logic.injection``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Ansible imports this file alone

from mesh_logic import injection
from mesh_logic.errors import as_filter


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "injecting_revision": as_filter(injection.injecting_revision, AnsibleFilterError),
        }
