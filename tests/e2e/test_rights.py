"""The upgrade step by step, each playbook under the account of docs/rbac that it is for; no account is an admin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.lab import KUBECONFIG, ROOT, Run, kubectl, lab_reset, living_state

pytestmark = pytest.mark.lab

Play = Callable[..., Run]
HOME, ACCOUNTS = "istio-upgrade", ("reader", "mover", "installer")
MESH, PROBES = ("shop", "canary"), ("canary",)
# Each step with the least it needs; istioctl's own precheck says IST0141 to every account that may not install.
NO_INSTALLER = [{"id": "IST0141", "resource": "", "reason": "this account does not install", "expires": "2099-12-31"}]
CHAIN: tuple[tuple[str, str], ...] = (
    ("install.yml", "installer"),
    ("canary.yml", "mover"),
    ("move_tags.yml", "mover"),
    ("rollback_drill.yml", "mover"),
    ("uninstall.yml", "installer"),
    ("report.yml", "reader"),
)


def bindings() -> list[tuple[str, str, str]]:
    """Return (role, namespace, account) as docs/rights.md has them bound, for the lab."""
    mesh = [(f"istio-upgrade-{who}-mesh", namespace, who) for who in ACCOUNTS for namespace in MESH]
    return mesh + [(f"istio-upgrade-{who}-probes", space, who) for who in ACCOUNTS[1:] for space in PROBES]


def kubeconfig(folder: Path, who: str) -> Path:
    """Write a kubeconfig with a token of an account."""
    config = yaml.safe_load(KUBECONFIG.read_text(encoding="utf-8"))
    token = kubectl("create", "token", who, "-n", HOME, "--duration=1h").strip()
    config["users"] = [{"name": who, "user": {"token": token}}]
    config["contexts"] = [{"name": who, "context": {"cluster": config["clusters"][0]["name"], "user": who}}]
    path = folder / who
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config | {"current-context": who}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def accounts(lab: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """Make the accounts at the starting point; returns the variables with which a play runs under each of them."""
    lab_reset()
    files = [argument for who in ACCOUNTS for argument in ("-f", str(ROOT / "docs" / "rbac" / f"{who}.yaml"))]
    kubectl("apply", *files)
    for role, space, who in bindings():
        kubectl("create", "rolebinding", role, "-n", space, f"--clusterrole={role}", f"--serviceaccount={HOME}:{who}")
    folder = tmp_path_factory.mktemp("kubeconfigs")
    yield {who: {"mesh_kubeconfig": str(kubeconfig(folder, who))} for who in ACCOUNTS}
    for role, space, _ in bindings():
        kubectl("delete", "rolebinding", role, "-n", space)
    kubectl("delete", *files)


def mesh_state() -> dict[str, str]:
    """Return the living state without the records that a precheck writes."""
    return {name: row for name, row in living_state().items() if "/istio-upgrade-1-30-5-to-" not in name}


def asked(run: Run) -> list[dict[str, Any]]:
    """Return the rights that the last review of a precheck found missing."""
    found: list[dict[str, Any]] = run.results("mesh_inspect")[-1]["rights"]
    return found


@pytest.mark.more
def test_an_account_is_told_what_it_lacks_for_other_steps(play: Play, accounts: dict[str, dict[str, Any]]) -> None:
    """The reader is asked for every step: all that is missing is named at once, and nothing is changed (case F17)."""
    before = mesh_state()
    run = play("precheck.yml", **accounts["reader"])
    assert run.status == "failed"
    told = run.messages()
    for words in (
        "The account lacks rights that the run needs",
        "clusterroles.rbac.authorization.k8s.io",
        "patch, bind, escalate",
        "deployments.apps",
        "in namespace shop",
        "pods/exec",
        "in namespace canary",
        "needed by: install",
    ):
        assert words in told, told
    assert mesh_state() == before

    own = {"mover": ["canary", "move_tags", "rollback_drill"], "installer": ["install", "uninstall"]}
    for who, steps in own.items():
        run = play("precheck.yml", "--check", precheck_account_steps=steps, mesh_waivers=NO_INSTALLER, **accounts[who])
        assert asked(run) == [], who
        assert run.status == "successful", f"{who}: {run.messages() or run.text[-3000:]}"
    assert mesh_state() == before


def test_each_step_under_its_own_account(play: Play, accounts: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """From the starting point to a finished upgrade; what installs not stops at the install, with the reason."""
    run = play("precheck.yml", precheck_account_steps=["precheck"], mesh_waivers=NO_INSTALLER, **accounts["reader"])
    assert run.status == "successful", run.messages() or run.text[-3000:]
    assert asked(run) == []

    before = mesh_state()
    run = play("install.yml", **accounts["mover"])
    assert run.status == "failed"
    assert "HTTP 403" in run.messages(), run.messages()
    assert "docs/rights.md" in run.messages(), run.messages()
    assert mesh_state() == before

    for playbook, who in CHAIN:
        run = play(playbook, **accounts[who])
        assert run.status == "successful", f"{playbook} as {who}: {run.messages() or run.text[-3000:]}"

    report = (tmp_path / "evidence" / "08-report.md").read_text(encoding="utf-8").splitlines()
    assert {"old_revision=1-30-5", "new_revision=1-31-0", "old_injector_left=no"} <= set(report)
    labels = kubectl(
        "get", "deployments", "-n", "istio-system", "-l", "app=istiod", "-L", "istio.io/rev", "--no-headers"
    )
    assert [line.split()[-1] for line in labels.splitlines()] == ["1-31-0"]
