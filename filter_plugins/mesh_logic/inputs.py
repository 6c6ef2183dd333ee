"""The inventory variables of a run -> what is wanted, or every error at once.

Nothing is read here: `mesh_controller` (a module) has looked at the binaries and the operator file, this decides.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from mesh_logic import input_readers as readers
from mesh_logic.errors import MeshError, shown
from mesh_logic.operator_file import check_operator_file
from mesh_logic.steps import STEPS
from mesh_logic.versions import check_revision_name, check_skew, revision_name

# one value per variable that has no default and must come from the inventory, as an example for the message
REQUIRED = {
    "mesh_environment": "production",
    "mesh_from_version": "1.30.5",
    "mesh_to_version": "1.31.0",
    "mesh_istioctl_to": "/usr/local/istio-1.31.0/bin/istioctl",
    "mesh_operator_file": "{{ inventory_dir }}/files/istio-operator.yaml",
    "mesh_tags": "[prod-stable, default]",
    "mesh_canary_namespaces": "[canary]",
}


class Collector:
    """Runs readers and keeps their MeshErrors, so that a run tells all of them at once."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        """Start without errors."""
        self.inputs = inputs
        self.errors: list[str] = []

    def read(self, name: str, reader: Callable[[Any, str], Any], default: Any) -> Any:
        """Return reader(value, name), or the default after keeping the error."""
        value = self.inputs.get(name)
        if value in (None, "", []) and name in REQUIRED:
            self.refuse(name, "this inventory variable is not set", f"set it, such as {name}: {REQUIRED[name]}")
            return default
        if value in (None, ""):
            return default
        try:
            return reader(value, name)
        except MeshError as error:
            self.errors.append(str(error))
            return default

    def refuse(self, what: str, why: str, todo: str) -> None:
        """Keep an error."""
        self.errors.append(str(MeshError(what, why, todo)))

    def check(self, work: Callable[[], Any]) -> Any:
        """Return work(), or None after keeping its error."""
        try:
            return work()
        except MeshError as error:
            self.errors.append(str(error))
            return None


def _istioctl(name: str, version: str, found: dict[str, Any]) -> None:
    """Refuse a binary that cannot run or is of another version than it stands for."""
    what = f"{name} {shown(found.get('path', ''))}"
    if found.get("error"):
        raise MeshError(what, str(found["error"]), f"point {name} at the istioctl of Istio {version or 'that version'}")
    try:
        client = json.loads(found.get("output") or "{}").get("clientVersion") or {}
    except (json.JSONDecodeError, AttributeError):
        client = {}
    got = str(client.get("version") or "")
    if not got:
        raise MeshError(what, "it did not say its version, so it is no istioctl", f"point {name} at istioctl {version}")
    if version and got != version:
        raise MeshError(what, f"it is istioctl {got}, and {version} is needed", f"point {name} at istioctl {version}")


def evidence_keys(workloads: list[dict[str, str]]) -> list[dict[str, str]]:
    """Give each evidence workload its key: `<name>_proxy`, or `<namespace>_<name>_proxy` where names collide."""
    names = [w["name"] for w in workloads]
    return [
        {**w, "key": f"{w['name']}_proxy" if names.count(w["name"]) == 1 else f"{w['namespace']}_{w['name']}_proxy"}
        for w in workloads
    ]


def read_inputs(
    inputs: dict[str, Any], controller: dict[str, Any], settled: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return what a run wants, with every input error.

    Args:
        inputs: the `mesh_*` inventory variables by name; missing ones are None or "".
        controller: the result of the module `mesh_controller`.
        settled: the result of the action `mesh_connection`: the one kubeconfig for all ways to reach a cluster.

    Returns:
        {errors: list of one-line messages, desired: dict}; `desired` is only to be used when there are no errors.
    """
    c = Collector(inputs)
    old, new = _versions(c)
    revisions = _revisions(c, old, new)
    tags = _tags(c, revisions)
    _controller(c, controller, {"from": old, "to": new}, revisions)
    kubeconfig = _connection(c, settled or {})
    binaries, operator = controller.get("istioctl") or {}, controller.get("operator_file") or {}
    desired: dict[str, Any] = {
        "environment": c.read("mesh_environment", readers.read_text, ""),
        "connection": {
            "kubeconfig": kubeconfig,
            "context": c.read("mesh_context", readers.read_text, ""),
        },
        "cluster_uid": c.read("mesh_cluster_uid", readers.read_text, ""),
        "mesh_id": c.read("mesh_id", readers.read_text, ""),
        "istio_namespace": c.read("mesh_istio_namespace", readers.read_text, "istio-system"),
        "from": {
            "version": old,
            "revision": revisions["from"],
            "istioctl": (binaries.get("from") or {}).get("path", ""),
        },
        "to": {
            "version": new,
            "revision": revisions["to"],
            "istioctl": (binaries.get("to") or {}).get("path", ""),
            "tag": c.read("mesh_to_tag", readers.read_text, ""),
        },
        "installer": c.read("mesh_installer", readers.read_choice("istioctl"), "istioctl"),
        "gateways": c.read("mesh_gateways", readers.read_choice("refuse", "in_place"), "refuse"),
        "on_failure": c.read("mesh_on_failure", readers.read_choice("stop"), "stop"),
        "operator_file": operator.get("path", ""),
        "operator_sha256": operator.get("sha256", ""),
        "tags": tags,
        "waves": c.read("mesh_waves", readers.read_waves, []),
        "consents": c.read("mesh_consents", readers.read_consents, []),
        "canary_namespaces": c.read("mesh_canary_namespaces", readers.read_names, []),
        "drill": _drill(c, tags),
        "soak_seconds": c.read("mesh_soak_before_uninstall", readers.read_seconds, 0),
        "probes": c.read("mesh_probes", readers.read_probes, []),
        "waivers": c.read("mesh_waivers", readers.read_waivers, []),
        "stop_after": c.read("mesh_stop_after", readers.read_choice(*STEPS), ""),
        "evidence_workloads": evidence_keys(c.read("mesh_evidence_workloads", readers.read_workloads, [])),
        "lessons": c.read("mesh_lessons", readers.read_lines, []),
    }
    if desired["gateways"] == "in_place" and not desired["from"]["istioctl"]:
        c.refuse(
            "mesh_gateways in_place",
            "gateways that are upgraded in place can only be given back with the old istioctl",
            "set mesh_istioctl_from",
        )
    return {"errors": c.errors, "desired": desired | _derived(desired)}


