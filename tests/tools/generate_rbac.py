"""The manifests in docs/rbac, made from the table of rights: one account for each kind of playbook.

`generate_checks.py` writes them, beside the pages of docs/.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import ansible.module_utils

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT / "module_utils") not in ansible.module_utils.__path__:
    ansible.module_utils.__path__.append(str(ROOT / "module_utils"))

from ansible.module_utils.mesh_rights import MOVES, RIGHTS, Right  # noqa: E402  only importable after the lines above

FOLDER = "docs/rbac"
HOME, ISTIO = "istio-upgrade", "istio-system"
SCOPES = ("cluster", "istio", "mesh", "probes")
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "bind", "escalate")
WIDTH = 116


# (group, resource) -> verb -> reasons
Grants: TypeAlias = dict[tuple[str, str], dict[str, list[str]]]


class Account(NamedTuple):
    """One account: the steps it is for, the features of `Right.only` that it has, and what is to be said about it."""

    name: str
    playbooks: tuple[str, ...]
    steps: tuple[str, ...]
    features: tuple[str, ...]
    about: tuple[str, ...]


ACCOUNTS = (
    Account(
        "reader",
        ("precheck.yml", "report.yml"),
        ("precheck", "report"),
        (),
        (
            "It changes nothing in the mesh.",
            "Plainly: it writes the records and the Lease, so it may patch ConfigMaps in the Istio namespace, the "
            "mesh's own settings among them. It may exec into istiod, whose CA key lies there. Dry runs need the right "
            "to create pods; Kubernetes has none for dry runs alone. Whoever holds its token can do what istiod can.",
        ),
    ),
    Account(
        "mover",
        ("canary.yml", "move_tags.yml", "rollback_drill.yml"),
        ("precheck", *MOVES, "report"),
        ("evict", "rescue", "never"),
        (
            "It may also do what the reader does. It moves tags whose webhooks are there and can make none: a mesh "
            "without a default tag or without its validator gets them from the installer.",
            "Plainly: what may change webhooks may change every pod that is made in the cluster. It may create pods in "
            "the Istio namespace, under any account there. In the namespaces it is bound in it patches the templates "
            "of workloads, and so can run anything there.",
        ),
    ),
    Account(
        "installer",
        ("install.yml", "uninstall.yml"),
        ("precheck", "install", "uninstall", "report"),
        ("new_webhooks", "never"),
        (
            "It may also do what the reader does, and makes a default tag where the precheck finds none.",
            "Plainly: this is nearly cluster-admin. It makes CRDs, webhooks and cluster roles; `escalate` and `bind` "
            "let it give itself any right, and it may list every Secret, because istioctl lists them when it installs "
            "and uninstalls. Without `escalate` and `bind` it would need every right of istiod, which is no less. "
            "Make its tokens short-lived, and use it for these steps only.",
        ),
    ),
)


def rows_of(account: Account, rows: Iterable[Right] = RIGHTS) -> list[Right]:
    """Return the rows of the table that an account needs."""
    return [
        row for row in rows if set(row.steps) & set(account.steps) and (not row.only or row.only in account.features)
    ]


def granted(rows: Iterable[Right]) -> dict[str, Grants]:
    """Return the grants of each scope. What holds in the whole cluster is left out of the others."""
    rows = list(rows)
    found: dict[str, Grants] = {scope: {} for scope in SCOPES}
    for scope in SCOPES:
        for row in rows:
            for resource in row.resources if row.where == scope else ():
                key = (row.group, resource)
                everywhere = found["cluster"].get(key, {}) if scope != "cluster" else {}
                for verb in (verb for verb in row.verbs if verb not in everywhere):
                    whys = found[scope].setdefault(key, {}).setdefault(verb, [])
                    whys += [why for why in row.why.split("; ") if why not in whys]
    return found


def comment(text: str, indent: str = "") -> str:
    """Return a text as comment lines."""
    return "".join(f"{indent}# {line}\n" for line in textwrap.wrap(text, WIDTH - len(indent), break_on_hyphens=False))


def rules(rights: Grants) -> str:
    """Return the rules of a role: one for each group of the API and set of verbs, with what they are for."""
    merged: dict[tuple[str, tuple[str, ...]], tuple[list[str], list[str]]] = {}
    for (group, resource), grants in rights.items():
        resources, whys = merged.setdefault((group, tuple(v for v in VERBS if v in grants)), ([], []))
        resources.append(resource)
        whys += [why for found in grants.values() for why in found]
    text = ""
    for (group, verbs), (resources, whys) in merged.items():
        text += comment("; ".join(dict.fromkeys(whys)), "  ")
        text += f'  - apiGroups: ["{group}"]\n'
        listed = "".join(f"      - {resource}\n" for resource in resources)
        text += f"    resources: [{resources[0]}]\n" if len(resources) == 1 else f"    resources:\n{listed}"
        text += f"    verbs: [{', '.join(verbs)}]\n"
    return text


def document(kind: str, name: str, body: str, namespace: str = "", about: str = "") -> str:
    """Return one object of a manifest."""
    group = "v1" if kind in ("Namespace", "ServiceAccount") else "rbac.authorization.k8s.io/v1"
    space = f"  namespace: {namespace}\n" if namespace else ""
    return f"---\n{comment(about)}apiVersion: {group}\nkind: {kind}\nmetadata:\n  name: {name}\n{space}{body}"


def binding(account: Account, role_kind: str, role: str) -> str:
    """Return roleRef and subject of a binding."""
    return (
        f"roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {role_kind}\n  name: {role}\n"
        f"subjects:\n  - kind: ServiceAccount\n    namespace: {HOME}\n    name: {account.name}\n"
    )


def manifest(account: Account) -> str:
    """Return the manifest of an account, ready for `kubectl apply -f`.

    Rights in the Istio namespace are bound there. Those in the namespaces of the mesh are a cluster role that the
    manifest does not bind: where it holds is for the owner of the mesh to say (`everywhere`, or single namespaces).
    """
    name = f"istio-upgrade-{account.name}"
    rights = granted(rows_of(account))
    text = comment("Generated from module_utils/mesh_rights.py by tests/tools/generate_checks.py. Do not edit it.")
    text += f"#\n{comment('For ' + ', '.join(account.playbooks) + '.')}"
    text += "".join(f"#\n{comment(part)}" for part in account.about)
    text += f"#\n{comment(f'The Istio namespace is {ISTIO} here; where it is another, replace the name.')}"
    text += document("Namespace", HOME, "", about="Of its own: what may create pods beside an account can use it.")
    text += document("ServiceAccount", account.name, "", HOME)
    text += document("ClusterRole", name, f"rules:\n{rules(rights['cluster'])}")
    text += document("ClusterRoleBinding", name, binding(account, "ClusterRole", name))
    text += document("Role", name, f"rules:\n{rules(rights['istio'])}", ISTIO)
    text += document("RoleBinding", name, binding(account, "Role", name), ISTIO)
    for scope in ("mesh", "probes"):
        if rights[scope]:
            text += document(
                "ClusterRole", f"{name}-{scope}", f"rules:\n{rules(rights[scope])}", about=unbound(account, scope)
            )
    return text


def needs(account: Account) -> list[str]:
    """Return the cluster roles of an account that its manifest does not bind."""
    rights = granted(rows_of(account))
    return [f"istio-upgrade-{account.name}-{scope}" for scope in ("mesh", "probes") if rights[scope]]


def unbound(account: Account, scope: str) -> str:
    """Return what is said above a role that the manifest does not bind."""
    name = f"istio-upgrade-{account.name}-{scope}"
    where = {"mesh": "each namespace of the mesh", "probes": "each namespace that probes are sent from"}[scope]
    return (
        f"Not bound here. In {where}, where <namespace> is its name: kubectl create rolebinding {name} -n <namespace> "
        f"--clusterrole={name} --serviceaccount={HOME}:{account.name}"
    )


def everywhere() -> str:
    """Return the bindings that hold the rights on workloads in the whole cluster."""
    text = comment("Generated from module_utils/mesh_rights.py by tests/tools/generate_checks.py. Do not edit it.")
    text += "#\n" + comment(
        "Instead of a binding in each namespace of the mesh: all three accounts may work in every namespace. Plainly: "
        "what may create pods in kube-system, or beside the installer's account, can become cluster-admin; then three "
        "accounts are no better than one. Apply it only where the cluster is there for the mesh alone."
    )
    for account in ACCOUNTS:
        rights = granted(rows_of(account))
        for scope in ("mesh", "probes"):
            if rights[scope]:
                role = f"istio-upgrade-{account.name}-{scope}"
                text += document("ClusterRoleBinding", role, binding(account, "ClusterRole", role))
    return text


def manifests(root: Path) -> dict[Path, str]:
    """Return every manifest with its text."""
    found = {root / FOLDER / f"{account.name}.yaml": manifest(account) for account in ACCOUNTS}
    return found | {root / FOLDER / "everywhere.yaml": everywhere()}


if __name__ == "__main__":
    for made in manifests(ROOT).values():
        sys.stdout.write(made)
