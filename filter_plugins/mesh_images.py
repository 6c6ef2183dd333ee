"""Filters for image references and tags. Thin: the meaning is in ``mesh_logic.images``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Ansible imports this file alone

from mesh_logic import images
from mesh_logic.errors import as_filter


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "proxy_image": as_filter(images.proxy_image, AnsibleFilterError),
            "same_version": as_filter(images.same_version, AnsibleFilterError),
        }
