"""What AWX does with the data files in awx/vars: how it checks a survey, walks a workflow and starts a job.

Written after AWX 24.6 (ansible/awx); each part names the file it follows. No AWX server is needed to use it.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from jinja2 import sandbox

ROOT = Path(__file__).resolve().parents[1]
EDGES = ("success_nodes", "failure_nodes", "always_nodes")
# awx/main/constants.py, SURVEY_TYPE_MAPPING
SURVEY_TYPES: dict[str, Any] = {
    "text": str,
    "textarea": str,
    "password": str,
    "multiplechoice": str,
    "multiselect": str,
    "integer": int,
    "float": (float, int),
}

Data = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """YAML with Ansible's `!unsafe`, which says that braces in a text are not for Ansible."""


_Loader.add_constructor("!unsafe", lambda _loader, node: str(node.value))


def load_data() -> Data:
    """Return all variables of awx/vars, as apply.yml sees them."""
    found: Data = {}
    for path in sorted((ROOT / "awx" / "vars").glob("*.yml")):
        found |= yaml.load(path.read_text(encoding="utf-8"), _Loader)
    return found


def job_templates(data: Data) -> dict[str, Data]:
    """Return the options of each job template by its name, with what they have in common."""
    return {item["name"]: data["awx_job_template_common"] | item for item in data["awx_job_templates"]}


# --- surveys ------------------------------------------------------------------------------------------------


def survey_spec_errors(survey: Data) -> list[str]:
    """Return why AWX's API would refuse a survey (awx/api/views, `_validate_spec_data`)."""
    errors = [
        f"{key} is missing" for key in ("name", "description", "spec") if not isinstance(survey.get(key), (str, list))
    ]
    names = [item.get("variable") for item in survey.get("spec", [])]
    errors += [f"{name} is asked twice" for name in sorted(set(names)) if names.count(name) > 1]
    if not names:
        errors.append("nothing is asked")
    for item in survey.get("spec", []):
        for key, wanted in (("type", str), ("question_name", str), ("variable", str), ("required", bool)):
            if not isinstance(item.get(key), wanted):
                errors.append(f"{item.get('variable')}: {key} is not {wanted.__name__}")
        kind = item.get("type")
        if kind not in SURVEY_TYPES:
            errors.append(f"{item.get('variable')}: no such type {kind}")
            continue
        default = item.get("default", "")
        if default != "" and not isinstance(default, SURVEY_TYPES[kind]):
            errors.append(f"{item['variable']}: the default is not {kind}")
        errors += [
            f"{item['variable']}: {key} is no integer"
            for key in ("min", "max")
            if not isinstance(item.get(key, 0), int)
        ]
        if kind.startswith("multi") and default not in ("", *item.get("choices", [])):
            errors.append(f"{item['variable']}: the default is no choice")
    return errors


def survey_errors(survey: Data, answers: Data) -> list[str]:
    """Return why AWX would not start with these answers (awx/main/models/mixins.py, `_survey_element_validation`)."""
    return [error for item in survey["spec"] if (error := _answer_error(item, answers))]


def _answer_error(item: Data, answers: Data) -> str:
    name, kind = item["variable"], item["type"]
    if name not in answers:
        return f"'{name}' value missing" if item["required"] else ""
    value = answers[name]
    wanted = list if kind == "multiselect" else SURVEY_TYPES[kind]
    if not isinstance(value, wanted) or isinstance(value, bool):
        return f"Value {value} for '{name}' expected to be {kind}."
    return _bounds_error(item, value)


def _bounds_error(item: Data, value: Any) -> str:
    name = item["variable"]
    if item["type"].startswith("multi"):
        foreign = [v for v in (value if isinstance(value, list) else [value]) if v not in item["choices"]]
        return f"Value {foreign} for '{name}' expected to be of {item['choices']}." if foreign else ""
    size = len(value) if isinstance(value, str) else value
    if "min" in item and size < item["min"]:
        return f"'{name}' value {value} is too small"
    return f"'{name}' value {value} is too large" if "max" in item and size > item["max"] else ""


def survey_defaults(survey: Data) -> Data:
    """Return the defaults that AWX lays over a template's own variables (`_update_unified_job_kwargs`)."""
    found = {item["variable"]: item["default"] for item in survey["spec"] if item.get("default") is not None}
    return {name: value for name, value in found.items() if value != ""}


# --- the workflow -------------------------------------------------------------------------------------------


@dataclass
class Walk:
    """How a workflow went."""

    order: list[str] = field(default_factory=list)
    status: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    failed: bool = False


def _met(nodes: dict[str, Data], status: dict[str, str], node: str) -> bool:
    """Tell whether one parent that ended leads here: success or failure as it ended, or always."""
    for name, parent in nodes.items():
        ended = {"successful": "success_nodes", "failed": "failure_nodes"}.get(status.get(name, ""))
        if ended and node in (*parent[ended], *parent["always_nodes"]):
            return True
    return False


