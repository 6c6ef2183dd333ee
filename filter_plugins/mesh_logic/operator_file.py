"""The IstioOperator file of an environment: what may be in it, and the revision and tag laid over it.

Sources: Istio operator/pkg/render/manifest.go ``MergeInputs`` (1.30, 1.31): user values are merged last, so
``spec.values.revision`` and ``spec.values.global.tag`` win over ``spec.revision`` and ``spec.tag``, and so
does a tag of a component; ``checkNoMultipleIOPs``: one IstioOperator per file.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypedDict

import yaml

from mesh_logic import images
from mesh_logic.errors import MeshError, kind_of, need_text, one_line, shown

KIND, API_VERSION = "IstioOperator", "install.istio.io/v1alpha1"
_REVISION_PATHS: tuple[tuple[str, ...], ...] = (("spec", "revision"), ("spec", "values", "revision"))
_TAG_PATHS: tuple[tuple[str, ...], ...] = (("spec", "tag"), ("spec", "values", "global", "tag"))
# A tag here wins over spec.tag for its component.
_PART_TAG_PATHS: tuple[tuple[str, ...], ...] = (
    ("spec", "components", "pilot", "tag"),
    ("spec", "components", "cni", "tag"),
    ("spec", "values", "pilot", "tag"),
    ("spec", "values", "cni", "tag"),
)
# An image written as a full reference is used verbatim, its tag included.
_IMAGE_PATHS: tuple[tuple[str, ...], ...] = (
    ("spec", "values", "pilot", "image"),
    ("spec", "values", "global", "proxy", "image"),
    ("spec", "values", "global", "proxy_init", "image"),
)
_FIX = "put one IstioOperator there, the same file that installs this environment"


class Overlay(TypedDict):
    """``document`` and its YAML ``text``; ``overlaid`` says in sentences what was changed."""

    document: dict[str, Any]
    text: str
    overlaid: list[str]


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice, of which YAML would silently keep the last."""


