"""`make docs`: write docs/variables.md and each role's README from the argument specs, docs/versions.md from its table.

`generate_docs.py --check` writes nothing and fails where a file differs from what it would write.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "filter_plugins"))

from mesh_logic.inputs import REQUIRED  # noqa: E402  the package lies beside the filters
from mesh_logic.releases import MAJOR, NEWEST, RANGE, RELEASES  # noqa: E402
from mesh_logic.steps import STEPS  # noqa: E402

SHARED = "mesh"
MARK = "<!-- Generated from the argument specs by tests/tools/generate_docs.py. Do not edit it. -->\n"
TYPES = {str: "text", list: "list", dict: "mapping", bool: "true or false", int: "number"}
SPEC_TYPES = {"str": "text", "list": "list", "dict": "mapping", "bool": "true or false", "int": "number"}

INTRO = """
# Variables

Set these in the inventory of an environment (`inventories/<env>/group_vars/all.yml`), or for one run with
`-e`. One host of the inventory is one cluster. Every input error of a run is told at once, before anything
changes.

Versions are text, in quotes: `1.30` without them is the number 1.3 to YAML, and is refused. A list may also
be JSON or comma-separated text, since AWX surveys know only text. Paths are absolute.
"""

EXAMPLE = """
## An example

```yaml
mesh_environment: staging
mesh_kubeconfig: /home/ops/.kube/staging
mesh_context: staging-admin
mesh_from_version: "1.30.5"
mesh_to_version: "1.31.0"
mesh_istioctl_to: /usr/local/istio-1.31.0/bin/istioctl
mesh_operator_file: "{{ inventory_dir }}/files/istio-operator.yaml"
mesh_tags: [prod-stable, default]
mesh_canary_namespaces: [canary]
mesh_drill:
  tags: [prod-stable]
  workloads: [shop/web]
mesh_evidence_workloads: [shop/web, canary/client]
mesh_soak_before_uninstall: 86400
mesh_probes:
  # sent with curl from that container; without container, the one named like the workload
  - name: web
    from: {namespace: canary, workload: client, container: client}
    url: http://web.shop/
    expect: 200
    timeout_ms: 5000
mesh_waivers:
  # id is the code that istioctl's precheck prints, or PRECHECK for an exit code without messages;
  # without resource it fits every one. expires is for people so far: no run compares it with the clock
  - id: IST0145
    resource: Gateway shop/public
    reason: the two hosts are meant to share it
    expires: "2027-01-31"
```
"""


VERSIONS_MARK = "<!-- Generated from releases.py by tests/tools/generate_docs.py. Do not edit it. -->\n"
VERSIONS = """
# Versions of Istio

Supported are {range}, on both sides of an upgrade and in any pair of which the newer one is at most two minors ahead
(`mesh_allowed_minors`). Outside of that range `playbooks/precheck.yml` stops with `ISTIO_NOT_SUPPORTED`; the minor
after it, {next}, gets the warning `ISTIO_NOT_TRIED`. Every patch of a minor counts as that minor.

*run* means that upgrades with it were run and broken on the lab, *read* that its sources and charts were read for what
matters here. All that depends on the version stands in `filter_plugins/mesh_logic/releases.py`, one row per minor.

| Istio | Kubernetes | known from | new for an upgrade, from this minor on |
|---|---|---|---|
"""


def versions() -> str:
    """Return docs/versions.md."""
    text = VERSIONS_MARK + VERSIONS.format(range=f"Istio {RANGE}", next=f"{MAJOR}.{NEWEST.minor + 1}")
    for row in RELEASES:
        news = cell("; ".join(row.new)) or "-"
        text += f"| {MAJOR}.{row.minor} | 1.{row.kubernetes} or newer | {row.known} | {news} |\n"
    return text


def load(path: Path) -> dict[str, Any]:
    """Return a YAML file's mapping; {} when it is not there."""
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    return loaded


