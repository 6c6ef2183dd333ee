"""The way back on a real cluster: rollback and abort, with requests that never stop meanwhile."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lab import CACHE, KUBECONFIG, LAB_INVENTORY, Run, kubectl, lab_reset, living_state
from tests.e2e.test_failures import label_of, revision_of, tag_targets

pytestmark = [pytest.mark.lab, pytest.mark.more]

OLD, NEW = "1-30-5", "1-31-0"
WEB = "http://web.shop/"
# curl's own 000 (no answer) is written like every other code
LOOP = "trap 'exit 0' TERM; while :; do curl -s -o /dev/null -m 5 -w '%{http_code}\\n' URL || true; sleep 0.1; done"


@dataclass
class Codes:
    """What the requests gave."""

    seen: list[str] = field(default_factory=list)

    @property
    def lost(self) -> list[str]:
        """Return every answer that was not 200."""
        return [code for code in self.seen if code != "200"]


def asking_pod(url: str) -> dict[str, Any]:
    """Return a pod that sends a request ten times a second; nobody restarts it, for nothing owns it."""
    image = kubectl("get", "deploy", "-n", "shop", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
    container = {
        "name": "asking",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", LOOP.replace("URL", url)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asking", "namespace": "asking"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }


@contextmanager
def asking(revision: str, url: str = WEB) -> Iterator[Codes]:
    """Send requests while the block runs, from a pod with the proxy of a revision ("": none)."""
    kubectl("create", "namespace", "asking")
    kubectl("label", "namespace", "asking", "lab.istio-upgrade/scratch=true")
    if revision:
        kubectl("label", "namespace", "asking", f"istio.io/rev={revision}")
    kubectl("apply", "-f", "-", stdin=json.dumps(asking_pod(url)))
    kubectl("wait", "-n", "asking", "pod/asking", "--for=condition=Ready", "--timeout=110s")
    time.sleep(3)
    # what came before the sidecar was set up is not the way back's doing
    before = len(answers())
    codes = Codes()
    try:
        yield codes
        codes.seen = answers()[before:]
        print(f"requests sent {len(codes.seen)}, lost {len(codes.lost)} {sorted(set(codes.lost))}")
    finally:
        kubectl("delete", "namespace", "asking", "--wait=true")


def answers() -> list[str]:
    """Return the codes so far."""
    return [line for line in kubectl("logs", "-n", "asking", "asking", "-c", "asking").split() if line.isdigit()]


def istioctl(version: str, *args: str, stdin: str | None = None) -> str:
    """Run an istioctl against the lab."""
    command = [str(CACHE / "current" / f"istioctl-{version}"), *args, "--kubeconfig", str(KUBECONFIG)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def control_planes() -> set[str]:
    """Return the istiod Deployments that are there."""
    return set(kubectl("get", "deploy", "-n", "istio-system", "-l", "app=istiod", "-o", "name").split())


def on_old() -> bool:
    """Tell whether tags, canary label and workloads are all as they were before the upgrade."""
    return (
        set(tag_targets().values()) == {OLD}
        and label_of("canary") == "prod-stable"
        and revision_of("shop", "web") == revision_of("canary", "client") == {OLD}
    )


def test_abort_after_the_canary(play: Callable[..., Run], tmp_path: Path) -> None:
    """The canary goes back, then the new revision goes; no request is lost, and an upgrade can start anew."""
    lab_reset()
    assert play("upgrade.yml", mesh_stop_after="canary").status == "successful"

    # check mode tells and changes nothing
    before = living_state()
    run = play("abort.yml", "--check")
    assert (run.status, "uninstall revision 1-31-0" in run.text) == ("successful", True), run.messages()
    assert living_state() == before

    with asking(OLD) as codes:
        run = play("abort.yml")
    assert run.status == "successful", run.messages() or run.text[-3000:]
    assert (len(codes.seen) > 50, codes.lost) == (True, [])
    assert on_old()
    assert control_planes() == {f"deployment.apps/istiod-{OLD}"}
    text = (tmp_path / "evidence" / "09-abort.txt").read_text(encoding="utf-8")
    assert "default=1-30-5\nprod_stable=1-30-5\n" in text or "prod_stable=1-30-5\ndefault=1-30-5\n" in text
    assert text.endswith("old_revision_left=yes\nnew_revision_left=no\nstill_on_new=none\n")
    assert "The CRDs stay at 1.31.0" in " ".join(run.text.split())

    # a second run changes nothing; the next upgrade begins with the install
    assert play("abort.yml").count("changed") == 0
    assert "the new revision is not installed and proven" in play("canary.yml").messages()
    plan = play("upgrade.yml", "--check").text
    assert "install revision 1-31-0 (1.31.0)" in plan
    assert "uninstall revision 1-30-5 (" in plan


def test_rollback_after_the_tags_and_after_the_uninstall(play: Callable[..., Run], tmp_path: Path) -> None:
    """Tags back, workloads back, nothing lost; the same after the old revision was removed and is reinstalled."""
    lab_reset()
    assert play("upgrade.yml", mesh_stop_after="move_tags").status == "successful"
    with asking(NEW) as codes:
        run = play("rollback.yml")
    assert run.status == "successful", run.messages() or run.text[-3000:]
    assert (len(codes.seen) > 50, codes.lost) == (True, [])
    assert on_old()
    assert len(control_planes()) == 2
    assert play("rollback.yml").count("changed") == 0

    # the upgrade starts again with the canary and runs to its end
    run = play("upgrade.yml")
    assert run.status == "successful", run.messages() or run.text[-3000:]
    assert control_planes() == {f"deployment.apps/istiod-{NEW}"}
    run = play("abort.yml")
    assert run.status == "failed"
    assert "playbooks/rollback.yml" in run.messages()
    run = play("rollback.yml", mesh_istioctl_from="")
    assert "mesh_istioctl_from is not set" in run.messages()

    with asking(NEW) as codes:
        run = play("rollback.yml")
    assert run.status == "successful", run.messages() or run.text[-3000:]
    assert (len(codes.seen) > 50, codes.lost) == (True, [])
    assert on_old()
    assert len(control_planes()) == 2
    assert play("rollback.yml").count("changed") == 0
    text = (tmp_path / "evidence" / "09-rollback.txt").read_text(encoding="utf-8")
    assert text.endswith("old_revision_left=yes\nnew_revision_left=yes\nstill_on_new=none\n")


GATEWAY = """
    ingressGateways:
      - name: istio-ingressgateway
        enabled: true
        k8s:
          resources: {requests: {cpu: 10m, memory: 64Mi}}
          service: {type: ClusterIP}
