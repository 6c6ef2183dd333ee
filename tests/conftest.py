"""Let tests import this project's modules the way Ansible does."""

from __future__ import annotations

import sys
from pathlib import Path

import ansible.module_utils

ROOT = Path(__file__).resolve().parents[1]
ansible.module_utils.__path__.append(str(ROOT / "module_utils"))
sys.path.append(str(ROOT / "library"))
