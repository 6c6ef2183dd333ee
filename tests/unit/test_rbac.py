"""The manifests in docs/rbac grant what the table of rights names for their steps, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.mesh_rights import RIGHTS

from tests.tools.generate_rbac import ACCOUNTS, HOME, ISTIO, Account, manifests, needs, rows_of

ROOT = Path(__file__).resolve().parents[2]
NAMES = [account.name for account in ACCOUNTS]
# An account that changes nothing may do this beside looking: records, the Lease, dry runs, asking istiod.
NOTES = {
    ("istio", "configmaps", "create"),
    ("istio", "configmaps", "patch"),
    ("istio", "leases", "create"),
    ("istio", "leases", "patch"),
    ("istio", "leases", "update"),
    ("istio", "pods/exec", "create"),
    ("mesh", "pods", "create"),
}


def account(name: str) -> Account:
    return next(found for found in ACCOUNTS if found.name == name)


def objects(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / "docs" / "rbac" / f"{name}.yaml").read_text(encoding="utf-8")))


def grants(name: str) -> set[tuple[str, str, str, str]]:
    """Return (scope, group, resource, verb) of every rule of a manifest."""
    full = f"istio-upgrade-{name}"
    scopes = {("ClusterRole", full): "cluster", ("Role", full): "istio"}
    scopes |= {("ClusterRole", f"{full}-{scope}"): scope for scope in ("mesh", "probes")}
    return {
        (scopes[item["kind"], item["metadata"]["name"]], group, resource, verb)
        for item in objects(name)
        for rule in item.get("rules", [])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("name", NAMES)
def test_an_account_has_what_its_steps_use_and_no_more(name: str) -> None:
    used = {
        (row.where, row.group, resource, verb)
        for row in rows_of(account(name))
        for resource in row.resources
        for verb in row.verbs
    }
    held = grants(name)
    everywhere = {(*right,) for scope, *right in held if scope == "cluster"}
    assert held <= used
    assert {right for right in used - held if right[1:] not in everywhere} == set()
    assert {right for right in held if right[0] != "cluster" and right[1:] in everywhere} == set(), "said twice"


def test_every_row_is_for_some_account() -> None:
    assert [row for row in RIGHTS if not any(row in rows_of(found) for found in ACCOUNTS)] == []


def test_the_reader_changes_nothing() -> None:
    writes = {(scope, what, verb) for scope, _, what, verb in grants("reader") if verb not in ("get", "list", "watch")}
    assert writes == NOTES


def test_the_mover_makes_no_webhook_and_no_role() -> None:
    verbs = {verb for _, _, resource, verb in grants("mover") if resource.endswith("webhookconfigurations")}
    assert verbs == {"get", "list", "watch", "patch", "update"}
    assert {right for right in grants("mover") if right[1] == "rbac.authorization.k8s.io"} == set()
    assert {right for right in grants("mover") if "secrets" in right} == set()
    assert grants("reader") <= grants("mover")


def test_the_installer_is_said_to_be_nearly_an_admin() -> None:
    assert ("cluster", "rbac.authorization.k8s.io", "clusterroles", "escalate") in grants("installer")
    for path in ("rbac/installer.yaml", "rights.md"):
        text = (ROOT / "docs" / path).read_text(encoding="utf-8").replace("\n# ", " ")
        assert "this is nearly cluster-admin" in text, path
    assert {verb for scope, _, _, verb in grants("installer") if scope == "mesh"} == {"create", "get"}, "dry runs"


@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_binds_what_it_holds_but_the_rights_on_workloads(name: str) -> None:
    found = objects(name)
    roles = {(i["kind"], i["metadata"]["name"], i["metadata"].get("namespace", "")) for i in found if "rules" in i}
    bound = {
        (i["roleRef"]["kind"], i["roleRef"]["name"], i["metadata"].get("namespace", ""))
        for i in found
        if "roleRef" in i
    }
    assert bound <= roles
    assert {role for _, role, _ in roles - bound} == set(needs(account(name)))
    assert {namespace for kind, _, namespace in roles if kind == "Role"} == {ISTIO}
    subjects = [subject for i in found for subject in i.get("subjects", [])]
    assert subjects == [{"kind": "ServiceAccount", "namespace": HOME, "name": name}] * 2
    assert {i["metadata"]["name"] for i in found if i["kind"] == "ServiceAccount"} == {name}


def test_everywhere_binds_the_rest() -> None:
    found = objects("everywhere")
    assert [i["roleRef"]["name"] for i in found] == [role for name in NAMES for role in needs(account(name))]
    assert {i["kind"] for i in found} == {"ClusterRoleBinding"}


def test_nothing_else_lies_there() -> None:
    assert set((ROOT / "docs" / "rbac").iterdir()) == set(manifests(ROOT))