"""
ROUTES = """\
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: web, namespace: shop}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec:
  hosts: ["*"]
  gateways: [web]
  http: [{route: [{destination: {host: web.shop.svc.cluster.local}}]}]
"""


def gateway_image() -> str:
    """Return the image of the ingress gateway's Deployment."""
    path = "jsonpath={.items[*].spec.template.spec.containers[0].image}"
    return kubectl("get", "deploy", "-n", "istio-system", "-l", "istio=ingressgateway", "-o", path)


def test_abort_gives_a_gateway_back_that_was_upgraded_in_place(play: Callable[..., Run], tmp_path: Path) -> None:
    """Case I08: removing the canary first takes the ingress away; abort keeps every request at 200."""
    lab_reset()
    plain = (LAB_INVENTORY.parent / "files" / "istio-operator.yaml").read_text(encoding="utf-8")
    file = tmp_path / "istio-operator.yaml"
    file.write_text(plain.replace("profile: minimal", "profile: default").rstrip() + GATEWAY, encoding="utf-8")
    overlay = ("--set", f"revision={OLD}", "--set", "tag=1.30.5", "-y")
    istioctl("1.30.5", "install", "-f", str(file), *overlay)
    kubectl("apply", "-f", "-", stdin=ROUTES)
    wanted = {"mesh_operator_file": str(file), "mesh_stop_after": "canary"}

    run = play("upgrade.yml", **wanted)
    assert run.status == "failed"
    assert "renders more than a control plane" in run.messages()
    assert gateway_image().endswith(":1.30.5")
    wanted |= {"mesh_gateways": "in_place"}

    run = play("upgrade.yml", **wanted)
    assert run.status == "successful", run.messages() or run.text[-3000:]
    assert gateway_image().endswith(":1.31.0")
    with asking("", "http://istio-ingressgateway.istio-system/") as codes:
        run = play("abort.yml", **wanted)
    assert run.status == "successful", run.messages() or run.text[-3000:]
    assert (len(codes.seen) > 50, codes.lost) == (True, [])
    assert gateway_image().endswith(":1.30.5")
    assert on_old()
    assert control_planes() == {f"deployment.apps/istiod-{OLD}"}
    assert play("abort.yml", **wanted).count("changed") == 0

    # the incident: the new revision is removed before the gateway went back
    assert play("upgrade.yml", **wanted | {"mesh_stop_after": "install"}).status == "successful"
    with asking("", "http://istio-ingressgateway.istio-system/") as codes:
        istioctl("1.31.0", "uninstall", "--revision", NEW, "-y")
        kubectl("wait", "-n", "istio-system", "pod", "-l", "istio=ingressgateway", "--for=delete", "--timeout=110s")
        time.sleep(3)
    assert codes.lost, "the ingress is gone"
    assert gateway_image() == ""
