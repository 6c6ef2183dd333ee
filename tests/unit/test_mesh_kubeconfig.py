"""However a cluster is reached, modules and istioctl get one kubeconfig: what it says, its mode, what is refused."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from kubernetes import config as k8s_config

from module_utils.mesh_kubeconfig import settle

TOKEN = "eyJhbGciOi-hush"
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"


def settled(tmp_path: Path, environ: dict[str, str] | None = None, **wanted: Any) -> dict[str, str]:
    """Settle with a home folder without a kubeconfig and without a pod around it."""
    home = tmp_path / "home"
    (tmp_path / "run").mkdir(exist_ok=True)
    home.mkdir(exist_ok=True)
    options = {"kubeconfig": "", "server": "", "token": "", "ca": ""} | wanted
    found = settle(options, tmp_path / "run", {"HOME": str(home)} | (environ or {}), tmp_path / "account")
    assert TOKEN not in found["error"]
    return found


def content(found: dict[str, str]) -> dict[str, Any]:
    """Return the kubeconfig that was made; only this user may read it."""
    assert found["error"] == ""
    path = Path(found["kubeconfig"])
    assert path.stat().st_mode & 0o777 == 0o600
    made: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return made


def kubeconfig(path: Path, name: str, **more: Any) -> Path:
    """Write a kubeconfig with one context of a name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443"} | more.get("cluster", {})}],
        "users": [{"name": name, "user": {"token": f"token of {name}"} | more.get("user", {})}],
    }
    path.write_text(json.dumps(text), encoding="utf-8")
    return path


# --- one plain file -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "path"),
    [
        pytest.param("", "", id="the tools' own default"),
        pytest.param("~/.kube/staging", "{home}/.kube/staging", id="istioctl knows no tilde"),
        pytest.param("/etc/kube/config", "/etc/kube/config", id="absolute"),
        pytest.param("/etc/kube/config:", "/etc/kube/config", id="one path and a colon"),
        pytest.param("config", "{cwd}/config", id="relative"),
    ],
)
def test_one_file_is_used_as_it_is(tmp_path: Path, given: str, path: str) -> None:
    wanted = path.format(home=tmp_path / "home", cwd=Path.cwd())
    assert settled(tmp_path, kubeconfig=given) == {"kubeconfig": wanted, "made": "", "error": ""}
    # the same through the environment
    assert settled(tmp_path, {"KUBECONFIG": given})["kubeconfig"] == wanted


def test_what_is_no_text_is_left_to_the_input_check(tmp_path: Path) -> None:
    assert settled(tmp_path, kubeconfig=["a"]) == {"kubeconfig": "", "made": "", "error": ""}


# --- several files ------------------------------------------------------------------------------------------


def test_several_files_are_merged_as_kubectl_does(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "a" / "config", "first", cluster={"certificate-authority": "ca.crt"})
    (tmp_path / "a" / "ca.crt").write_text(PEM, encoding="utf-8")
    second = kubeconfig(tmp_path / "b" / "config", "second", user={"exec": {"command": "./login", "args": ["x"]}})
    third = kubeconfig(tmp_path / "c" / "config", "first", cluster={"server": "https://elsewhere:6443"})
    paths = os.pathsep.join(map(str, (tmp_path / "nowhere", first, second, third)))
    for found in (settled(tmp_path, kubeconfig=paths), settled(tmp_path, {"KUBECONFIG": paths})):
        assert found["made"] == "paths"
        made = content(found)
        # the Python client alone would take the context of the last file, and reach another cluster than istioctl
        assert made["current-context"] == "first"
        assert [row["name"] for row in made["contexts"]] == ["first", "second"]
        clusters = {row["name"]: row["cluster"] for row in made["clusters"]}
        assert clusters["first"]["server"] == "https://first:6443"
        assert clusters["first"]["certificate-authority"] == str(tmp_path / "a" / "ca.crt")
        users = {row["name"]: row["user"] for row in made["users"]}
        assert users["second"]["exec"]["command"] == str(tmp_path / "b" / "login")
        client = k8s_config.new_client_from_config(found["kubeconfig"], persist_config=False)
        assert client.configuration.host == "https://first:6443"
        assert client.configuration.ssl_ca_cert == str(tmp_path / "a" / "ca.crt")


