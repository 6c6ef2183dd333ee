"""The filters of records, report and evidence. Thin: the meaning is in ``mesh_logic``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Ansible imports this file alone

from mesh_logic import evidence_check, record, redact, report_folder
from mesh_logic.plain import plain_filter


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        found: dict[str, Callable[..., Any]] = {
            "mesh_redacted": redact.redact,
            "mesh_record_context": record.record_context,
            "mesh_report_folder": report_folder.report_folder,
            "mesh_evidence_errors": evidence_check.evidence_errors,
            "mesh_evidence_claims": evidence_check.claims,
        }
        return {name: plain_filter(function, AnsibleFilterError) for name, function in found.items()}