def spec_of(role: str) -> dict[str, Any]:
    """Return the argument spec of a role's entry point `main`."""
    specs = load(ROOT / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"]
    found: dict[str, Any] = specs["main"]
    return found


def roles() -> list[str]:
    """Return the role names: the shared one, then the steps in the order they run, then any other."""
    order = [SHARED, *(role for role, _, _ in STEPS.values())]
    there = [path.parent.parent.name for path in (ROOT / "roles").glob("*/meta/argument_specs.yml")]
    return sorted(there, key=lambda role: (order.index(role) if role in order else len(order), role))


def public() -> list[str]:
    """Return the variables an inventory may set: those the input check looks at."""
    return list(load(ROOT / "roles" / SHARED / "vars" / "main.yml")["__mesh_inputs"])


def words(text: str | list[str]) -> str:
    """Return a description as Markdown on one line, with Ansible's C(x) as code."""
    joined = " ".join(text) if isinstance(text, list) else text
    return " ".join(re.sub(r"C\(([^)]*)\)", r"`\1`", joined).split())


def cell(text: str) -> str:
    """Return text that may stand in a table."""
    return text.replace("|", "\\|")


def type_of(option: dict[str, Any]) -> str:
    """Return an option's type in words; a raw one has the type of its default."""
    kind = SPEC_TYPES.get(str(option.get("type", "str")), "")
    kind = kind or TYPES[type(option.get("default", ""))]
    return kind + (f" of {SPEC_TYPES[option['elements']]}" if "elements" in option else "")


def default_of(option: dict[str, Any]) -> str:
    """Return an option's default as it is written in YAML."""
    value = option.get("default", "")
    return f"`{value if isinstance(value, str) and value else json.dumps(value)}`"


def table(options: dict[str, dict[str, Any]]) -> str:
    """Return a table of options with their defaults; the names of choices stand behind the meaning."""
    rows = []
    for name, option in options.items():
        meaning = words(option["description"])
        if option.get("choices"):
            meaning += f" One of: {', '.join(f'`{c}`' for c in option['choices'])}."
        rows.append(f"| `{name}` | {type_of(option)} | {cell(default_of(option))} | {cell(meaning)} |\n")
    return "\n| name | type | default | meaning |\n|---|---|---|---|\n" + "".join(rows)


def required_table(options: dict[str, dict[str, Any]]) -> str:
    """Return a table of the options that have no default, with an example each."""
    rows = []
    for name, option in options.items():
        meaning = words(option["description"]).replace(" Required.", "")
        rows.append(f"| `{name}` | {type_of(option)} | `{cell(REQUIRED[name])}` | {cell(meaning)} |\n")
    return "\n| name | type | example | meaning |\n|---|---|---|---|\n" + "".join(rows)


def shared_tables(level: str) -> str:
    """Return the tables of the public variables: required, then optional."""
    options = spec_of(SHARED)["options"]
    needed = {name: options[name] for name in public() if name in REQUIRED}
    rest = {name: options[name] for name in public() if name not in REQUIRED}
    return f"\n{level} Required\n{required_table(needed)}\n{level} Optional\n{table(rest)}"


def variables() -> str:
    """Return docs/variables.md."""
    text = MARK + INTRO + shared_tables("##") + EXAMPLE + "\n## Of one step only\n"
    for role in roles():
        if role != SHARED and spec_of(role).get("options"):
            text += f"\n### {role}\n" + table(spec_of(role)["options"])
    return text


def readme(role: str) -> str:
    """Return one role's README."""
    spec = spec_of(role)
    options = spec.get("options") or {}
    lines = spec["description"] if isinstance(spec["description"], list) else [spec["description"]]
    text = f"{MARK}\n# {role}\n\n{words(spec['short_description'])}.\n\n"
    text += "".join(f"- {words(line)}\n" for line in lines)
    for name, (owner, playbook, evidence) in STEPS.items():
        if owner == role:
            text += f"\nStep `{name}` of the upgrade; writes `{evidence}`. To run it alone:\n"
            text += f"\n```\nansible-playbook -i inventories/<env>/hosts.yml playbooks/{playbook}\n```\n"
    if role != SHARED:
        text += f"\n## Variables\n{table(options)}"
        return text + "\nThose of the environment are in [docs/variables.md](../../docs/variables.md).\n"
    others = sorted(path.stem for path in (ROOT / "roles" / role / "tasks").glob("*.yml"))
    named = ", ".join(f"`{name}`" for name in others if name != "main")
    text += f"\nIts other task files ({named}) serve the step roles.\n"
    text += "\n## Variables of an inventory\n" + shared_tables("###")
    inner = {name: option for name, option in options.items() if name not in public()}
    return text + "\n## How the step roles ask this role\n\nNot set from an inventory.\n" + table(inner)


def files() -> dict[Path, str]:
    """Return every generated file with its text."""
    made = {ROOT / "roles" / role / "README.md": readme(role) for role in roles()}
    docs = ROOT / "docs"
    return {docs / "variables.md": variables(), docs / "versions.md": versions(), **made}


def main() -> int:
    """Write what differs, or with --check only name it; returns the exit code."""
    check = "--check" in sys.argv[1:]
    stale = []
    for path, text in files().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path)
        print(f"{'differs' if check else 'written'}: {path.relative_to(ROOT)}")
        if not check:
            path.write_text(text, encoding="utf-8")
    if check and stale:
        print("Next: .venv/bin/python tests/tools/generate_docs.py")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
