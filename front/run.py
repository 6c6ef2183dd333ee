"""Runs a playbook of this project through ansible-runner, keeps its artifacts, stops it at a safe point when asked."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import ansible_runner
import yaml

from front.show import Show, chosen, count
from front.story import DONE, ERROR, STOPPED, WORDS, Story, outcome

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Request:
    """What was asked on the command line; `inventory` is the path that Ansible gets."""

    environment: str
    inventory: Path
    to: str = ""
    stop_after: str = ""
    check: bool = False
    status: bool = False
    as_json: bool = False

    @property
    def playbook(self) -> str:
        """The playbook's path in the project."""
        return "playbooks/status.yml" if self.status else "playbooks/upgrade.yml"

    def command(self) -> str:
        """Return the command that asks the same again."""
        words = ["./upgrade", self.environment]
        words += ["--to", self.to] if self.to else []
        words += ["--stop-after", self.stop_after] if self.stop_after else []
        return shlex.join(words)


def steps_by_play() -> dict[str, str]:
    """Return the name of each step's play -> the step, in order; both exist once, in the playbooks and in steps.py."""
    sys.path.insert(0, str(ROOT / "filter_plugins"))
    from mesh_logic.steps import STEPS  # noqa: PLC0415 - the package lies beside the filters, not on any path

    found = {}
    for step, (_role, playbook, _file) in STEPS.items():
        plays = yaml.safe_load((ROOT / "playbooks" / playbook).read_text(encoding="utf-8"))
        found.update({str(play["name"]): step for play in plays})
    return found


def new_folder(environment: str, runs: Path) -> Path:
    """Make and return the folder of this run, readable for its owner only."""
    stamp = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime())
    for number in range(100):
        folder = runs / environment / (stamp if not number else f"{stamp}-{number}")
        try:
            folder.mkdir(parents=True, mode=0o700)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"{runs / environment}/{stamp}: a hundred runs began in this second")


class Stopper:
    """Ctrl-C: the first writes the file that the roles look for, the second ends the run as it stands."""

    def __init__(self, file: Path, told: Callable[[], None]) -> None:
        """Write to a file that is not there yet."""
        self.file, self.told, self.asked, self.kill = file, told, False, False

    def take(self, _number: int, _frame: FrameType | None) -> None:
        """Take one signal."""
        self.kill, self.asked = self.asked, True
        if not self.kill:
            self.file.write_text("A person asked this run to stop.\n", encoding="utf-8")
            self.told()

    def listen(self) -> None:
        """Take SIGINT, and SIGTERM too, from now on."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.take)


def without_environment(folder: Path) -> None:
    """Take the environment out of ansible-runner's file `command`: it may hold secrets of the operator's shell."""
    for file in folder.glob("artifacts/*/command"):
        kept = json.loads(file.read_text(encoding="utf-8"))
        kept.pop("env", None)
        file.write_text(json.dumps(kept), encoding="utf-8")


def run(request: Request, stream: TextIO, runs: Path = ROOT / ".runs") -> int:
    """Run what was asked, show it on a stream, and return the exit code."""
    folder = new_folder(request.environment, runs)
    story = Story(steps_by_play(), request.check)
    show = chosen(story, stream, request.as_json)
    stopper = Stopper(folder / "stop", lambda: show.tell({"event": "stop_requested"}))
    stopper.listen()
    with show:
        if not request.status or request.as_json:
            start = {"environment": request.environment, "check": request.check, "artifacts": str(folder)}
            show.tell({"event": "start", "playbook": request.playbook, **start})
        ended = play(request, folder, story, show, stopper)
        code, why = outcome(story, ended.status)
        end = {"event": "end", "exit_code": code, "result": WORDS[code], "resume": request.command()}
        end |= {"reasons": {host: failure.message for host, failure in why.items()}, "artifacts": str(folder)}
        show.tell({**end, "lines": last_words(request, story, ended, stopper)})
    (folder / "result.json").write_text(json.dumps(end, indent=2) + "\n", encoding="utf-8")
    return code


def play(request: Request, folder: Path, story: Story, show: Show, stopper: Stopper) -> Any:
    """Run the playbook; every event goes through the story to the screen."""

    def on_event(event: dict[str, Any]) -> bool:
        for update in story.take(event):
            show.tell(update)
        return True

    def on_status(status: dict[str, Any], **_more: Any) -> None:
        if status.get("status") == "running":
            without_environment(folder)

    variables = {"mesh_stop_file": str(stopper.file)}
    variables |= {"mesh_to_version": request.to} if request.to else {}
    variables |= {"mesh_stop_after": request.stop_after} if request.stop_after else {}
    return ansible_runner.run(
        private_data_dir=str(folder),
        project_dir=str(ROOT),
        playbook=request.playbook,
        inventory=str(request.inventory),
        extravars=variables,
        cmdline="--check --diff" if request.check else None,
        envvars={
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        },
        settings={"pexpect_timeout": 1},
        event_handler=on_event,
        status_handler=on_status,
        cancel_callback=lambda: stopper.kill,
        quiet=True,
    )


def last_words(request: Request, story: Story, ended: Any, stopper: Stopper) -> list[str]:
    """Return what an operator reads last: the result, why, and the next command."""
    code, why = outcome(story, ended.status)
    if code == DONE:
        late = ["The run had ended before the stop was read."] if stopper.asked else []
        return [*done_words(request, story), *late]
    if stopper.kill:
        killed = "Killed. What the cluster holds stands, and the Lease comes free within seconds."
        return [f"{killed} Next: {request.command()}"]
    lines = [f"{host}: {WORDS[code]}. {failure.message}" for host, failure in sorted(why.items())]
    if not lines:
        lines = [f"{WORDS[ERROR]}: ansible-playbook ended with {ended.rc} and said:", *tail(ended)]
    if code == STOPPED and any(failure.stopped for failure in why.values()):
        lines.append(f"Next: {request.command()}")
    return lines


def done_words(request: Request, story: Story) -> list[str]:
    """Return what a run that ended well says."""
    if request.status:
        return []
    if request.check:
        return ["Check run: nothing was changed."]
    return [f"Done: {count(story.counts.get('changed', 0), 'task')} changed something."]


def tail(ended: Any, number: int = 15) -> list[str]:
    """Return the last lines of what ansible-playbook printed."""
    with ended.stdout as stream:
        return [line.rstrip() for line in stream.readlines()[-number:]]
