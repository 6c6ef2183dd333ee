"""What ``istioctl tag list`` says: table, JSON or YAML, whichever came.

Sources: Istio istioctl/pkg/tag/tag.go ``listTags`` (1.12 to 1.31): Go tabwriter, minimum width 0, padding 1
space, header ``TAG REVISION NAMESPACES``; a revision without a tag has an empty TAG cell, so columns are
cut at the header's offsets. Some releases print the table although JSON was asked for (case C01), and all
print a sentence, not ``[]``, when there is nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypedDict

import yaml

from mesh_logic.errors import MeshError, kind_of, need_text, shown
from mesh_logic.text import error_lines, strip_ansi

_HEADER = re.compile(r"\s*(TAG)\s+(REVISION)\s+(NAMESPACES)\s*")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_NOTHING = re.compile(r"No Istio revision tag(?:s found\.?| MutatingWebhookConfigurations to list\.?)", re.IGNORECASE)
_YAML_START = re.compile(r"-\s+(?:namespaces|revision|tag):")
_READ_AGAIN = 'run "istioctl tag list" again and look at its whole output'


class TagRow(TypedDict):
    """One row; ``tag`` is "" for a revision without a tag. ``namespaces`` use exactly this tag as label."""

    tag: str
    revision: str
    namespaces: list[str]


def revision_tags(text: object, istioctl: str = "") -> list[TagRow]:
    """Parse the output of ``istioctl tag list``, in any of its formats, colours and line ends tolerated.

    In: its text (stdout, or both streams merged) and, for messages, which istioctl spoke. Out: rows in the
    order they came; [] only when istioctl said itself that there are none. Errors: MeshError for empty
    output, an ``Error:`` line, text without a table, and a row that does not fit its header.
    """
    what = f"output of tag list by {istioctl}" if istioctl else "output of istioctl tag list"
    plain = strip_ansi(need_text(text, what, "TAG REVISION NAMESPACES"))
    if not plain.strip():
        raise MeshError(what, "it is empty, which is never an answer", "look at the exit code and stderr of istioctl")
    if errors := error_lines(plain):
        raise MeshError(what, f"istioctl reports {shown(errors[0])}", "remove that cause, then run it again")
    lines = plain.split("\n")
    for number, line in enumerate(lines):
        if header := _HEADER.fullmatch(line):
            return _table(header, lines[number + 1 :], what)
    rows = _json(plain, what)
    if rows is None:
        rows = _yaml(lines, what)
    if rows is not None:
        return rows
    if any(_NOTHING.fullmatch(line.strip()) for line in lines):
        return []
    raise MeshError(what, f"neither table, JSON nor YAML was found in {shown(plain)}", _READ_AGAIN)


def _table(header: re.Match[str], lines: list[str], what: str) -> list[TagRow]:
    starts = [header.start(group) for group in (1, 2, 3)]
    rows: list[TagRow] = []
    for line in lines:
        if not line.strip():
            continue
        # A cell that reaches over the next column's start is no row of this table (a warning, a wrapped
        # line).
        fits = not line[: starts[0]].strip() and all(line[start - 1 : start] in ("", " ") for start in starts[1:])
        tag, revision = line[starts[0] : starts[1]].strip(), line[starts[1] : starts[2]].strip()
        names = line[starts[2] :].strip()
        namespaces = names.split(",") if names else []
        cells = [revision, *namespaces] + ([tag] if tag else [])
        if not fits or not all(_NAME.fullmatch(cell) for cell in cells):
            raise MeshError(
                what, f"the row {shown(line)} does not fit the columns TAG REVISION NAMESPACES", _READ_AGAIN
            )
        rows.append({"tag": tag, "revision": revision, "namespaces": namespaces})
    return rows


def _json(text: str, what: str) -> list[TagRow] | None:
    # Warnings may come before it, so every line that could open the array is tried.
    for match in re.finditer(r"^\s*\[", text, re.MULTILINE):
        try:
            value, _ = json.JSONDecoder().raw_decode(text, match.end() - 1)
        except ValueError:
            continue
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return [_row(item, what) for item in value]
    return None


def _yaml(lines: list[str], what: str) -> list[TagRow] | None:
    start = next((number for number, line in enumerate(lines) if _YAML_START.match(line)), None)
    if start is None:
        return None
    try:
        # BaseLoader keeps every scalar as text: a tag such as 2025-01-31 stays a name.
        value = yaml.load("\n".join(lines[start:]), Loader=yaml.BaseLoader)
    except yaml.YAMLError as problem:
        raise MeshError(what, f"it begins as YAML and is broken: {problem}", _READ_AGAIN) from problem
    if not isinstance(value, list):
        raise MeshError(what, f"a YAML list is expected, found {kind_of(value)}", _READ_AGAIN)
    return [_row(item, what) for item in value]


def _row(item: Any, what: str) -> TagRow:
    namespaces = (item.get("namespaces") or []) if isinstance(item, Mapping) else None
    if (
        namespaces is None
        or not isinstance(item.get("tag"), str)
        or not isinstance(item.get("revision"), str)
        or not item["revision"]
        or not isinstance(namespaces, list)
        or not all(isinstance(name, str) for name in namespaces)
    ):
        raise MeshError(what, f"the entry {shown(item)} lacks tag, revision or namespaces", _READ_AGAIN)
    return {"tag": item["tag"], "revision": item["revision"], "namespaces": list(namespaces)}


def tag_map(rows: object) -> dict[str, str]:
    """Return tag -> revision for all tags of ``revision_tags``; an ambiguous tag is a MeshError."""
    return {tag: tag_revision(rows, tag) for tag in dict.fromkeys(row["tag"] for row in _checked(rows)) if tag}


def tag_revision(rows: object, tag: object) -> str:
    """Return the revision a tag points to.

    In: the rows of ``revision_tags`` and a tag. Errors: MeshError when the tag is not there (a revision's
    name is not a tag), or when two rows give different revisions: since Istio 1.28 a tag is a webhook and a
    Service, and an older istioctl moves only the webhook.
    """
    name = need_text(tag, "tag", "prod-stable")
    what = f"tag {shown(name)}"
    checked = _checked(rows)
    found = sorted({row["revision"] for row in checked if name and row["tag"] == name})
    if len(found) == 1:
        return found[0]
    if found:
        raise MeshError(
            what,
            f"it points to {' and '.join(found)} at once, since its webhook and its Service disagree",
            f'with the newest istioctl run "istioctl tag set {name} --revision <revision> --overwrite"',
        )
    tags = sorted({row["tag"] for row in checked if row["tag"]})
    why = "no such tag in the cluster"
    if any(row["revision"] == name for row in checked):
        why = "this is a revision, not a tag"
    raise MeshError(what, why, f"use one of: {', '.join(tags) or '(there are no tags)'}")


def _checked(rows: object) -> list[TagRow]:
    if not isinstance(rows, (list, tuple)):
        raise MeshError("tag rows", f"a list is needed, found {kind_of(rows)}", "give the result of revision_tags")
    return [_row(item, "tag rows") for item in rows]