def test_a_command_without_a_folder_stays_a_command(tmp_path: Path) -> None:
    one = kubeconfig(tmp_path / "a", "one", user={"exec": {"command": "aws"}})
    two = kubeconfig(tmp_path / "b", "two")
    made = content(settled(tmp_path, kubeconfig=f"{one}:{two}"))
    assert made["users"][0]["user"]["exec"]["command"] == "aws"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("[1, 2]", "is no mapping. Next:", id="list"),
        pytest.param(f"users: [{{token: {TOKEN}", "is no YAML. Next:", id="broken"),
    ],
)
def test_a_broken_file_is_named_and_not_quoted(tmp_path: Path, text: str, words: str) -> None:
    broken = tmp_path / "broken"
    broken.write_text(text, encoding="utf-8")
    found = settled(tmp_path, kubeconfig=f"{broken}:{broken}")
    assert str(broken) in found["error"]
    assert words in found["error"]
    assert list((tmp_path / "run").iterdir()) == []


def test_paths_that_are_all_missing_are_an_error(tmp_path: Path) -> None:
    assert (
        "None of the kubeconfigs /no/a, /no/b is there. Next:" in settled(tmp_path, kubeconfig="/no/a:/no/b")["error"]
    )


# --- address, token and CA ----------------------------------------------------------------------------------


def test_address_token_and_ca_become_a_kubeconfig(tmp_path: Path) -> None:
    found = settled(tmp_path, server="https://api:6443", token=f"{TOKEN}\n", ca=PEM)
    assert found["made"] == "token"
    made = content(found)
    assert made["users"] == [{"name": "mesh", "user": {"token": TOKEN}}]
    cluster = made["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]).decode() == PEM + "\n"
    client = k8s_config.new_client_from_config(found["kubeconfig"], persist_config=False)
    assert client.configuration.host == "https://api:6443"
    assert client.configuration.verify_ssl
    without = content(settled(tmp_path, server="https://api:6443", token=TOKEN))
    assert without["clusters"][0]["cluster"] == {"server": "https://api:6443"}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        pytest.param({"token": TOKEN}, "mesh_api_server is not set", id="token alone"),
        pytest.param({"ca": PEM}, "mesh_api_server is not set", id="ca alone"),
        pytest.param({"server": "https://api"}, "mesh_api_token is not set", id="no token"),
        pytest.param({"server": "http://api", "token": TOKEN}, "must not travel in clear text", id="http"),
        pytest.param({"server": "api:6443", "token": TOKEN}, "no https address", id="no scheme"),
        pytest.param({"server": "https://api", "token": TOKEN, "ca": "/ca.crt"}, "not a path", id="ca as a path"),
        pytest.param({"server": "https://a", "token": TOKEN, "kubeconfig": "/a"}, "only one can be", id="two ways"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, wanted: dict[str, Any], words: str) -> None:
    found = settled(tmp_path, **wanted)
    assert words in found["error"]
    assert "Next:" in found["error"]
    assert (found["kubeconfig"], list((tmp_path / "run").iterdir())) == ("", [])


# --- in a pod -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "address"),
    [
        pytest.param("10.96.0.1", "https://10.96.0.1:443", id="v4"),
        pytest.param("fd00::1", "https://[fd00::1]:443", id="v6"),
    ],
)
def test_a_pod_uses_its_service_account(tmp_path: Path, host: str, address: str) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text(TOKEN, encoding="utf-8")
    (account / "ca.crt").write_text(PEM, encoding="utf-8")
    around = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    found = settled(tmp_path, around)
    assert found["made"] == "service account"
    made = content(found)
    assert made["clusters"][0]["cluster"] == {"server": address, "certificate-authority": str(account / "ca.crt")}
    # the file, not the token: it is renewed there
    assert made["users"][0]["user"] == {"tokenFile": str(account / "token")}
    assert TOKEN not in json.dumps(made)
    # whatever else is given comes first
    assert settled(tmp_path, around, kubeconfig="/etc/kube/config")["made"] == ""
    kubeconfig(tmp_path / "home" / ".kube" / "config", "mine")
    assert settled(tmp_path, around) == {"kubeconfig": "", "made": "", "error": ""}


def test_outside_a_pod_nothing_is_made(tmp_path: Path) -> None:
    assert settled(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"})["made"] == ""
