"""One kubeconfig for the modules and istioctl alike, however the cluster is reached.

The two do not read the same things: istioctl knows neither `~` nor several paths in `--kubeconfig`, the Python client
takes the current context from the last of several files where kubectl and istioctl take it from the first, and only
modules could be given an address and a token. So whatever is not one plain file becomes one, which both get.

Sources: client-go tools/clientcmd (loader.go: the first file that names something wins, relative paths belong to their
file), rest/config.go (InClusterConfig).
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# keys of a cluster or a user that name a file beside the kubeconfig
FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


class WrongWay(Exception):
    """The cluster cannot be reached this way. Its text is meant for the operator and holds no secret."""


def settle(
    wanted: Mapping[str, Any],
    folder: Path,
    environ: Mapping[str, str],
    service_account: Path = SERVICE_ACCOUNT,
) -> dict[str, str]:
    """Return {kubeconfig, made, error}: the one file to use, what it was made of, and why there is none.

    Args:
        wanted: kubeconfig, server, token and ca; what is not text is left to the input check.
        folder: where a file is made; it is removed at the end of the run.
        environ: the process's environment: KUBECONFIG, HOME, KUBERNETES_SERVICE_HOST and _PORT.
        service_account: folder of a pod's own token and CA.

    `kubeconfig` is empty where the tools' own default (~/.kube/config) is meant. `made` is "paths", "token",
    "service account" or empty. Nothing is asked of a cluster.
    """
    given = {key: value.strip() if isinstance(value, str) else "" for key, value in wanted.items()}
    try:
        content, made = _content(given, environ, service_account)
        path = (
            _write(content, folder) if made else _plain(given["kubeconfig"] or environ.get("KUBECONFIG", ""), environ)
        )
    except WrongWay as error:
        return {"kubeconfig": "", "made": "", "error": str(error)}
    return {"kubeconfig": path, "made": made, "error": ""}


def _content(given: Mapping[str, str], environ: Mapping[str, str], service_account: Path) -> tuple[dict[str, Any], str]:
    """Return (a kubeconfig, what it is made of), or ({}, "") where a file is used as it is."""
    if given["server"] or given["token"] or given["ca"]:
        return _from_token(given), "token"
    paths = _paths(given["kubeconfig"] or environ.get("KUBECONFIG", ""), environ)
    if len(paths) > 1:
        return _merged(paths), "paths"
    if not paths and not (Path(_home(environ)) / ".kube" / "config").exists():
        return _from_pod(environ, service_account)
    return {}, ""


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or os.path.expanduser("~")


def _paths(text: str, environ: Mapping[str, str]) -> list[Path]:
    return [Path(_plain(part, environ)) for part in text.split(os.pathsep) if part.strip()]


def _plain(path: str, environ: Mapping[str, str]) -> str:
    """Return one path, absolute; "" stays empty."""
    path = path.strip().strip(os.pathsep)
    if path == "~" or path.startswith("~/"):
        path = _home(environ) + path[1:]
    return os.path.abspath(path) if path else ""


def _kubeconfig(cluster: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    name = "mesh"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
    }


def _from_token(given: Mapping[str, str]) -> dict[str, Any]:
    if not given["server"]:
        raise WrongWay(
            "mesh_api_server is not set, and mesh_api_token or mesh_api_ca is. Next: set mesh_api_server, such as "
            "https://staging.example.com:6443, or take the others away."
        )
    if given["kubeconfig"]:
        raise WrongWay(
            "mesh_kubeconfig and mesh_api_server are both set, and only one can be how the cluster is reached. Next: "
            "set one of them to ''."
        )
    if not given["token"]:
        raise WrongWay(
            "mesh_api_token is not set, and mesh_api_server is. Next: set it from a vault, or use mesh_kubeconfig."
        )
    address = urlsplit(given["server"])
    if address.scheme != "https" or not address.hostname:
        raise WrongWay(
            f"mesh_api_server '{given['server']}' is no https address, and a token must not travel in clear text. "
            "Next: write it like https://staging.example.com:6443."
        )
    if given["ca"] and "-----BEGIN CERTIFICATE-----" not in given["ca"]:
        raise WrongWay(
            "mesh_api_ca holds no '-----BEGIN CERTIFICATE-----'. Next: give the PEM text of the CA itself, not a path "
            "and not its base64."
        )
    cluster = {"server": given["server"]}
    if given["ca"]:
        cluster["certificate-authority-data"] = base64.b64encode((given["ca"] + "\n").encode()).decode()
    return _kubeconfig(cluster, {"token": given["token"]})


def _from_pod(environ: Mapping[str, str], service_account: Path) -> tuple[dict[str, Any], str]:
    """Name the pod's own token as a file: the kubelet renews it there."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    token, ca = service_account / "token", service_account / "ca.crt"
    if not host or not token.exists():
        return {}, ""
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return _kubeconfig(
        {"server": server, "certificate-authority": str(ca)}, {"tokenFile": str(token)}
    ), "service account"


def _merged(paths: list[Path]) -> dict[str, Any]:
    """Merge kubeconfigs as kubectl does: what the first file names stays; a file that is not there is passed over."""
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": ""}
    rows: dict[str, dict[str, Any]] = {"clusters": {}, "users": {}, "contexts": {}}
    there = [path for path in paths if path.exists()]
    if not there:
        raise WrongWay(
            f"None of the kubeconfigs {', '.join(map(str, paths))} is there. Next: correct mesh_kubeconfig or "
            "KUBECONFIG."
        )
    for path in there:
        config = _load(path)
        merged["current-context"] = merged["current-context"] or config.get("current-context") or ""
        for kind, known in rows.items():
            for row in config.get(kind) or []:
                known.setdefault(str(row.get("name")), _anchored(row, path.parent))
    return merged | {kind: list(known.values()) for kind, known in rows.items()}


def _load(path: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise WrongWay(
            f"The kubeconfig {path} cannot be read: {error.strerror}. Next: correct its path or its mode."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        # the parser's own words would quote the file
        raise WrongWay(
            f"The kubeconfig {path} is no YAML. Next: try kubectl --kubeconfig {path} config view."
        ) from None
    if not isinstance(config, dict):
        raise WrongWay(f"The kubeconfig {path} is no mapping. Next: try kubectl --kubeconfig {path} config view.")
    return config


def _anchored(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a cluster or user whose relative paths are absolute: they belong to the folder of their file."""
    found = dict(row)
    for part in ("cluster", "user"):
        if isinstance(row.get(part), dict):
            found[part] = {k: str(folder / v) if k in FILES and v else v for k, v in row[part].items()}
            run = found[part].get("exec")
            if isinstance(run, dict) and os.sep in str(run.get("command", "")):
                found[part]["exec"] = run | {"command": str(folder / run["command"])}
    return found


def _write(content: dict[str, Any], folder: Path) -> str:
    """Write a kubeconfig that only this user can read; return its path."""
    handle, path = tempfile.mkstemp(prefix="kubeconfig-", dir=folder)  # its mode is 0600
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(content, stream)
    return path
