#!/usr/bin/python
"""Ansible module: build a container image archive from plain files, the same bytes every time."""

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_image
short_description: Build a container image archive from plain files
description:
  - Writes an archive of one layer for C(docker load). The same inputs give the same bytes, so the file name
    can carry a hash of the inputs and an existing archive is never built again.
options:
  dest:
    type: path
    required: true
    description: The archive. Nothing is done when it exists.
  name:
    type: str
    required: true
    description: Image name with tag.
  root:
    type: path
    description: Root file system that I(programs) and their libraries are taken from.
  trees:
    type: list
    elements: dict
    default: []
    description: Folders to copy (C(src), C(dest), C(exclude) as glob patterns relative to the folder).
  programs:
    type: list
    elements: str
    default: []
    description: Programs from I(root), each with the libraries it links to.
  files:
    type: list
    elements: dict
    default: []
    description: >-
      Single entries: C(dest) with one of C(src), C(content), C(link) or C(directory); C(mode), C(owner)
      (a number, user and group alike). With C(linked=true) a program's libraries come along from I(root).
  applets:
    type: list
    elements: str
    default: []
    description: Commands that the static busybox of I(root) plays (it is added to the image).
  iptables:
    type: bool
    default: false
    description: Add iptables (nft and legacy), nft, and the extensions that they load.
  config:
    type: dict
    default: {}
    description: The image configuration (Entrypoint, User, Env, StopSignal, WorkingDir).
author: [The istio-upgrade authors]
"""
EXAMPLES = r"""
- name: Build the pause image
  lab_image:
    dest: /tmp/pause.tar
    name: registry.k8s.io/pause:3.10.1
    root: /tmp/rootfs
    programs: [/bin/busybox]
    config: {Entrypoint: [/bin/busybox, sleep, "2147483647"]}
"""
RETURN = r"""
layer_bytes:
  description: Size of the layer.
  type: int
  returned: when the archive was built
