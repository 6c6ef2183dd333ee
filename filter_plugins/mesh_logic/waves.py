"""Waves of workloads: which workload restarts in which wave, and what a wave allows.

Tags move for every namespace at once; what is spread over waves is the restart, which alone hands a running workload
to another revision.
"""

from __future__ import annotations

from typing import Any

from mesh_logic.model import split_ref

REST = "rest"
# What holds for the workloads that no wave names, and where there are no waves.
PLAIN: dict[str, Any] = {"name": REST, "max_concurrent": 0, "soak_seconds": 0, "max_failed": 0}


def wave_name(waves: list[dict[str, Any]], selected: dict[str, list[str]], namespace: str) -> str:
    """Return the first wave that takes a namespace, `rest` where none does, "" where there are no waves.

    Args:
        waves: result of `read_waves`.
        selected: label selector -> the namespaces that the API server found for it.
        namespace: a workload's namespace.
    """
    for wave in waves:
        if namespace in wave["namespaces"] or namespace in selected.get(wave["selector"], []):
            return str(wave["name"])
    return REST if waves else ""


def in_waves(
    actions: list[dict[str, Any]], waves: list[dict[str, Any]], selected: dict[str, list[str]]
) -> list[dict[str, Any]]:
    """Return restarts in the order of their waves, each with its `wave`; unchanged where there are no waves."""
    if not waves:
        return actions
    order = [*(wave["name"] for wave in waves), REST]
    named = [{**item, "wave": wave_name(waves, selected, split_ref(item["object"])[1])} for item in actions]
    return sorted(named, key=lambda item: order.index(item["wave"]))


def wave_of(desired: dict[str, Any], actions: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what holds for a group of restarts; max_concurrent 0 leaves it to the role."""
    name = actions[0].get("wave", "") if actions else ""
    return next((wave for wave in desired["waves"] if wave["name"] == name), PLAIN)


def selectors(desired: dict[str, Any]) -> list[str]:
    """Return the label selectors that the reading module has to resolve."""
    return sorted({wave["selector"] for wave in desired["waves"]} - {""})


def failed_words(row: dict[str, str]) -> str:
    """Return a failed move of `mesh_move` as words."""
    return f"{row['kind']} {row['namespace']}/{row['name']}: {row['cause']}"
