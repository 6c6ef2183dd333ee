"""One thing breaks between two steps, for real; the run stops with a clear word or ends right, and no request is lost.

Killed runs and second runs have their home in test_one_run.py, a probe or a rollout that fails in test_failures.py.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.lab import CACHE, KUBECONFIG, Run, kubectl, lab_reset, living_state
from tests.e2e.test_failures import label_of, revision_of, tag_targets
from tests.e2e.traffic import Traffic

pytestmark = pytest.mark.lab

OLD, NEW = "1-30-5", "1-31-0"
ISTIO = ("-n", "istio-system")
WEBHOOK = "mutatingwebhookconfiguration"
ACCOUNT = """\
apiVersion: v1
kind: ServiceAccount
metadata: {name: chaos, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: chaos}
rules:
  - {apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}
  - {apiGroups: [""], resources: [configmaps], verbs: [create, patch]}
  - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: chaos}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: chaos}
subjects: [{kind: ServiceAccount, name: chaos, namespace: default}]
"""


@contextmanager
def scaled_to_nothing(deployment: str) -> Iterator[None]:
    """Take every istiod of a revision away, and give it back."""
    name = f"deployment/{deployment}"
    scaler = f"hpa/{deployment}"
    was = kubectl("get", *ISTIO, scaler, "-o", "yaml", "--ignore-not-found")
    if was:  # it would put the replicas back at once
        kubectl("delete", *ISTIO, scaler)
    kubectl("scale", *ISTIO, name, "--replicas=0")
    kubectl("wait", *ISTIO, "--for=delete", "pod", "-l", f"app=istiod,istio.io/rev={deployment[7:]}", "--timeout=60s")
    try:
        yield
    finally:
        kubectl("scale", *ISTIO, name, "--replicas=1")
        kubectl("rollout", "status", *ISTIO, name, "--timeout=90s")


@contextmanager
def taken_away(kind: str, name: str) -> Iterator[None]:
    """Delete an object without a namespace, and make it again."""
    was = kubectl("get", kind, name, "-o", "json")
    kubectl("delete", kind, name)
    try:
        yield
    finally:
        kubectl("apply", "-f", "-", stdin=without_server_fields(was))


def without_server_fields(text: str) -> str:
    """Return an object as it can be made again."""
    item = json.loads(text)
    for key in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        item["metadata"].pop(key, None)
    return json.dumps(item)


def stops(run: Run, *words: str) -> None:
    """Assert that a run failed, says why, and restarted nothing."""
    said = run.messages()
    assert run.status == "failed", run.text[-3000:]
    for word in words:
        assert word in said, said
    assert not [r for r in run.results("mesh_move") if r.get("moved")]


def goes_on(run: Run) -> None:
    """Assert that a run ended well."""
    assert run.status == "successful", run.messages() or run.text[-3000:]


def move_by_hand(tag: str, revision: str) -> None:
    """Point the webhook of a tag and its Service elsewhere, as istioctl does."""
    command = [str(CACHE / "current" / "istioctl-1.31.0"), f"--kubeconfig={KUBECONFIG}", "tag", "set", tag]
    subprocess.run([*command, f"--revision={revision}", "--overwrite"], check=True, timeout=60, capture_output=True)


@contextmanager
def account(folder: Path) -> Iterator[Path]:
    """Return a kubeconfig of an account that may read everything and change nothing but records and the Lease."""
    kubectl("apply", "-f", "-", stdin=ACCOUNT)
    token = kubectl("create", "token", "chaos", "-n", "default", "--duration=1h").strip()
    path = folder / "account"
    path.write_text(KUBECONFIG.read_text(encoding="utf-8"), encoding="utf-8")
    path.chmod(0o600)
    user = kubectl("config", "view", "-o", "jsonpath={.contexts[0].context.user}")
    tool = [str(CACHE / "current" / "kubectl"), f"--kubeconfig={path}", "config"]
    subprocess.run([*tool, "unset", f"users.{user}"], check=True, capture_output=True)
    subprocess.run([*tool, "set-credentials", user, f"--token={token}"], check=True, capture_output=True)
    try:
        yield path
    finally:
        kubectl("delete", "-f", "-", stdin=ACCOUNT)


def test_whatever_breaks_before_the_canary_stops_it(play: Callable[..., Run]) -> None:
    """After the install: the new istiod is gone, its injector is gone."""
    lab_reset()
    with Traffic() as traffic:
        goes_on(play("upgrade.yml", mesh_stop_after="install"))

        with scaled_to_nothing(f"istiod-{NEW}"):
            before = living_state()
            stops(play("canary.yml"), "the new revision is not installed and proven")
            assert living_state() == before

        with taken_away(WEBHOOK, f"istio-sidecar-injector-{NEW}"):
            before = living_state()
            stops(play("canary.yml"), "the new revision is not installed and proven")
            assert living_state() == before
        assert label_of("canary") == "prod-stable"

        # the whole chain would mend it by itself: the install is taken up again
        kubectl("delete", WEBHOOK, f"istio-sidecar-injector-{NEW}")
        goes_on(play("upgrade.yml", mesh_stop_after="canary"))
        assert revision_of("canary", "client") == {NEW}
    assert not traffic.lost, traffic.words()
    print(traffic.words())


@pytest.mark.more
def test_whatever_breaks_before_the_tags_move_stops_them_or_is_mended(play: Callable[..., Run], tmp_path: Path) -> None:
    """Goes on with the canary: its label goes back by hand, a right is revoked, a tag moves by hand."""
    with Traffic() as traffic:
        # labelled back by hand: the canary is no canary any more; the chain makes it one again
        kubectl("label", "namespace", "canary", "istio.io/rev=prod-stable", "--overwrite")
        goes_on(play("upgrade.yml", mesh_stop_after="canary"))
        assert label_of("canary") == NEW

        # a right is revoked: the tool's own words and the right, tags as they were
        with account(tmp_path) as kubeconfig:
            before = tag_targets()
            run = play("move_tags.yml", mesh_kubeconfig=str(kubeconfig))
            stops(run, "tags were put back", 'cannot patch resource "services"')
            assert tag_targets() == before

        # a tag moved by hand: the rest follows
        move_by_hand("prod-stable", NEW)
        goes_on(play("upgrade.yml", mesh_stop_after="move_tags"))
        assert set(tag_targets().values()) == {NEW}
        assert revision_of("shop", "web") == {NEW}
    assert not traffic.lost, traffic.words()
    print(traffic.words())


@pytest.mark.more
def test_whatever_breaks_before_the_uninstall_keeps_the_old_revision(play: Callable[..., Run]) -> None:
    """Goes on with moved tags: a tag's webhook is gone, the old istiod, a label, the new istiod, the validator."""
    old = f"istiod-{OLD}"
    with Traffic() as traffic:
        with taken_away(WEBHOOK, "istio-revision-tag-prod-stable"):
            stops(play("rollback_drill.yml"), "prod-stable", "its webhook is gone and its Service is there")

        with scaled_to_nothing(old):
            stops(play("rollback_drill.yml"), f"the old revision {OLD} does not serve")
        assert set(tag_targets().values()) == {NEW}

        # the old istiod goes on with what it knows, and could not start again
        with taken_away("clusterrolebinding", f"istiod-clusterrole-{OLD}-istio-system"):
            run = play("rollback_drill.yml")
            assert run.status == "failed"
            assert "after a restart it could not: istio-system/istiod-1-30-5 may not list pods" in run.messages()
            assert set(tag_targets().values()) == {NEW}
            assert revision_of("shop", "web") == {NEW}
        goes_on(play("upgrade.yml", mesh_stop_after="rollback_drill"))

        kubectl("label", "namespace", "shop", f"istio.io/rev={OLD}", "--overwrite")
        stops(play("uninstall.yml"), "was not removed", "shop")
        kubectl("label", "namespace", "shop", "istio.io/rev=prod-stable", "--overwrite")

        with scaled_to_nothing(f"istiod-{NEW}"):
            stops(play("uninstall.yml"), NEW)
        with taken_away("validatingwebhookconfiguration", "istiod-default-validator"):
            stops(play("uninstall.yml"), "validator")

        assert kubectl("get", "deployment", *ISTIO, old, "-o", "name").strip() == f"deployment.apps/{old}"
        goes_on(play("upgrade.yml"))
    assert revision_of("shop", "web") == {NEW}
    assert not traffic.lost, traffic.words()
    print(traffic.words())
