"""What a check function gets to look at, and how it says what it found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml

from mesh_logic.checks.all_checks import CHECKS
from mesh_logic.errors import MeshError, one_line
from mesh_logic.findings import Finding, finding
from mesh_logic.model import build_view, live_revisions

Found = Iterator[Finding]
Row = dict[str, Any]
SHOWN = 5
INJECTION, REVISION = "istio-injection", "istio.io/rev"


@dataclass(frozen=True)
class Context:
    """The facts of `mesh_read` and `mesh_inspect`, and what the run wants."""

    facts: dict[str, Any]
    inspected: dict[str, Any]
    desired: dict[str, Any]

    @cached_property
    def view(self) -> dict[str, Any]:
        """Return the meaning of the facts (`model.build_view`)."""
        return build_view(self.facts, self.desired["consents"])

    @cached_property
    def operator(self) -> dict[str, Any]:
        """Return the `spec` of the operator file; it was checked when the inputs were."""
        spec = (yaml.safe_load(self.desired.get("operator_text") or "") or {}).get("spec")
        return spec if isinstance(spec, dict) else {}

    @property
    def istio(self) -> str:
        """Return the namespace of the control planes."""
        return str(self.desired["istio_namespace"])

    @property
    def old(self) -> str:
        """Return the revision that runs."""
        return str(self.desired["from"]["revision"])

    @property
    def new(self) -> str:
        """Return the revision that is to run."""
        return str(self.desired["to"]["revision"])

    @cached_property
    def proxy_namespaces(self) -> list[str]:
        """Return the namespaces with live proxies."""
        pods = {p["namespace"] for p in self.view["loose_pods"] if p["live"] and not p["terminating"]}
        return sorted({row["namespace"] for row in self.view["workloads"] if live_revisions(row)} | pods)

    def users_of(self, tag: str) -> list[str]:
        """Return the namespaces whose labels ask for a tag."""
        return [
            name
            for name, labels in sorted(self.view["namespaces"].items())
            if (labels.get(REVISION) == tag and INJECTION not in labels)
            or (tag == "default" and labels.get(INJECTION) == "enabled")
        ]


def setting(spec: Any, path: str) -> Any:
    """Return the value at a dotted path of nested mappings, or None."""
    for key in path.split("."):
        spec = spec.get(key) if isinstance(spec, dict) else None
    return spec


def say(code: str, resource: str, text: str, **names: object) -> Finding:
    """Return a finding of a check of the catalogue; `names` fill its remedy."""
    check = CHECKS[code]
    return finding(code, check.severity, resource, one_line(text), check.remedy.format(**names))


def words(found: Finding) -> str:
    """Return a finding as one message."""
    return str(MeshError(f"{found['id']} {found['resource']}", found["text"], found["todo"]))


def some(names: Iterable[str]) -> str:
    """Return names for a message: the first ones, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more


def in_namespace(namespace: str) -> str:
    """Return the flag of kubectl for a namespace; "" for what has none."""
    return f" -n {namespace}" if namespace else ""
