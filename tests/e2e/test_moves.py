"""Every kind of workload on a real cluster: what a move restarts, evicts, leaves alone, and says when it cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mesh_move  # type: ignore[import-not-found] # mypy reads library/ in a run of its own
import mesh_read  # type: ignore[import-not-found] # the same
import pytest
from ansible.module_utils.mesh_api import MeshApi, MeshApiError
from mesh_logic.gates import for_a_person, stale_moves

from tests.e2e.lab import KUBECONFIG, Run, kubectl, lab_reset

pytestmark = [pytest.mark.lab, pytest.mark.more]

OLD, NEW, ZOO = "1-30-5", "1-31-0", "zoo"


def template(app: str, restart: str = "Always") -> dict[str, Any]:
    """Return a pod template that starts at once and ends at once."""
    image = kubectl(
        "get", "deploy", "-n", "canary", "client", "-o", "jsonpath={.spec.template.spec.containers[0].image}"
    )
    container = {"name": "app", "image": image, "imagePullPolicy": "IfNotPresent", "command": ["sleep", "3600"]}
    spec = {"terminationGracePeriodSeconds": 1, "restartPolicy": restart, "containers": [container]}
    small = {"sidecar.istio.io/proxyCPU": "5m", "sidecar.istio.io/proxyMemory": "32Mi"}  # ten sidecars on two cores
    return {"metadata": {"labels": {"app": app}, "annotations": small}, "spec": spec}


def workload(kind: str, name: str, replicas: int | None = 1, **spec: Any) -> dict[str, Any]:
    """Return one workload of the zoo."""
    body: dict[str, Any] = {"template": template(name, "Never" if kind == "Job" else "Always")} | spec
    if kind != "Job":
        body["selector"] = {"matchLabels": {"app": name}}
    if replicas is not None:
        body["replicas"] = replicas
    if kind == "StatefulSet":
        body |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": ZOO}, "spec": body}


def zoo() -> list[dict[str, Any]]:
    """Return one of each kind that behaves differently."""
    bare = {"apiVersion": "v1", "kind": "Pod", **template("bare")}
    bare["metadata"] |= {"name": "bare", "namespace": ZOO}
    labels = {"istio.io/rev": OLD, "lab.istio-upgrade/scratch": "true"}
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ZOO, "labels": labels}},
        workload("Deployment", "guarded"),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "tight", "namespace": ZOO},
            "spec": budget,
        },
        workload("Deployment", "paused"),
        workload(
            "StatefulSet", "parted", 2, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        ),
        workload("StatefulSet", "ondelete", updateStrategy={"type": "OnDelete"}),
        workload("DaemonSet", "agent", None),
        workload("ReplicaSet", "alone", 2),
        workload("Job", "forever", None),
        bare,
    ]


def task(**params: Any) -> Any:
    """Return a task of one of the modules, with its defaults."""
    spec = mesh_move.SPEC if "workloads" in params else mesh_read.SPEC
    defaults = {name: item.get("default") for name, item in spec.items()}
    return SimpleNamespace(params=defaults | params, check_mode=False, tell=lambda _line: None)


def read() -> dict[str, Any]:
    """Read the zoo."""
    facts: dict[str, Any] = mesh_read.run(task(namespaces=[ZOO]), MeshApi(str(KUBECONFIG)))
    return facts


def move(consents: list[dict[str, str]] | None = None, only: str = "", **options: Any) -> dict[str, Any]:
    """Move what is stale in the zoo and may be moved."""
    found = stale_moves(read(), {"consents": consents or []}, [ZOO])
    rows = [row for row in found if only in ("", row["name"])]
    result: dict[str, Any] = mesh_move.run(task(workloads=rows, **options), MeshApi(str(KUBECONFIG)))
    return result


def revisions() -> dict[str, str]:
    """Return what injected each living pod; names of pods without their random ends."""
    pods = json.loads(kubectl("get", "pods", "-n", ZOO, "-o", "json"))["items"]
    living = [p["metadata"] for p in pods if not p["metadata"].get("deletionTimestamp")]
    return {
        p["name"] if p["labels"]["app"] == "parted" else p["labels"]["app"]: p["annotations"]["istio.io/rev"]
        for p in living
    }


def label(revision: str) -> None:
    """Hand the zoo to a revision."""
    kubectl("label", "namespace", ZOO, f"istio.io/rev={revision}", "--overwrite")


def test_each_kind_moves_in_its_own_way_or_is_left_to_a_person(play: Callable[..., Run]) -> None:
    """Cases B13, B17, F09, G01, G04, G08, G15: one zoo, from the old revision to the new one and back."""
    lab_reset()
    run = play("upgrade.yml", mesh_stop_after="install")
    assert run.status == "successful", run.messages() or run.text[-3000:]
    items = zoo()
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items[:1]}))
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items[1:]}))
    kubectl("wait", "pods", "--all", "-n", ZOO, "--for=condition=Ready", "--timeout=110s")
    kubectl("patch", "deployment", "paused", "-n", ZOO, "-p", '{"spec":{"paused":true}}')
    assert set(revisions().values()) == {OLD}

    label(NEW)
    persons = for_a_person(read(), {"consents": []})
    assert [line.split(":")[0].replace(f" {ZOO}/", " ") for line in persons] == [
        "Deployment paused",
        "StatefulSet ondelete",
        "Job forever",
        "pod bare",
    ]
    result = move()
    assert {m["name"] for m in result["moved"]} == {"guarded", "parted", "agent", "alone"}
    assert result["failures"] == []
    assert "its partition 1 keeps 1 pods as they are, such as parted-0" in result["kept"][0]
    new = {"guarded", "parted-1", "agent", "alone"}  # a rollout does not ask the budget that allows nothing
    assert {name for name, revision in revisions().items() if revision == NEW} == new
    assert [m for m in stale_moves(read(), {"consents": []}, [ZOO]) if m["name"] != "parted"] == []

    # with consent, one by one through the eviction API
    names = ("Job zoo/forever", "StatefulSet zoo/ondelete", "Deployment zoo/paused")
    consents = [{"resource": name, "allow": "evict", "reason": "agreed"} for name in names]
    moved = move(consents)["moved"]
    assert {m["name"] for m in moved if m["restarted"]} >= {"forever", "ondelete", "paused"}
    assert {name for name, revision in revisions().items() if revision == OLD} == {"parted-0", "bare"}

    # an eviction that a budget forbids is waited for, and the budget is named
    label(OLD)
    kubectl(
        "patch",
        "pdb",
        "tight",
        "-n",
        ZOO,
        "-p",
        '{"spec":{"minAvailable":2,"selector":{"matchLabels":{"app":"alone"}}}}',
    )
    with pytest.raises(
        MeshApiError, match=r"ReplicaSet zoo/alone.*budgets? that allow nothing now: tight|tight"
    ) as failed:
        move(only="alone", timeout=6)
    assert "disruption budget" in str(failed.value)

    # pods that may not be created are the cause, in the API server's own words
    quota = {"hard": {"requests.cpu": "1m"}}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small", "namespace": ZOO}, "spec": quota}
    kubectl("apply", "-f", "-", stdin=json.dumps(body))
    with pytest.raises(MeshApiError, match=r"Deployment zoo/guarded: FailedCreate: .*quota: small"):
        move(only="guarded", stuck_after=3)
    with pytest.raises(MeshApiError, match=r"StatefulSet zoo/parted: FailedCreate: .*quota: small"):
        move(only="parted", stuck_after=3)
    kubectl("delete", "namespace", ZOO, "--wait=false")
