"""What every record says besides its step's own data: who, from when, with which inputs, and the proxies by version."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

from mesh_logic.model import image_tag, image_version
from mesh_logic.redact import redact

# What decides how an upgrade goes. Paths, flags and where a run stops belong to a controller and to one run.
INPUTS = (
    *("environment", "cluster_uid", "istio_namespace", "installer", "gateways", "on_failure", "operator_sha256"),
    *("tags", "waves", "consents", "canary_namespaces", "drill", "soak_seconds", "probes", "waivers"),
)


def inputs_of(desired: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs that decide how an upgrade goes, without paths and without secrets."""
    found = {name: desired[name] for name in INPUTS if name in desired}
    found["from"] = {key: desired["from"].get(key, "") for key in ("version", "revision")}
    found["to"] = {key: desired["to"].get(key, "") for key in ("version", "revision", "tag")}
    found["evidence_workloads"] = [f"{w['namespace']}/{w['name']}" for w in desired.get("evidence_workloads") or []]
    plain: dict[str, Any] = redact(found)
    return plain


def digest(value: Any) -> str:
    """Return the SHA-256 of a value, as JSON with sorted keys and without blanks."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def proxies_by_version(facts: dict[str, Any]) -> dict[str, int]:
    """Return version -> live proxies; an image without a version counts under its tag, or as `other`."""
    found: Counter[str] = Counter()
    for row in facts.get("workloads") or []:
        for proxy in row["proxies"]:
            if not proxy["terminating"]:
                found[image_version(proxy["image"]) or image_tag(proxy["image"]) or "other"] += proxy["pods"]
    for pod in facts.get("loose_pods") or []:
        if pod["live"] and not pod["terminating"]:
            found[image_version(pod["image"]) or image_tag(pod["image"]) or "other"] += 1
    return dict(sorted(found.items()))


def record_context(facts: dict[str, Any], desired: dict[str, Any], started: str) -> dict[str, Any]:
    """Return {who, started, inputs_sha256, operator_sha256, proxies_before} of a record.

    Args:
        facts: what the step read before it changed anything; proxies_before is left out where it read no workloads.
        desired: result of `read_inputs` with `who`, see `mesh_controller`.
        started: when the step was planned, ISO 8601 in UTC.
    """
    found: dict[str, Any] = {
        "who": desired.get("who") or {},
        "started": started,
        "inputs_sha256": digest(inputs_of(desired)),
        "operator_sha256": desired.get("operator_sha256", ""),
    }
    return found | ({"proxies_before": proxies_by_version(facts)} if facts.get("workloads") is not None else {})