def walk(nodes: list[Data], run: Callable[[Data, list[str]], str]) -> Walk:
    """Walk a workflow the way AWX does (awx/main/scheduler/dag_workflow.py), nodes with any parent's edge met.

    Args:
        nodes: options of `workflow_job_template_node`, with all three lists of edges.
        run: (node, all nodes that led to it) -> "successful" or "failed"; an approval that is denied has failed.

    Returns:
        Walk; `failed` as AWX tells it: only a node that fails without a failure edge or an always edge counts.
    """
    by_name = {node["identifier"]: node for node in nodes}
    parents = {n: [p for p, node in by_name.items() if any(n in node[edge] for edge in EDGES)] for n in by_name}
    gone = Walk()
    while waiting := [n for n in by_name if n not in gone.status and n not in gone.skipped]:
        # decided: it has ended or will never run
        ready = [n for n in waiting if all(p in gone.status or p in gone.skipped for p in parents[n])]
        if not ready:
            raise AssertionError(f"AWX would wait for ever: {waiting}")
        for name in ready:
            if parents[name] and not _met(by_name, gone.status, name):
                gone.skipped.append(name)
                continue
            gone.order.append(name)
            gone.status[name] = run(by_name[name], ancestors(nodes, name))
    gone.failed = any(
        status == "failed" and not by_name[name]["failure_nodes"] and not by_name[name]["always_nodes"]
        for name, status in gone.status.items()
    )
    return gone


def ancestors(nodes: list[Data], name: str) -> list[str]:
    """Return every node from which edges lead to one, its parents first."""
    found: list[str] = []
    ask = [name]
    while ask:
        child = ask.pop(0)
        fresh = [n["identifier"] for n in nodes if any(child in n[edge] for edge in EDGES)]
        ask += [n for n in fresh if n not in found]
        found += [n for n in fresh if n not in found]
    return found


# --- one job ------------------------------------------------------------------------------------------------


def job_variables(template: Data, workflow_variables: Data, artifacts: Data) -> Data:
    """Return a job's extra vars, later ones winning: template, survey defaults, artifacts, the workflow's variables.

    Follows awx/main/models/workflow.py (`get_job_kwargs`) and mixins.py (`_update_unified_job_kwargs`).
    """
    found: Data = template["extra_vars"] | survey_defaults(template["survey_spec"])
    return found | artifacts | workflow_variables


class _Unsafe(yaml.SafeDumper):
    def represent_data(self, data: Any) -> Any:
        return self.represent_scalar("!unsafe", data) if isinstance(data, str) else super().represent_data(data)


def dump_variables(variables: Data, trusted: Data) -> str:
    """Return the text of env/extravars: only a template's own values may hold braces (awx/main/utils/safe_yaml.py)."""
    return "".join(
        yaml.dump(
            {k: v}, Dumper=yaml.SafeDumper if k in trusted and trusted[k] == v else _Unsafe, default_flow_style=False
        )
        for k, v in variables.items()
    )


class _Names:
    """AWX's `tower` namespace."""


def inject(credential_type: Data, inputs: Data, folder: Path) -> tuple[dict[str, str], list[str]]:
    """Return (environment, arguments) that a credential adds; its files are written into `folder`/env with mode 0600.

    Follows awx/main/models/credential.py (`inject_credential`).
    """
    injectors, tower = credential_type["injectors"], _Names()
    jinja = sandbox.ImmutableSandboxedEnvironment()
    namespace: Data = {"tower": tower} | {k: v for k, v in inputs.items() if v}
    # AWX keeps injectors as jsonb: short keys come first
    for label in sorted(injectors.get("file", {}), key=lambda key: (len(key), key)):
        path = _private_file(folder, jinja.from_string(injectors["file"][label]).render(**namespace))
        if not hasattr(tower, "filename"):
            tower.filename = _Names()  # type: ignore[attr-defined]
        setattr(tower.filename, label.split(".")[1], str(path))  # type: ignore[attr-defined]
    environment = {k: jinja.from_string(v).render(**namespace) for k, v in injectors.get("env", {}).items()}
    extra = {k: jinja.from_string(v).render(**namespace) for k, v in injectors.get("extra_vars", {}).items()}
    return environment, ["-e", f"@{_private_file(folder, dump_variables(extra, {}))}"] if extra else []


def _private_file(folder: Path, text: str) -> Path:
    (folder / "env").mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder / "env", delete=False) as stream:
        stream.write(text)
    return Path(stream.name)


def inventory_script(source: Path, command: Path) -> str:
    """Return the script that AWX runs a job with: what it imported from an inventory file, as JSON.

    Args:
        source: the inventory source's file.
        command: `ansible-inventory`.
    """
    done = subprocess.run(
        [str(command), "-i", str(source), "--list", "--export"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode != 0:
        raise RuntimeError(f"ansible-inventory -i {source}: {done.stderr}")
    return f"#! /usr/bin/env python3\n# -*- coding: utf-8 -*-\nprint({json.dumps(json.loads(done.stdout))!r})\n"
