"""The documents say what is there: generated ones are fresh, and every name in them leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from mesh_logic.inputs import read_inputs

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("roles/*/README.md")])
MAKE_FILES = (ROOT / "Makefile", ROOT / "lab" / "lab.mk")
# Folders whose files are named in documents; the first part of a path that must exist.
FOLDERS = (
    *("playbooks", "roles", "library", "module_utils", "filter_plugins", "action_plugins", "inventories"),
    *("molecule", "lab", "tests", "docs", "requirements", "collections", "changelogs", "awx", ".ci"),
)

_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_PATH = re.compile(rf"(?<![\w./~<-])(?:{'|'.join(map(re.escape, FOLDERS))})/[\w./*<>-]*")
_MAKE = re.compile(r"(?<![\w-])make((?: [A-Z_]+=\S+| [a-z][a-z0-9-]*)+)")


def code(text: str) -> str:
    """Return the code of a Markdown text: fenced blocks without comments, then code spans."""
    blocks = [re.sub(r"(^|\s)#.*", "", block) for block in _FENCE.findall(text)]
    return "\n".join([*blocks, *_SPAN.findall(_FENCE.sub("", text))])


def targets() -> set[str]:
    """Return the targets of the Makefile and what it includes."""
    found: set[str] = set()
    for path in MAKE_FILES:
        for line in path.read_text(encoding="utf-8").splitlines():
            if match := re.match(r"([a-z][a-z0-9 -]*):(?!=)", line):
                found.update(match.group(1).split())
    return found


def dead_names(text: str) -> list[str]:
    """Return the paths and make targets in a document's code that are not there."""
    found = code(text)
    dead = []
    for name in _PATH.findall(found):
        # inventories/<env>/... stands for any of them
        pattern = re.sub(r"<[^>]*>", "*", name.rstrip("./"))
        if not any(ROOT.glob(pattern)):
            dead.append(name)
    for match in _MAKE.findall(found):
        dead += [f"make {word}" for word in match.split() if "=" not in word and word not in targets()]
    return dead


def test_generated_documents_are_fresh() -> None:
    command = [sys.executable, str(ROOT / "tests" / "tools" / "generate_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_generator_tells_a_stale_document(tmp_path: Path) -> None:
    """A copy of the project with one changed description fails the check and names both files."""
    for name in ("roles", "filter_plugins", "docs", "tests/tools"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", str(ROOT / name), str(tmp_path / name)], check=True)
    specs = tmp_path / "roles" / "report" / "meta" / "argument_specs.yml"
    specs.write_text(specs.read_text(encoding="utf-8").replace("Also write", "Write"), encoding="utf-8")
    command = [sys.executable, str(tmp_path / "tests" / "tools" / "generate_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "differs: docs/variables.md",
        "differs: roles/report/README.md",
        "Next: .venv/bin/python tests/tools/generate_docs.py",
    ]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_name_in_a_document_is_there(path: Path) -> None:
    assert dead_names(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_resolves(path: Path) -> None:
    links = _LINK.findall(_FENCE.sub("", path.read_text(encoding="utf-8")))
    inside = [link.split("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]
    assert [link for link in inside if not (path.parent / link).exists()] == []


def test_a_name_that_leads_nowhere_is_found() -> None:
    block = "```\nansible-playbook playbooks/none.yml # make no\n```\n"
    assert dead_names(f"Run `make nothing` or `make lab check LAB_NAME=x`.\n\n{block}") == [
        "playbooks/none.yml",
        "make nothing",
    ]
    assert dead_names("`inventories/<env>/hosts.yml`, `roles/*/tasks`, `make demo`") == []


def test_the_example_of_the_variables_is_accepted() -> None:
    text = (ROOT / "docs" / "variables.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert read_inputs(yaml.safe_load(block), {})["errors"] == []


def test_every_variable_of_the_seed_is_documented() -> None:
    text = (ROOT / "docs" / "variables.md").read_text(encoding="utf-8")
    used: set[str] = set()
    for path in ROOT.glob("inventories/*/group_vars/all.yml"):
        used |= {name for name in yaml.safe_load(path.read_text(encoding="utf-8")) if name.startswith("mesh_")}
    assert used
    assert [name for name in sorted(used) if f"| `{name}` |" not in text] == []


def lost_words(text: str) -> list[str]:
    """Return the keys of docs/stopped.md whose words no message in the code has."""
    files = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("library/*.py"), *ROOT.glob("module_utils/*.py")]
    files += ROOT.glob("filter_plugins/mesh_logic/*.py")
    source = "\n".join(path.read_text(encoding="utf-8") for path in files)
    # what a run fills in stands as ... in the key; quotes and line breaks of the source do not count
    plain = re.sub(r"\s+", " ", re.sub(r'["\']\s*\n\s*f?["\']|\n', " ", source))
    keys = re.findall(r"^### `(.+)`$", text, re.MULTILINE)
    return [key for key in keys if not all(part.strip() in plain for part in key.split("..."))]


def test_what_stopped_knows_the_messages() -> None:
    """docs/stopped.md is keyed by the words that a run really prints."""
    text = (ROOT / "docs" / "stopped.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^### `", text, re.MULTILINE)) > 20
    assert lost_words(text) == []


def test_words_that_no_message_has_are_found() -> None:
    assert lost_words("### `The cow ... was not milked`\n### `Too early:`\n") == ["The cow ... was not milked"]
