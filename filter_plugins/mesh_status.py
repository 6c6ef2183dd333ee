"""The filter of `playbooks/status.yml`. Thin: the meaning is in ``mesh_logic.status``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Ansible imports this file alone

from mesh_logic.plain import plain_filter
from mesh_logic.status import status_lines


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"mesh_status": plain_filter(status_lines, AnsibleFilterError)}
