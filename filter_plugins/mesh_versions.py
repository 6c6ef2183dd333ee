"""Filters for versions and revision names. Thin: the meaning is in ``mesh_logic.versions``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Ansible imports this file alone

from mesh_logic import versions
from mesh_logic.errors import as_filter


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "istio_version_compare": as_filter(versions.compare_versions, AnsibleFilterError),
            "newest_revision": as_filter(versions.newest_revision, AnsibleFilterError),
            "revision_name": as_filter(versions.revision_name, AnsibleFilterError),
        }
