"""`make bench-scale`: reading and moving thousands of simulated pods against other ways, as ratios of one run.

SCALE_NAMESPACES: size of the mesh (200 is about 2,000 pods, 1000 is 10,000). SCALE_PARTS: read, move or both.
SCALE_MOVED: how many namespaces are moved.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.tools.scale_mesh import (  # noqa: E402 - importable only after the line above; makes the next ones so
    KUBECONFIG,
    NEW,
    OLD,
    Size,
    connect,
    install_new,
    label,
    make,
    say,
    wait_ready,
)
from tests.tools.scale_move import Counted, by_force, by_kubectl, by_mover, move, stale  # noqa: E402

SIZE = Size(int(os.environ.get("SCALE_NAMESPACES") or 200))
PARTS = (os.environ.get("SCALE_PARTS") or "read,move").split(",")
MOVED = int(os.environ.get("SCALE_MOVED") or 200)  # namespaces that are moved
INFO_SAMPLE, INFO_ALL = 20, 100  # namespaces that k8s_info is looped over; namespaces the target speaks of
KUBECTL_SAMPLE = 20  # namespaces that kubectl is looped over
ROUNDS = 3
DOCUMENT = ROOT / "docs" / "scale.md"


@dataclass
class Figure:
    """One row of the table; `limit` is the target, `above` whether the measured figure must be at least that."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    above: bool = False

    @property
    def missed(self) -> bool:
        """Whether the target is missed."""
        return self.limit is not None and (self.value < self.limit if self.above else self.value > self.limit)

    def row(self) -> str:
        """Return it as a row of a Markdown table."""
        target = "" if self.limit is None else f"{'>=' if self.above else '<='} {self.limit:g}{self.unit}"
        value = f"{self.value:.2f}" if self.value < 10 and self.value % 1 else f"{self.value:.0f}"
        return f"| {self.name} | {value}{self.unit} | {target}{' (missed)' if self.missed else ''} |"


def reader(name: str) -> dict[str, Any]:
    """Run one reader in a process of its own; a failure ends the benchmark, its time would mean nothing."""
    command = [sys.executable, "-m", "tests.tools.scale_read", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"reader {name} failed: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def readers(*names: str) -> list[dict[str, Any]]:
    """Return each reader's fastest of some rounds, taken in turns: what disturbs a run only makes it slower."""
    rounds = [[reader(name) for name in names] for _round in range(ROUNDS)]
    return [min(column, key=lambda found: float(found["seconds"])) for column in zip(*rounds, strict=True)]


@dataclass
class Memory:
    """Watches the memory of a process and its children: the peak of their sum, shared pages counted once (PSS)."""

    pid: int
    peak_mib: float = 0.0
    ended: threading.Event = field(default_factory=threading.Event)

    def family(self) -> list[int]:
        """Return the process and all that descend from it."""
        found, parents = [self.pid], {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                parents[int(path.parent.name)] = int(path.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1])
            except OSError:  # it ended meanwhile
                continue
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found

    def watch(self) -> None:
        """Look ten times a second until told to end."""
        while not self.ended.wait(0.1):
            total = 0
            for pid in self.family():
                try:
                    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
                except OSError:
                    continue
                size = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
                total += int(size.group(1)) if size else 0
            self.peak_mib = max(self.peak_mib, total / 1024)


def play(task: dict[str, Any]) -> tuple[float, float]:
    """Run a play of one task; returns (seconds, peak MiB of ansible-playbook and everything it started)."""
    content = [
        {
            "name": "Measure",
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars": {"ansible_python_interpreter": sys.executable},
            "tasks": [task],
        }
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "play.yml"
        path.write_text(json.dumps(content), encoding="utf-8")
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "--inventory", "localhost,", str(path)]
        started = time.monotonic()
        with (Path(folder) / "log").open("w+", encoding="utf-8") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env=os.environ | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
            )
            memory = Memory(process.pid)
            watcher = threading.Thread(target=memory.watch)
            watcher.start()
            code = process.wait()
            seconds = time.monotonic() - started
            memory.ended.set()
            watcher.join()
            log.seek(0)
            if code:
                sys.exit(f"a play failed ({code}): {log.read()[-3000:]}")
        return seconds, memory.peak_mib