"""

import fnmatch  # noqa: E402
import hashlib  # noqa: E402
import io  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import shutil  # noqa: E402
import stat  # noqa: E402
import subprocess  # noqa: E402
import tarfile  # noqa: E402
import tempfile  # noqa: E402
from dataclasses import dataclass, field  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
XTABLES = "/usr/lib/x86_64-linux-gnu/xtables"
CREATED = "2026-01-01T00:00:00Z"


@dataclass
class Layer:
    """The entries of one layer by path; a later entry replaces an earlier one."""

    root: Path | None
    entries: dict[str, tuple[tarfile.TarInfo, Path | bytes | None]] = field(default_factory=dict)

    def add(self, path: str, info: tarfile.TarInfo, data: Path | bytes | None) -> None:
        """Put one entry in place, with the time stamp that makes archives repeatable."""
        info.name = path.strip("/")
        info.mtime = 0
        info.uname = info.gname = ""
        self.entries[info.name] = (info, data)

    def directory(self, path: str, mode: int = 0o755, owner: int = 0) -> None:
        """Add a folder."""
        info = tarfile.TarInfo()
        info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, mode, owner, owner
        self.add(path, info, None)

    def file(self, path: str, data: Path | bytes, mode: int, owner: int = 0) -> None:
        """Add a regular file."""
        info = tarfile.TarInfo()
        info.size = data.stat().st_size if isinstance(data, Path) else len(data)
        info.mode, info.uid, info.gid = mode, owner, owner
        self.add(path, info, data)

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        info = tarfile.TarInfo()
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
        self.add(path, info, None)

    def tree(self, src: Path, dest: str, exclude: list[str]) -> None:
        """Add a whole folder as it is on disk (owners, modes, links and devices kept)."""
        with tarfile.open(fileobj=io.BytesIO(), mode="w") as probe:
            for folder, folders, files in os.walk(src):
                for name in [*folders, *files]:
                    full = Path(folder, name)
                    relative = str(full.relative_to(src))
                    if any(fnmatch.fnmatch(relative, pattern) for pattern in exclude):
                        if name in folders:
                            folders.remove(name)
                        continue
                    if stat.S_ISSOCK(full.lstat().st_mode):
                        continue
                    probe.inodes = {}  # type: ignore[attr-defined]  # hard links become files of their own
                    info = probe.gettarinfo(str(full))
                    self.add(str(Path(dest, relative)), info, full if info.isreg() else None)

    def program(self, path: str) -> None:
        """Add a program of the root file system and the libraries it links to."""
        if self.root is None:
            raise ValueError("programs need root")
        self.file(path, self.resolve(path), 0o755)
        self.libraries(path)

    def applets(self, names: list[str]) -> None:
        """Add busybox and its commands; it is static, so nothing else is needed."""
        self.file("/bin/busybox", self.resolve("/bin/busybox"), 0o755)
        for name in names:
            self.link(f"/bin/{name}", "busybox")

    def iptables(self) -> None:
        """Add both iptables programs under all their names, nft, and the extensions (some need libm)."""
        for path in ("/usr/sbin/xtables-nft-multi", "/usr/sbin/xtables-legacy-multi", "/usr/sbin/nft"):
            self.program(path)
        for family in ("iptables", "ip6tables"):
            for verb in ("", "-save", "-restore"):
                self.link(f"/usr/sbin/{family}{verb}", "xtables-nft-multi")
                self.link(f"/usr/sbin/{family}-nft{verb}", "xtables-nft-multi")
                self.link(f"/usr/sbin/{family}-legacy{verb}", "xtables-legacy-multi")
        extensions = self.resolve(XTABLES)
        self.tree(extensions, XTABLES, [])
        self.libraries(*(f"{XTABLES}/{path.name}" for path in sorted(extensions.glob("*.so"))))

    def libraries(self, *paths: str) -> None:
        """Add what programs (paths inside root) link to."""
        for library in linked(self.root, *paths):
            self.library(library)

    def library(self, path: str) -> None:
        """Add one library, once."""
        if path.strip("/") not in self.entries:
            self.file(path, self.resolve(path), 0o755)

    def resolve(self, path: str) -> Path:
        """Return the real file behind a path of the root file system (its links stay inside that root)."""
        if self.root is None:
            raise ValueError("root is not set")
        current = self.root / path.strip("/")
        for _ in range(10):
            parent = Path(os.path.realpath(current.parent))
            if not parent.is_relative_to(self.root):
                parent = self.root / str(parent).strip("/")
            current = parent / current.name
            if not current.is_symlink():
                return current
            target = os.readlink(current)
            current = self.root / target.strip("/") if target.startswith("/") else current.parent / target
        raise ValueError(f"{path}: too many links")

    def write(self, path: Path) -> str:
        """Write the layer, folders before what lies in them; return its sha256."""
        for name in list(self.entries):
            for parent in list(Path(name).parents)[:-1]:
                if str(parent) not in self.entries:
                    self.directory(str(parent))
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
            for name in sorted(self.entries):
                info, data = self.entries[name]
                if isinstance(data, Path):
                    with data.open("rb") as handle:
                        archive.addfile(info, handle)
                else:
                    archive.addfile(info, io.BytesIO(data) if data is not None else None)
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()


def linked(root: Path | None, *paths: str, program: Path | None = None) -> list[str]:
    """Ask the dynamic loader of the root file system which libraries programs need.

    A program from elsewhere is copied into the root's /tmp while it is asked about.
    """
    if root is None:
        raise ValueError("programs and libraries need root")
    if program is not None:
        with tempfile.TemporaryDirectory(dir=root / "tmp") as folder:
            copy = shutil.copy(program, folder)
            return linked(root, "/" + str(Path(copy).relative_to(root)))
    done = subprocess.run(["chroot", str(root), "ldd", *paths], capture_output=True, text=True, check=False)
    if "not found" in done.stdout:
        raise ValueError(f"{paths}: a library is missing: {done.stdout}")
    return [word for word in done.stdout.split() if word.startswith("/") and not word.endswith(":")]


def add_file(layer: Layer, spec: dict[str, Any]) -> None:
    """Add one entry of ``files``."""
    dest, owner = spec["dest"], int(spec.get("owner", 0))
    mode = int(str(spec["mode"]), 8) if "mode" in spec else None
    if spec.get("directory"):
        layer.directory(dest, mode or 0o755, owner)
    elif "link" in spec:
        layer.link(dest, spec["link"])
    elif "content" in spec:
        layer.file(dest, str(spec["content"]).encode(), mode or 0o644, owner)
    else:
        layer.file(dest, Path(spec["src"]), mode or 0o755, owner)
    if spec.get("linked"):
        for library in linked(layer.root, program=Path(spec["src"])):
            layer.library(library)


def write_archive(layer: Layer, name: str, config: dict[str, Any], dest: Path) -> int:
    """Write the image archive by way of a partial file; return the size of the layer."""
    dest.parent.mkdir(parents=True, exist_ok=True)
    layer_file, partial = dest.with_name(dest.name + ".layer"), dest.with_name(dest.name + ".partial")
    digest = layer.write(layer_file)
    size = layer_file.stat().st_size
    image = {
        "architecture": "amd64",
        "os": "linux",
        "created": CREATED,
        "config": {**config, "Env": [PATH, *config.get("Env", [])]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": CREATED, "created_by": "lab_image"}],
    }
    blob = json.dumps(image, sort_keys=True).encode()
    blob_name = hashlib.sha256(blob).hexdigest() + ".json"
    layer_name = f"{digest}/layer.tar"
    manifest = json.dumps([{"Config": blob_name, "RepoTags": [name], "Layers": [layer_name]}]).encode()
    with tarfile.open(partial, "w") as archive:
        for member, data in ((blob_name, blob), ("manifest.json", manifest)):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        info = tarfile.TarInfo(layer_name)
        info.size = size
        with layer_file.open("rb") as handle:
            archive.addfile(info, handle)
    layer_file.unlink()
    partial.rename(dest)
    return size


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "dest": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "root": {"type": "path"},
            "trees": {"type": "list", "elements": "dict", "default": []},
            "programs": {"type": "list", "elements": "str", "default": []},
            "files": {"type": "list", "elements": "dict", "default": []},
            "applets": {"type": "list", "elements": "str", "default": []},
            "iptables": {"type": "bool", "default": False},
            "config": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    options = module.params
    dest = Path(options["dest"])
    if dest.exists() or module.check_mode:
        module.exit_json(changed=not dest.exists())
    layer = Layer(Path(options["root"]) if options["root"] else None)
    try:
        for tree in options["trees"]:
            layer.tree(Path(tree["src"]), tree.get("dest", "/"), tree.get("exclude", []))
        for program in options["programs"]:
            layer.program(program)
        if options["applets"]:
            layer.applets(options["applets"])
        if options["iptables"]:
            layer.iptables()
        for spec in options["files"]:
            add_file(layer, spec)
        size = write_archive(layer, options["name"], options["config"], dest)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"Image {options['name']} cannot be built: {error}")
    module.exit_json(changed=True, layer_bytes=size)


if __name__ == "__main__":
    main()
