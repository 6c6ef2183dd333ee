"""Filters for revision tags. Thin: the meaning is in ``mesh_logic.tags``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Ansible imports this file alone

from mesh_logic import tags
from mesh_logic.errors import as_filter


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "revision_tags": as_filter(tags.revision_tags, AnsibleFilterError),
            "tag_revision": as_filter(tags.tag_revision, AnsibleFilterError),
        }
