"""Versions and revision names: read, order, compare, and what may be upgraded to what.

Sources: Istio's support rule (a revision upgrade may skip one minor, so two steps at most; istio.io issue
10163), operator/pkg/util ``ValidateRevision`` (DNS-1123 label), istioctl/pkg/precheck ``checkFromVersion``
(1.31).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from mesh_logic.errors import MeshError, kind_of, need_text, shown

Version: TypeAlias = tuple[int, int, int]
# Order inside one x.y.z: 0 for a pre-release with its identifiers, 1 for the release.
_Rank: TypeAlias = tuple[int, tuple[tuple[int, int, str], ...]]

_N = r"(?:0|[1-9][0-9]{0,2})"
# x.y.z and an optional suffix after a dash. Four parts (1.30.5.2) and leading zeros (dates) are no version.
FULL = re.compile(rf"v?(?P<x>[0-9]|[1-9][0-9])\.(?P<y>{_N})\.(?P<z>{_N})(?:-(?P<suffix>[0-9A-Za-z][0-9A-Za-z_.-]*))?")
_STAGE = r"(?:dev|alpha|beta|pre|rc)(?:[0-9]+|\.[0-9A-Za-z]+)*(?=-|$)"
_EARLY = re.compile(_STAGE)
_SHORT_EARLY = re.compile(rf"v?(?P<x>[0-9]|[1-9][0-9])\.(?P<y>{_N})-(?P<suffix>{_STAGE}.*)")
_VARIANT = re.compile(r"-(?:distroless|debug)$")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_REVISION_NUMBERS = re.compile(rf"(?P<x>{_N})-(?P<y>{_N})(?:-(?P<z>{_N}))?(?:-(?P<suffix>[a-z].*))?")
_STAGES = {"dev": 0, "alpha": 1, "beta": 2, "pre": 3, "rc": 4}

# A revision is part of the Service name istiod-<revision>, and a Service name may have 63 characters.
REVISION_LENGTH = 63 - len("istiod-")
# Names of objects that people copy instead of the revision inside them (case I05).
_OBJECT_PREFIXES = ("istiod-", "istio-sidecar-injector-", "istio-revision-tag-", "istio-validator-")


def parse_version(value: object, name: str = "version") -> Version:
    """Read ``x.y.z``, also with a suffix (``1.31.0-rc.0``, ``1.30.5-corp.2-distroless``), as three integers.

    Errors: MeshError for a number (YAML makes 1.30 to 1.3), two parts, ``latest``, a branch or date.
    """
    text = need_text(value, name, "1.31.0")
    match = FULL.fullmatch(text)
    if match:
        return int(match["x"]), int(match["y"]), int(match["z"])
    if re.fullmatch(r"v?[0-9]+\.[0-9]+", text):
        raise MeshError(f"{name} {shown(text)}", "the patch number is missing", 'give three parts, such as "1.31.0"')
    raise MeshError(
        f"{name} {shown(text)}",
        "this is not a version x.y.z",
        'give the exact Istio version, such as "1.31.0"',
    )


def is_prerelease(tag: object) -> bool:
    """Tell whether a version or tag is before its release: ``1.31.0-rc.0``, ``1.31-alpha.<sha>``."""
    text = _VARIANT.sub("", need_text(tag, "tag", "1.31.0"))
    match = FULL.fullmatch(text) or _SHORT_EARLY.fullmatch(text)
    return bool(match and match["suffix"] and _EARLY.match(match["suffix"]))


def compare_versions(left: object, right: object) -> int:
    """Return -1, 0 or 1: left is older, equal or newer. Vendor suffix and variant do not count.

    A pre-release is lower than its release; ``1.31-alpha.<sha>`` counts as a pre-release of 1.31.0.
    Errors: MeshError when one of them holds no version.
    """
    a, b = _order(left), _order(right)
    return (a > b) - (a < b)


def _order(value: object) -> tuple[Version, _Rank]:
    text = _VARIANT.sub("", need_text(value, "version", "1.31.0"))
    short = _SHORT_EARLY.fullmatch(text)
    if short:
        return (int(short["x"]), int(short["y"]), 0), _rank(short["suffix"])
    numbers = parse_version(text)
    match = FULL.fullmatch(text)
    return numbers, _rank(match["suffix"] if match else None)


def _rank(suffix: str | None) -> _Rank:
    early = _EARLY.match(suffix) if suffix else None
    if not early:
        return 1, ()
    words = re.findall(r"[0-9]+(?![A-Za-z0-9])|[A-Za-z]+(?=[0-9]+(?:\.|$))|[0-9A-Za-z]+", early.group())
    # Numbers before words and by value, as semantic versioning has it; stages in the order of a release.
    return 0, tuple(
        (0, int(word), "") if word.isdigit() else (1, _STAGES.get(word, len(_STAGES)), word) for word in words
    )


def revision_name(version: object, name: str = "version") -> str:
    """Return the revision a version is installed as: ``1.31.0`` -> ``1-31-0``, ``1.31.0-rc.0`` ->
    ``1-31-0-rc-0``.

    Errors: MeshError when it holds no version (see ``parse_version``).
    """
    parse_version(version, name)
    return re.sub(r"[._]", "-", need_text(version, name, "1.31.0").removeprefix("v").lower())


def check_revision_name(
    value: object,
    name: str = "revision",
    known: Iterable[str] | None = None,
    tags: Mapping[str, str] | None = None,
) -> str:
    """Return value when it can be a revision; else MeshError that suggests the right one.

    ``known`` are the revisions in the cluster (None: not asked), ``tags`` maps tag to revision, so that a
    tag given as revision is told apart (case C08). ``default`` stands for an install without a revision.
    """
    text = need_text(value, name, "1-31-0")
    what = f"{name} {shown(text)}"
    if known is not None and text in (there := sorted(known)):
        return text
    if tags and text in tags:
        raise MeshError(what, f"this is a tag that points to {tags[text]}, not a revision", f'use "{tags[text]}"')
    if not text:
        raise MeshError(what, "no value is set", 'set it, quoted, such as "1-31-0"')
    for prefix in _OBJECT_PREFIXES:
        if text.startswith(prefix) and len(text) > len(prefix):
            inside = text.removeprefix(prefix)
            raise MeshError(what, "this is the name of an object, not of a revision", f'use "{inside}"{_listed(known)}')
    if not _LABEL.fullmatch(text):
        suggestion = re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-") or "1-31-0"
        why = "a revision may not hold a dot" if "." in text else "lower-case letters, digits and '-' only"
        raise MeshError(what, f"{why} (it becomes part of Kubernetes names)", f'use "{suggestion[:REVISION_LENGTH]}"')
    if len(text) > REVISION_LENGTH:
        raise MeshError(
            what,
            f"{len(text)} characters are too many, the Service istiod-<revision> may have 63",
            f"use at most {REVISION_LENGTH} characters",
        )
    if known is not None:
        raise MeshError(what, "no such revision in the cluster", f"use one of: {', '.join(there) or '(none found)'}")
    return text


def _listed(known: Iterable[str] | None) -> str:
    return "" if known is None else f"; revisions in the cluster: {', '.join(sorted(known)) or '(none found)'}"


def newest_revision(revisions: object) -> str:
    """Return the revision with the highest numbers: 1-31-0 after 1-10-0 after 1-9-3, by value and not by
    text.

    Errors: MeshError for an empty list and for names without numbers, which have no order.
    """
    if not isinstance(revisions, (list, tuple)):
        raise MeshError("revisions", f"a list is needed, found {kind_of(revisions)}", "give the list of names")
    if not revisions:
        raise MeshError("revisions", "the list is empty, so none is the newest", "read the revisions of istiod first")
    return max((need_text(item, "a revision in the list", "1-31-0") for item in revisions), key=_revision_order)


def _revision_order(revision: str) -> tuple[int, int, int, _Rank, str]:
    match = _REVISION_NUMBERS.fullmatch(revision)
    if not match:
        raise MeshError(
            f"revision {shown(revision)}",
            "its name holds no version, so it cannot be ordered",
            "compare the versions of the istiod images instead",
        )
    # 1-31 without a patch number sorts before 1-31-0. The name itself settles ties, so the answer is stable.
    patch = int(match["z"]) if match["z"] else -1
    return int(match["x"]), int(match["y"]), patch, _rank((match["suffix"] or "").replace("-", ".")), revision


def minor_skew(old: object, new: object) -> int:
    """Return how many minors new is ahead of old (negative: behind). Another major is a MeshError."""
    left, right = parse_version(old, "old version"), parse_version(new, "new version")
    if left[0] != right[0]:
        raise MeshError(
            f"old version {shown(old)} and new version {shown(new)}",
            "they have different major numbers, which no rule covers",
            "check both versions",
        )
    return right[1] - left[1]


def check_skew(old: object, new: object, allowed_minors: int = 2) -> int:
    """Return the minors between old and new when the upgrade is allowed.

    Errors: MeshError when both are the same, the target is older, or it is more than ``allowed_minors``
    ahead. Two builds of one x.y.z (``1.31.0-corp.1`` to ``-corp.2``) are an allowed upgrade with skew 0; a
    change of the variant alone is not an upgrade.
    """
    skew = minor_skew(old, new)
    order = compare_versions(old, new)
    pair = f"old version {shown(old)}, new version {shown(new)}"
    bare_old, bare_new = (_VARIANT.sub("", need_text(item, "version", "1.31.0")) for item in (old, new))
    if order == 0 and bare_old.removeprefix("v") == bare_new.removeprefix("v"):
        raise MeshError(pair, "both are the same, there is nothing to upgrade", "set mesh_to_version to a newer one")
    if order > 0:
        raise MeshError(
            pair,
            "the target is older than what runs, and a downgrade by revision is not supported",
            "set mesh_to_version to a newer version; to undo a tag move, set the tags back",
        )
    if skew > allowed_minors:
        major, minor, _ = parse_version(old)
        raise MeshError(
            pair,
            f"{skew} minors in one step, {allowed_minors} are supported",
            f"upgrade to a {major}.{minor + allowed_minors} release first, or raise the allowed number of "
            "minors, which the report then records",
        )
    return skew


def from_version_flag(version: object) -> str:
    """Return the value for ``istioctl x precheck --from-version``: ``1.30.5`` -> ``1.30`` (x.y.z is refused
    there)."""
    major, minor, _ = parse_version(version)
    return f"{major}.{minor}"
