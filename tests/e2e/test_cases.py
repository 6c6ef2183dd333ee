"""Cases that take a cluster: an install that gets stuck, injectors made by hand, namespaces that follow a tag."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from mesh_logic.istioctl_output import overlapping_webhooks

from tests.e2e.lab import CACHE, KUBECONFIG, ROOT, Run, kubectl, lab_reset
from tests.e2e.test_failures import revision_of, tag_targets

pytestmark = pytest.mark.lab

ISTIOCTL = CACHE / "current" / "istioctl-1.31.0"
OPERATOR_FILE = ROOT / "inventories" / "lab" / "files" / "istio-operator.yaml"
OLD, NEW = "1-30-5", "1-31-0"
BY_HAND = "by-hand"


def create(*documents: dict[str, Any]) -> None:
    kubectl("apply", "-f", "-", stdin="\n---\n".join(map(json.dumps, documents)))


def remove_webhook(name: str) -> None:
    kubectl("delete", "mutatingwebhookconfiguration", name, "--ignore-not-found")


def copied(**change: Any) -> dict[str, Any]:
    """Return the webhook of tag prod-stable with another name and no label, as a copy by hand has none."""
    text = kubectl("get", "mutatingwebhookconfiguration", "istio-revision-tag-prod-stable", "-o", "json")
    hooks = [hook | change for hook in json.loads(text)["webhooks"]]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": BY_HAND},
        "webhooks": hooks,
    }


@pytest.fixture(autouse=True)
def taken_away(lab: None) -> Iterator[None]:
    """Take away what the tests make beside namespaces."""
    yield
    remove_webhook(BY_HAND)


def old_istiod() -> str:
    """Return what says that the old istiod is the same object, with the same template and all its pods."""
    template = "{.metadata.uid} {.metadata.generation} {.status.availableReplicas}"
    return kubectl("get", "deploy", "-n", "istio-system", f"istiod-{OLD}", "-o", f"jsonpath={template}")


def asked_about(run: Run) -> list[tuple[str, str, str]]:
    """Return (namespace, state, revision) of each dry run of a bare pod, in order."""
    return [
        (group["namespace"], group["state"], group["revision"])
        for result in run.results("mesh_proof")
        for group in result.get("groups", [])
        if group["representative"].startswith("Pod ")
    ]


def test_a_stuck_install_ends_by_our_own_time_out(play: Callable[..., Run], tmp_path: Path) -> None:  # case F07
    """No node takes the new istiod: the run ends in time, says why the pod waits, and the old revision is untouched."""
    lab_reset()
    document = yaml.safe_load(OPERATOR_FILE.read_text(encoding="utf-8"))
    document["spec"]["components"]["pilot"]["k8s"]["nodeSelector"] = {"lab.istio-upgrade/nowhere": "true"}
    stuck = tmp_path / "stuck.yaml"
    stuck.write_text(yaml.safe_dump(document), encoding="utf-8")
    before = old_istiod()
    run = play("install.yml", mesh_operator_file=str(stuck), revision_install_timeout=15)
    assert run.status == "failed"
    assert "did not end well" in run.messages()
    assert "FailedScheduling" in run.messages(), run.messages()
    assert old_istiod() == before
    assert set(tag_targets().values()) == {OLD}
    assert revision_of("shop", "web") == {OLD}


def test_an_injector_made_by_hand_stops_what_it_would_spoil(play: Callable[..., Run]) -> None:  # case H02
    """istioctl's own words name both webhooks; the step stops before anything, and deletes none of them."""
    create(copied())
    done = subprocess.run(
        [str(ISTIOCTL), "--kubeconfig", str(KUBECONFIG), "tag", "set", "prod-stable", "--revision", OLD, "--overwrite"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert overlapping_webhooks(done.stderr) == [BY_HAND, "istio-revision-tag-prod-stable"], done.stderr
    run = play("precheck.yml")
    assert run.status == "failed"
    assert f"MutatingWebhookConfiguration {BY_HAND}: it carries no label of Istio" in run.messages()
    assert "as istio-revision-tag-prod-stable does" in run.messages()
    assert kubectl("get", "mutatingwebhookconfiguration", BY_HAND, "-o", "name")


def test_namespaces_that_follow_a_tag_are_asked_about(play: Callable[..., Run]) -> None:
    """Nothing runs in them, so no restart would prove anything; one whose injector fails takes the tag back."""
    for playbook in ("install.yml", "upgrade.yml"):  # the install that got stuck above, with the file mended
        run = play(playbook, mesh_stop_after="canary")
        assert run.status == "successful", run.messages()
    follow = {"istio.io/rev": "prod-stable", "lab.istio-upgrade/scratch": "true"}
    create(
        *(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": follow | {"proof": name}}}
            for name in ("follow-empty", "follow-broken")
        ),
        # an injector with Istio's name and no CA, for this namespace alone: what an emptied caBundle does
        copied(
            namespaceSelector={"matchLabels": {"proof": "follow-broken"}},
            objectSelector={},
            clientConfig={"service": {"name": f"istiod-{NEW}", "namespace": "istio-system", "path": "/inject"}},
        ),
    )
    run = play("move_tags.yml")
    assert run.status == "failed"
    assert "New pods would not get what their namespaces ask for, after tag prod-stable" in run.messages()
    assert "Pod follow-broken/istio-upgrade-dry-run: webhook rev." in run.messages()
    assert "tags were put back" in run.messages()
    assert set(tag_targets().values()) == {OLD}
    assert revision_of("shop", "web") == {OLD}, "nothing was restarted"

    remove_webhook(BY_HAND)
    run = play("move_tags.yml")
    assert run.status == "successful", run.messages()
    asked = asked_about(run)
    assert [row for row in asked if row[0] != "canary"] == [
        (name, "proven", NEW) for name in ("follow-broken", "follow-empty", "shop")
    ], "once for the tag; no namespace follows the default tag"
    assert asked[-1] == ("canary", "proven", NEW), "it follows the tag again once it has its label back"

    run = play("rollback_drill.yml")
    assert run.status == "successful", run.messages()
    both = [row for row in asked_about(run) if row[0] == "follow-empty"]
    assert both == [("follow-empty", "proven", OLD), ("follow-empty", "proven", NEW)]
