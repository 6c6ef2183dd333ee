"""Facts and journal -> evidence files. Lines are `key=value`; the keys of the eight steps stay exactly as they are."""

from __future__ import annotations

from typing import Any

from mesh_logic.model import build_view, image_tag, record_of
from mesh_logic.text import strip_ansi

UNKNOWN = "none"
# The records of an upgrade, in their order; the last two are there where a way back was walked.
RECORDS = ("before", "precheck", "install", "canary", "move_tags", "rollback_drill", "uninstall", "rollback", "abort")


def lines(pairs: list[tuple[str, Any]]) -> str:
    """Return key=value lines, one per pair, with an end of line each."""
    return "".join(f"{key}={value}\n" for key, value in pairs)


def tag_key(tag: str) -> str:
    """Return a tag's evidence key: `prod-stable` -> `prod_stable`."""
    return tag.replace("-", "_")


def tags_of_pods(pods: list[dict[str, Any]]) -> str:
    """Return the image tags of live pods, each once, joined with a comma; `none` where no pod has a proxy."""
    tags = sorted({image_tag(p["image"]) or p["image"] or UNKNOWN for p in pods if not p["terminating"]})
    return ",".join(tags) or UNKNOWN


def proxy_pairs(facts: dict[str, Any], desired: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (key, proxy image tag) for every evidence workload, as its live pods run now."""
    rows = {(r["namespace"], r["name"]): r for r in facts.get("workloads") or []}
    pairs = []
    for item in desired["evidence_workloads"]:
        row = rows.get((item["namespace"], item["name"]))
        pairs.append((item["key"], tags_of_pods(row["proxies"]) if row else UNKNOWN))
    return pairs


def tag_pairs(facts: dict[str, Any], tags: list[str]) -> list[tuple[str, str]]:
    """Return (key, revision) for tags as the cluster has them."""
    known = build_view(facts)["tags"]
    return [(tag_key(tag), known.get(tag, UNKNOWN)) for tag in tags]


def code_pairs(probes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return (`code`, status) for the first probe and (`<name>_code`, status) for the others."""
    return [("code" if n == 0 else f"{p['name']}_code", p["code"]) for n, p in enumerate(probes)]


def before_text(facts: dict[str, Any], desired: dict[str, Any]) -> str:
    """01-before.txt: the proxies, then every tag but `default` (which stands alone when it is the only one)."""
    tags = [t for t in desired["tags"] if t != "default"] or desired["tags"]
    return lines(proxy_pairs(facts, desired) + tag_pairs(facts, tags))


def install_text(  # noqa: PLR0917 - one argument per block of the file, and a filter has no keywords in Jinja chains
    facts: dict[str, Any],
    desired: dict[str, Any],
    pruned: list[str],
    moved: list[str],
    proof: str,
    overlaid: list[str],
    tag_list: str,
) -> str:
    """03-install.txt: both control planes, what the install took away or moved (nothing), how the injector answered."""
    revisions = build_view(facts)["revisions"]
    old, new = desired["from"]["revision"], desired["to"]["revision"]
    pairs = [
        ("old_revision", old),
        ("new_revision", new),
        ("old_istiod", revisions.get(old, {}).get("tag") or UNKNOWN),
        ("new_istiod", revisions.get(new, {}).get("tag") or UNKNOWN),
        ("pruned", ",".join(pruned) or UNKNOWN),
        ("moved", ",".join(moved) or UNKNOWN),
        ("injector", proof),
    ]
    laid = "".join(f"# {note}\n" for note in overlaid)
    return (
        lines(pairs)
        + f"\n# laid over the operator file\n{laid}\n# istioctl tag list\n{strip_ansi(tag_list).rstrip()}\n"
    )


def mixed_text(facts: dict[str, Any], desired: dict[str, Any], probes: list[dict[str, Any]]) -> str:
    """04-mixed.txt: canary workloads first, then the others, then what the request gave."""
    canary = {w["key"] for w in desired["evidence_workloads"] if w["namespace"] in desired["canary_namespaces"]}
    pairs = sorted(proxy_pairs(facts, desired), key=lambda pair: pair[0] not in canary)
    return lines(pairs + code_pairs(probes))


def tags_text(facts: dict[str, Any], desired: dict[str, Any], probes: list[dict[str, Any]]) -> str:
    """05-tags.txt: every tag, every proxy, the request."""
    return lines(tag_pairs(facts, desired["tags"]) + proxy_pairs(facts, desired) + code_pairs(probes))


def uninstall_text(facts: dict[str, Any], desired: dict[str, Any], probes: list[dict[str, Any]]) -> str:
    """07-uninstall.txt: what is left of the old revision, the proxies, the request."""
    view, old = build_view(facts), desired["from"]["revision"]
    left = [("old_istiod_left", "yes" if old in view["revisions"] else "no")]
    return lines(
        [
            *left,
            ("old_injector_left", old_injector_left(facts, desired)),
            *proxy_pairs(facts, desired),
            *code_pairs(probes),
        ]
    )


def old_injector_left(facts: dict[str, Any], desired: dict[str, Any]) -> str:
    """Return yes or no, from the live webhooks (case I11)."""
    return "yes" if desired["from"]["revision"] in build_view(facts)["injectors"].values() else "no"


def find_line(text: str, key: str) -> str:
    """Return the value of the last `key=` line of an evidence text, or `none`."""
    found = [line.split("=", 1)[1] for line in text.splitlines() if line.startswith(f"{key}=")]
    return found[-1] if found else UNKNOWN


def _evidence(view: dict[str, Any], desired: dict[str, Any], step: str, name: str) -> str:
    return str((record_of(view, desired, step).get("evidence") or {}).get(name, ""))


def _seconds(record: dict[str, Any], key: str) -> str:
    value = (record.get("measured") or {}).get(key)
    return f"{float(value):.0f} s" if value is not None else "an unknown time"


def lessons(facts: dict[str, Any], desired: dict[str, Any]) -> list[str]:
    """Return what this run taught, from its own figures; at least four lines."""
    view = build_view(facts)
    install, canary, moved, drill, gone = (
        record_of(view, desired, s) for s in ("install", "canary", "move_tags", "rollback_drill", "uninstall")
    )
    old, new = desired["from"]["revision"], desired["to"]["revision"]
    mesh = install.get("measured") or {}
    canary_pods = (canary.get("measured") or {}).get("proxies", 0)
    total = mesh.get("proxies", 0)
    mixed = _evidence(view, desired, "canary", "04-mixed.txt")
    proof = drill.get("proof") or {}
    found = [
        f"Beside, not instead: installing {new} next to {old} left {mesh.get('workloads', 0)} workloads with "
        f"{total} proxies "
        f"as they were; the install took {_seconds(install, 'seconds')}.",
        f"What the revision road gained over in-place: only {canary_pods} of {total} proxies met the new version "
        f"first, and the way back of {len(proof.get('workloads') or [])} workload(s) took "
        f"{_seconds(drill, 'back_seconds')}, without a reinstall.",
        f"Mixed versions worked together: with {' and '.join(mixed.split()[:2]) or 'no measurement'} the request gave "
        f"{find_line(mixed, 'code')}.",
        f"Moving the tags restarted {(moved.get('measured') or {}).get('restarted', 0)} workload(s), those that were "
        f"stale and no others, in {_seconds(moved, 'seconds')}.",
        f"When the old revision may go: after all proxies ran {desired['to']['version']}, the drill had passed"
        f"{' at ' + proof['at'] if proof.get('at') else ''}, nothing used {old} any more, and "
        f"{desired['soak_seconds']} s of soak were over"
        + (f"; it went at {gone['finished']}." if gone.get("finished") else "; it has not gone yet."),
    ]
    not_drilled = [t for t in desired["tags"] if t not in (proof.get("tags") or [])]
    if not_drilled:
        found.append(
            f"Not drilled: tag(s) {', '.join(not_drilled)}; their way back is the same command, but this run did "
            "not prove it."
        )
    for road, word in (("rollback", "rolled back"), ("abort", "aborted")):
        back = record_of(view, desired, road)
        if back.get("state") == "done":
            found.append(
                f"This upgrade was {word} at {back.get('finished', 'an unknown time')}, in "
                f"{_seconds(back, 'seconds')}; "
                "steps whose state is reverted were made before that."
            )
    return [*found, *desired["lessons"]]


def report_pairs(facts: dict[str, Any], desired: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the five lines of the report, from the journal and from the live webhooks."""
    view = build_view(facts)
    return [
        ("old_revision", desired["from"]["revision"]),
        ("new_revision", desired["to"]["revision"]),
        ("mixed_versions_code", find_line(_evidence(view, desired, "canary", "04-mixed.txt"), "code")),
        (
            "rollback_version",
            find_line(_evidence(view, desired, "rollback_drill", "06-rollback.txt"), "after_rollback"),
        ),
        ("old_injector_left", old_injector_left(facts, desired)),
    ]


def report_markdown(facts: dict[str, Any], desired: dict[str, Any]) -> str:
    """08-report.md: the five lines, then the lessons, one line each."""
    return lines(report_pairs(facts, desired)) + "\n" + "".join(f"- {x}\n" for x in lessons(facts, desired))


def report_files(facts: dict[str, Any], desired: dict[str, Any]) -> dict[str, str]:
    """Return the whole evidence folder, rebuilt from the journal in the cluster; values are file texts."""
    view = build_view(facts)
    files: dict[str, str] = {}
    for step in RECORDS:
        files |= record_of(view, desired, step).get("evidence") or {}
    return files | {"08-report.md": report_markdown(facts, desired)}
