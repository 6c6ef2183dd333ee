#!/usr/bin/python
"""Ansible module: choose between pulled and built images, and name all that this host lacks for it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_host_check
short_description: Say whether this host can run the lab
description:
  - Chooses between pulling images and building them, then names everything that is missing at once,
    each with what to do about it. Changes nothing.
options:
  cache:
    type: path
    required: true
    description: Cache folder of the lab (it need not exist).
  name:
    type: str
    required: true
    description: Name of the cluster.
  images:
    type: str
    choices: [auto, pull, build]
    default: auto
    description: The wish. C(auto) pulls where the registry answers within I(probe_seconds).
  registry:
    type: str
    required: true
    description: Address that a registry answers on.
  probe_seconds:
    type: int
    default: 5
    description: Seconds for the registry to answer.
author: [The istio-upgrade authors]
"""
EXAMPLES = r"""
- name: Check this host
  lab_host_check:
    cache: /tmp/lab
    name: istio-upgrade
    registry: https://registry-1.docker.io/v2/
"""
RETURN = r"""
mode:
  description: C(pull) or C(build).
  type: str
  returned: success
"""

import os  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import ssl  # noqa: E402
import subprocess  # noqa: E402
import urllib.error  # noqa: E402
import urllib.request  # noqa: E402
from pathlib import Path  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

GIB = 1024**3
GO_MINIMUM = (1, 26)
MEMORY_MINIMUM = 6 * GIB
# A cold build fills about 14 GB of Go caches and 6 GB of its own; a warm lab needs room for one cluster.
DISK_COLD = 25 * GIB
DISK_WARM = 5 * GIB
# kind puts the name into container and host names.
NAME_PATTERN = r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?"


def registry_answers(url: str, seconds: int) -> bool:
    """Tell whether a registry answers, be it with a request to log in; anything else is no."""
    try:
        with urllib.request.urlopen(url, timeout=seconds, context=ssl.create_default_context()):
            return True
    except urllib.error.HTTPError as error:
        return error.code == 401 and "Docker-Distribution-Api-Version" in error.headers
    except (OSError, ValueError):
        return False


def go_version() -> tuple[int, int] | None:
    """Return Go's version, or none where there is no Go."""
    if shutil.which("go") is None:
        return None
    done = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False)
    found = re.match(r"go(\d+)\.(\d+)", done.stdout.strip())
    return (int(found[1]), int(found[2])) if found else None


def engine_answers() -> bool:
    """Tell whether a container engine answers."""
    if shutil.which("docker") is None:
        return False
    try:
        argv = ["docker", "info", "--format", "{{ .ServerVersion }}"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and bool(done.stdout.strip())


def free_bytes(path: Path) -> int:
    """Return the free space where a path is or would be."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def memory_available(meminfo: str) -> int:
    """Return MemAvailable of /proc/meminfo in bytes."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def problems(mode: str, cache: Path, name: str) -> list[str]:
    """Name everything that is missing, with what to do about it."""
    found = []
    if not re.fullmatch(NAME_PATTERN, name):
        found.append(f"LAB_NAME {name!r} cannot be a cluster name: use up to 32 of a-z, 0-9 and '-'.")
    root = os.geteuid() == 0
    if not engine_answers() and not (root and shutil.which("apt-get")):
        found.append(
            "No container engine answers (docker info), and installing one takes root on Debian or Ubuntu: "
            "start docker, or run as root there."
        )
    if mode == "build":
        go = go_version()
        if go is None or go < GO_MINIMUM:
            seen = "none was found" if go is None else f"{go[0]}.{go[1]} was found"
            found.append(f"Building takes Go 1.26 or newer ({seen}): install it from https://go.dev/dl/.")
        if not root:
            found.append("Building takes root (debootstrap): run as root, or pull: LAB_IMAGES=pull.")
        if not shutil.which("apt-get"):
            found.append("Building takes apt-get (Debian, Ubuntu): use such a host, or LAB_IMAGES=pull.")
    warm = mode == "pull" or (cache / "current" / "kind").exists()
    needed, free = (DISK_WARM if warm else DISK_COLD), free_bytes(cache)
    if free < needed:
        found.append(
            f"{free // GIB} GiB are free for {cache}, {needed // GIB} are needed: free some, or point "
            "XDG_CACHE_HOME to a larger disk."
        )
    memory = memory_available(Path("/proc/meminfo").read_text(encoding="ascii"))
    if memory < MEMORY_MINIMUM:
        found.append(f"{memory / GIB:.1f} GiB of memory are available, 6 are needed: see free -g.")
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "cache": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "images": {"type": "str", "choices": ["auto", "pull", "build"], "default": "auto"},
            "registry": {"type": "str", "required": True},
            "probe_seconds": {"type": "int", "default": 5},
        },
        supports_check_mode=True,
    )
    options = module.params
    mode = options["images"]
    if mode == "auto":
        mode = "pull" if registry_answers(options["registry"], options["probe_seconds"]) else "build"
    missing = problems(mode, Path(options["cache"]), options["name"])
    if missing:
        lines = "\n".join(f"- {line}" for line in missing)
        message = f"The lab cannot start here (images: {mode}). Missing:\n{lines}"
        module.fail_json(msg=message, problems=missing)
    module.exit_json(changed=False, mode=mode)


if __name__ == "__main__":
    main()
