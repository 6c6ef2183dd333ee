"""Filters of the upgrade itself: inputs, plan, gates, evidence. Thin: the meaning is in ``mesh_logic``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

sys.path.insert(0, str(Path(__file__).resolve().parent))  # Ansible imports this file alone

from mesh_logic import (
    evidence,
    findings,
    following,
    gates,
    gateways,
    in_place,
    injection_proof,
    inputs,
    install,
    outcome,
    plan,
    refresh,
    removal,
    waves,
    way_back,
)
from mesh_logic.errors import one_line
from mesh_logic.istioctl_output import overlapping_webhooks
from mesh_logic.model import split_ref
from mesh_logic.plain import plain_filter
from mesh_logic.text import strip_ansi


def moves(actions: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the restarts of a plan as `mesh_move` takes them."""
    found = []
    for item in actions:
        if item["do"] == "restart":
            kind, namespace, name = split_ref(item["object"])
            more = {key: item[key] for key in ("how", "api_version") if item.get(key)}
            found.append({"kind": kind, "namespace": namespace, "name": name, "revision": item["to"], **more})
    return found


def probe_words(result: dict[str, Any]) -> str:
    """Return a failed probe as one sentence."""
    return f"probe {result['name']}, {result['url']} from {result['pod'] or 'nowhere'}: {result['error']}"


def reason(result: dict[str, Any]) -> str:
    """Return why a task failed: its message with what the tool said, on one line; overlapping webhooks by name."""
    said = [str(result.get(key) or "").strip() for key in ("msg", "stderr", "stdout")]
    text = strip_ansi(": ".join(part for part in said if part) or str(result))
    names = overlapping_webhooks(text)
    clash = f"Overlapping webhooks, of which nothing was deleted: {' and '.join(names)}. It said: " if names else ""
    return clash + one_line(text).rstrip(".")


def injection_verdict(proof: dict[str, Any], workloads: list[dict[str, Any]], facts: dict[str, Any]) -> dict[str, Any]:
    """Return {errors, first, warnings}: what the dry runs of `mesh_proof` mean for some moves."""
    return {**injection_proof.injection_proof(proof, workloads, injection_proof.expected_images(facts))}


def tag_flags(facts: dict[str, Any], tag: str) -> list[str]:
    """Return what `istioctl tag set` must be told to keep what a tag answers for (case D08)."""
    return ["--auto-inject-namespaces"] if gates.injects_unlabelled(facts, tag) else []


def following_verdict(proof: dict[str, Any], asked: following.Following, facts: dict[str, Any]) -> dict[str, Any]:
    """Return {errors, first, warnings}: what the dry runs in the namespaces that follow a change mean."""
    return {**following.following_proof(proof, asked, injection_proof.expected_images(facts))}


def without(rows: list[Any], others: list[Any]) -> list[Any]:
    """Return the rows that are not among the others, in their order."""
    return [row for row in rows if row not in others]


EVIDENCE = {
    "01-before.txt": lambda facts, desired, _probes: evidence.before_text(facts, desired),
    "04-mixed.txt": evidence.mixed_text,
    "05-tags.txt": evidence.tags_text,
    "07-uninstall.txt": evidence.uninstall_text,
}


def evidence_text(
    facts: dict[str, Any], desired: dict[str, Any], name: str, probes: list[dict[str, Any]] | None = None
) -> str:
    """Return the text of one evidence file, as the facts show it."""
    return EVIDENCE[name](facts, desired, probes or [])


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        found: dict[str, Callable[..., Any]] = {
            "mesh_inputs": inputs.read_inputs,
            "mesh_start_errors": gates.start_errors,
            "mesh_step_plan": plan.step_plan,
            "mesh_chain_plan": plan.chain_plan,
            "mesh_plan_lines": plan.describe,
            "mesh_moves": moves,
            "mesh_on_revision": gates.on_revision,
            "mesh_reason": reason,
            "mesh_probe_words": probe_words,
            "mesh_drill_proof": gates.drill_proof,
            "mesh_action_groups": plan.groups,
            "mesh_kept_actions": plan.kept,
            "mesh_expected_labels": plan.expected_labels,
            "mesh_injection_proof": injection_verdict,
            "mesh_following": following.following,
            "mesh_following_proof": following_verdict,
            "mesh_gateway_lines": gateways.lines,
            "mesh_gateways_unconfirmed": gateways.unconfirmed,
            "mesh_gateways_broken": gateways.not_programmed,
            "mesh_without": without,
            "mesh_wave": waves.wave_of,
            "mesh_wave_selectors": waves.selectors,
            "mesh_wave_errors": gates.wave_errors,
            "mesh_failed_move": waves.failed_words,
            "mesh_canary_before": plan.canary_before,
            "mesh_tags_before": plan.tags_before,
            "mesh_tags_to": plan.tags_to,
            "mesh_towards": plan.towards,
            "mesh_precheck_blockers": gates.precheck_blockers,
            "mesh_tag_flags": tag_flags,
            "mesh_tag_errors": gates.tag_errors_after,
            "mesh_stale": gates.stale_moves,
            "mesh_unready": gates.unready_proxies,
            "mesh_counts": gates.counts,
            "mesh_soak_left": gates.soak_left,
            "mesh_moved_since": gates.moved_since,
            "mesh_wrong_proxies": gates.wrong_proxies,
            "mesh_unverifiable": gates.unverifiable_proxies,
            "mesh_uninstall_blockers": gates.uninstall_blockers,
            "mesh_findings": findings.find_all,
            "mesh_finding_lines": findings.lines,
            "mesh_asked": findings.asked,
            "mesh_fresh_settings": findings.fresh_settings,
            "mesh_refresh_plan": refresh.refresh_plan,
            "mesh_removal_takes": removal.takes_words,
            "mesh_removal_takes_more": removal.takes_more,
            "mesh_removal_lost": removal.lost,
            "mesh_removal_left": removal.left,
            "mesh_uninstall_waits": gates.uninstall_waits,
            "mesh_for_a_person": gates.for_a_person,
            "mesh_born_meanwhile": gates.born_meanwhile,
            "mesh_revision_tag": install.revision_tag,
            "mesh_target_tag": install.target_tag,
            "mesh_install_document": install.install_document,
            "mesh_prune_selector": install.prune_selector,
            "mesh_rendered_objects": install.rendered_objects,
            "mesh_in_place_rendered": install.in_place_rendered,
            "mesh_gateways_rendered": install.gateways_rendered,
            "mesh_prune_takes": gates.prune_takes,
            "mesh_reversed": way_back.reversed_wants,
            "mesh_way_back_errors": way_back.start_errors,
            "mesh_way_back_plan": way_back.way_back_plan,
            "mesh_of_phase": way_back.of_phase,
            "mesh_not_given_back": way_back.not_given_back,
            "mesh_moved_by_reinstall": way_back.moved_by_reinstall,
            "mesh_still_on": way_back.still_on,
            "mesh_closed_records": way_back.closed_records,
            "mesh_way_back_text": way_back.text,
            "mesh_one_side": in_place.one_side,
            "mesh_in_place_plan": in_place.in_place_plan,
            "mesh_in_place_blocking": in_place.blocking,
            "mesh_in_place_text": in_place.text,
            "mesh_evidence": evidence_text,
            "mesh_install_text": evidence.install_text,
            "mesh_proxy_tags": evidence.tags_of_pods,
            "mesh_report_files": evidence.report_files,
            "mesh_unfinished": outcome.unfinished,
        }
        return {name: plain_filter(function, AnsibleFilterError) for name, function in found.items()}
