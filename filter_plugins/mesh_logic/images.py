"""Image references: what a proxy runs, and whether two tags are the same Istio.

Sources: Istio pkg/kube/inject/inject.go ``imageURL`` (1.30, 1.31:
``<hub>/proxyv2:<tag>[-distroless|-debug]``, a full reference is used verbatim); the grammar of
distribution/reference v0.6 (name, tag, digest).
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypedDict

from mesh_logic import versions
from mesh_logic.errors import MeshError, kind_of, need_text, one_line, shown

VARIANTS = ("distroless", "debug")

_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST_ONLY = re.compile(_HOST)
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[0-9a-fA-F]{32,}")
_IMAGE_ID = re.compile(r"(?:sha256:)?[0-9a-f]{64}")


class ProxyImage(TypedDict):
    """One parsed reference; see ``proxy_image``."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None
    version: str | None
    suffix: str
    variant: str


class Verdict(TypedDict):
    """``same`` is None when the two cannot be compared; ``reason`` is one sentence for a report."""

    same: bool | None
    reason: str


class TagParts(NamedTuple):
    """A tag taken apart: version ``x.y.z`` or None, vendor suffix, variant."""

    version: str | None
    suffix: str
    variant: str


def tag_parts(tag: str) -> TagParts:
    """Take a tag apart: ``1.11.2-asm.17-distroless`` -> (1.11.2, asm.17, distroless).

    ``suffix`` has no leading dash. A branch, date, moving or two-part tag has no version, hence no suffix;
    its variant is still told. A pre-release keeps its x.y.z: ``1.31.0-rc.0`` -> (1.31.0, rc.0, "").
    """
    rest, variant = tag, ""
    for name in VARIANTS:
        if tag.endswith(f"-{name}"):
            rest, variant = tag.removesuffix(f"-{name}"), name
    match = versions.FULL.fullmatch(rest)
    if not match:
        return TagParts(None, "", variant)
    return TagParts(f"{match['x']}.{match['y']}.{match['z']}", match["suffix"] or "", variant)


def proxy_image(reference: object, pod: str = "") -> ProxyImage:
    """Parse the image of a proxy container.

    In: the ``image`` of a container in a pod (not of a Deployment: there ``auto`` is normal) and the pod's
    name for messages. Out: ``registry`` (host with port, or ""), ``repository`` (whole name, registry
    included, without tag and digest), ``tag`` and ``digest`` (None when absent), ``version`` (``x.y.z`` or
    None), ``suffix`` (what a vendor put after x.y.z, without leading dash and variant), ``variant``
    ("distroless", "debug" or ""). Errors: MeshError for no text, an image ID, ``auto`` (not injected), a
    doubled or otherwise invalid reference.
    """
    need_text(pod, "pod", "shop/web-0")
    where = f"image {shown(reference)} of pod {pod}" if pod else f"image {shown(reference)}"
    if not isinstance(reference, str):
        raise MeshError(where, f"a reference is text, found {kind_of(reference)}", "read the image of istio-proxy")
    text = str.__str__(reference)
    if not text:
        raise MeshError(where, "the reference is empty", "read the image of the container istio-proxy in the pod")
    _refuse_other_things(text, where)
    name, digest = _cut_digest(text, where)
    head, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise _invalid(where, f"{shown(tag)} is not a tag (one colon, then letters, digits, '_', '.', '-')")
    repository = f"{head}{slash}{last}"
    registry = _registry(repository, where)
    parts = tag_parts(tag) if colon else TagParts(None, "", "")
    return {
        "registry": registry,
        "repository": repository,
        "tag": tag if colon else None,
        "digest": digest,
        "version": parts.version,
        "suffix": parts.suffix,
        "variant": parts.variant,
    }


def _invalid(where: str, why: str) -> MeshError:
    return MeshError(
        where,
        f"this is not a valid image reference, {why}",
        "check hub, tag, values.global.proxy.image and the annotation sidecar.istio.io/proxyImage",
    )


