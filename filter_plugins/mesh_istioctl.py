"""Filters for the output of istioctl. Thin: the meaning is in ``mesh_logic.istioctl_output``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Ansible imports this file alone

from mesh_logic import istioctl_output
from mesh_logic.errors import as_filter


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "istioctl_version": as_filter(istioctl_output.istioctl_version, AnsibleFilterError),
            "precheck_result": as_filter(istioctl_output.precheck_result, AnsibleFilterError),
            "proxy_status": as_filter(istioctl_output.proxy_status, AnsibleFilterError),
            "strip_ansi": as_filter(istioctl_output.without_ansi, AnsibleFilterError),
            "uninstall_warnings": as_filter(istioctl_output.uninstall_warnings, AnsibleFilterError),
        }
