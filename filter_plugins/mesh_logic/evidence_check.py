"""An evidence folder against itself, the cluster's journal and the cluster as it is -> every mismatch, named."""

from __future__ import annotations

import json
from typing import Any

from mesh_logic.errors import MeshError, shown
from mesh_logic.evidence import find_line, proxy_pairs, tag_pairs
from mesh_logic.model import build_view, record_of
from mesh_logic.report_folder import MANIFEST, chain, manifest_text, report_folder, sha256
from mesh_logic.report_steps import order

Row = dict[str, Any]
REPORT = "report.json"
# The files that are made from all records and the inputs, not kept in one of them.
MADE = ("08-report.md", REPORT, "report.html", MANIFEST)
WRITE = "run playbooks/report.yml, which writes it"
AGAIN = "run playbooks/report.yml into another folder (mesh_evidence_dir) and compare the two"


def evidence_errors(folder: Row, facts: Row, desired: Row, template: str) -> list[str]:
    """Return what is wrong with an evidence folder, one message for each mismatch; [] means nothing.

    Args:
        folder: result of `mesh_evidence`: files (name -> {sha256, text, error}).
        facts: result of `mesh_read` with the workloads of the namespaces that evidence is about.
        desired: result of `read_inputs`.
        template: text of the page's template, as `report_folder` takes it.
    """
    files = folder["files"]
    wanted = report_folder(facts, desired, template)
    return [
        *unreadable(folder),
        *missing(files, wanted, facts, desired),
        *manifest_errors(files),
        *chain_errors(files),
        *journal_errors(files, wanted, facts, desired),
        *report_errors(files, wanted),
        *live_errors(files, facts, desired),
    ]


def claims(folder: Row, facts: Row) -> list[str]:
    """Return what was checked, for people: how many files, and of how many records."""
    return [f"{len(folder['files'])} files in {folder['folder']}", f"{len(facts['journal'])} records in the cluster"]


def _error(what: str, why: str, todo: str) -> str:
    return str(MeshError(what, why, todo))


def _hashes(files: Row) -> dict[str, str]:
    return {name: row["sha256"] for name, row in files.items() if not row["error"]}


def unreadable(folder: Row) -> list[str]:
    """Return the files that are there and could not be read, or that the folder is not there."""
    if folder["error"]:
        return [
            _error(
                f"folder {folder['folder']}",
                folder["error"],
                "give the folder in mesh_evidence_dir, or run playbooks/report.yml, which writes it",
            )
        ]
    return [
        _error(f"{name}", f"it cannot be read: {row['error']}", "make it readable, then run again")
        for name, row in folder["files"].items()
        if row["error"]
    ]


def missing(files: Row, wanted: dict[str, str], facts: Row, desired: Row) -> list[str]:
    """Return the files that the journal says there must be and that are not there, and those nobody knows."""
    found = [
        _error(
            name, f"it is missing; {_source(name, facts, desired)} has it", "run playbooks/report.yml, which writes it"
        )
        for name in sorted(set(wanted) - set(files))
    ]
    return found + [
        _error(name, "no record and no manifest knows this file", "move it out of the folder: it is no evidence")
        for name in sorted(set(files) - set(wanted))
    ]


def _source(name: str, facts: Row, desired: Row) -> str:
    view = build_view(facts)
    for step in order():
        if name in (record_of(view, desired, step).get("evidence") or {}):
            old, new = desired["from"]["revision"], desired["to"]["revision"]
            return f"the record istio-upgrade-{old}-to-{new}-{step.replace('_', '-')} in the cluster"
    return "the report of the records in the cluster"


def manifest_errors(files: Row) -> list[str]:
    """Return where evidence.sha256 and the files differ."""
    if MANIFEST not in files or files[MANIFEST]["error"]:
        return []  # told as missing
    listed: dict[str, str] = {}
    found = []
    for number, line in enumerate(files[MANIFEST]["text"].splitlines(), 1):
        digest, _, name = line.partition("  ")
        if len(digest) != 64 or not name:
            found.append(_error(f"{MANIFEST}, line {number}", f"{shown(line)} is no hash and name", AGAIN))
            continue
        listed[name] = digest
    for name, digest in sorted(_hashes(files).items()):
        if name != MANIFEST and name not in listed:
            found.append(_error(name, f"{MANIFEST} does not list it", AGAIN))
        elif name != MANIFEST and listed[name] != digest:
            found.append(
                _error(name, f"its SHA-256 is {digest}, and {MANIFEST} says {listed[name]}: it was changed", AGAIN)
            )
    found += [
        _error(name, f"{MANIFEST} lists it and it is not there", AGAIN) for name in sorted(set(listed) - set(files))
    ]
    if not found and files[MANIFEST]["sha256"] != sha256(manifest_text(listed)):
        found.append(_error(MANIFEST, "its lines are right and stand in another order or form: it was changed", AGAIN))
    return found


def _report(files: Row) -> tuple[Row, list[str]]:
    """Return (report.json as data, what is wrong with it)."""
    if REPORT not in files or files[REPORT]["error"]:
        return {}, []
    try:
        data = json.loads(files[REPORT]["text"])
        if not isinstance(data, dict) or not isinstance(data["evidence"]["files"], list):
            raise ValueError("it has no list evidence.files")
        [(row["name"], row["sha256"], row["chain"]) for row in data["evidence"]["files"]]
        return data, []
    except (ValueError, KeyError, TypeError) as error:
        return {}, [_error(REPORT, f"it is no report: {error!r}", AGAIN)]


