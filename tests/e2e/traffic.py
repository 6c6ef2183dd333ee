"""Requests that never stop while something happens to the mesh, and an honest count of them."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tests.e2e.lab import CACHE, KUBECONFIG

# One request after the other, each on a connection of its own, five a second; the time comes from the pod.
LOOP = (
    'while :; do printf "%s %s\\n" "$(date +%s)" '
    "\"$(curl -s -o /dev/null -m 5 -w '%{{http_code}}' {url} || :)\"; sleep 0.2; done"
)
# Seconds before the end of a stream in which a failed request is the end of the sender, not of the mesh.
ENDING = 3


@dataclass
class Traffic:
    """Sends requests from a workload to a URL until it is left; follows the sender's pods across restarts.

    ok, lost: answers 200, and everything else. interrupted: requests that failed while their own sender was ending
    (its pod was restarted): neither ok nor lost.
    """

    namespace: str = "canary"
    workload: str = "client"
    container: str = "client"
    url: str = "http://web.shop/"
    ok: int = 0
    lost: list[str] = field(default_factory=list)
    interrupted: int = 0
    streams: int = 0

    def __post_init__(self) -> None:
        """Prepare what runs beside."""
        self.ended = threading.Event()
        self.process: subprocess.Popen[str] | None = None
        self.thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        """Start, and return when the first request was answered."""
        self.thread.start()
        deadline = time.monotonic() + 30
        while not self.ok:
            assert time.monotonic() < deadline, f"no request was answered: {self.lost[-3:]}"
            time.sleep(0.2)
        return self

    def __exit__(self, _kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        """Stop; the loop in the pod ends with its stream."""
        self.ended.set()
        if self.process:
            self.process.terminate()
        self.thread.join(20)

    def _follow(self) -> None:
        while not self.ended.is_set():
            self._stream()
            time.sleep(0.5)

    def _stream(self) -> None:
        """Send from one pod until it ends."""
        command = [str(CACHE / "current" / "kubectl"), f"--kubeconfig={KUBECONFIG}", "exec", "-n", self.namespace]
        command += [f"deploy/{self.workload}", "-c", self.container, "--", "sh", "-c", LOOP.format(url=self.url)]
        self.streams += 1
        failed: list[tuple[float, str]] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as self.process:
            assert self.process.stdout
            for line in self.process.stdout:
                at, _, code = line.strip().partition(" ")
                if code == "200":
                    self.ok += 1
                else:
                    failed.append((time.monotonic(), f"{at}: {code or 'no answer'}"))
        end = time.monotonic()
        self.interrupted += sum(end - at <= ENDING for at, _words in failed)
        self.lost += [words for at, words in failed if end - at > ENDING]

    def words(self) -> str:
        """Return the count as one line."""
        codes = Counter(line.split(": ")[1] for line in self.lost)
        return f"ok={self.ok} lost={len(self.lost)} {dict(codes)} interrupted={self.interrupted} streams={self.streams}"
