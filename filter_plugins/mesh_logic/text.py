"""Captured tool output as plain text (case C13)."""

from __future__ import annotations

import re

# CSI (colours, cursor), OSC (titles, links; ended by BEL or ESC \), and two-character escapes.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def strip_ansi(text: str) -> str:
    """Return text without terminal escapes and control characters; every line end is a line feed."""
    plain = _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", plain)


def error_lines(text: str) -> list[str]:
    """Return the lines by which istioctl reports a failure (``Error: ...``, cobra's form)."""
    return [line.strip() for line in text.split("\n") if line.startswith("Error: ")]
