"""An IstioOperator file from a running revision that was installed with flags nobody kept.

The document holds what differs from the bare profile, each at its place in the file. Whether that is right is not
claimed here: the caller renders it with the istioctl of the same version, and ``unlike`` names every setting that does
not come out as it runs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import yaml

from mesh_logic.errors import MeshError, one_line, shown
from mesh_logic.images import proxy_image
from mesh_logic.operator_file import API_VERSION, KIND
from mesh_logic.settings import (
    BUDGET,
    CLUSTER_SET,
    GLOBAL,
    MESH,
    VALUES,
    Path,
    Side,
    canonical,
    manifest_objects,
    plain_text,
    read_side,
    shown_path,
    suffix_of,
)
from mesh_logic.settings_diff import is_secret, made_from, same, without_crds, yaml_of

# The order in which people write a spec; the rest follows.
_FIRST = ("profile", "compatibilityVersion", "hub", "meshConfig", "components", "values")
OWNER = "install.operator.istio.io/owning-resource"


def bare_document(live: dict[str, Any], profile: str) -> str:
    """Return the operator document of a bare profile: what a rebuilt file is compared with, without the CRDs.

    The Helm profile (as of `demo`) and compatibilityVersion that the running revision was given are kept: they are
    settings in themselves, and what they bring need not be written out.
    """
    document = _bare(live, profile)
    document["spec"] = without_crds(document["spec"])
    return _with_revision(document, live["revision"])


def _bare(live: dict[str, Any], profile: str) -> dict[str, Any]:
    given = read_side(live["objects"], live["revision"]).given or {}
    spec: dict[str, Any] = {"profile": profile}
    if version := given.get((*VALUES, "compatibilityVersion")):
        spec["compatibilityVersion"] = str(version)
    if chosen := given.get((*VALUES, "profile")):
        spec["values"] = {"profile": chosen}
    return {"apiVersion": API_VERSION, "kind": KIND, "spec": spec}


def proof_document(text: str, revision: str) -> str:
    """Return a rebuilt file as it is rendered to prove it: with the revision that runs, without the CRDs of base."""
    document = yaml.safe_load(text)
    document["spec"] = without_crds(document["spec"])
    return _with_revision(document, revision)


def _with_revision(document: dict[str, Any], revision: str) -> str:
    if suffix_of(revision):
        document["spec"]["revision"] = revision
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text


def version_errors(live: dict[str, Any], istioctl_output: str, istioctl: str) -> list[str]:
    """Return why an istioctl cannot prove a file of what runs: it must have exactly the running version.

    Args:
        live: the result of the module `mesh_settings`.
        istioctl_output: what `istioctl version --remote=false -o json` printed.
        istioctl: its path, for the message.
    """
    image = _image(live)
    running = proxy_image(image)["version"] or ""
    try:
        client = str((json.loads(istioctl_output).get("clientVersion") or {}).get("version") or "")
    except (json.JSONDecodeError, AttributeError):
        client = ""
    what = f"istioctl {shown(istioctl)}"
    if not client:
        todo = "point operator_file_istioctl at an istioctl"
        return [str(MeshError(what, f"it did not say its version: {one_line(istioctl_output)[:200]}", todo))]
    if running and client != running:
        why = f"it is {client}, and revision {live['revision']} runs {running} (image {image})"
        return [str(MeshError(what, why, f"point operator_file_istioctl at the istioctl of {running}"))]
    return []


def _image(live: dict[str, Any]) -> str:
    for item in live["objects"]:
        if item["kind"] == "Deployment":
            containers = item["spec"].get("template", {}).get("spec", {}).get("containers") or []
            return next((str(c.get("image") or "") for c in containers if c.get("name") == "discovery"), "")
    return ""


def rebuild(live: dict[str, Any], bare_manifest: str, profile: str, namespace: str) -> str:
    """Return the text of an IstioOperator file for a running revision.

    Args:
        live: the result of the module `mesh_settings`.
        bare_manifest: what `bare_document` renders with the istioctl of the running version.
        profile: the profile of that document.
        namespace: namespace of the control plane.
    """
    revision = live["revision"]
    running = read_side(live["objects"], revision)
    bare = read_side(manifest_objects(bare_manifest, revision), revision)
    document = _bare(live, profile)
    document["metadata"] = {"name": _owner(live), "namespace": namespace}
    repository = proxy_image(_image(live))["repository"] or ""
    if repository.endswith("/pilot"):
        document["spec"]["hub"] = repository.removesuffix("/pilot")
    for path, value in _wanted(running, bare).items():
        put(document, path, value)
    spec = document.pop("spec")
    document["spec"] = {key: spec[key] for key in sorted(spec, key=lambda key: (key not in _FIRST, _order(key), key))}
    head = f"# Rebuilt from the running revision {revision}; the istioctl of its version renders the same settings.\n"
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000)
    return head + text


def _order(key: str) -> int:
    return _FIRST.index(key) if key in _FIRST else 0


def _owner(live: dict[str, Any]) -> str:
    """Return the metadata.name that the install had: installs prune by it. One without a name gets a name."""
    for item in live["objects"]:
        owner = str(item["metadata"].get("labels", {}).get(OWNER) or "")
        if item["kind"] == "Deployment" and owner not in ("", "unknown", "installed-state"):
            return owner
    return "control-plane"


def _wanted(running: Side, bare: Side) -> dict[Path, Any]:
    """Return what the file must say: what runs and is not what the bare profile gives; null removes a default."""
    found: dict[Path, Any] = {}
    for path in sorted({*running.settings, *bare.settings}):
        value, given = running.value(path), bare.value(path)
        cluster_set = path in CLUSTER_SET and plain_text(value) == CLUSTER_SET[path]
        if same(path, value, given) or cluster_set:
            continue
        if value is not None:
            found[path] = value
        elif path[: len(MESH)] == MESH or path[: len(GLOBAL)] == GLOBAL:
            found[path] = None
    made = [path for path in found if path[: len(MESH)] == MESH and made_from(path, found)]
    # a budget comes with the second replica, and then with this value
    made += [path for path in found if path == (*BUDGET, "minAvailable") and canonical(found[path], path) == "1"]
    return {path: value for path, value in found.items() if path not in made}


def put(document: dict[str, Any], path: Path, value: Any) -> None:
    """Set a value at a path of an operator document; parts in brackets are items of a list, by their name."""
    if "overlays" in path:
        _put_overlay(document, path, value)
        return
    node: Any = document
    for position, key in enumerate(path[:-1]):
        after = path[position + 1]
        empty: Any = [] if after.startswith("[") else {}
        node = _item(node, key) if key.startswith("[") else node.setdefault(key, empty)
    _put_leaf(node, path, value)


def _put_leaf(node: Any, path: Path, value: Any) -> None:
    last = path[-1]
    if not last.startswith("["):
        node[last] = value
    elif "extraContainerArgs" in path:
        flag = last.strip("[]")
        node.append(flag if value is True else f"{flag}={value}")
    elif path[-2] == "env":
        _item(node, last)["valueFrom"] = value
    elif isinstance(value, dict):
        _item(node, last).update(value)
    else:
        _item(node, last)


def _item(node: list[dict[str, Any]], key: str) -> dict[str, Any]:
    name = key[1:-1]
    for item in node:
        if item.get("name") == name:
            return item
    node.append({"name": name})
    return node[-1]


def _put_overlay(document: dict[str, Any], path: Path, value: Any) -> None:
    field = path[-1].strip("[]")
    raise MeshError(
        f"{field} of istiod is {yaml_of(value)}",
        "only an overlay sets it, and an overlay names one revision's Deployment, so it cannot stand in a file for two",
        "take it out of the running istiod, or write the overlay into the rebuilt file for each revision by hand",
    )


def unlike(live: dict[str, Any], manifest: str) -> list[str]:
    """Return each setting of a running revision that a rendered manifest does not give; [] proves the file."""
    revision = live["revision"]
    running = read_side(live["objects"], revision)
    rendered = read_side(manifest_objects(manifest, revision), revision)
    return [
        f"{shown_path(path)} is {_said(path, running.value(path))}, rendered {_said(path, rendered.value(path))}"
        for path in sorted({*running.settings, *rendered.settings})
        if not same(path, running.value(path), rendered.value(path))
        and not (path in CLUSTER_SET and plain_text(running.value(path)) == CLUSTER_SET[path])
    ]


def _said(path: Path, value: Any) -> str:
    return "(hidden)" if is_secret(path) else ("none" if value is None else yaml_of(value))


def write_errors(text: str, out: str, found: Sequence[dict[str, Any]], overwrite: bool) -> list[str]:
    """Return why a file must not be written: another one is there and nobody agreed to lose it.

    Args:
        text: the rebuilt file.
        out: where it goes.
        found: the files that are there now, as [{"text": ...}], or [].
        overwrite: the consent.
    """
    if not found or overwrite or found[0]["text"] == text:
        return []
    todo = "give another path in operator_file_out, or agree with operator_file_overwrite=true"
    return [str(MeshError(f"file {out}", "it is there and holds something else; it was left as it is", todo))]
