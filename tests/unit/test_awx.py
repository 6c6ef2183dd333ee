"""The data files of awx/: they fit AWX's modules and API, and the workflow leads where it should, however it goes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from mesh_logic.inputs import read_inputs

from tests import awx_rules as awx
from tests.tools import record_awx
from tests.unit.mesh_stages import LAB, controller

DATA = awx.load_data()
TEMPLATES = awx.job_templates(DATA)
NODES: list[dict[str, Any]] = DATA["awx_workflow_nodes"]
RECORD = json.loads(record_awx.RECORD.read_text(encoding="utf-8"))
SURVEYS = {name: item["survey_spec"] for name, item in TEMPLATES.items()} | {
    "workflow": DATA["awx_workflow"]["survey_spec"]
}
ENV_BLOCKLIST = ("VIRTUAL_ENV", "PATH", "PYTHONPATH", "JOB_ID", "INVENTORY_ID", "CACHE", "AWX_HOST")
KUBECONFIG = "apiVersion: v1\nkind: Config\nusers: [{name: a, user: {token: hush}}]\n"


# --- what the modules take ----------------------------------------------------------------------------------

# module, what apply.yml gives it
ARGUMENTS: list[Any] = [
    pytest.param("execution_environment", DATA["awx_execution_environment"] | {"image": "x"}, id="environment"),
    pytest.param("project", DATA["awx_project"] | {"scm_url": "x", "default_environment": "x"}, id="project"),
    pytest.param("inventory", DATA["awx_inventory"] | {"name": "x", "organization": "x"}, id="inventory"),
    pytest.param(
        "inventory_source",
        DATA["awx_inventory_source"] | {"name": "x", "inventory": "x", "source_path": "x"},
        id="source",
    ),
    pytest.param("credential", DATA["awx_credential"] | {"name": "x", "inputs": {}}, id="credential"),
    *(pytest.param("credential_type", item, id=item["name"]) for item in DATA["awx_credential_types"]),
    *(pytest.param("job_template", item, id=name) for name, item in TEMPLATES.items()),
    pytest.param("workflow_job_template", DATA["awx_workflow"] | {"name": "x", "inventory": "x"}, id="workflow"),
    *(
        pytest.param("workflow_job_template_node", node | {"workflow_job_template": "x"}, id=node["identifier"])
        for node in NODES
    ),
]


def misfits(module: str, arguments: dict[str, Any]) -> list[str]:
    """Return what a module would say about some arguments, by its recorded options."""
    messages: list[str] = ArgumentSpecValidator(RECORD["modules"][module]).validate(arguments).error_messages
    return messages


@pytest.mark.parametrize(("module", "arguments"), ARGUMENTS)
def test_the_data_fits_the_modules(module: str, arguments: dict[str, Any]) -> None:
    assert misfits(module, arguments) == []


def test_a_misfit_is_found() -> None:
    assert "survey" in misfits("job_template", {"name": "x", "survey": {}})[0]
    assert "job_type" in misfits("job_template", {"name": "x", "job_type": "scan"})[0]
    assert "name" in misfits("job_template", {})[0]


def test_the_record_is_that_of_the_installed_collection() -> None:
    try:
        found = record_awx.module_options()
    except RuntimeError as error:
        pytest.skip(f"no awx.awx here: {error}")
    assert found == RECORD


# --- project and surveys ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_playbook_is_there(name: str) -> None:
    assert (awx.ROOT / TEMPLATES[name]["playbook"]).is_file()


def test_every_environment_has_its_folder() -> None:
    for environment in DATA["awx_environments"]:
        folder = awx.ROOT / "inventories" / environment["name"]
        assert (folder / "hosts.yml").is_file()
        # the template's extra var points at it
        assert (folder / "files" / "istio-operator.yaml").is_file()
        variables = yaml.safe_load((folder / "group_vars" / "all" / "mesh.yml").read_text(encoding="utf-8"))
        assert variables["mesh_environment"] == environment["name"]


@pytest.mark.parametrize("name", SURVEYS)
def test_awx_takes_the_survey(name: str) -> None:
    assert awx.survey_spec_errors(SURVEYS[name]) == []


@pytest.mark.parametrize("name", SURVEYS)
def test_a_survey_asks_for_documented_inputs(name: str) -> None:
    documented = (awx.ROOT / "docs" / "variables.md").read_text(encoding="utf-8")
    asked = [item["variable"] for item in SURVEYS[name]["spec"]]
    assert [v for v in asked if f"| `{v}` |" not in documented] == []
    assert set(asked) <= set(LAB) | {"mesh_lessons"}


@pytest.mark.parametrize("name", SURVEYS)
def test_an_answer_of_awx_is_an_input(name: str) -> None:
    """Each question, answered in the type that AWX gives it, also left empty where it may be."""
    answers: dict[str, Any] = {}
    for item in SURVEYS[name]["spec"]:
        example = LAB.get(item["variable"], "first line\nsecond line")
        answers[item["variable"]] = example if item["type"] == "integer" else str(example)
    assert awx.survey_errors(SURVEYS[name], answers) == []
    assert read_inputs(LAB | answers, controller())["errors"] == []
    empty = {item["variable"]: "" for item in SURVEYS[name]["spec"] if not item["required"]}
    assert read_inputs(LAB | answers | empty, controller())["errors"] == []


def test_awx_refuses_what_is_no_answer() -> None:
    spec = SURVEYS["workflow"]
    good = {"mesh_from_version": "1.30.5", "mesh_to_version": "1.31.0", "mesh_soak_before_uninstall": 0}
    assert awx.survey_errors(spec, good) == []
    for wrong in ({"mesh_from_version": 1.3}, {"mesh_soak_before_uninstall": "0"}, {"mesh_soak_before_uninstall": -1}):
        assert len(awx.survey_errors(spec, good | wrong)) == 1
    assert awx.survey_errors(spec, {k: v for k, v in good.items() if k != "mesh_to_version"}) == [
        "'mesh_to_version' value missing"
    ]


def test_the_workflow_asks_what_its_jobs_need() -> None:
    asked = {item["variable"] for item in SURVEYS["workflow"]["spec"]}
    for node in NODES:
        if name := node.get("unified_job_template"):
            assert {i["variable"] for i in SURVEYS[name]["spec"] if i["required"]} <= asked, name


def test_a_job_gets_its_variables_in_the_order_of_awx() -> None:
    template = TEMPLATES["Istio upgrade: uninstall"]
    alone = awx.job_variables(template, {}, {})
    assert alone["mesh_soak_before_uninstall"] == 86400
    told = awx.job_variables(template, {"mesh_soak_before_uninstall": 5}, {"istio_upgrade_canary": {"lab": "done"}})
    assert (told["mesh_soak_before_uninstall"], told["istio_upgrade_canary"]) == (5, {"lab": "done"})
    text = awx.dump_variables(told | {"mesh_lessons": "{{ no }}"}, template["extra_vars"])
    assert "mesh_operator_file: '{{ playbook_dir }}/../inventories/" in text
    assert "!unsafe 'mesh_lessons': !unsafe '{{ no }}'" in text


# --- the credential -----------------------------------------------------------------------------------------


def credential(folder: Path, **inputs: str) -> dict[str, Any]:
    """Return the kubeconfig that the credential type makes of some inputs."""
    environment, arguments = awx.inject(DATA["awx_credential_types"][0], inputs, folder)
    path = Path(environment["KUBECONFIG"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert arguments[0] == "-e"
    assert str(path) in Path(arguments[1][1:]).read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def test_a_kubeconfig_is_taken_as_it_is(tmp_path: Path) -> None:
    assert credential(tmp_path, kubeconfig=KUBECONFIG, host="https://other") == yaml.safe_load(KUBECONFIG)


def test_a_token_with_address_and_ca_makes_a_kubeconfig(tmp_path: Path) -> None:
    made = credential(tmp_path, host="https://a:6443", bearer_token='t"<{', ca_certificate="PEM\nPEM")
    assert made["users"] == [{"name": "service-account", "user": {"token": 't"<{'}}]
    cluster = made["clusters"][0]["cluster"]
    assert cluster["server"] == "https://a:6443"
    assert Path(cluster["certificate-authority"]).read_text(encoding="utf-8") == "PEM\nPEM"
    without = credential(tmp_path, host="https://a:6443", bearer_token="t")
    assert without["clusters"][0]["cluster"] == {"server": "https://a:6443"}


def test_secrets_are_marked_and_no_variable_of_ansible_is_injected() -> None:
    fields = {item["id"]: item for item in DATA["awx_credential_types"][0]["inputs"]["fields"]}
    assert {name for name, item in fields.items() if item.get("secret")} == {"kubeconfig", "bearer_token"}
    injected = DATA["awx_credential_types"][0]["injectors"]["env"]
    assert [name for name in injected if name.startswith("ANSIBLE_") or name in ENV_BLOCKLIST] == []


# --- the workflow -------------------------------------------------------------------------------------------


def test_the_graph_is_connected() -> None:
    names = [node["identifier"] for node in NODES]
    assert len(set(names)) == len(names)
    edges = [(n["identifier"], child) for n in NODES for edge in awx.EDGES for child in n[edge]]
    assert {child for _, child in edges} <= set(names)
    roots = [name for name in names if name not in {child for _, child in edges}]
    assert roots == ["precheck"]
    for name in names:
        assert name == "precheck" or "precheck" in awx.ancestors(NODES, name), name
        assert name == "report" or name in awx.ancestors(NODES, "report"), name
    assert [n["identifier"] for n in NODES if "report" not in n["always_nodes"]] == ["report"]


def test_every_job_of_a_node_is_a_template() -> None:
    used = {node["unified_job_template"] for node in NODES if "unified_job_template" in node}
    assert used <= set(TEMPLATES)
    assert set(TEMPLATES) - used == {"Istio upgrade: plan"}


STEPS = [
    "precheck",
    "install",
    "canary",
    "approve-tags",
    "move-tags",
    "rollback-drill",
    "approve-uninstall",
    "uninstall",
]

# what fails, or is denied, and what runs then
ROADS: list[Any] = [
    pytest.param("", [*STEPS, "report"], id="all is well"),
    pytest.param("precheck", ["precheck", "report"], id="precheck"),
    pytest.param("install", [*STEPS[:2], "abort", "report"], id="install"),
    pytest.param("canary", [*STEPS[:3], "abort", "report"], id="canary"),
    pytest.param("approve-tags", [*STEPS[:4], "abort", "report"], id="tags-denied"),
    pytest.param("move-tags", [*STEPS[:5], "rollback", "report"], id="move-tags"),
    pytest.param("rollback-drill", [*STEPS[:6], "rollback", "report"], id="drill"),
    pytest.param("approve-uninstall", [*STEPS[:7], "report"], id="uninstall-denied"),
    pytest.param("uninstall", [*STEPS, "report"], id="uninstall"),
]


@pytest.mark.parametrize(("fails", "order"), ROADS)
def test_the_workflow_goes(fails: str, order: list[str]) -> None:
    # the report fails while the upgrade is not finished, and nothing else makes a workflow fail in AWX
    bad = {fails, "report"} if fails else set()
    gone = awx.walk(NODES, lambda node, _led: "failed" if node["identifier"] in bad else "successful")
    assert gone.order == order
    assert gone.failed is bool(fails)


@pytest.mark.parametrize("follow_up", ["rollback", "abort"])
def test_a_follow_up_that_fails_is_reported_too(follow_up: str) -> None:
    bad = {"canary" if follow_up == "abort" else "move-tags", follow_up, "report"}
    gone = awx.walk(NODES, lambda node, _led: "failed" if node["identifier"] in bad else "successful")
    assert gone.order[-2:] == [follow_up, "report"]
    assert gone.failed


def test_approvals_never_run_out() -> None:
    # a time-out counts as a denial
    approvals = [node["approval_node"] for node in NODES if "approval_node" in node]
    assert [item["timeout"] for item in approvals] == [0, 0]


def test_python_of_the_controller() -> None:
    # the lab's inventory, and so every environment made after it, runs modules with Ansible's own Python in AWX as well
    text = awx.inventory_script(
        awx.ROOT / "inventories" / "lab" / "hosts.yml", Path(sys.executable).parent / "ansible-inventory"
    )
    assert "{{ ansible_playbook_python }}" in text
