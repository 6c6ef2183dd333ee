"""Settle once per run how the cluster is reached; module_utils/mesh_kubeconfig.py says how.

An action and no module: a file that is made lies on the controller, in the folder that Ansible makes for a run,
readable by this user alone, and removes when the run ends, however it ends short of being killed outright.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ansible.constants
import ansible.module_utils
from ansible.plugins.action import ActionBase

UTILS = str(Path(__file__).resolve().parents[1] / "module_utils")
if UTILS not in ansible.module_utils.__path__:
    ansible.module_utils.__path__.append(UTILS)

from ansible.module_utils.mesh_kubeconfig import settle  # noqa: E402 - only importable after the lines above

ELSEWHERE = (
    "The host has the connection '{}', and only a host with ansible_connection: local can be reached with a token or "
    "with several kubeconfigs. Next: give mesh_kubeconfig as one file on that host."
)


class ActionModule(ActionBase):  # type: ignore[misc] # ansible-core has no types
    """Returns {kubeconfig, made, error}; options kubeconfig, server, token, ca.

    It fails over nothing that it finds: its task hides its output, and an error would be hidden with it.
    """

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what was settled."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        options = self._task.args
        if self._connection.transport == "local":
            settled = settle(options, Path(ansible.constants.DEFAULT_LOCAL_TMP), os.environ)
        else:
            path = options["kubeconfig"]
            plain = (
                isinstance(path, str)
                and os.pathsep not in path
                and not any(options[k] for k in ("server", "token", "ca"))
            )
            error = "" if plain else ELSEWHERE.format(self._connection.transport)
            settled = {"kubeconfig": path if plain else "", "made": "", "error": error}
        return {**result, "changed": False, **settled}