def chain_errors(files: Row) -> list[str]:
    """Return where the chain in report.json does not hold, link by link."""
    data, found = _report(files)
    if not data:
        return found
    listed = {row["name"]: row["sha256"] for row in data["evidence"]["files"]}
    for row, again in zip(data["evidence"]["files"], chain(listed), strict=False):
        if row != again:
            why = f"the link at {row['name']} is {shown(row['chain'])}, and its files give {again['chain']}"
            found.append(_error(f"{REPORT}, evidence.files", why, AGAIN))
            break
    last = chain(listed)[-1]["chain"] if listed else ""
    if data["evidence"].get("chain") != last:
        found.append(_error(f"{REPORT}, evidence.chain", f"it is not {last}, what its files give", AGAIN))
    hashes = _hashes(files)
    for name, digest in sorted(listed.items()):
        if name in hashes and hashes[name] != digest:
            found.append(
                _error(name, f"its SHA-256 is {hashes[name]}, and {REPORT} says {digest}: it was changed", AGAIN)
            )
    page = files.get("report.html")
    if page and not page["error"] and last and last not in page["text"]:
        found.append(_error("report.html", f"it does not show {last}, the end of the chain in {REPORT}", AGAIN))
    return found


def journal_errors(files: Row, wanted: dict[str, str], facts: Row, desired: Row) -> list[str]:
    """Return the evidence files whose text is not what the cluster's journal holds."""
    hashes = _hashes(files)
    return [
        _error(
            name,
            f"it is not what {_source(name, facts, desired)} holds",
            "run playbooks/report.yml if the record is right; a record that was written later has moved on",
        )
        for name, text in sorted(wanted.items())
        if name in hashes and name not in (REPORT, "report.html", MANIFEST) and hashes[name] != sha256(text)
    ]


def report_errors(files: Row, wanted: dict[str, str]) -> list[str]:
    """Return each part of report.json that differs from what the records give now, and whether the page does."""
    data, wrong = _report(files)
    if wrong or not data:
        return []  # told by chain_errors, or as missing
    fresh = json.loads(wanted[REPORT])
    found = [
        _error(
            f"{REPORT}, {key}",
            f"it says {shown(data.get(key))}, and the records give {shown(fresh.get(key))}",
            "run playbooks/report.yml if records or inputs have changed since",
        )
        for key in sorted({*data, *fresh})
        if data.get(key) != fresh.get(key)
    ]
    if not found and files[REPORT]["sha256"] != sha256(wanted[REPORT]):
        found.append(_error(REPORT, "it says what the records give, in another form: it was changed", AGAIN))
    page = files.get("report.html")
    if not found and page and not page["error"] and page["sha256"] != sha256(wanted["report.html"]):
        found.append(_error("report.html", f"it is not the page that {REPORT} gives", AGAIN))
    return found


def live_errors(files: Row, facts: Row, desired: Row) -> list[str]:
    """Return where the cluster as it is now does not bear out what the evidence says of the end."""
    view = build_view(facts)
    old, new = desired["from"]["revision"], desired["to"]["revision"]
    found = _identity(files, facts)
    done = {step for step in order() if record_of(view, desired, step).get("state") == "done"}
    if done & {"rollback", "abort"}:
        return found  # what these leave is not what the steps claimed
    last = "07-uninstall.txt" if "uninstall" in done else "05-tags.txt" if "move_tags" in done else ""
    if "install" in done:
        found += _new_runs(view, desired)
    if "uninstall" in done:
        left = [f"Deployment {view['revisions'][old]['deployment']}"] if old in view["revisions"] else []
        left += [f"webhook {name}" for name, revision in view["injectors"].items() if revision == old]
        found += [
            _error(
                thing,
                f"it serves {old}, and 07-uninstall.txt says that revision is gone",
                "find out who installed it again",
            )
            for thing in left
        ]
    if last and last in files and not files[last]["error"]:
        text = files[last]["text"]
        pairs = [*proxy_pairs(facts, desired), *(tag_pairs(facts, desired["tags"]) if "move_tags" in done else [])]
        source = files.get("05-tags.txt", {}).get("text", "") + text
        for key, live in pairs:
            said = find_line(source, key)
            if said not in ("none", live):
                found.append(
                    _error(
                        f"{key} in {last if f'{key}=' in text else '05-tags.txt'}",
                        f"it says {said}, and the cluster has {live} now",
                        f"find out what moved it off {new}",
                    )
                )
    return found


def _identity(files: Row, facts: Row) -> list[str]:
    data, _ = _report(files)
    said, live = (data.get("cluster") or {}).get("uid"), facts["cluster"]["uid"]
    if not data or said == live:
        return []
    return [
        _error(
            f"{REPORT}, cluster.uid",
            f"it says {said}, and this cluster is {live}",
            "give the kubeconfig of the cluster that the evidence is about",
        )
    ]


def _new_runs(view: Row, desired: Row) -> list[str]:
    new, version = desired["to"]["revision"], desired["to"]["version"]
    row = view["revisions"].get(new)
    if row is None:
        return [
            _error(
                f"revision {new}",
                "03-install.txt says it was installed, and it is not there",
                "find out who removed it",
            )
        ]
    if row["version"] != version:
        return [
            _error(
                f"Deployment {row['deployment']}",
                f"it runs {row['version']}, and the evidence is about {version}",
                "find out what upgraded it since",
            )
        ]
    if not row["ready"]:
        return [_error(f"Deployment {row['deployment']}", "it is not complete", "look at it with kubectl describe")]
    return []
