"""How a run is shown: plain lines, one JSON object a line, or a live screen on a terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from front.story import Story, Update

COLORS = {
    **{"running": "cyan", "done": "green", "planned": "blue", "checked": "green", "nothing to do": "green"},
    **{"stopped": "yellow", "rolled back": "yellow", "failed": "red", "bad input": "red"},
}


class Show(Protocol):
    """Takes what happened; used as a context, which ends with the run."""

    def __enter__(self) -> Show:
        """Begin to show."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End to show."""

    def tell(self, update: Update) -> None:
        """Show one update."""


def took(seconds: float) -> str:
    """Return a duration as people write it: 7 s, 1 min 05 s."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


def count(number: int, word: str) -> str:
    """Return a number with its noun: 1 action, 2 actions."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def words(update: Update) -> list[str]:
    """Return an update as plain lines; [] where it is of no interest line by line."""
    tell = WORDS.get(update["event"])
    return tell(update) if tell else []


def _start_words(update: Update) -> list[str]:
    check = ", a check run" if update["check"] else ""
    return [f"Upgrade of {update['environment']}{check}; artifacts: {update['artifacts']}"]


def _probe_words(update: Update) -> list[str]:
    return [f"  probes: {update['ok']} of {update['sent']} as expected"] if update["sent"] else []


def _failed_words(update: Update) -> list[str]:
    return [f"  {'stopped by the gate' if update['gate'] else 'failed'}: {update['task']}"]


def _stop_words(_update: Update) -> list[str]:
    return ["Stop asked: the run goes on to its next safe point. Once more kills it at once."]


def _indented(update: Update) -> list[str]:
    return [f"  {line}" for line in update["lines"]]


def _step_words(update: Update) -> list[str]:
    if update["state"] == "running":
        return [f"{update['step']}: running"]
    more = [f"in {took(update['seconds'])}"]
    more += [count(update["actions"], "action")] if update["actions"] else []
    more += [f"{count(update['gates'], 'gate')} asked"] if update["gates"] else []
    return [f"{update['step']}: {update['state']}, {', '.join(more)}"]


def _wave_words(update: Update) -> list[str]:
    name = f"wave {update['wave']}: " if update["wave"] else ""
    waits = f"; waits for {update['waits_for']}" if update["waits_for"] else ""
    numbers = (
        f"{update['moved']} of {update['total']} workloads moved, {update['proxies']} of {update['proxies_total']}"
    )
    return [f"  {name}{numbers} proxies{waits}"]


WORDS: dict[str, Callable[[Update], list[str]]] = {
    "start": _start_words,
    "step": _step_words,
    "planned": _indented,
    "note": _indented,
    "wave": _wave_words,
    "probes": _probe_words,
    "failed": _failed_words,
    "stop_requested": _stop_words,
    "status": lambda update: list(update["lines"]),
    "end": lambda update: ["", *update["lines"]] if update["lines"] else [],
}


class Lines:
    """Writes each update at once, as words or as JSON."""

    def __init__(self, stream: TextIO, as_json: bool = False, clock: Callable[[], float] = time.time) -> None:
        """Write to a stream."""
        self.stream, self.as_json, self.clock = stream, as_json, clock

    def __enter__(self) -> Lines:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Nothing is left open."""

    def tell(self, update: Update) -> None:
        """Write one update."""
        if self.as_json:
            # `lines` of the end are for people; a program reads the fields
            shown = {k: v for k, v in update.items() if not (update["event"] == "end" and k == "lines")}
            print(json.dumps({"time": round(self.clock(), 3), **shown}), file=self.stream, flush=True)
            return
        for line in words(update):
            print(line, file=self.stream, flush=True)


class Screen:
    """A live screen: the steps, the bar of the wave that moves, the gate that is asked, the last probes."""

    def __init__(self, story: Story, console: Console) -> None:
        """Draw a story on a console."""
        self.story, self.console = story, console
        self.live = Live(console=console, get_renderable=self.draw, refresh_per_second=4, transient=False)
        self.stopping = False

    def __enter__(self) -> Screen:
        """Begin to draw."""
        self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave the last picture on the screen."""
        self.live.stop()

    def tell(self, update: Update) -> None:
        """Print what should stay; the picture shows the rest by itself."""
        if update["event"] == "end":
            self.live.stop()
        self.stopping = self.stopping or update["event"] == "stop_requested"
        if update["event"] in ("start", "note", "planned", "failed", "stop_requested", "status", "end"):
            for line in words(update):
                self.console.print(escape(line), highlight=False, soft_wrap=True)

    def draw(self) -> RenderableType:
        """Return the picture of now."""
        now = time.time()
        table = Table(box=None, pad_edge=False, show_header=False)
        for step in self.story.steps.values():
            color = next((c for word, c in COLORS.items() if word in step.state), "dim")
            seconds = took(step.seconds(now)) if step.started else ""
            table.add_row(step.name, f"[{color}]{escape(step.state)}[/]", seconds)
        parts: list[RenderableType] = [table]
        story = self.story
        if story.wave:
            parts.append(self._bar(story.wave))
        if story.probes:
            parts.append(escape(words(story.probes)[0].strip()) if story.probes["sent"] else "")
        if story.current:
            parts.append(f"[dim]gate: {escape(story.gate or 'none yet')}[/]")
            parts.append(f"[dim]now:  {escape(story.task)}[/]")
        if self.stopping and story.current:
            parts.append("[yellow]stopping at the next safe point[/]")
        return Group(*parts)

    def _bar(self, wave: Update) -> RenderableType:
        grid = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=max(1, wave["proxies_total"]), completed=wave["proxies"], width=40)
        name = f"wave {wave['wave']}" if wave["wave"] else "proxies"
        grid.add_row(escape(name), bar, f"{wave['proxies']} / {wave['proxies_total']}", escape(wave["waits_for"]))
        return grid


def chosen(story: Story, stream: TextIO, as_json: bool) -> Show:
    """Return the live screen on a terminal, else lines."""
    console: Any = Console(file=stream)
    if as_json or not console.is_terminal or console.is_dumb_terminal:
        return Lines(stream, as_json)
    return Screen(story, console)
