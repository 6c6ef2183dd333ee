"""Readers of single inventory variables: value and name in, the value as this project uses it out, or a MeshError.

Extra vars arrive as text or as YAML numbers, AWX surveys know text only: what is meant plainly is read, nothing is
guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from mesh_logic.errors import MeshError, kind_of, need_text, shown
from mesh_logic.versions import parse_version

_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


def read_text(value: object, name: str) -> str:
    """Return text without white space around it."""
    return need_text(value, name, "text").strip()


def read_version(value: object, name: str) -> str:
    """Return a version x.y.z, as it was written."""
    text = need_text(value, name, "1.31.0").strip()
    parse_version(text, name)
    return text


def read_list(value: object, name: str) -> list[Any]:
    """Read a list, also from JSON or comma-separated text: AWX surveys only know text."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("["):
            try:
                value = json.loads(text)
            except json.JSONDecodeError as error:
                raise MeshError(
                    name, f"{shown(text)} begins as a JSON list and is broken: {error}", "mend it"
                ) from None
        else:
            return [part.strip() for part in re.split(r"[,\n]", text) if part.strip()]
    if isinstance(value, (list, tuple)):
        return list(value)
    raise MeshError(name, f"a list is needed, found {kind_of(value)}", f"write {name}: [a, b]")


def read_names(value: object, name: str) -> list[str]:
    """Return Kubernetes names, each once."""
    names = [need_text(item, f"an entry of {name}", "prod-stable") for item in read_list(value, name)]
    for item in names:
        if not _DNS_LABEL.fullmatch(item):
            raise MeshError(
                f"{name}: {shown(item)}",
                "it cannot be a Kubernetes name: lower-case letters, digits and '-', at most 63",
                "correct it",
            )
    return list(dict.fromkeys(names))


def read_workloads(value: object, name: str) -> list[dict[str, str]]:
    """Return workloads written namespace/name as {namespace, name}."""
    found = []
    for item in read_list(value, name):
        text = need_text(item, f"an entry of {name}", "shop/web")
        parts = text.split("/")
        if len(parts) != 2 or not all(parts):
            raise MeshError(
                f"{name}: {shown(text)}", "a workload is written namespace/name", 'write it like "shop/web"'
            )
        found.append({"namespace": parts[0], "name": parts[1]})
    return found


def read_number(value: object, name: str, example: str = "2", words: str = "a whole number is") -> int:
    """Return a whole number."""
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not re.fullmatch(r"[0-9]+", str(value).strip()):
        raise MeshError(name, f"{words} needed, found {kind_of(value)}", f"write {name}: {example}")
    return int(str(value).strip())


def read_seconds(value: object, name: str) -> int:
    """Return whole seconds."""
    return read_number(value, name, "3600", "whole seconds are")


def read_lines(value: object, name: str) -> list[str]:
    """Return lines of text."""
    return [need_text(item, f"an entry of {name}", "text") for item in read_list(value, name)]


def read_flag(value: object, name: str) -> bool:
    """Return a boolean; text counts only when it says so plainly (extra vars arrive as text)."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _TRUE + _FALSE:
        return value.strip().lower() in _TRUE
    raise MeshError(name, f"true or false is needed, found {kind_of(value)}", f"write {name}: true")


def read_choice(*choices: str) -> Callable[[object, str], str]:
    """Return a reader that takes one of some words."""

    def read(value: object, name: str) -> str:
        text = need_text(value, name, choices[0]).strip()
        if text not in choices:
            raise MeshError(f"{name}: {shown(text)}", "no such choice", f"use one of: {', '.join(choices)}")
        return text

    return read


def read_probes(value: object, name: str) -> list[dict[str, Any]]:
    """Return probes with every field set."""
    probes = []
    for number, item in enumerate(read_list(value, name), 1):
        what = f"{name}[{number}]"
        if not isinstance(item, dict):
            raise MeshError(what, f"a mapping is needed, found {kind_of(item)}", "give name, from, url and expect")
        unknown = set(item) - {"name", "from", "url", "expect", "every_ms", "timeout_ms", "max_failed"}
        source, expect, timeout = item.get("from"), item.get("expect", 200), item.get("timeout_ms", 5000)
        if unknown or not item.get("name") or not str(item.get("url", "")).startswith(("http://", "https://")):
            why = f"unknown keys {sorted(unknown)}" if unknown else "name or url (http://...) is missing"
            raise MeshError(what, why, "give name, from, url and expect")
        if not isinstance(source, dict) or not source.get("namespace") or not source.get("workload"):
            raise MeshError(
                f"{what}.from", "namespace and workload are needed", "write {namespace: canary, workload: client}"
            )
        probes.append(
            {
                "name": str(item["name"]),
                "from": {k: str(source[k]) for k in ("namespace", "workload", "container") if source.get(k)},
                "url": str(item["url"]),
                "expect": read_number(expect, f"{what}.expect", "200"),
                "timeout_ms": read_number(timeout, f"{what}.timeout_ms", "5000"),
            }
        )
    return probes


def read_waivers(value: object, name: str) -> list[dict[str, str]]:
    """Return waivers with every field set."""
    waivers = []
    for number, item in enumerate(read_list(value, name), 1):
        if not isinstance(item, dict) or not item.get("id") or not item.get("reason"):
            raise MeshError(f"{name}[{number}]", "id and reason are needed", "give id, resource, reason and expires")
        waivers.append({key: str(item.get(key, "")) for key in ("id", "resource", "reason", "expires")})
    return waivers


def _known_keys(item: object, what: str, known: tuple[str, ...], todo: str) -> dict[str, Any]:
    """Return an entry that is a mapping with known keys only: a misspelt key would silently mean nothing."""
    if not isinstance(item, dict):
        raise MeshError(what, f"a mapping is needed, found {kind_of(item)}", todo)
    unknown = sorted(set(item) - set(known))
    if unknown:
        raise MeshError(what, f"unknown keys {', '.join(map(str, unknown))}", f"use only {', '.join(known)}")
    return item


def read_waves(value: object, name: str) -> list[dict[str, Any]]:
    """Return waves with every field set: name, namespaces or selector, max_concurrent, soak_seconds, max_failed."""
    waves: list[dict[str, Any]] = []
    keys = ("name", "namespaces", "selector", "max_concurrent", "soak_seconds", "max_failed")
    todo = "write {name: first, namespaces: [shop]} or {name: first, selector: tier=internal}"
    for number, entry in enumerate(read_list(value, name), 1):
        what = f"{name}[{number}]"
        item = _known_keys(entry, what, keys, todo)
        title = need_text(item.get("name"), f"{what}.name", "first")
        if title == "rest" or title in [wave["name"] for wave in waves]:
            raise MeshError(f"{what}.name: {shown(title)}", "it is taken", "give every wave a name of its own")
        namespaces = read_names(item.get("namespaces") or [], f"{what}.namespaces")
        selector = need_text(item.get("selector") or "", f"{what}.selector", "tier=internal").strip()
        if bool(namespaces) == bool(selector):
            raise MeshError(what, "either namespaces or selector (of namespace labels) is needed, not both", todo)
        concurrent = read_number(item.get("max_concurrent", 8), f"{what}.max_concurrent", "8")
        if concurrent < 1:
            raise MeshError(f"{what}.max_concurrent", "nothing would ever start", f"write {what}.max_concurrent: 8")
        waves.append(
            {
                "name": title,
                "namespaces": namespaces,
                "selector": selector,
                "max_concurrent": concurrent,
                "soak_seconds": read_seconds(item.get("soak_seconds", 0), f"{what}.soak_seconds"),
                "max_failed": read_number(item.get("max_failed", 0), f"{what}.max_failed", "0"),
            }
        )
    return waves


# What a person may allow for one workload that is otherwise left alone (see `model.how_moved`).
ALLOWED = ("restart", "restart_at", "evict", "rescue")


def read_consents(value: object, name: str) -> list[dict[str, str]]:
    """Return consents: {resource: "Kind namespace/name" (the name may be a pattern), allow, reason}."""
    consents = []
    todo = 'write {resource: "Job batch/import-*", allow: evict, reason: never ends}'
    for number, entry in enumerate(read_list(value, name), 1):
        what = f"{name}[{number}]"
        item = _known_keys(entry, what, ("resource", "allow", "reason"), todo)
        resource = need_text(item.get("resource"), f"{what}.resource", "Job batch/import-*").strip()
        if not re.fullmatch(r"[A-Z][A-Za-z]* [-a-z0-9.]+/[-a-z0-9.*?]+", resource):
            raise MeshError(f"{what}.resource: {shown(resource)}", "it is not kind namespace/name", todo)
        consents.append(
            {
                "resource": resource,
                "allow": read_choice(*ALLOWED)(item.get("allow"), f"{what}.allow"),
                "reason": need_text(item.get("reason"), f"{what}.reason", "why this is safe"),
            }
        )
    return consents


def read_drill(value: object, name: str) -> dict[str, Any]:
    """Return the tags and workloads of the drill."""
    if not isinstance(value, dict) or set(value) - {"tags", "workloads"}:
        raise MeshError(
            name, f"tags and workloads are needed, found {kind_of(value)}", "write {tags: [...], workloads: [shop/web]}"
        )
    return {
        "tags": read_names(value.get("tags") or [], f"{name}.tags"),
        "workloads": read_workloads(value.get("workloads") or [], f"{name}.workloads"),
    }
