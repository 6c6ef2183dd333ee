"""Run this project's modules inside Ansible's own process, where that is the Python they would get anyway.

A cluster is reached from the controller: connection `local` with `ansible_playbook_python` as interpreter. Packing a
module, starting a second Python and importing the Kubernetes client there costs most of a second per task. Loaded here
once, in the parent process, it costs nothing in the workers. A host with another connection, interpreter or user (a
bastion from which alone the cluster can be reached) gets the same code as an ordinary module.

One file serves all: the links beside it carry the modules' names.
"""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ansible.module_utils
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

PROJECT = Path(__file__).resolve().parents[1]
if str(PROJECT / "module_utils") not in ansible.module_utils.__path__:
    ansible.module_utils.__path__.append(str(PROJECT / "module_utils"))
if str(PROJECT / "library") not in sys.path:
    sys.path.append(str(PROJECT / "library"))

from ansible.module_utils.mesh_api import outcome  # noqa: E402 - only importable after the lines above


@dataclass
class InProcessTask:
    """What a module's code asks of its task."""

    params: dict[str, Any]
    check_mode: bool
    # the process whose life is the run's: ansible-playbook, of which this is a worker
    controller: int

    def tell(self, line: str) -> None:
        """Show a line of progress while the task runs."""
        Display().display(f"  {line}")


class ActionModule(ActionBase):  # type: ignore[misc] # ansible-core has no types
    """Runs `run` of the module with the task's name."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the task's result, from here or from the module."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        if not self._is_here(variables):
            return {**result, **self._execute_module(task_vars=variables)}
        module = importlib.import_module(self._task.action.rsplit(".", 1)[-1])
        _checked, params = self.validate_argument_spec(argument_spec=module.SPEC)
        return {**result, **outcome(InProcessTask(params, self._task.check_mode, os.getppid()), module.run)}

    def _is_here(self, variables: dict[str, Any]) -> bool:
        interpreter = self._templar.template(variables.get("ansible_python_interpreter") or "")
        return bool(self._connection.transport == "local" and interpreter == sys.executable and not self._task.become)
