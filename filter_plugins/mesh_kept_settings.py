"""Filters that compare settings of revisions and rebuild operator files. Thin: the meaning is in ``mesh_logic``.

Not called mesh_settings: that is a module, and both folders are on one import path (action_plugins/in_process.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Ansible imports this file alone

from mesh_logic import operator_rebuild, settings_diff
from mesh_logic.plain import plain_filter


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        found: dict[str, Callable[..., Any]] = {
            "mesh_settings_renders": settings_diff.renders,
            "mesh_settings_rendered": settings_diff.rendered_by_name,
            "mesh_settings_unexplained": settings_diff.unexplained,
            "mesh_settings_findings": settings_diff.before_install,
            "mesh_settings_after": settings_diff.after_install,
            "mesh_settings_blockers": settings_diff.blockers,
            "mesh_settings_lines": settings_diff.lines,
            "mesh_rebuild_bare": operator_rebuild.bare_document,
            "mesh_rebuild_version_errors": operator_rebuild.version_errors,
            "mesh_rebuild": operator_rebuild.rebuild,
            "mesh_rebuild_proof": operator_rebuild.proof_document,
            "mesh_rebuild_unlike": operator_rebuild.unlike,
            "mesh_rebuild_write_errors": operator_rebuild.write_errors,
        }
        return {name: plain_filter(function, AnsibleFilterError) for name, function in found.items()}