def _connection(c: Collector, settled: dict[str, Any]) -> str:
    """Return the kubeconfig to use. A token is not read here: a message about it must not quote it."""
    given = c.read("mesh_kubeconfig", readers.read_text, "")
    c.read("mesh_api_server", readers.read_text, "")
    for name in ("mesh_api_token", "mesh_api_ca"):
        if not isinstance(c.inputs.get(name) or "", str):
            c.refuse(name, "it is not text", "write it in quotes")
    if settled.get("error"):
        c.errors.append(str(settled["error"]))
    return str(settled["kubeconfig"]) if settled else given


def _versions(c: Collector) -> tuple[str, str]:
    old = c.read("mesh_from_version", readers.read_version, "")
    new = c.read("mesh_to_version", readers.read_version, "")
    if old and new:
        minors = c.read("mesh_allowed_minors", readers.read_number, 2)
        c.check(lambda: check_skew(old, new, minors))
    return old, new


def _revisions(c: Collector, old: str, new: str) -> dict[str, str]:
    revisions = {}
    for side, version in (("from", old), ("to", new)):
        given = c.read(f"mesh_{side}_revision", check_revision_name, "")
        revisions[side] = given or (revision_name(version) if version else "")
    if revisions["from"] and revisions["from"] == revisions["to"]:
        c.refuse(
            f"mesh_from_revision and mesh_to_revision are both {shown(revisions['to'])}",
            "an upgrade by revision needs two",
            "set mesh_to_revision to another name",
        )
    return revisions


def _tags(c: Collector, revisions: dict[str, str]) -> list[str]:
    tags = sorted(c.read("mesh_tags", readers.read_names, []), key=lambda tag: bool(tag == "default"))
    for tag in tags:
        if tag in revisions.values() and tag != "default":
            c.refuse(f"mesh_tags: {shown(tag)}", "a revision has this name, the tag would hijack it", "rename the tag")
    return tags


def _drill(c: Collector, tags: list[str]) -> dict[str, Any]:
    drill: dict[str, Any] = c.read("mesh_drill", readers.read_drill, {"tags": [], "workloads": []})
    drill["tags"] = drill["tags"] or [t for t in tags if t != "default"][:1] or tags[:1]
    for tag in drill["tags"]:
        if tags and tag not in tags:
            c.refuse(f"mesh_drill.tags: {shown(tag)}", "it is not one of mesh_tags", f"use one of: {', '.join(tags)}")
    return drill


def _controller(c: Collector, controller: dict[str, Any], versions: dict[str, str], revisions: dict[str, str]) -> None:
    """Keep what is wrong with the binaries, the Python and the operator file."""
    # the module has looked at these two; that they are set at all is asked here
    for name in ("mesh_istioctl_to", "mesh_operator_file"):
        c.read(name, readers.read_text, "")
    for side, found in (controller.get("istioctl") or {}).items():
        c.check(partial(_istioctl, f"mesh_istioctl_{side}", versions[side], found))
    python = controller.get("python") or {}
    if python.get("error"):
        c.refuse(
            f"Python {python.get('executable')} ({python.get('version')})",
            f"it cannot import the kubernetes client ({python['error']})",
            "set ansible_python_interpreter to '{{ ansible_playbook_python }}' and install requirements/runtime.txt "
            "there",
        )
    operator = controller.get("operator_file") or {}
    if operator.get("error"):
        c.refuse(
            f"mesh_operator_file {shown(operator['path'])}",
            str(operator["error"]),
            "give the IstioOperator file of this environment",
        )
    elif operator:
        c.check(partial(check_operator_file, operator["text"], operator["path"], list(revisions.values())))


def _derived(desired: dict[str, Any]) -> dict[str, Any]:
    """Return what follows from the inputs: istioctl's flags, and the namespaces whose workloads are looked at."""
    flags = [
        *(["--kubeconfig", desired["connection"]["kubeconfig"]] if desired["connection"]["kubeconfig"] else []),
        *(["--context", desired["connection"]["context"]] if desired["connection"]["context"] else []),
        *("--istioNamespace", desired["istio_namespace"]),
    ]
    named = [*desired["evidence_workloads"], *desired["drill"]["workloads"], *(p["from"] for p in desired["probes"])]
    concerned = sorted({*desired["canary_namespaces"], *(item["namespace"] for item in named)})
    return {"istioctl_flags": flags, "concerned_namespaces": concerned}
