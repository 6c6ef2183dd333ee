"""What goes wrong on a real cluster, and the state it is left in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lab import Run, kubectl, lab_reset

pytestmark = pytest.mark.lab

PROBE: dict[str, Any] = {"name": "web", "from": {"namespace": "canary", "workload": "client", "container": "client"}}


def revision_of(namespace: str, app: str) -> set[str]:
    """Return the revisions that injected the pods of a workload that are not being terminated."""
    template = "{range .items[*]}{.metadata.deletionTimestamp}|{.metadata.annotations.istio\\.io/rev}{'\\n'}{end}"
    lines = kubectl("get", "pods", "-n", namespace, "-l", f"app={app}", "-o", f"jsonpath={template}").splitlines()
    return {line.split("|")[1] for line in lines if line.startswith("|")}


def label_of(namespace: str) -> str:
    """Return a namespace's revision label."""
    return kubectl("get", "ns", namespace, "-o", "jsonpath={.metadata.labels.istio\\.io/rev}")


def tag_targets() -> dict[str, str]:
    """Return where each tag's webhook points."""
    template = "{range .items[*]}{.metadata.labels.istio\\.io/tag}={.metadata.labels.istio\\.io/rev}{'\\n'}{end}"
    text = kubectl("get", "mutatingwebhookconfigurations", "-l", "istio.io/tag", "-o", f"jsonpath={template}")
    return dict(line.split("=", 1) for line in text.splitlines())


# One lab, one walk down the chain in two tests: every step fails once where it can, and the next run goes on.
BAD_PROBES = [PROBE | {"url": "http://web.shop/", "expect": 204}]


def test_a_failing_install_or_canary_ends_in_its_safe_state(play: Callable[..., Run], tmp_path: Path) -> None:
    """Nothing of it is left on the workloads, and the reason is in the evidence."""
    lab_reset()
    evidence = tmp_path / "evidence"

    # a step whose ground is missing refuses; an install that does not get ready in time is recorded and tried again
    run = play("canary.yml")
    assert run.status == "failed"
    assert "the new revision is not installed and proven" in run.messages()
    run = play("install.yml", revision_install_timeout=1)
    assert run.status == "failed"
    assert "did not end well" in run.messages()
    assert "state=failed" in (evidence / "03-install.txt").read_text(encoding="utf-8")
    assert revision_of("shop", "web") == {"1-30-5"}

    # case G12, J02: the canary's request fails -> labels exactly as they were, old proxy back, the run is red
    run = play("upgrade.yml", mesh_probes=BAD_PROBES)
    assert (run.status, run.count("failures")) == ("failed", 1)
    assert "canary failed and was reverted" in run.messages()
    assert "status 200" in run.messages(), "the reason quotes what came back"
    assert label_of("canary") == "prod-stable"
    assert revision_of("canary", "client") == {"1-30-5"}
    assert set(tag_targets().values()) == {"1-30-5"}, "no tag moved"
    assert "state=reverted" in (evidence / "04-mixed.txt").read_text(encoding="utf-8")


def test_a_failing_tag_move_drill_or_uninstall_ends_in_its_safe_state(play: Callable[..., Run], tmp_path: Path) -> None:
    """Goes on where the test above stopped: from a reverted canary."""
    evidence = tmp_path / "evidence"

    # the tags' request fails -> tags of this run go back, healthy moved workloads stay and are named
    assert play("upgrade.yml", mesh_stop_after="canary").status == "successful"
    run = play("upgrade.yml", mesh_probes=BAD_PROBES)
    assert run.status == "failed"
    assert "tags were put back" in run.messages()
    assert set(tag_targets().values()) == {"1-30-5"}
    assert "state=reverted" in (evidence / "05-tags.txt").read_text(encoding="utf-8")

    # the drill's request fails on the way back -> the tag is on the side last proven, the old revision stays
    assert play("upgrade.yml", mesh_stop_after="move_tags").status == "successful"
    run = play("upgrade.yml", mesh_probes=BAD_PROBES)
    assert run.status == "failed"
    assert "rollback drill failed" in run.messages()
    assert tag_targets()["prod-stable"] == "1-31-0"
    assert revision_of("shop", "web") == {"1-31-0"}, "the drilled workload is on the proven side too"
    assert kubectl("get", "deploy", "-n", "istio-system", "istiod-1-30-5", "-o", "name")

    # case I01: without a drill pass, and with a namespace pinned to the old revision, nothing is removed
    kubectl("create", "namespace", "pinned")
    kubectl("label", "namespace", "pinned", "istio.io/rev=1-30-5", "lab.istio-upgrade/scratch=true")
    run = play("uninstall.yml")
    assert run.status == "failed"
    assert "no rollback drill has passed" in run.messages()
    assert "namespace pinned" in run.messages()
    assert kubectl("get", "deploy", "-n", "istio-system", "istiod-1-30-5", "-o", "name")
    kubectl("delete", "namespace", "pinned", "--wait=false")

    # too early is a clean stop, not a failure
    assert play("rollback_drill.yml").status == "successful"
    run = play("uninstall.yml", mesh_soak_before_uninstall=3600)
    assert (run.status, run.count("changed")) == ("successful", 0)
    assert "Too early" in run.text

    # the last proof fails: red, and pressing the button again proves it instead of calling it finished
    run = play("uninstall.yml", mesh_probes=BAD_PROBES)
    assert run.status == "failed"
    assert "The old revision is gone but" in run.messages()
    assert "state=failed" in (evidence / "07-uninstall.txt").read_text(encoding="utf-8")
    run = play("upgrade.yml")
    assert run.status == "successful", run.text[-3000:]
    assert "code=200" in (evidence / "07-uninstall.txt").read_text(encoding="utf-8")
    assert not kubectl("get", "deploy", "-n", "istio-system", "-l", "istio.io/rev=1-30-5", "-o", "name")


def test_an_old_install_without_a_revision(play: Callable[..., Run], tmp_path: Path) -> None:
    """istio-injection=enabled and no revision: moved by the default tag, drilled, and removed."""
    lab_reset("unrevisioned")
    variables = {
        "mesh_from_revision": "default",
        "mesh_tags": ["default"],
        "mesh_drill": {"tags": ["default"], "workloads": ["shop/web"]},
    }
    run = play("upgrade.yml", **variables)
    assert run.status == "successful", run.messages() or run.text[-3000:]
    drill = (tmp_path / "evidence" / "06-rollback.txt").read_text(encoding="utf-8")
    assert drill == "after_rollback=1.30.5\nafter_forward=1.31.0\n"
    assert kubectl("get", "ns", "canary", "-o", "jsonpath={.metadata.labels.istio-injection}") == "enabled"
    assert revision_of("shop", "web") == {"1-31-0"}
    assert play("upgrade.yml", **variables).count("changed") == 0
