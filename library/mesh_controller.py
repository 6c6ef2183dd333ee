#!/usr/bin/python
"""Look at the controller: the istioctl binaries, the operator file, the Python. No cluster is asked."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_controller
short_description: Look at what the controller brings to an upgrade
description:
  - Runs C(istioctl version --remote=false) of each binary, reads the operator file, tries to import the client library.
  - Never fails over what it finds; it reports, so that all input errors of a run can be told at once.
options:
  istioctl:
    description: Names (such as from, to) with the path of each istioctl; empty paths are left out.
    type: dict
    default: {}
  operator_file:
    description: Path of the IstioOperator file.
    type: str
    default: ''
author: the project's contributors
"""

EXAMPLES = r"""
- name: Look at the controller
  mesh_controller:
    istioctl: {to: /usr/local/bin/istioctl}
    operator_file: files/istio-operator.yaml
"""

RETURN = r"""
istioctl:
  description: Per name its path, rc, output and error.
  returned: always
  type: dict
operator_file:
  description: Path, text, sha256 and error.
  returned: always
  type: dict
python:
  description: Interpreter, version and the import error of the client library, empty when it imports.
  returned: always
  type: dict
who:
  description: Who runs this and where, as user and host.
  returned: always
  type: dict
"""

import hashlib
import os
import platform
import pwd
import shutil
import sys
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mesh_api import IMPORT_ERROR


def look_at_istioctl(module: AnsibleModule, path: str) -> dict[str, Any]:
    """Run one istioctl for its own version; every way to fail becomes words in `error`."""
    # a bare name is looked up on PATH, as a shell would
    real = os.path.expanduser(path)
    real = real if os.sep in real else (shutil.which(real) or real)
    found: dict[str, Any] = {"path": real, "rc": -1, "output": "", "error": ""}
    if not os.path.exists(real):
        return found | {"error": "does not exist"}
    if os.path.isdir(real) or not os.access(real, os.X_OK):
        return found | {"error": "is not executable"}
    rc, out, err = module.run_command([real, "version", "--remote=false", "-o", "json"])
    error = "" if rc == 0 else f"exits with {rc}: {' '.join((err or out).split())[:200]}"
    return found | {"rc": rc, "output": out, "error": error}


def look_at_file(path: str) -> dict[str, Any]:
    """Read the operator file; `error` says why it cannot be."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        return {"path": path, "text": "", "sha256": "", "error": reason}
    return {"path": path, "text": text, "sha256": hashlib.sha256(text.encode()).hexdigest(), "error": ""}


def who() -> dict[str, str]:
    """Return the user and the host of this run; in a container without a name for its user, the number."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return {"user": user, "host": platform.node()}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={"istioctl": {"type": "dict", "default": {}}, "operator_file": {"type": "str", "default": ""}},
        supports_check_mode=True,
    )
    binaries = {name: str(path) for name, path in module.params["istioctl"].items() if path}
    module.exit_json(
        changed=False,
        istioctl={name: look_at_istioctl(module, path) for name, path in binaries.items()},
        operator_file=look_at_file(module.params["operator_file"]) if module.params["operator_file"] else {},
        who=who(),
        python={
            "executable": sys.executable,
            "version": sys.version.split()[0],
            "error": IMPORT_ERROR.strip().splitlines()[-1] if IMPORT_ERROR else "",
        },
    )


if __name__ == "__main__":
    main()
