"""Action plugin: run long build jobs in lanes, and say every few seconds what is going on."""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()

OUT = "@OUT@"
KEY = "@KEY@"
LOG_TAIL_LINES = 25


@dataclass
class Job:
    """One command that makes one path; it runs only while that path is missing."""

    name: str
    argv: list[str]
    dest: Path
    lane: str
    env: dict[str, str]
    chdir: str | None
    needs: list[str]
    links: dict[str, str]
    log: Path
    started: float = 0.0
    process: subprocess.Popen[bytes] | None = None
    seconds: float = 0.0

    @property
    def partial(self) -> Path:
        """Where the command writes; renamed to ``dest`` only after it succeeded."""
        return self.dest.with_name(self.dest.name + ".partial")

    def start(self) -> None:
        """Start the command in a process group of its own, with its output in the log."""
        if self.partial.is_dir() and not self.partial.is_symlink():
            shutil.rmtree(self.partial)
        else:
            self.partial.unlink(missing_ok=True)
        self.dest.parent.mkdir(parents=True, exist_ok=True)
        argv = [part.replace(OUT, str(self.partial)) for part in self.argv]
        self.started = time.monotonic()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                argv,
                cwd=self.chdir,
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def poll(self) -> int | None:
        """Return the exit code once the command has ended."""
        assert self.process is not None
        self.seconds = time.monotonic() - self.started
        return self.process.poll()

    def finish(self) -> None:
        """Put what was made in its place; a command that only warms a cache leaves an empty stamp."""
        if self.partial.exists():
            self.partial.rename(self.dest)
        else:
            self.dest.touch()

    def link(self, folder: Path) -> None:
        """Put what was made under stable names; the links are replaced at once, never missing."""
        for name, inside in self.links.items():
            fresh = folder / f"{name}.new"
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(self.dest / inside if inside else self.dest)
            fresh.replace(folder / name)

    def kill(self) -> None:
        """End the command and its children, and wait for it."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    def tail(self) -> str:
        """Return the last lines of the log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])


@dataclass
class Runner:
    """Runs jobs: one at a time in each lane, the lanes side by side."""

    jobs: list[Job]
    every: int
    started: float = field(default_factory=time.monotonic)
    done: list[Job] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Print one progress line with the time since the start."""
        display.display(f"  [{time.monotonic() - self.started:5.0f} s] {text}")

    def run(self) -> None:
        """Run all jobs; the first failure ends the others and raises."""
        pending, running = list(self.jobs), list[Job]()
        spoke = time.monotonic()
        try:
            while pending or running:
                self.start_idle_lanes(pending, running)
                time.sleep(0.25)
                for job in list(running):
                    code = job.poll()
                    if code is None:
                        continue
                    running.remove(job)
                    if code != 0:
                        raise AnsibleActionFail(
                            f"{job.name} failed (exit code {code}, {job.seconds:.0f} s). Log: {job.log}\n{job.tail()}"
                        )
                    job.finish()
                    self.done.append(job)
                    self.say(f"{job.name}: done in {job.seconds:.0f} s")
                if running and time.monotonic() - spoke >= self.every:
                    spoke = time.monotonic()
                    now = ", ".join(f"{job.name} {job.seconds:.0f} s" for job in running)
                    self.say(f"{now} ... ({len(pending)} waiting)")
        finally:
            for job in running:
                job.kill()

    def start_idle_lanes(self, pending: list[Job], running: list[Job]) -> None:
        """Start the first job of each idle lane whose needs are met."""
        missing = {job.name for job in (*pending, *running)}
        for job in list(pending):
            busy = {other.lane for other in running}
            if job.lane not in busy and not missing.intersection(job.needs):
                pending.remove(job)
                running.append(job)
                self.say(f"{job.name}: started")
                job.start()


@contextmanager
def one_build(path: Path) -> Iterator[IO[str]]:
    """Let one build at a time use the cache."""
    with path.open("w", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            display.display("  another lab build holds the cache: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible ships no types
    """Run the jobs whose ``dest`` is missing."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset(("jobs", "log_dir", "link_dir", "every"))

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return ``changed``, ``paths`` (name -> what the job made) and ``built`` (name -> seconds)."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        log_dir = Path(self._task.args["log_dir"])
        jobs = [self.job(spec, log_dir) for spec in self._task.args["jobs"]]
        result["paths"] = {job.name: str(job.dest) for job in jobs}
        if self._task.check_mode or all(job.dest.exists() for job in jobs):
            missing = [job.name for job in jobs if not job.dest.exists()]
            self.link(jobs)
            return {**result, "changed": bool(missing), "built": {}, "missing": missing}
        log_dir.mkdir(parents=True, exist_ok=True)
        with one_build(log_dir / "lock"):
            # Looked up again: the build that held the lock may have made some.
            missing_jobs = [job for job in jobs if not job.dest.exists()]
            runner = Runner(missing_jobs, int(self._task.args.get("every", 20)))
            runner.run()
        self.link(jobs)
        return {
            **result,
            "changed": bool(runner.done),
            "built": {job.name: round(job.seconds) for job in runner.done},
        }

    def link(self, jobs: list[Job]) -> None:
        """Put what exists under its stable names."""
        if "link_dir" in self._task.args and not self._task.check_mode:
            folder = Path(self._task.args["link_dir"])
            folder.mkdir(parents=True, exist_ok=True)
            for job in jobs:
                job.link(folder)

    @staticmethod
    def key(spec: dict[str, Any]) -> str:
        """Hash what a job's result depends on: command, settings and the content of its input files."""
        digest = hashlib.sha256(json.dumps([spec["argv"], spec.get("env", {})], sort_keys=True).encode())
        for pattern in spec.get("inputs", []):
            for path in sorted(glob.glob(pattern)):
                digest.update(Path(path).name.encode() + b"\0" + Path(path).read_bytes())
        return digest.hexdigest()[:12]

    @classmethod
    def job(cls, spec: dict[str, Any], log_dir: Path) -> Job:
        """Build a job from its YAML form; ``@KEY@`` in its dest becomes the hash of its inputs."""
        return Job(
            name=spec["name"],
            argv=[str(part) for part in spec["argv"]],
            dest=Path(spec["dest"].replace(KEY, cls.key(spec))),
            lane=spec.get("lane", "compile"),
            env={key: str(value) for key, value in spec.get("env", {}).items()},
            chdir=spec.get("chdir"),
            needs=list(spec.get("needs", [])),
            links=spec.get("links", {}),
            log=log_dir / f"{spec['name'].replace(' ', '-')}.log",
        )
