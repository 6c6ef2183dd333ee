"""Events of ansible-runner -> what an operator wants to see: steps, waves, gates, notes. Pure: no I/O, no clock.

The facts come from the playbooks: a play is a step, the plan is the fact `mesh_plan`, a gate is a task called "Stop
where ...", progress is a line that `mesh_move` tells while it works.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Event = dict[str, Any]
Update = dict[str, Any]

# How the roles name what ends a run; tests/unit/test_front.py keeps them to it.
GATE = "Stop "
BAD_INPUT = "Stop on bad input"
END = "End the run as failed"
SAYS = ("Say ", "Warn ")
PLAN_SHOWN = "Show the plan of the step"
STATUS_SHOWN = "Show where the upgrade stands"
OTHER_RUN = "Another run works on this mesh"

# The words of a plan's state where nothing ran.
IDLE = {"after_stop": "not asked for", "done": "nothing to do"}
ITEMS_FAILED = "One or more items failed"
_PROGRESS = re.compile(
    r"^\s+(?:(?P<wave>[^:;]+): )?(?P<moved>\d+) of (?P<total>\d+) moved, (?P<new>\d+) of (?P<all>\d+) proxies"
    r"(?:; (?P<waits>.*))?$"
)


@dataclass
class Failure:
    """One failed task on one host; `file` is the name of its tasks file."""

    task: str
    file: str
    message: str
    stopped: bool = False

    @property
    def gate(self) -> bool:
        """Whether a gate said no, as opposed to something that broke."""
        return self.task.startswith(GATE) or self.stopped or self.message.startswith(OTHER_RUN)


@dataclass
class Step:
    """One step as it stands; times are seconds since the epoch, 0 where it has not come so far."""

    name: str
    started: float = 0.0
    ended: float = 0.0
    # host -> waiting, running, done, planned, checked, nothing to do, not asked for, stopped, rolled back, failed
    states: dict[str, str] = field(default_factory=dict)
    actions: dict[str, int] = field(default_factory=dict)
    gates: int = 0

    @property
    def state(self) -> str:
        """One word for all hosts."""
        if not self.states:
            return "running" if self.started and not self.ended else "waiting"
        words = sorted(set(self.states.values()))
        return words[0] if len(words) == 1 else ", ".join(f"{h}: {s}" for h, s in sorted(self.states.items()))

    def seconds(self, now: float) -> float:
        """Return how long it has run."""
        return (self.ended or now) - self.started if self.started else 0.0


def seconds_of(event: Event) -> float:
    """Return when an event was made, in seconds since the epoch; 0 where it does not say."""
    try:
        return datetime.fromisoformat(str(event.get("created"))).timestamp()
    except ValueError:
        return 0.0


def done_word(check: bool, actions: int) -> str:
    """Return the word for a step that ended well: a check run plans or looks, it does nothing."""
    if not check:
        return "done"
    return "planned" if actions else "checked"


class Story:
    """Takes events one by one and keeps where the run is.

    Args:
        plays: name of a play -> its step, in the order of the steps.
        check: whether this is a check run.
    """

    def __init__(self, plays: dict[str, str], check: bool = False) -> None:
        """Start with every step waiting."""
        self.plays, self.check = plays, check
        self.steps = {name: Step(name) for name in plays.values()}
        self.current: Step | None = None
        self.task = ""
        self.gate = ""
        self.wave: Update = {}
        self.probes: Update = {}
        self.failures: dict[str, list[Failure]] = {}
        self.item_message = ""
        self.counts: dict[str, int] = {}

    def take(self, event: Event) -> list[Update]:
        """Take one event; returns what is worth telling, each {event, ...} of plain values."""
        told = {
            "playbook_on_play_start": self._play,
            "playbook_on_task_start": self._task,
            "runner_on_ok": self._ok,
            "runner_item_on_failed": self._item_failed,
            "runner_on_failed": self._failed,
            "runner_on_unreachable": self._failed,
            "playbook_on_stats": self._stats,
            "verbose": self._line,
        }.get(str(event.get("event")))
        return told(event, event.get("event_data") or {}) if told else []

    def _play(self, event: Event, data: Event) -> list[Update]:
        updates = self._close(seconds_of(event))
        step = self.steps.get(self.plays.get(str(data.get("name") or data.get("play")), ""))
        self.current = step
        if step is None:
            return updates
        step.started = seconds_of(event)
        return [*updates, {"event": "step", "step": step.name, "state": "running"}]

    def _close(self, now: float) -> list[Update]:
        """End the current step; a host whose run did not fail has done it."""
        step, self.current, self.wave, self.gate = self.current, None, {}, ""
        if step is None:
            return []
        step.ended = now
        for host, state in step.states.items():
            if state == "running":
                step.states[host] = done_word(self.check, step.actions.get(host, 0))
        update = {"event": "step", "step": step.name, "state": step.state, "seconds": round(step.seconds(now), 1)}
        return [update | {"gates": step.gates, "actions": sum(step.actions.values())}]

    def _task(self, event: Event, data: Event) -> list[Update]:
        self.task, self.item_message = str(data.get("task") or data.get("name") or ""), ""
        if not self.task.startswith(GATE):
            return []
        self.gate = self.task
        if self.current:
            self.current.gates += 1
        return [{"event": "gate", "step": self._step_name(), "gate": self.gate}]

    def _step_name(self) -> str:
        return self.current.name if self.current else ""

    def _ok(self, event: Event, data: Event) -> list[Update]:
        task, host, result = str(data.get("task")), str(data.get("host")), data.get("res") or {}
        action = str(data.get("task_action"))
        where = {"step": self._step_name(), "host": host}
        plan = (result.get("ansible_facts") or {}).get("mesh_plan")
        if plan:
            return self._planned(where, plan)
        if action == "ansible.builtin.debug" and (task.startswith((*SAYS, PLAN_SHOWN)) or task == STATUS_SHOWN):
            return self._said(where, task, result.get("msg"))
        if action == "mesh_probe":
            rows = result.get("results") or []
            self.probes = {"event": "probes", **where, "sent": len(rows), "ok": sum(1 for r in rows if r.get("ok"))}
            return [self.probes]
        return []

    def _planned(self, where: Update, plan: Event) -> list[Update]:
        if not self.current:
            return []
        state, count = str(plan.get("state")), len(plan.get("actions") or [])
        self.current.states[where["host"]] = IDLE.get(state, "running")
        self.current.actions[where["host"]] = count
        return [{"event": "plan", **where, "state": state, "actions": count}]

    def _said(self, where: Update, task: str, message: Any) -> list[Update]:
        lines = [str(line) for line in message] if isinstance(message, list) else str(message or "").splitlines()
        if task == STATUS_SHOWN:
            return [{"event": "status", "host": where["host"], "lines": lines}]
        if task.startswith(PLAN_SHOWN):
            # in a run that acts the plan is what happens next, and is told as that
            return [{"event": "planned", **where, "lines": lines}] if self.check else []
        lines = [line for line in lines if line and line != "nothing"]
        return [{"event": "note", **where, "lines": lines}] if lines else []

    def _item_failed(self, event: Event, data: Event) -> list[Update]:
        self.item_message = str((data.get("res") or {}).get("msg") or "")
        return []

    def _failed(self, event: Event, data: Event) -> list[Update]:
        if data.get("ignore_errors"):
            return []
        host, result = str(data.get("host")), data.get("res") or {}
        said = [str(result.get(key) or "").strip() for key in ("msg", "stderr", "stdout")]
        message = ": ".join(part for part in said if part) or "no reason was given"
        if message.startswith(ITEMS_FAILED) and self.item_message:
            message = self.item_message
        file = str(data.get("task_path") or "").rpartition(":")[0].rpartition("/")[2]
        stopped = bool(result.get("stopped")) or message.startswith("Stopped as asked")
        failure = Failure(str(data.get("task")), file, message, stopped)
        failures = self.failures.setdefault(host, [])
        failures.append(failure)
        if self.current:
            self.current.states[host] = WORDS[classify(failures)[0]]
        words = {"task": failure.task, "gate": failure.gate, "message": failure.message}
        return [{"event": "failed", "step": self._step_name(), "host": host, **words}]

    def _stats(self, event: Event, data: Event) -> list[Update]:
        for name in ("ok", "changed", "failures", "dark"):
            self.counts[name] = sum((data.get(name) or {}).values())
        return self._close(seconds_of(event))

    def _line(self, event: Event, data: Event) -> list[Update]:
        updates = []
        for line in str(event.get("stdout") or "").splitlines():
            found = _PROGRESS.match(re.sub(r"\x1b\[[0-9;]*m", "", line))
            if found:
                numbers = {name: int(found[name]) for name in ("moved", "total")}
                proxies = {"proxies": int(found["new"]), "proxies_total": int(found["all"])}
                self.wave = {
                    "event": "wave",
                    "step": self._step_name(),
                    "wave": found["wave"] or "",
                    **numbers,
                    **proxies,
                }
                self.wave["waits_for"] = found["waits"] or ""
                updates.append(self.wave)
        return updates


# Exit codes of `./upgrade`; the words are those of a step's state.
DONE, ERROR, STOPPED, ROLLED_BACK, BAD = 0, 1, 2, 3, 4
WORDS = {DONE: "done", ERROR: "failed", STOPPED: "stopped", ROLLED_BACK: "rolled back", BAD: "bad input"}
# Of several hosts the worst counts.
WORST = (ERROR, ROLLED_BACK, BAD, STOPPED)


def classify(failures: list[Failure]) -> tuple[int, Failure]:
    """Return (exit code, the failure that tells why) of one host's failures, oldest first; there is at least one."""
    last = failures[-1]
    cause = failures[-2] if last.task == END and len(failures) > 1 else last
    if last.task == END and last.file == "revert.yml":
        return ROLLED_BACK, last
    if cause.task.startswith(BAD_INPUT):
        return BAD, last
    return (STOPPED if cause.gate else ERROR), last


def outcome(story: Story, status: str) -> tuple[int, dict[str, Failure]]:
    """Return (exit code, host -> why it stopped) of a run that has ended; status is ansible-runner's."""
    if status == "successful":
        return DONE, {}
    found = {host: classify(failures) for host, failures in story.failures.items() if failures}
    codes = {code for code, _failure in found.values()}
    code = next((code for code in WORST if code in codes), ERROR)
    return (ERROR if status in ("canceled", "timeout") else code), {host: why for host, (_c, why) in found.items()}
