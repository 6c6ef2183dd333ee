"""Every way to reach a cluster, tried with the modules and istioctl together: the first step, a check, on the lab."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from module_utils.mesh_kubeconfig import settle
from tests.e2e.lab import KUBECONFIG, Run, kubectl, lab_reset

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module", autouse=True)
def starting_point(lab: None) -> None:
    """Nothing here changes the cluster."""
    lab_reset()


@pytest.fixture(scope="module")
def account() -> Iterator[dict[str, str]]:
    """Return {server, token, ca} of a service account that may do everything."""
    cluster = yaml.safe_load(KUBECONFIG.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
    kubectl("create", "serviceaccount", "ways", "-n", "default")
    kubectl("create", "clusterrolebinding", "ways", "--clusterrole=cluster-admin", "--serviceaccount=default:ways")
    yield {
        "server": cluster["server"],
        "token": kubectl("create", "token", "ways", "-n", "default").strip(),
        "ca": base64.b64decode(cluster["certificate-authority-data"]).decode(),
    }
    kubectl("delete", "clusterrolebinding", "ways")
    kubectl("delete", "serviceaccount", "ways", "-n", "default")


def prove(run: Run, *secrets: str) -> None:
    """The modules read the cluster, istioctl ran its own precheck in it, nothing is left and no secret was said."""
    assert run.status == "successful", run.messages() or run.text[-3000:]
    (said,) = [r for r in run.results("ansible.builtin.command") if "precheck" in r.get("cmd", [])]
    assert said["rc"] == 0, said
    events = str(run.events) + run.text
    assert [s[:4] for s in secrets if s in events] == []
    assert list((Path.home() / ".ansible" / "tmp").glob("ansible-local-*/kubeconfig-*")) == []


def test_address_token_and_ca(play: Callable[..., Run], account: dict[str, str]) -> None:
    run = play(
        *("precheck.yml", "--check -vvv"),
        mesh_kubeconfig="",
        mesh_api_server=account["server"],
        mesh_api_token=account["token"],
        mesh_api_ca=account["ca"],
    )
    prove(run, account["token"])


def test_several_kubeconfigs_and_a_context(
    play: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lab stands second, under a context that is not the current one; once as a variable, once as KUBECONFIG."""
    lab = yaml.safe_load(KUBECONFIG.read_text(encoding="utf-8"))
    elsewhere: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "elsewhere",
        "contexts": [{"name": "elsewhere", "context": {"cluster": "elsewhere", "user": "nobody"}}],
        "clusters": [{"name": "elsewhere", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "nobody", "user": {"token": "none"}}],
    }
    first = tmp_path / "first"
    first.write_text(yaml.safe_dump(elsewhere), encoding="utf-8")
    paths = f"{first}{os.pathsep}{KUBECONFIG}"
    prove(play("precheck.yml", "--check", mesh_kubeconfig=paths, mesh_context=lab["current-context"]))
    monkeypatch.setenv("KUBECONFIG", paths)
    prove(play("precheck.yml", "--check", mesh_kubeconfig="", mesh_context=lab["current-context"]))


def test_the_service_account_of_a_pod(play: Callable[..., Run], account: dict[str, str], tmp_path: Path) -> None:
    """What is made in a pod names the token as a file: both read it there. The pod itself is not made here."""
    (tmp_path / "token").write_text(account["token"], encoding="utf-8")
    (tmp_path / "ca.crt").write_text(account["ca"], encoding="utf-8")
    host, port = account["server"].removeprefix("https://").split(":")
    around = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    made = settle(dict.fromkeys(("kubeconfig", "server", "token", "ca"), ""), tmp_path, around, tmp_path)
    assert made["made"] == "service account"
    prove(play("precheck.yml", "--check", mesh_kubeconfig=made["kubeconfig"]), account["token"])
