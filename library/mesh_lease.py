#!/usr/bin/python
"""Take, keep and give back the Lease that lets one run at a time change the mesh."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mesh_lease
short_description: Let one run at a time change a mesh
description:
  - Takes a Lease in the Istio namespace for a holder, or gives it back.
  - While Ansible runs, a small process beside it renews the Lease and gives it back as soon as Ansible is gone, also
    when it was killed. Where the module runs elsewhere (a bastion), nothing renews it and it lasts
    C(seconds_unrenewed).
  - A Lease that somebody else renews is refused at once; one that nobody renews is waited out, with a countdown, and
    taken over.
options:
  kubeconfig:
    description: Path of the kubeconfig; empty means the usual lookup.
    type: str
    default: ''
  context:
    description: Context of the kubeconfig; empty means the current one.
    type: str
    default: ''
  request_timeout:
    description: Seconds for one request.
    type: int
    default: 60
  istio_namespace:
    description: Namespace of the control planes; the Lease lies there.
    type: str
    default: istio-system
  state:
    description: Take the Lease, or give it back.
    type: str
    choices: [held, released]
    default: held
  holder:
    description: Who takes it or had taken it; C(held) adds something that makes it unique and returns it.
    type: str
    required: true
  reason:
    description: What it is held for, in words for whoever meets it.
    type: str
    default: ''
  seconds:
    description: Seconds without renewal after which others may take it over.
    type: int
    default: 60
  seconds_unrenewed:
    description: The same, where nothing renews it.
    type: int
    default: 1800
author: the project's contributors
"""

EXAMPLES = r"""
- name: Take the Lease
  mesh_lease:
    holder: production/cluster-1
    reason: step canary
  register: lease

- name: Give it back
  mesh_lease:
    state: released
    holder: "{{ lease.holder }}"
"""

RETURN = r"""
holder:
  description: The unique name under which it is held.
  returned: state is held
  type: str
took_over:
  description: Words about a holder that was gone and whose Lease was taken over, else empty.
  returned: state is held
  type: str
waited:
  description: Whether another holder had to be waited out; what was read before may be out of date.
  returned: state is held
  type: bool
"""

import os
import secrets
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mesh_api import CONNECTION_SPEC, MeshApi, MeshApiError, Task, connected
from ansible.module_utils.mesh_lease_rules import (
    described,
    expired,
    holder_of,
    now,
    released,
    renewed,
    taken,
)

NAME = "istio-upgrade"
CONFLICT = 409


