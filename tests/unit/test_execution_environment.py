"""The image for AWX: ansible-builder takes its definition, and its tools are those that were asked for."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = ROOT / "execution-environment.yml"
ARCH = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[os.uname().machine]


def create(definition: Path, context: Path) -> subprocess.CompletedProcess[str]:
    """Return what `ansible-builder create` says; it checks the definition against its schema."""
    beside = Path(sys.executable).parent / "ansible-builder"
    tool = str(beside) if beside.exists() else shutil.which("ansible-builder")
    assert tool, "ansible-builder is not installed. Next: make setup (requirements/unit.txt has it)"
    command = [
        tool,
        "create",
        "--file",
        str(definition),
        "--context",
        str(context),
        "--output-filename",
        "Containerfile",
    ]
    return subprocess.run(command, cwd=definition.parent, capture_output=True, text=True, check=False)


def test_the_build_context_is_made(tmp_path: Path) -> None:
    done = create(DEFINITION, tmp_path / "context")
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / "context" / "Containerfile").read_text(encoding="utf-8")
    # two istioctl side by side, by build argument
    assert re.search(r'^ARG ISTIO_VERSIONS="\d+\.\d+\.\d+ \d+\.\d+\.\d+"$', text, re.MULTILINE)
    assert "install-tools.sh $ISTIO_VERSIONS" in text
    assert text.index("ARG HELM_VERSION=") < text.index("RUN bash /usr/local/libexec/install-tools.sh")
    packed = tmp_path / "context" / "_build"
    assert (packed / "tools" / "install-tools.sh").read_bytes() == (ROOT / "awx" / "install-tools.sh").read_bytes()
    assert "kubernetes==" in (packed / "requirements.txt").read_text(encoding="utf-8")


def test_a_definition_that_does_not_fit_the_schema_is_refused(tmp_path: Path) -> None:
    broken = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))
    broken["dependencies"]["phyton"] = broken["dependencies"].pop("python")
    path = tmp_path / "execution-environment.yml"
    path.write_text(yaml.safe_dump(broken), encoding="utf-8")
    done = create(path, tmp_path / "context")
    assert done.returncode != 0
    assert "phyton" in done.stdout + done.stderr


def test_the_versions_are_those_of_the_controller() -> None:
    wanted = (ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8")
    dependencies = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))["dependencies"]
    assert f'{dependencies["ansible_core"]["package_pip"]}; python_version >= "3.12"\n' in wanted
    assert f"{dependencies['ansible_runner']['package_pip']}\n" in wanted


def archive(path: Path, member: str, says: str, checksum: str = "") -> None:
    """Write an archive with one program that prints `says`, and its checksum beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f"#!/bin/sh\necho {says}\n".encode()
    with tarfile.open(path, "w:gz") as packed:
        entry = tarfile.TarInfo(member)
        entry.size, entry.mode = len(text), 0o755
        packed.addfile(entry, io.BytesIO(text))
    ending = ".sha256sum" if "helm" in path.name else ".sha256"
    digest = checksum or hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name(path.name + ending).write_text(f"{digest}  {path.name}\n", encoding="utf-8")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@pytest.fixture
def downloads(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Return (folder, address) of a server with two Istio versions and helm."""
    folder = tmp_path / "downloads"
    for version in ("1.30.5", "1.31.0"):
        archive(folder / version / f"istioctl-{version}-linux-{ARCH}.tar.gz", "istioctl", version)
    archive(folder / f"helm-v3.19.0-linux-{ARCH}.tar.gz", f"linux-{ARCH}/helm", "v3.19.0+g1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def install(address: str, target: Path, *versions: str, helm: str = "3.19.0") -> subprocess.CompletedProcess[str]:
    """Run install-tools.sh against a server."""
    target.mkdir(exist_ok=True)
    env = {"PATH": os.environ["PATH"], "BIN": str(target), "ISTIO_DOWNLOADS": address, "HELM_DOWNLOADS": address}
    script = ["bash", str(ROOT / "awx" / "install-tools.sh"), *versions]
    more = {"HELM_VERSION": helm} if helm else {}
    return subprocess.run(script, env={**env, **more}, capture_output=True, text=True, check=False, timeout=60)


def test_two_istioctl_stand_side_by_side(downloads: tuple[Path, str], tmp_path: Path) -> None:
    target = tmp_path / "bin"
    done = install(downloads[1], target, "1.30.5", "1.31.0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in target.iterdir()) == ["helm", "istioctl-1.30.5", "istioctl-1.31.0"]
    for version in ("1.30.5", "1.31.0"):
        said = subprocess.run([target / f"istioctl-{version}"], capture_output=True, text=True, check=True).stdout
        assert said == f"{version}\n"


def test_an_archive_with_another_checksum_is_not_installed(downloads: tuple[Path, str], tmp_path: Path) -> None:
    archive(downloads[0] / "1.31.0" / f"istioctl-1.31.0-linux-{ARCH}.tar.gz", "istioctl", "1.31.0", "0" * 64)
    done = install(downloads[1], tmp_path / "bin", "1.30.5", "1.31.0")
    assert done.returncode != 0
    assert f"says {'0' * 64}. Next:" in done.stderr
    assert not (tmp_path / "bin" / "istioctl-1.31.0").exists()


def test_a_program_of_another_version_stops_the_build(downloads: tuple[Path, str], tmp_path: Path) -> None:
    archive(downloads[0] / "1.31.0" / f"istioctl-1.31.0-linux-{ARCH}.tar.gz", "istioctl", "1.29.0")
    done = install(downloads[1], tmp_path / "bin", "1.31.0")
    assert done.returncode != 0
    assert "is not version 1.31.0, it says: 1.29.0" in done.stderr


def test_what_is_not_named_or_not_there_stops_the_build(downloads: tuple[Path, str], tmp_path: Path) -> None:
    for versions, helm, words in (
        ((), "3.19.0", "No Istio version is named. Next:"),
        (("1.31.0",), "", "HELM_VERSION"),
        (("1.99.0",), "3.19.0", "404"),
    ):
        done = install(downloads[1], tmp_path / "bin", *versions, helm=helm)
        assert done.returncode != 0
        assert words in done.stderr