def measure_read() -> list[Figure]:
    """Measure every way to read."""
    say(f"reading {SIZE.pods} pods")
    bare, mesh, typed = readers("bare", "mesh", "typed")
    pages = math.ceil(int(bare["result"]) / 500)
    if mesh["result"]["pods"] != bare["result"]:
        sys.exit(f"the read saw {mesh['result']['pods']} pods, the bare list {bare['result']}")
    task, task_peak = play(
        {"name": "Read the mesh", "mesh_read": {"kubeconfig": str(KUBECONFIG)}, "register": "mesh_facts"}
    )
    sample = min(INFO_SAMPLE, SIZE.namespaces)
    empty, _peak = play({"name": "Nothing", "ansible.builtin.meta": "noop"})
    loop, _peak = play(
        {
            "name": "List pods",
            "kubernetes.core.k8s_info": {"kubeconfig": str(KUBECONFIG), "kind": "Pod", "namespace": "{{ item }}"},
            "loop": SIZE.names[:sample],
        }
    )
    looped = empty + (loop - empty) / sample * INFO_ALL
    say(
        f"bare {bare['seconds']:.2f} s, read {mesh['seconds']:.2f} s, typed {typed['seconds']:.2f} s, "
        f"task {task:.2f} s, k8s_info over {INFO_ALL} namespaces {looped:.0f} s"
    )
    return [
        Figure(
            "read of the whole mesh / one bare paged list of the same pods",
            mesh["seconds"] / bare["seconds"],
            " x",
            1.5,
        ),
        Figure(f"API requests of that read ({pages} pages of pods)", mesh["result"]["requests"], "", pages + 30),
        Figure("peak memory of the reading process", mesh["peak_mib"], " MiB", 300),
        Figure("peak memory of ansible-playbook with the read in it", task_peak, " MiB", 300),
        Figure("the whole task / the bare list (second figure)", task / bare["seconds"], " x"),
        Figure("typed client / the read", typed["seconds"] / mesh["seconds"], " x", 4, True),
        Figure(
            f"play that loops k8s_info over {INFO_ALL} namespaces ({sample} measured, scaled up) / the read",
            looped / mesh["seconds"],
            " x",
            20,
            True,
        ),
        Figure("the same / the whole task", looped / task, " x"),
    ]


def measure_move() -> list[Figure]:
    """Measure every way to move some namespaces; they end on the new revision."""
    api, names = Counted(str(KUBECONFIG)), SIZE.names[:MOVED]
    sample = names[:KUBECTL_SAMPLE]
    say(f"moving {len(names)} namespaces with this project")
    moved = by_mover(names, NEW)
    wait_ready(api, SIZE)
    say(f"{len(moved.workloads)} workloads in {moved.seconds:.0f} s, {moved.requests} requests; once more")
    second = move(api, stale(api, names))
    say(f"moving them with the fastest restart ({second.writes} writes of the second run)")
    forced = by_force(names, OLD, moved.workloads)
    wait_ready(api, SIZE)
    say(f"{forced:.0f} s; moving {len(sample)} of them with kubectl")
    looped = by_kubectl(sample, NEW)
    say(f"{looped:.0f} s")
    count = len(moved.workloads)
    return [
        Figure(f"moving {len(names)} namespaces / the fastest unbounded restart", moved.seconds / forced, " x", 1.15),
        Figure(
            f"kubectl rollout restart + status per namespace ({len(sample)} measured, scaled up) / moving them",
            looped / len(sample) * len(names) / moved.seconds,
            " x",
            2,
            True,
        ),
        Figure(f"API requests per moved workload, waiting included ({count} moved)", moved.requests / count, "", 6),
        Figure("writes of a second run when nothing is stale", second.writes, "", 0),
    ]


def table(part: str, figures: list[Figure]) -> str:
    """Return the table of one half, with the size it was measured at."""
    head = (
        f"{'Reading' if part == 'read' else 'Moving'}, {SIZE.namespaces} namespaces with {SIZE.pods} simulated pods:\n"
    )
    lines = ["| figure | measured | target |", "|---|---|---|", *(figure.row() for figure in figures)]
    return head + "\n" + "\n".join(lines) + "\n"


def write(part: str, text: str) -> None:
    """Put a table into the docs; each size and half has its own place there."""
    document = DOCUMENT.read_text(encoding="utf-8")
    place = f"{part} {SIZE.namespaces}"
    start, end = f"<!-- measured {place} -->\n", f"<!-- end {place} -->\n"
    if start not in document:
        say(f"{DOCUMENT.name} has no place for {place}: not written")
        return
    before, _start, rest = document.partition(start)
    DOCUMENT.write_text(before + start + text + end + rest.partition(end)[2], encoding="utf-8")


def main() -> None:
    """Make the mesh, measure, print and write the docs; a missed target makes the exit code 1."""
    if not os.environ.get("LAB_NAME"):
        sys.exit("Which cluster is to hold thousands of pods? Next: make bench-scale, or set LAB_NAME.")
    install_new()
    make(connect(), SIZE)
    label(connect(), SIZE.names, OLD)
    left = stale(connect(), SIZE.names)
    if left:
        say(f"{len(left)} workloads of an earlier run are not on {OLD}: moving them")
        by_mover(SIZE.names, OLD)
        wait_ready(connect(), SIZE)
    missed = False
    for part in PARTS:
        figures = {"read": measure_read, "move": measure_move}[part]()
        say("\n" + table(part, figures))
        write(part, table(part, figures))
        missed = missed or any(figure.missed for figure in figures)
    sys.exit(missed)


if __name__ == "__main__":
    main()
