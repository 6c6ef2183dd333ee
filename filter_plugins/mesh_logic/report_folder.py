"""(facts, desired, template of the page) -> the whole evidence folder, with a hash chain over its files."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from mesh_logic.evidence import report_files
from mesh_logic.redact import redact
from mesh_logic.report_data import report_data
from mesh_logic.report_page import report_page

MANIFEST = "evidence.sha256"
# What the chain begins with.
START = "0" * 64


def sha256(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def chain(hashes: dict[str, str]) -> list[dict[str, str]]:
    """Return {name, sha256, chain} for each file by name, in the order of the names.

    `chain` is the SHA-256 of `<chain of the file before> <sha256> <name>`, and of 64 zeros before the first file: the
    last one stands for all files, their names and their order.
    """
    rows, last = [], START
    for name, digest in sorted(hashes.items()):
        last = sha256(f"{last} {digest} {name}")
        rows.append({"name": name, "sha256": digest, "chain": last})
    return rows


def manifest_text(hashes: dict[str, str]) -> str:
    """Return the lines of evidence.sha256 for file names with hashes; `sha256sum --check` reads them too."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))


def manifest(files: dict[str, str]) -> str:
    """Return evidence.sha256 for file names with texts."""
    return manifest_text({name: sha256(text) for name, text in files.items()})


def report_folder(facts: dict[str, Any], desired: dict[str, Any], template: str) -> dict[str, str]:
    """Return every file of the evidence folder by name, rebuilt from the journal in the cluster alone.

    Args:
        facts: result of `mesh_read`, scope control is enough.
        desired: result of `read_inputs`.
        template: text of the page's Jinja2 template.

    report.json has the hash of each evidence file and their chain, report.html shows its end, and evidence.sha256 has
    the hashes of all of them.
    """
    files: dict[str, str] = redact(report_files(facts, desired))
    data = report_data(facts, desired)
    rows = chain({name: sha256(text) for name, text in files.items()})
    data["evidence"] = {"files": rows, "chain": rows[-1]["chain"] if rows else START}
    files["report.json"] = json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    files["report.html"] = report_page(data, template)
    return files | {MANIFEST: manifest(files)}
