"""The two READMEs say the same: same commands, same names, same links, same structure, each in its own words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGLISH, JAPANESE = "README.md", "README.ja.md"

_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str) -> list[str]:
    """Return the fenced blocks that are for typing or for reading as they are; a diagram has words of its own."""
    return [body for kind, body in _FENCE.findall(text) if kind != "mermaid"]


def edges(text: str) -> list[str]:
    """Return a diagram without its words: nodes and arrows."""
    (diagram,) = [body for kind, body in _FENCE.findall(text) if kind == "mermaid"]
    plain = re.sub(r"\[[^\]]*\]|-\. .*? \.->", lambda m: "->" if m[0].startswith("-") else "[]", diagram)
    return [line.strip() for line in plain.splitlines()]


def spans(text: str) -> list[str]:
    """Return the code spans, sorted: languages put them into another order."""
    return sorted(re.findall(r"`([^`\n]+)`", _FENCE.sub("", text)))


def links(text: str) -> list[str]:
    """Return where the links lead, in their order, but for the one to the other language."""
    return [link for link in _LINK.findall(_FENCE.sub("", text)) if link not in (ENGLISH, JAPANESE)]


def shape(text: str) -> list[str]:
    """Return headings, list items and table rows as signs, in their order."""
    signs = re.findall(r"^(#+|-|[0-9]+\.|\|)(?= |-)", _FENCE.sub("", text), re.MULTILINE)
    return [str(sign) for sign in signs]


@pytest.mark.parametrize("part", [blocks, edges, spans, links, shape], ids=lambda part: part.__name__)
def test_both_readmes_hold_the_same(part: object) -> None:
    assert callable(part)
    english, japanese = part(text_of(ENGLISH)), part(text_of(JAPANESE))
    assert english
    assert japanese == english


def test_each_leads_to_the_other() -> None:
    assert f"]({JAPANESE})" in text_of(ENGLISH)
    assert f"]({ENGLISH})" in text_of(JAPANESE)


def test_the_japanese_one_is_japanese() -> None:
    # every paragraph, not only the headings: a sentence that was forgotten in English is seen here
    prose = _LINK.sub("", re.sub(r"`[^`\n]+`", "", _FENCE.sub("", text_of(JAPANESE))))
    english = [p for p in re.split(r"\n\s*\n", prose) if re.search(r"[A-Za-z]{4,} [a-z]{2,} [a-z]{2,}", p)]
    assert english == []


def test_a_changed_command_and_a_lost_link_are_found() -> None:
    text = text_of(ENGLISH)
    assert blocks(text.replace("--check --diff", "--check")) != blocks(text)
    assert spans(text.replace("`make demo`", "`make`")) != spans(text)
    assert links(text.replace("(docs/fleet.md)", "(docs/awx.md)")) != links(text)
    assert edges(text.replace("D --> E", "D --> F")) != edges(text)
    assert shape(text.replace("## Try it", "Try it")) != shape(text)
