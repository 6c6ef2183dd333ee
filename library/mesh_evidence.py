#!/usr/bin/python
"""Read an evidence folder on the controller. No cluster is asked and nothing is written."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_evidence
short_description: Read an evidence folder
description:
  - Reads every file of a folder with its SHA-256.
  - Never fails over what it finds; it reports, so that all mismatches can be told at once.
options:
  folder:
    description: The evidence folder.
    type: path
    required: true
author: the project's contributors
"""

EXAMPLES = r"""
- name: Read the evidence
  mesh_evidence:
    folder: evidence/lab/lab/1.30.5-to-1.31.0
"""

RETURN = r"""
files:
  description: Name to its sha256, text and error; text is empty where a file is no UTF-8.
  returned: always
  type: dict
folder:
  description: The folder.
  returned: always
  type: str
error:
  description: Why the folder cannot be read, or empty.
  returned: always
  type: str
"""

import hashlib
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

# A record of the journal is 1 MiB at most; nothing larger is evidence.
LARGEST = 64 * 1024 * 1024


def look_at_file(path: str) -> dict[str, str]:
    """Return {sha256, text, error} of one file."""
    found = {"sha256": "", "text": "", "error": ""}
    try:
        if not os.path.isfile(path):
            return found | {"error": "it is no file"}
        if os.path.getsize(path) > LARGEST:
            return found | {"error": f"it is larger than {LARGEST} bytes"}
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError as error:
        return found | {"error": error.strerror or str(error)}
    # a hash needs no text: bytes that are no UTF-8 are a mismatch, not an error of reading
    return found | {"sha256": hashlib.sha256(content).hexdigest(), "text": content.decode("utf-8", "replace")}


def look_at_folder(folder: str) -> dict[str, Any]:
    """Return {folder, files, error}."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        return {"folder": folder, "files": {}, "error": error.strerror or str(error)}
    return {"folder": folder, "files": {name: look_at_file(os.path.join(folder, name)) for name in names}, "error": ""}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec={"folder": {"type": "path", "required": True}}, supports_check_mode=True)
    module.exit_json(changed=False, **look_at_folder(module.params["folder"]))


if __name__ == "__main__":
    main()
