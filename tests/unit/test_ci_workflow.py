"""The workflow for contributors only calls make; what it calls is there, and nothing in it can hang for ever."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.unit.test_docs import targets

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
JOBS: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["jobs"]


def calls(job: dict[str, Any]) -> list[str]:
    """Return what a job runs, once for each value of its matrix."""
    matrix = job["strategy"]["matrix"]
    lines = [step["run"] for step in job["steps"] if "run" in step]
    found = []
    for line in lines:
        named = re.search(r"\$\{\{ matrix\.(\w+) \}\}", line)
        found += [line.replace(named[0], str(value)) for value in matrix[named[1]]] if named else [line]
    return found


def test_it_only_calls_make_targets_that_are_there() -> None:
    found = [line for job in JOBS.values() for line in calls(job)]
    assert sorted(found) == ["make e2e", "make lint", "make molecule", "make unit"]
    assert {line.split()[1] for line in found} <= targets()


def test_the_lab_is_pulled_and_every_job_ends() -> None:
    assert JOBS["lab"]["env"] == {"LAB_IMAGES": "pull"}
    assert all(0 < job["timeout-minutes"] <= 90 for job in JOBS.values())


def test_it_may_only_read_and_says_that_it_was_not_run() -> None:
    assert yaml.safe_load(TEXT)["permissions"] == {"contents": "read"}
    assert "was not run where it was written" in TEXT
