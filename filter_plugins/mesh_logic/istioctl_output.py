"""What istioctl printed: proxies, versions, precheck findings, uninstall warnings.

Sources: Istio istioctl/pkg/writer/pilot/status.go (five table layouts, 1.12 to 1.31), pkg/version/cobra.go,
istioctl/pkg/precheck/precheck.go, pkg/config/analysis/diag/message.go, operator/cmd/mesh/uninstall.go.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Literal, TypedDict

from mesh_logic.errors import MeshError, kind_of, need_text, shown
from mesh_logic.text import error_lines, strip_ansi

__all__ = [
    "istioctl_version",
    "precheck_result",
    "proxy_status",
    "strip_ansi",
    "uninstall_warnings",
    "without_ansi",
]

_NO_PODS = re.compile(r"no running Istio pods in .*")
_CELL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_AGAIN = "run the command again and look at its whole output"


class ProxyRow(TypedDict):
    """One connected proxy. ``columns`` holds every cell as printed, or type -> sync state from JSON."""

    name: str
    cluster: str
    istiod: str
    version: str
    columns: dict[str, str]


class MeshVersion(TypedDict):
    """One control plane pod; text output does not tell its revision (None)."""

    revision: str | None
    version: str


class Versions(TypedDict):
    """``dataplane`` counts proxies per version; ``state`` says what an empty ``mesh`` means."""

    client: str | None
    mesh: list[MeshVersion]
    dataplane: dict[str, int]
    state: Literal["running", "no_running_pods", "not_present", "not_asked"]


class Finding(TypedDict):
    """One precheck message; ``resource`` such as ``DestinationRule shop/web`` or ""."""

    code: str
    level: str
    resource: str
    text: str


class Precheck(TypedDict):
    """See ``precheck_result``."""

    rc: int
    level: Literal["none", "info", "warning", "error"]
    messages: list[Finding]
    clean: bool
    text: str


class UninstallWarning(TypedDict):
    """``kind`` is stable, ``text`` the sentence; ``revision``, ``count`` and ``names`` where the sentence
    has them."""

    kind: str
    text: str
    revision: str
    count: int | None
    names: list[str]


def without_ansi(text: object) -> str:
    """Return captured output without colours and control characters, line ends as line feeds (case C13).

    Errors: MeshError when it is no text.
    """
    return strip_ansi(need_text(text, "captured output", ""))


# --- proxy-status -----------------------------------------------------------------------------------------


def proxy_status(text: object) -> list[ProxyRow]:
    """Parse ``istioctl proxy-status``: any of its five tables, or its JSON (one document per istiod,
    concatenated).

    Columns are found by the header's positions, since cells hold spaces (``NOT SENT``, ``4
    (CDS,LDS,EDS,RDS)``). Out: rows in order, a proxy known to two istiods twice; [] for a header without
    rows. ``cluster`` is "" up to 1.12. Errors: MeshError for empty output, an error of istioctl, no running
    istiod, or a row that does not fit.
    """
    what = "output of istioctl proxy-status"
    plain = strip_ansi(need_text(text, what, "NAME CLUSTER ISTIOD VERSION"))
    if not plain.strip():
        raise MeshError(what, "it is empty, which is never an answer", "look at the exit code and stderr of istioctl")
    if none := _NO_PODS.search(plain):
        raise MeshError(
            what,
            f"istioctl says {shown(none.group())}",
            'name the revision: "istioctl proxy-status --revision <revision>"',
        )
    if errors := error_lines(plain):
        raise MeshError(what, f"istioctl reports {shown(errors[0])}", "remove that cause, then run it again")
    lines = plain.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("NAME ") and re.search(r" ISTIOD +VERSION\b", line):
            return [_proxy_row(_columns(line), row, what) for row in lines[number + 1 :] if row.strip()]
    return [row for document in _json_documents(plain, what) for row in _proxies_of(document, what)]


def _columns(header: str) -> list[tuple[str, int]]:
    titles = re.finditer(r"SUBSCRIBED TYPES|\S+", header)
    return [(title.group(), title.start()) for title in titles]


def _proxy_row(columns: list[tuple[str, int]], row: str, what: str) -> ProxyRow:
    ends = [start for _, start in columns[1:]] + [len(row)]
    cells = {title: row[start:end].strip() for (title, start), end in zip(columns, ends, strict=True)}
    aligned = all(row[start - 1 : start] in ("", " ") for _, start in columns[1:])
    version, name = cells["VERSION"], cells["NAME"]
    if not aligned or not name or " " in name or (version and not _CELL.fullmatch(version)):
        raise MeshError(what, f"the row {shown(row)} does not fit the columns of its header", _AGAIN)
    return {
        "name": name,
        "cluster": cells.get("CLUSTER", ""),
        "istiod": cells["ISTIOD"],
        "version": version,
        "columns": cells,
    }


def _json_documents(text: str, what: str) -> list[dict[str, Any]]:
    """Return all JSON objects that follow each other, whatever lines come before the first."""
    decoder, documents = json.JSONDecoder(), []
    opening = re.search(r"^\s*\{", text, re.MULTILINE)
    rest = text[opening.end() - 1 :] if opening else ""
    while rest.startswith("{"):
        try:
            document, end = decoder.raw_decode(rest)
        except ValueError as problem:
            raise MeshError(what, f"its JSON is cut or broken: {problem}", _AGAIN) from problem
        documents.append(document)
        rest = rest[end:].lstrip()
    if not documents:
        raise MeshError(what, f"neither its table nor its JSON was found in {shown(text)}", _AGAIN)
    return documents


def _proxies_of(document: dict[str, Any], what: str) -> list[ProxyRow]:
    if "resources" not in document and "controlPlane" not in document and "versionInfo" not in document:
        raise MeshError(what, f"this JSON is no answer of proxy-status: {shown(document)}", _AGAIN)
    istiod = _istiod_of(document)
    rows: list[ProxyRow] = []
    for resource in document.get("resources") or []:
        node = resource.get("node") or {}
        metadata = node.get("metadata") or {}
        parts = str(node.get("id", "")).split("~")  # sidecar~<ip>~<pod>.<namespace>~<domain>
        if len(parts) != 4:
            raise MeshError(what, f"a proxy has the id {shown(node.get('id'))}", _AGAIN)
        states = {
            str(item.get("typeUrl", "")).rsplit(".", 1)[-1]: str(item.get("configStatus", "UNKNOWN"))
            for item in resource.get("genericXdsConfigs") or []
        }
        rows.append(
            {
                "name": parts[2],
                "cluster": str(metadata.get("CLUSTER_ID", "")),
                "istiod": istiod,
                "version": str(metadata.get("ISTIO_VERSION", "")),
                "columns": states,
            }
        )
    return rows


def _istiod_of(document: dict[str, Any]) -> str:
    # The identifier is JSON inside a JSON string; an older istiod sends a bare name.
    identifier = str((document.get("controlPlane") or {}).get("identifier", ""))
    try:
        return str(json.loads(identifier).get("ID", ""))
    except (ValueError, AttributeError):
        return identifier


# --- version ----------------------------------------------------------------------------------------------

_LINE = re.compile(r"(?P<who>[a-z][a-z ]*?) version: (?P<value>.+)")
_LONG = re.compile(r'Version:"(?P<version>[^"]*)"')
_COUNT = re.compile(r"(?P<version>\S+) \((?P<count>[0-9]+) prox(?:y|ies)\)")
_PROXY = re.compile(r'IstioVersion:"(?P<version>[^"]*)"')


def istioctl_version(text: object) -> Versions:
    """Parse ``istioctl version``, as JSON or text, short or long.

    Out: ``client`` version, ``mesh`` one entry per control plane pod (text collapses equal ones into one),
    ``dataplane`` version -> number of proxies, ``state``: ``running``, ``no_running_pods``,
    ``not_present``, or ``not_asked`` when only the client answered. Since 1.28 istioctl asks only the
    default revision. Errors: MeshError for other text.
    """
    what = "output of istioctl version"
    plain = strip_ansi(need_text(text, what, "client version: 1.31.0"))
    lines = [line.strip() for line in plain.split("\n") if line.strip()]
    if re.search(r"^\s*\{", plain, re.MULTILINE):
        found = _version_json(_json_documents(plain, what)[0])
    else:
        found = _version_text(lines)
    if not found["mesh"]:
        if any(_NO_PODS.search(line) for line in lines):
            found["state"] = "no_running_pods"
        elif any("Istio is not present in the cluster" in line for line in lines):
            found["state"] = "not_present"
    if found["client"] is None and found["state"] == "not_asked":
        raise MeshError(what, f"no version was found in {shown(plain)}", "look at the exit code and stderr of istioctl")
    return found


def _version_json(document: dict[str, Any]) -> Versions:
    mesh: list[MeshVersion] = [
        # Capital "Revision" is the mesh revision; "revision" inside Info is a git commit.
        {
            "revision": item.get("Revision") or None,
            "version": str((item.get("Info") or {}).get("version", "")),
        }
        for item in document.get("meshVersion") or []
    ]
    proxies = Counter(str(item.get("IstioVersion", "")) for item in document.get("dataPlaneVersion") or [])
    return {
        "client": (document.get("clientVersion") or {}).get("version") or None,
        "mesh": mesh,
        "dataplane": dict(proxies),
        "state": "running" if mesh else "not_asked",
    }


def _version_text(lines: list[str]) -> Versions:
    client: str | None = None
    mesh: list[MeshVersion] = []
    proxies: Counter[str] = Counter()
    for line in lines:
        match = _LINE.fullmatch(line)
        if not match:
            continue
        who, value = match["who"], match["value"]
        if who == "data plane":
            for pair in _COUNT.finditer(value):
                proxies[pair["version"]] += int(pair["count"])
            proxies.update(pair["version"] for pair in _PROXY.finditer(value))
            continue
        long = _LONG.search(value)
        version = long["version"] if long else value
        if who == "client":
            client = version
        else:
            mesh.append({"revision": None, "version": version})
    return {
        "client": client,
        "mesh": mesh,
        "dataplane": dict(proxies),
        "state": "running" if mesh else "not_asked",
    }


# --- precheck ---------------------------------------------------------------------------------------------

_LEVELS: tuple[Literal["none", "info", "warning", "error"], ...] = ("none", "info", "warning", "error")
_MESSAGE = re.compile(
    r"(?P<level>Error|Warning|Info) \[(?P<code>IST[0-9]{4})\] "
    r"(?:\((?P<resource>[^()]*(?:\([^()]*\)[^()]*)*)\) )?(?P<text>.*)"
)
_CLEAN = "No issues found when checking the cluster"


def precheck_result(stdout: object, stderr: object, rc: object) -> Precheck:
    """Judge a run of ``istioctl x precheck``, in log or JSON format.

    In: both streams and the exit code. Out: ``level`` the worst message ("none" without any), ``messages``,
    ``clean`` (exit code 0, nothing worse than info, and precheck spoke: its clean line goes to stderr),
    ``text`` for the evidence file: both streams without colours and ``rc=``, never empty. A failure without
    a message (cluster not reachable, findings hidden by --output-threshold) becomes a message without a
    code. Errors: MeshError for wrong types.
    """
    out = strip_ansi(need_text(stdout, "stdout of precheck", "")).strip("\n")
    err = strip_ansi(need_text(stderr, "stderr of precheck", "")).strip("\n")
    if isinstance(rc, bool) or not isinstance(rc, int):
        raise MeshError(
            "exit code of precheck", f"an integer is needed, found {kind_of(rc)}", 'give the "rc" of the task'
        )
    messages = _findings(out)
    said_clean = _CLEAN in out or _CLEAN in err
    serious = any(item["level"] in ("warning", "error") for item in messages)
    if rc != 0 and not serious:
        messages.append(_unexplained(out, err, rc, said_clean))
    elif rc == 0 and not messages and not said_clean:
        why = "precheck ended with exit code 0 and neither a finding nor its clean line"
        messages.append({"code": "", "level": "error", "resource": "", "text": why})
    level = max((item["level"] for item in messages), key=_rank, default="none")
    return {
        "rc": int(rc),
        "level": _LEVELS[_rank(level)],
        "messages": messages,
        "clean": rc == 0 and level in ("none", "info"),
        "text": f"# stdout\n{out or '(empty)'}\n# stderr\n{err or '(empty)'}\nrc={int(rc)}\n",
    }


def _rank(level: str) -> int:
    return [str(name) for name in _LEVELS].index(level)


def _unexplained(out: str, err: str, rc: int, said_clean: bool) -> Finding:
    if said_clean:
        text = f"exit code {rc} although nothing is shown: findings are hidden by --output-threshold"
        return {"code": "", "level": "warning", "resource": "", "text": text}
    reported = error_lines(f"{out}\n{err}") or [line for line in err.split("\n") if line.strip()][-1:]
    text = reported[0] if reported else f"exit code {rc} without a word"
    return {"code": "", "level": "error", "resource": "", "text": text}


def _findings(out: str) -> list[Finding]:
    opening = re.search(r"^\s*\[\s*(?:\{|\])", out, re.MULTILINE)
    if opening:
        return _findings_json(out[opening.start() :].lstrip())
    messages: list[Finding] = []
    for line in out.split("\n"):
        match = _MESSAGE.fullmatch(line.strip())
        if match:
            resource = match["resource"] or ""
            messages.append(
                {
                    "code": match["code"],
                    "level": match["level"].lower(),
                    "resource": resource,
                    "text": match["text"],
                }
            )
        elif messages and line.strip() and _CLEAN not in line:
            messages[-1]["text"] += f" {line.strip()}"  # a message may run over several lines
    return messages


def _findings_json(text: str) -> list[Finding]:
    what = "output of istioctl x precheck"
    try:
        items, _ = json.JSONDecoder().raw_decode(text)
    except ValueError as problem:
        raise MeshError(what, f"its JSON is cut or broken: {problem}", _AGAIN) from problem
    messages: list[Finding] = []
    for item in items:
        level = str(item.get("level", "")).lower() if isinstance(item, dict) else ""
        if level not in ("info", "warning", "error"):
            raise MeshError(what, f"an entry has no level: {shown(item)}", _AGAIN)
        messages.append(
            {
                "code": str(item.get("code", "")),
                "level": level,
                "resource": str(item.get("origin", "")),
                "text": str(item.get("message", "")),
            }
        )
    return messages


# --- uninstall --------------------------------------------------------------------------------------------

_STILL = re.compile(
    r"There are still (?:(?P<count>[0-9]+) )?proxies pointing to the control plane revision "
    r"(?P<revision>[^\s:]+)"
)
_UNKNOWN = re.compile(r"Unable to find any proxies pointing to the (?P<revision>\S+) control plane\..*")
_GATEWAYS = re.compile(r"You are about to remove the following gateways: (?P<names>[^.]+)\..*")
_NOTHING = re.compile(r"No resources will be pruned.*")
_MISSING = re.compile(r".*could not find target revision(?: \"?(?P<revision>[a-z0-9-]+))?.*")


def uninstall_warnings(text: object) -> list[UninstallWarning]:
    """Find what ``istioctl uninstall`` warns about and, with ``-y``, ignores (exit code 0 all the same).

    Kinds: ``proxies_connected``, ``proxies_unknown``, ``gateways_removed``, ``nothing_pruned``,
    ``revision_missing``. Out: [] when none of these sentences is there; that is no proof that nothing was
    connected.
    """
    lines = strip_ansi(need_text(text, "output of istioctl uninstall", "")).split("\n")
    found: list[UninstallWarning] = []
    for number, raw in enumerate(lines):
        line = raw.strip()
        if still := _STILL.search(line):
            names = _names_after(lines[number + 1 :])
            count = int(still["count"]) if still["count"] else len(names) or None
            found.append(_warning("proxies_connected", line, still["revision"], count, names))
        elif unknown := _UNKNOWN.search(line):
            found.append(_warning("proxies_unknown", line, unknown["revision"]))
        elif gateways := _GATEWAYS.search(line):
            names = [name.strip() for name in gateways["names"].split(",")]
            found.append(_warning("gateways_removed", line, "", len(names), names))
        elif _NOTHING.search(line):
            found.append(_warning("nothing_pruned", line, ""))
        elif missing := _MISSING.fullmatch(line):
            found.append(_warning("revision_missing", line, missing["revision"] or ""))
    return found


def _names_after(lines: list[str]) -> list[str]:
    """Return the proxy ids that follow the sentence, up to the first line of prose."""
    names: list[str] = []
    for line in lines:
        head, prose, _ = line.strip().partition(" If you proceed")
        if not head or " " in head:
            break
        names.append(head.rstrip("."))
        if prose:
            break
    return names


def _warning(
    kind: str, text: str, revision: str, count: int | None = None, names: list[str] | None = None
) -> UninstallWarning:
    return {"kind": kind, "text": text, "revision": revision, "count": count, "names": names or []}


# --- overlapping injectors --------------------------------------------------------------------------------

# pkg/config/analysis/msg (IST0139, 1.31); `tag set` prints it on stderr, asks, and takes a closed stdin as no (exit 0)
_OVERLAP = re.compile(r"\[IST0139\] \(\w+ (?P<name>[^\s)]+) *\) [^\[\n]*\[(?P<others>[^\]\n]*)\]")


def overlapping_webhooks(text: object) -> list[str]:
    """Return the names of the webhook configurations that istioctl calls overlapping (case H02); [] where it does not.

    Errors: MeshError when it is no text.
    """
    found: set[str] = set()
    for match in _OVERLAP.finditer(strip_ansi(need_text(text, "output of istioctl", ""))):
        found |= {match["name"], *(part.partition("/")[0] for part in re.split(r"[,\s]+", match["others"]) if part)}
    return sorted(found)
