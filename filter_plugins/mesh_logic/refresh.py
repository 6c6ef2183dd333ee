"""Which workloads a refresh of the injected settings restarts: the version is right, the settings are older.

`meshConfig.defaultConfig` (ProxyConfig) reaches a proxy at injection only, so a change of it waits for a restart.
"""

from __future__ import annotations

from typing import Any

from mesh_logic.findings import fresh_settings, outdated
from mesh_logic.model import build_view, how_moved, workload_ref
from mesh_logic.plan import action
from mesh_logic.waves import in_waves

STEP = "refresh"
REASON = "its proxies have older settings than a new one would get"


def refresh_plan(facts: dict[str, Any], desired: dict[str, Any], proof: dict[str, Any]) -> dict[str, Any]:
    """Return a plan as `mesh_plan` is one ({step, state, finished, actions, reason}), and `for_a_person`.

    Args:
        facts: result of `mesh_read`.
        desired: what the run wants; its waves and consents hold.
        proof: result of `mesh_proof` for every injected workload.

    What moves by eviction or is left to a person is in `for_a_person` (lines): the mover tells old pods by revision.
    """
    rows = outdated(build_view(facts, desired["consents"]), fresh_settings(proof))
    restarts = [(row, pods) for row, pods in rows if how_moved(row) in ("restart", "rescue")]
    actions = [
        {**action("restart", workload_ref(row), row["target"], row["target"], REASON), "step": STEP}
        for row, _pods in restarts
    ]
    left = [f"{workload_ref(row)}: {pods} proxies" for row, pods in rows if (row, pods) not in restarts]
    return {
        "step": STEP,
        "state": "todo" if actions else "done",
        "finished": not actions,
        "actions": in_waves(actions, desired["waves"], facts.get("selected") or {}),
        "reason": "" if actions else "no proxy has older settings than a new one would get",
        "for_a_person": left,
    }