def collection(istio: str) -> str:
    """Return the API path of the Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{istio}/leases"


def free(task: Task, api: MeshApi, path: str) -> dict[str, Any] | None:
    """Wait until the Lease can be taken; returns it as read, or None where there is none.

    Raises:
        MeshApiError: somebody else renews it, so another run is active.
    """
    lease: dict[str, Any] | None = api.get(path)
    seen, told = time.monotonic(), 0.0
    while lease and holder_of(lease) and not expired(lease, now()):
        wait = float((lease.get("spec") or {}).get("leaseDurationSeconds") or 0)
        left = seen + wait - time.monotonic()
        if left <= 0:  # by our own clock nobody renewed it for its whole duration
            break
        if time.monotonic() - told >= 10:
            told = time.monotonic()
            task.tell(f"the Lease is held by {described(lease)}; if nobody renews it, it is free in {left:.0f} s")
        time.sleep(min(2.0, left))
        again: dict[str, Any] | None = api.get(path)
        if again and (again.get("spec") or {}).get("renewTime") != (lease.get("spec") or {}).get("renewTime"):
            if not holder_of(again):
                return again
            raise MeshApiError(
                f"Another run works on this mesh: Lease {path.rsplit('/namespaces/', 1)[1]} is held by "
                f"{described(again)}. This one changed nothing. Next: wait until that run has ended, then run again."
            )
        lease = again
    return lease


def take(task: Task, api: MeshApi) -> dict[str, Any]:
    """Take the Lease; returns the result of the task."""
    options, istio = task.params, task.params["istio_namespace"]
    path = f"{collection(istio)}/{NAME}"
    controller = int(getattr(task, "controller", 0))
    holder = f"{options['holder']} {secrets.token_hex(4)}"
    seconds = options["seconds"] if controller else options["seconds_unrenewed"]
    asked = time.monotonic()
    lease = free(task, api, path)
    waited = time.monotonic() - asked > 1
    body = taken(lease, NAME, holder, options["reason"], seconds, now())
    try:
        if lease is None:
            api.request("POST", collection(istio), body=body)
        else:
            api.request("PUT", path, body=body)
    except MeshApiError as error:
        if error.status != CONFLICT:
            raise
    got = api.get(path)
    if holder_of(got) != holder:
        raise MeshApiError(
            f"Another run was faster: Lease {istio}/{NAME} is held by {described(got or {})}. This one changed "
            "nothing. Next: wait until that run has ended, then run again."
        )
    if controller:
        keep_beside(task, holder, controller)
    taken_over = described(lease) if lease and holder_of(lease) else ""
    return {"changed": False, "holder": holder, "took_over": taken_over, "waited": waited}


def give_back(api: MeshApi, istio: str, holder: str) -> bool:
    """Give the Lease back if `holder` still has it; tells whether it had."""
    path = f"{collection(istio)}/{NAME}"
    for _attempt in range(5):
        lease = api.get(path)
        if lease is None or holder_of(lease) != holder:
            return False
        try:
            api.merge_patch(path, released(lease))
            return True
        except MeshApiError as error:  # the process beside renewed it in between
            if error.status != CONFLICT:
                raise
    raise MeshApiError(f"Lease {istio}/{NAME} could not be given back: it changed five times meanwhile.")


def keep_beside(task: Task, holder: str, controller: int) -> None:
    """Start a process that renews the Lease while process `controller` lives, and then gives it back."""
    options = task.params
    if os.fork():
        return
    # A forked child must never return into Ansible: whatever happens, it ends here.
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):  # whoever waits for the end of Ansible's output must not wait for this process
            os.dup2(null, number)
        os.closerange(3, 4096)
        if not os.fork():
            keep(
                MeshApi(options["kubeconfig"], options["context"], options["request_timeout"]),
                options["istio_namespace"],
                holder,
                controller,
                options["seconds"],
            )
    finally:
        os._exit(0)


def life_of(process: int) -> str:
    """Return what tells a living process from another one with its number; "" where it has ended.

    Source: proc(5), `stat`: field 3 is the state, field 22 the start time; where there is no /proc, signal 0 answers.
    """
    try:
        os.kill(process, 0)
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as stream:
            fields = stream.read().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    except FileNotFoundError:
        return "" if os.path.exists("/proc/self") else "alive"
    except OSError:
        return ""


def keep(api: MeshApi, istio: str, holder: str, controller: int, seconds: int) -> None:
    """Renew until the controller is gone (then give back) or the Lease belongs to somebody else."""
    path, next_time = f"{collection(istio)}/{NAME}", time.monotonic() + seconds / 4
    life = life_of(controller)
    while life and life_of(controller) == life:
        time.sleep(0.5)
        if time.monotonic() < next_time:
            continue
        next_time = time.monotonic() + seconds / 4
        try:
            lease = api.get(path)
            if lease is None or holder_of(lease) != holder:
                return
            api.merge_patch(path, renewed(lease, now()))
        except MeshApiError:  # the API may be away for a while: the next turn tries again
            continue
    give_back(api, istio, holder)


def run(task: Task, api: MeshApi) -> dict[str, Any]:
    """Take it or give it back; in check mode nothing is held."""
    if task.check_mode:
        return {"changed": False, "holder": "", "took_over": "", "waited": False}
    if task.params["state"] == "held":
        return take(task, api)
    return {"changed": False, "had": give_back(api, task.params["istio_namespace"], task.params["holder"])}


SPEC: dict[str, Any] = CONNECTION_SPEC | {
    "istio_namespace": {"type": "str", "default": "istio-system"},
    "state": {"type": "str", "choices": ["held", "released"], "default": "held"},
    "holder": {"type": "str", "required": True},
    "reason": {"type": "str", "default": ""},
    "seconds": {"type": "int", "default": 60},
    "seconds_unrenewed": {"type": "int", "default": 1800},
}


def main() -> None:
    """Entry point, where the task runs in a Python of its own (see action_plugins/in_process.py)."""
    connected(AnsibleModule(argument_spec=SPEC, supports_check_mode=True), run)


if __name__ == "__main__":
    main()
