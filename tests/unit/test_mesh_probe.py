"""A probe: which pod it is sent from, and what counts as an answer."""

from __future__ import annotations

from typing import Any

import mesh_probe  # type: ignore[import-not-found] # mypy reads library/ in a run of its own
import pytest

from tests.unit.test_mesh_rows import pod

PROBE = {"name": "web", "url": "http://web.shop/", "expect": 200, "from": {"namespace": "shop", "workload": "web"}}


class Api:
    """Gives the pods of one workload and one answer to every command."""

    def __init__(self, pods: list[dict[str, Any]], answer: tuple[int, str, str] = (0, "200", "")) -> None:
        self.pods, self.answer = pods, answer

    def list(self, path: str, metadata_only: bool = False) -> list[dict[str, Any]]:
        sets = [{"metadata": {"name": "web-67ff", "ownerReferences": [{"kind": "Deployment", "name": "web"}]}}]
        return sets if path.endswith("replicasets") else self.pods

    def exec(self, *_args: Any, timeout: int) -> tuple[int, str, str]:
        assert timeout > 0
        return self.answer


def client(name: str, created: str, ready: bool = True, **metadata: Any) -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    return pod(metadata={"name": name, "creationTimestamp": created, **metadata}, status=status)


def test_the_newest_ready_pod_that_stays_is_asked() -> None:  # cases G16, B13
    pods = [
        client("ending", "2026-01-04", deletionTimestamp="now"),
        client("starting", "2026-01-03", ready=False),
        client("new", "2026-01-02"),
        client("old", "2026-01-01"),
    ]
    api: Any = Api(pods)
    assert mesh_probe.send(api, PROBE)["pod"] == "new"
    nobody: Any = Api(pods[:2])
    assert mesh_probe.send(nobody, PROBE)["error"] == "no ready pod of shop/web to send from"


@pytest.mark.parametrize(
    ("answer", "ok", "code"),
    [
        pytest.param((0, "200", ""), True, "200", id="an-answer"),
        pytest.param((7, "000", "connection refused"), False, "000", id="G13-no-answer"),
        pytest.param((0, "000", ""), False, "000", id="G13-exit-code-0-proves-nothing"),
        pytest.param((28, "200", "timed out"), False, "200", id="G13-status-alone-proves-nothing"),
        pytest.param((0, "503", ""), False, "503", id="G12-mixed-versions"),
        pytest.param((0, "", ""), False, "000", id="nothing"),
    ],
)
def test_exit_code_and_status_both_count(answer: tuple[int, str, str], ok: bool, code: str) -> None:
    api: Any = Api([client("new", "2026-01-02")], answer)
    result = mesh_probe.send(api, PROBE)
    assert (result["ok"], result["code"]) == (ok, code)
    assert bool(result["error"]) is not ok
