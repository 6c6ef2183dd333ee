"""report.json -> report.html: the figures of its drawings, and the template that draws them. No network, no script."""

from __future__ import annotations

import datetime
from functools import lru_cache
from typing import Any

from jinja2 import Environment, StrictUndefined, Template, select_autoescape

from mesh_logic.report_steps import MOMENTS

# Drawings are this wide; the page stretches them.
WIDTH = 1000.0
# What is over at once would not be seen.
THIN = 6.0
Row = dict[str, Any]


def report_page(data: Row, template: str) -> str:
    """Return the page as one HTML text.

    Args:
        data: of `report_data`, with its evidence.
        template: Jinja2 text; every value in it is escaped.
    """
    return _compiled(template).render(
        data=data, timeline=timeline(data["steps"]), bars=bars(data), versions=versions(data)
    )


@lru_cache(maxsize=2)
def _compiled(template: str) -> Template:
    environment = Environment(
        autoescape=select_autoescape(default_for_string=True, default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["duration"] = duration
    environment.filters["clock"] = clock
    return environment.from_string(template)


def duration(seconds: float | None) -> str:
    """Return seconds for people: 18 s, 2 min 5 s, 3 h 20 min, 2 d 4 h; "" for None."""
    if seconds is None:
        return ""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    for unit, size, smaller, part in (("min", 60, "s", 1), ("h", 3600, "min", 60), ("d", 86400, "h", 3600)):
        if whole < size * (60 if unit == "min" else 24) or unit == "d":
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def clock(text: str) -> str:
    """Return an ISO time as it is read: 2026-12-01 00:02:39 UTC."""
    return text.replace("T", " ").replace("Z", " UTC")


def _at(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def timeline(steps: list[Row]) -> list[Row]:
    """Return {title, step, verdict, seconds, x, width} for each step; x is None where it has no time.

    A step of a journal that knows only its end has the thinnest bar, there.
    """
    timed = [row for row in steps if row["finished"]]
    first = min((_at(row["started"] or row["finished"]) for row in timed), default=0.0)
    last = max((_at(row["finished"]) for row in timed), default=0.0)
    scale = WIDTH / max(last - first, 1.0)
    rows = []
    for row in steps:
        if row["step"] == "before":
            continue
        found = {key: row[key] for key in ("title", "step", "verdict", "seconds", "started", "finished")}
        x = width = None
        if row["finished"]:
            begin, end = _at(row["started"] or row["finished"]), _at(row["finished"])
            width = max((end - begin) * scale, THIN)
            x = min((begin - first) * scale, WIDTH - width)
        rows.append(found | {"x": x, "width": width})
    return rows


def versions(data: Row) -> list[Row]:
    """Return {version, side} of every proxy version in the report: the old one, the new one, then others."""
    old, new = data["from"]["version"], data["to"]["version"]
    seen = {version for moment in data["proxies"] for version in moment["versions"]}
    others = sorted(seen - {old, new})
    rows = [{"version": old, "side": "old"}, {"version": new, "side": "new"}]
    return rows + [{"version": version, "side": "other"} for version in others]


def bars(data: Row) -> list[Row]:
    """Return {title, at, total, parts} for each moment; parts are {version, side, count, x, width}, stacked.

    All moments have one scale, so that a proxy is equally wide in each of them.
    """
    most = max((sum(moment["versions"].values()) for moment in data["proxies"]), default=0)
    rows = []
    for moment in data["proxies"]:
        x, parts = 0.0, []
        for kind in versions(data):
            count = moment["versions"].get(kind["version"], 0)
            if count:
                width = WIDTH * count / most
                parts.append({**kind, "count": count, "x": round(x, 2), "width": round(width, 2)})
                x += width
        total = sum(moment["versions"].values())
        rows.append(
            {"title": MOMENTS.get(moment["step"], moment["step"]), "at": moment["at"], "total": total, "parts": parts}
        )
    return rows
