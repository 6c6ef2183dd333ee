"""An istiod whose process does not run has no connections; one that runs and cannot be asked is an error."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from ansible.module_utils.mesh_api import MeshApiError

mesh_read = importlib.import_module("mesh_read")


def istiod(name: str, state: dict[str, Any] | None) -> dict[str, Any]:
    statuses = [] if state is None else [{"name": "discovery", "state": state}]
    return {"metadata": {"name": name}, "status": {"phase": "Running", "containerStatuses": statuses}}


class FakeApi:
    """Lists pods; every exec fails as it does without a running process."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.pods = pods

    def list(self, _path: str, _selector: str) -> Any:
        return self.pods

    def exec(self, *_args: Any) -> tuple[int, str, str]:
        return 1, "", "container not found"


@pytest.mark.parametrize("state", [{"waiting": {"reason": "CrashLoopBackOff"}}, {"terminated": {"exitCode": 1}}])
def test_a_crash_loop_is_not_asked(state: dict[str, Any]) -> None:
    assert mesh_read.read_xds(FakeApi(istiod("istiod-1", state)), "istio-system", "1-31-0") == {"xds": {}}


@pytest.mark.parametrize("state", [{"running": {}}, {}, None])
def test_what_runs_or_says_nothing_is_asked(state: dict[str, Any] | None) -> None:
    with pytest.raises(MeshApiError, match="did not say which proxies are connected"):
        mesh_read.read_xds(FakeApi(istiod("istiod-1", state)), "istio-system", "1-31-0")
