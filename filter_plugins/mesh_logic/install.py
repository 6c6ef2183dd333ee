"""What an install is given: the tag, the operator document, and the objects it renders."""

from __future__ import annotations

from typing import Any

import yaml

from mesh_logic.errors import MeshError
from mesh_logic.images import proxy_image
from mesh_logic.model import build_view
from mesh_logic.operator_file import overlay_operator


def target_tag(facts: dict[str, Any], desired: dict[str, Any]) -> str:
    """Return the image tag of the new version.

    `mesh_to_tag` where it is set; else the new version followed by what follows the version in the running tag, so
    that `1.30.5-distroless` is followed by `1.31.0-distroless`.
    """
    if desired["to"]["tag"]:
        return str(desired["to"]["tag"])
    running = _running(facts, desired)
    version = str(desired["to"]["version"])
    tag, old = (running or {}).get("tag") or "", (running or {}).get("version") or ""
    return version + tag.split(old, 1)[1] if old and old in tag else version


def revision_tag(facts: dict[str, Any], revision: str) -> str:
    """Return the image tag that a revision's istiod runs and that its proxies are expected to have, or ""."""
    return str((build_view(facts)["revisions"].get(revision) or {}).get("tag") or "")


def _running(facts: dict[str, Any], desired: dict[str, Any]) -> Any:
    row = build_view(facts)["revisions"].get(desired["from"]["revision"])
    return proxy_image(row["image"]) if row else None


def install_document(facts: dict[str, Any], desired: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the operator file with the new revision and tag laid over it: {text, overlaid}.

    The hub of the file is kept; where the file names none, the registry that the old istiod was pulled from is laid
    over as well, so that a mirrored registry does not silently become the public one.
    """
    allowed = [desired["from"]["revision"], desired["to"]["revision"]]
    laid = overlay_operator(
        text, desired["operator_file"], desired["to"]["revision"], target_tag(facts, desired), allowed
    )
    document, notes = laid["document"], list(laid["overlaid"])
    spec = document["spec"]
    running = _running(facts, desired)
    repository = (running or {}).get("repository") or ""
    in_values = ((spec.get("values") or {}).get("global") or {}).get("hub")
    if "hub" not in spec and not in_values and repository.endswith("/pilot"):
        spec["hub"] = repository.removesuffix("/pilot")
        notes.append(f"spec.hub: not set, set to {spec['hub']} (where the old istiod comes from)")
    return {"text": yaml.safe_dump(document, sort_keys=False), "overlaid": notes, "owner": owner_name(document)}


def owner_name(document: dict[str, Any]) -> str:
    """Return metadata.name of an operator document, or "": an install prunes by it only where it is set."""
    return str((document.get("metadata") or {}).get("name") or "")


def prune_selector(desired: dict[str, Any], owner: str) -> str:
    """Return the label selector by which `istioctl install` looks for objects to prune.

    A default tag that an install made carries the labels of the revision and is kept nevertheless.

    Source: operator/pkg/install/install.go `getOwnerLabels` and `prune`, operator/pkg/manifest/name.go (1.31).
    """
    parts = [
        "operator.istio.io/component",
        "install.operator.istio.io/owning-resource-not-pruned!=true",
        "operator.istio.io/managed=Reconcile",
        f"operator.istio.io/version={desired['to']['version']}",
        f"istio.io/rev={desired['to']['revision']}",
    ]
    return ",".join(parts + ([f"install.operator.istio.io/owning-resource={owner}"] if owner else []))


def rendered_objects(text: str) -> list[dict[str, str]]:
    """Return kind, namespace and name of every object in `istioctl manifest generate` output.

    Raises:
        MeshError: it is not YAML, or holds no object at all (an error is never an empty list).
    """
    try:
        # the C loader is ten times faster on the megabyte of CRDs in there
        documents = list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError as error:
        raise MeshError("istioctl manifest generate", f"its output is not YAML: {error}", "run it by hand") from None
    found = [
        {
            "kind": str(d.get("kind")),
            "namespace": str((d.get("metadata") or {}).get("namespace") or ""),
            "name": str((d.get("metadata") or {}).get("name") or ""),
        }
        for d in documents
        if isinstance(d, dict) and d.get("kind")
    ]
    if not found:
        raise MeshError("istioctl manifest generate", "it rendered no object", "run it by hand with the operator file")
    return found


def in_place_rendered(objects: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return what an install would change in place: gateways (profile `default`, case F13), CNI, ztunnel."""
    return [
        o
        for o in objects
        if o["kind"] == "DaemonSet" or (o["kind"] == "Deployment" and not o["name"].startswith("istiod"))
    ]


def gateways_rendered(objects: list[dict[str, str]]) -> list[str]:
    """Return the same as words."""
    return [f"{o['kind']} {o['namespace']}/{o['name']}" for o in in_place_rendered(objects)]