def _refuse_other_things(text: str, where: str) -> None:
    # A container runtime may qualify the placeholder, so its known spellings count as well.
    if text.removesuffix(":latest").removeprefix("docker.io/").removeprefix("library/") == "auto":
        raise MeshError(
            where,
            "the placeholder was never replaced, so the pod was not injected",
            "check its istio.io/rev and injection labels and the revision they name, then delete the pod",
        )
    if _IMAGE_ID.fullmatch(text):
        raise MeshError(where, "this is an image ID, not a reference", "read spec.containers[].image of the pod")
    if "://" in text:
        raise _invalid(where, "it starts with a scheme (that is imageID, not image)")


def _cut_digest(text: str, where: str) -> tuple[str, str | None]:
    name, at, digest = text.partition("@")
    if not at:
        return name, None
    algorithm, _, value = digest.partition(":")
    if not _DIGEST.fullmatch(digest) or (algorithm == "sha256" and len(value) != 64):
        raise _invalid(where, f"{shown(digest)} is not a digest (sha256: and 64 hexadecimal digits)")
    return name, digest


def _registry(repository: str, where: str) -> str:
    """Return the host part by the rule container engines use: a dot, a port or ``localhost``."""
    first, slash, rest = repository.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    registry, path = (first, rest) if is_host else ("", repository)
    # A hub put before a reference that already has one (cases A12): the host comes twice.
    if registry and f"/{registry}/" in f"/{path}":
        raise _invalid(
            where,
            f"it holds the registry {shown(registry)} twice: a full reference was put where a name belongs",
        )
    if is_host and not _HOST_ONLY.fullmatch(first):
        raise _invalid(where, f"{shown(first)} is not a registry host")
    if not _PATH.fullmatch(path):
        why = "it holds a colon inside its path" if ":" in path else f"{shown(path)} is not a repository name"
        raise _invalid(where, why)
    return registry


def same_version(expected_tag: object, found_tag: object, strict: bool = False) -> Verdict:
    """Tell whether a proxy's tag is the expected Istio.

    In: two tags (None: the reference has none); ``strict`` compares the full tags, since two builds of one
    x.y.z may differ. Out: ``same`` True, False or None (cannot be compared, the run has to stop or look at
    the injecting revision) and ``reason``. A variant alone does not make a difference unless strict; a
    pre-release is not its release. Errors: MeshError when a tag is neither text nor None.
    """
    expected, found = _tag_or_none(expected_tag, "expected tag"), _tag_or_none(found_tag, "found tag")
    for name, tag in (("expected", expected), ("found", found)):
        if tag is None:
            return {"same": None, "reason": f"cannot be compared: the {name} image has no tag"}
        if tag_parts(tag).version is None and not versions.is_prerelease(tag):
            return {
                "same": None,
                "reason": f"cannot be compared: the {name} tag {shown(tag)} holds no version x.y.z",
            }
    assert expected is not None  # the loop above has left only text
    assert found is not None
    if expected == found:
        return {"same": True, "reason": f"same tag {expected}"}
    if strict:
        return {"same": False, "reason": f"strict: full tags differ, expected {expected}, found {found}"}
    if versions.compare_versions(expected, found):
        return {"same": False, "reason": f"versions differ: expected {expected}, found {found}"}
    left, right = tag_parts(expected), tag_parts(found)
    notes = [f"version {left.version or expected} in both"]
    if left.suffix != right.suffix:
        notes.append(f"build differs: expected {left.suffix or 'none'}, found {right.suffix or 'none'}")
    if left.variant != right.variant:
        notes.append(f"variant differs: expected {left.variant or 'default'}, found {right.variant or 'default'}")
    return {"same": True, "reason": one_line("; ".join(notes))}


def _tag_or_none(tag: object, name: str) -> str | None:
    if tag is None:
        return None
    if isinstance(tag, str):
        return str.__str__(tag) or None
    raise MeshError(name, f"a tag is text, found {kind_of(tag)}", 'quote it, such as "1.31.0"')
