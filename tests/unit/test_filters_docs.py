"""Every filter has a document that tells the truth: same options as the function, examples that run."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError

ROOT = Path(__file__).parent.parent.parent
PLUGINS = ROOT / "filter_plugins"
# Files whose filters serve this project's own roles only: a docstring each, no document of their own.
INTERNAL_FILES = ("mesh_checks", "mesh_fleet", "mesh_kept_settings", "mesh_report", "mesh_status", "mesh_upgrade")


@cache
def filters(internal: bool = False) -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for path in sorted(PLUGINS.glob("*.py")):
        if (path.stem in INTERNAL_FILES) is not internal:
            continue
        spec = importlib.util.spec_from_file_location(f"filter_file_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, function in module.FilterModule().filters().items():
            assert name not in found, f"{path.name}: filter {name} is there twice"
            found[name] = function
    return found


@cache
def document(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((PLUGINS / f"{name}.yml").read_text())
    return loaded


def test_each_filter_has_a_document_and_each_document_a_filter() -> None:
    assert sorted(filters()) == sorted(path.stem for path in PLUGINS.glob("*.yml"))


def test_internal_filters_say_what_they_do() -> None:
    inside = filters(internal=True)
    assert not set(inside) & set(filters())
    assert [name for name, function in inside.items() if not inspect.getdoc(function)] == []


def test_the_promised_filters_are_there() -> None:
    promised = {"proxy_image", "revision_tags", "tag_revision", "revision_name", "injecting_revision"}
    assert promised <= set(filters())


@pytest.mark.parametrize("name", sorted(filters()))
def test_options_match_the_function(name: str) -> None:
    first, *rest = inspect.signature(filters()[name]).parameters.values()
    options = document(name)["DOCUMENTATION"]["options"]
    assert list(options) == ["_input", *(parameter.name for parameter in rest)], f"the input is {first.name}"
    for parameter in rest:
        option = options[parameter.name]
        required = parameter.default is inspect.Parameter.empty
        assert option.get("required", False) is required, parameter.name
        if not required:
            assert option.get("default") == parameter.default, parameter.name
    by_position = [p.name for p in rest if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert document(name)["DOCUMENTATION"].get("positional", "") == ", ".join(by_position)


@pytest.mark.parametrize("name", sorted(filters()))
def test_documents_are_whole(name: str) -> None:
    whole = document(name)
    assert set(whole) == {"DOCUMENTATION", "EXAMPLES", "RETURN"}
    assert whole["DOCUMENTATION"]["name"] == name
    assert whole["RETURN"]["_value"]["type"]
    assert f"{name}" in whole["EXAMPLES"]


def playbook(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a playbook with our filters beside it, the way playbooks/ has them."""
    (folder / "filter_plugins").symlink_to(PLUGINS)
    (folder / "book.yml").write_text(text)
    return ansible("playbook", "-i", "localhost,", str(folder / "book.yml"))


def ansible(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
    }
    return subprocess.run(
        [sys.executable, "-m", "ansible", *command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=300,
        check=False,
    )


def test_examples_are_true(tmp_path: Path) -> None:
    tasks: list[dict[str, Any]] = []
    for name in sorted(filters()):
        examples = yaml.safe_load(document(name)["EXAMPLES"])
        assert examples, name
        for task in examples:
            assert task["ansible.builtin.assert"]["that"], f"{name}: an example that asserts nothing"
            tasks.append({**task, "name": f"{name}: {task['name']}"})
    play = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}]
    run = playbook(tmp_path, yaml.safe_dump(play, sort_keys=False))
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"ok={len(tasks)} " in run.stdout
    # Ansible must not look for filters inside the package and warn about each of its files.
    assert "Skipping plugin" not in run.stdout + run.stderr


def test_ansible_doc_shows_every_filter() -> None:
    run = ansible("doc", "-t", "filter", "--json", *sorted(filters()))
    assert run.returncode == 0, run.stderr
    shown = json.loads(run.stdout)
    assert {key.rsplit(".", 1)[-1] for key in shown} == set(filters())


def test_a_mesh_error_is_a_filter_error_with_its_text() -> None:  # case A03
    with pytest.raises(AnsibleFilterError, match=r"pod shop/web-0: .* Next: "):
        filters()["proxy_image"](":", "shop/web-0")


def test_errors_reach_the_person(tmp_path: Path) -> None:  # case A03
    run = playbook(
        tmp_path,
        "- hosts: localhost\n  connection: local\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.debug:\n        msg: \"{{ {'a': 1} | proxy_image('shop/web-0') }}\"\n",
    )
    assert run.returncode == 2
    assert "of pod shop/web-0" in run.stdout + run.stderr
    assert "Next: read the image of istio-proxy" in run.stdout + run.stderr


PLAIN: dict[str, tuple[Any, ...]] = {
    "proxy_image": ("hub.example/istio/proxyv2:1.31.0",),
    "same_version": ("1.31.0", "latest"),
    "revision_tags": ("TAG REVISION NAMESPACES\na   b        c\n",),
    "injecting_revision": ({"istio.io/rev": "x"}, {}, {"x": "1-31-0"}),
    "proxy_status": ("NAME ISTIOD VERSION\na.b  c      1.2.3\n",),
    "istioctl_version": ("client version: 1.31.0",),
    "precheck_result": ("", "No issues found when checking the cluster.", 0),
    "uninstall_warnings": ("No resources will be pruned",),
    "overlay_operator": (
        "apiVersion: install.istio.io/v1alpha1\nkind: IstioOperator\n",
        "f",
        "a",
        "b",
        ["a"],
    ),
}


class Marked(str):
    """Stands for Ansible's tagged strings, which are a subclass of str."""

    __slots__ = ()


def only_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return type(value) is dict and all(only_plain(part) for pair in value.items() for part in pair)
    if isinstance(value, list):
        return type(value) is list and all(only_plain(part) for part in value)
    return type(value) in {str, int, bool, type(None)}


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_only_plain_types_come_back(name: str) -> None:
    arguments = [Marked(item) if isinstance(item, str) else item for item in PLAIN[name]]
    assert only_plain(filters()[name](*arguments))