def _unique_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, (dict, list)) or key in seen:
            raise yaml.constructor.ConstructorError(
                "while reading a mapping",
                node.start_mark,
                f"the key {key!r} is given twice",
                key_node.start_mark,
            )
        seen.add(key)
    return yaml.SafeLoader.construct_mapping(loader, node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def check_operator_file(text: object, path: str, allowed_revisions: Sequence[str]) -> dict[str, Any]:
    """Return the IstioOperator of a file when an upgrade can use it.

    In: the file's text, its path for messages, and the revisions it may name: the old and the new one
    (``default`` and "" both mean an install without a revision and are always allowed in the file). Errors:
    MeshError for broken YAML, nothing, several documents, another kind, a revision or tag that is no text,
    a foreign revision, and ``values.revisionTags``, with which the install itself would move tags.
    """
    what = f"operator file {need_text(path, 'path of the operator file', 'files/istio-operator.yaml')}"
    if isinstance(allowed_revisions, str) or not isinstance(allowed_revisions, Sequence):
        found = kind_of(allowed_revisions)
        raise MeshError("allowed revisions", f"a list is needed, found {found}", "give the old and the new revision")
    document = _one_document(need_text(text, what, "kind: IstioOperator"), what)
    if document.get("kind") != KIND or document.get("apiVersion") != API_VERSION:
        kind, version = (shown(document[key]) if document.get(key) else "none" for key in ("kind", "apiVersion"))
        found = f"kind {kind} of {version}"
        raise MeshError(what, f"it holds {found}, not {KIND} of {API_VERSION}", _FIX)
    if not isinstance(document.get("spec", {}) or {}, dict):
        raise MeshError(what, f"spec is {kind_of(document['spec'])}, not a mapping", _FIX)
    for keys in _REVISION_PATHS:
        _check_revision(_get(document, keys), f"{'.'.join(keys)} in {what}", allowed_revisions)
    for keys in (*_TAG_PATHS, *_PART_TAG_PATHS):
        value = _get(document, keys)
        if value is not None:
            need_text(value, f"{'.'.join(keys)} in {what}", "1.31.0")
    if tags := _get(document, ("spec", "values", "revisionTags")):
        raise MeshError(
            f"spec.values.revisionTags in {what}",
            f"the install itself would move {shown(tags)} to the new revision, before any canary",
            "remove it and list the tags in mesh_tags",
        )
    return document


def _one_document(text: str, what: str) -> dict[str, Any]:
    try:
        documents = [item for item in yaml.load_all(text, Loader=_Loader) if item is not None]
    except yaml.YAMLError as problem:
        raise MeshError(what, f"it is not valid YAML: {one_line(str(problem))}", "correct that line") from problem
    if not documents:
        raise MeshError(what, "it is empty", _FIX)
    if len(documents) > 1:
        kinds = [str(item.get("kind")) if isinstance(item, dict) else type(item).__name__ for item in documents]
        raise MeshError(
            what,
            f"it holds {len(documents)} documents ({', '.join(dict.fromkeys(kinds))}); a rendered "
            "manifest is no operator file",
            _FIX,
        )
    if not isinstance(documents[0], dict):
        raise MeshError(what, f"it holds {kind_of(documents[0])}, not a mapping", _FIX)
    return documents[0]


def _check_revision(value: object, what: str, allowed: Sequence[str]) -> None:
    if value is None:
        return
    revision = need_text(value, what, "1-31-0")
    names = ", ".join(name or "default" for name in allowed)
    if revision not in ("", "default", *allowed):
        raise MeshError(
            f"{what} is {shown(revision)}",
            f"that is neither the old nor the new revision ({names})",
            "remove it: the upgrade lays the revision over the file",
        )


def overlay_operator(
    text: object, path: str, revision: object, tag: object, allowed_revisions: Sequence[str]
) -> Overlay:
    """Lay revision and tag over an operator file; hub and all other settings stay.

    In: as ``check_operator_file``, the revision to install (``default`` or "": none) and the image tag ("":
    the file's own stays). Out: ``document``, its YAML ``text``, ``overlaid`` notes. What would win over
    ``spec.revision`` and ``spec.tag`` is laid over as well. Errors: as ``check_operator_file``, and
    MeshError for an image with another tag written in full.
    """
    wanted = need_text(revision, "revision", "1-31-0")
    wanted = "" if wanted == "default" else wanted
    new_tag = need_text(tag, "tag", "1.31.0")
    document = copy.deepcopy(check_operator_file(text, path, allowed_revisions))
    spec = document["spec"] = document.get("spec") or {}
    notes: list[str] = []
    old = _get(document, _REVISION_PATHS[0])
    if wanted:
        spec["revision"] = wanted
        notes += _changed("spec.revision", old, wanted)
    elif spec.pop("revision", None):
        notes.append(f"spec.revision {shown(old)} removed: this install has no revision")
    if (inner := _drop(document, _REVISION_PATHS[1])) is not None:
        notes.append(f"spec.values.revision {shown(inner)} removed: it would win over spec.revision")
    if new_tag:
        notes += _changed("spec.tag", spec.get("tag"), new_tag)
        spec["tag"] = new_tag
        for keys in (*_TAG_PATHS[1:], *_PART_TAG_PATHS):
            if (inner := _drop(document, keys)) is not None:
                notes.append(f"{'.'.join(keys)} {shown(inner)} removed: it would win over spec.tag")
        _refuse_pinned_images(document, new_tag, path)
    dumped = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000)
    return {"document": document, "text": dumped, "overlaid": notes}


def _changed(name: str, old: object, new: str) -> list[str]:
    if old == new:
        return []
    return [f"{name} set to {shown(new)}" + (f", the file has {shown(old)}" if old else "")]


def _refuse_pinned_images(document: dict[str, Any], tag: str, path: str) -> None:
    for keys in _IMAGE_PATHS:
        value = _get(document, keys)
        if not isinstance(value, str) or "/" not in value:
            continue
        image = images.proxy_image(value)
        if image["tag"] != tag or image["digest"]:
            raise MeshError(
                f"{'.'.join(keys)} in operator file {path}",
                f"{shown(value)} is used verbatim, so the new revision would not run tag {tag}",
                "write only the image's name there and its registry in spec.hub",
            )


def _get(document: dict[str, Any], keys: Sequence[str]) -> Any:
    value: Any = document
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _drop(document: dict[str, Any], keys: Sequence[str]) -> Any:
    parent = _get(document, keys[:-1])
    return parent.pop(keys[-1], None) if isinstance(parent, dict) else None
