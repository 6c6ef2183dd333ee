"""Which revision would inject a pod, from labels alone.

Sources: Istio manifests/charts/istio-control/istio-discovery templates ``mutatingwebhook.yaml`` and
``revision-tags-mwc.yaml`` (webhook selectors, same logic 1.12 to 1.31); pkg/kube/inject/inject.go
``injectRequired`` (host network, ignored namespaces, label beats annotation); istioctl/pkg/tag/generate.go
(``tag set default`` deactivates a non-revisioned injector).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from mesh_logic.errors import MeshError, kind_of, need_flag, need_labels, need_text, shown
from mesh_logic.tags import tag_map

REV = "istio.io/rev"
INJECTION = "istio-injection"
INJECT = "sidecar.istio.io/inject"
# pkg/kube/inject/initializer.go IgnoredNamespaces: the injector answers, but never injects there.
SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "local-path-storage")

Via = Literal["namespace", "pod", "default", "none"]


class Injection(TypedDict):
    """A prediction; see ``injecting_revision``."""

    revision: str | None
    via: Via
    tag: str | None
    reason: str
    findings: list[str]


class _Mesh:
    """What the cluster offers: tags, revisions (None: not known), and who serves ``default``."""

    def __init__(self, tags: dict[str, str], revisions: list[str] | None, default_injects: bool | None) -> None:
        self.tags, self.revisions = tags, revisions
        if default_injects is None:
            default_injects = revisions is not None and "default" in revisions
        # A tag "default" deactivates the injector of the non-revisioned install, whatever was said about it.
        self.plain_default = default_injects and "default" not in tags

    def resolve(self, name: str, via: Via, why: str, findings: list[str]) -> Injection:
        """Return who answers for a revision or tag name; nobody is an answer too, with a finding."""
        if name in self.tags:
            target = self.tags[name]
            known = self.revisions is None or target in self.revisions
            if name != "default" and self.revisions is not None and name in self.revisions and name != target:
                findings.append(f'"{name}" is a tag (to {target}) and a revision: two injectors match, rename the tag')
            if known:
                return _answer(target, via, name, f"{why}, tag {name} points to {target}", findings)
            findings.append(
                f'tag "{name}" points to revision "{target}", which is not installed: pod creation fails '
                "until the tag is moved"
            )
            return _answer(None, "none", name, f"{why}, but the target {target} of tag {name} is gone", findings)
        if name == "default":
            if self.plain_default:
                return _answer("default", via, None, f"{why}, served by the install without a revision", findings)
        elif name and (self.revisions is None or name in self.revisions):
            return _answer(name, via, None, f"{why}, revision {name}", findings)
        findings.append(
            f'no tag and no revision is called "{name}": pods start without a sidecar, silently; tags: '
            f"{', '.join(sorted(self.tags)) or 'none'}; revisions: {self._revisions()}"
        )
        return _answer(None, "none", None, f"{why}, but nothing answers to {shown(name)}", findings)

    def _revisions(self) -> str:
        return "not known" if self.revisions is None else ", ".join(sorted(self.revisions)) or "none"


def _answer(revision: str | None, via: Via, tag: str | None, reason: str, findings: list[str]) -> Injection:
    return {"revision": revision, "via": via, "tag": tag, "reason": reason, "findings": findings}


def injecting_revision(
    namespace_labels: object,
    pod_labels: object,
    tags: object,
    revisions: object = None,
    *,
    pod_annotations: object = None,
    host_network: bool = False,
    namespace: str = "",
    default_injects: bool | None = None,
    inject_by_default: bool = False,
) -> Injection:
    """Predict the revision that injects a pod at its next creation.

    In: labels of the namespace and of the pod template (null counts as empty); ``tags`` tag -> revision (or
    the rows of ``revision_tags``), ``default`` included when it exists; ``revisions`` installed ones, a
    non-revisioned install being ``default`` (None: not known, names are then taken as they are); template
    annotations; ``host_network`` of the pod; the namespace's name; ``default_injects`` says whether a
    non-revisioned install has a live injector (None: when revisions list it); ``inject_by_default`` is
    enableNamespacesByDefault. Out: ``revision`` or None; ``via`` which side decided; the ``tag`` that was
    used; one ``reason``; ``findings`` a person should read. Errors: MeshError for wrong types.
    """
    ns = need_labels(namespace_labels, "namespace labels")
    pod = need_labels(pod_labels, "pod labels")
    notes = need_labels(pod_annotations, "pod annotations")
    need_flag(host_network, "host_network")
    need_flag(inject_by_default, "inject_by_default")
    if default_injects is not None:
        need_flag(default_injects, "default_injects")
    targets = tag_map(tags) if isinstance(tags, list) else need_labels(tags, "tags")
    mesh = _Mesh(targets, _names(revisions), default_injects)
    findings = _label_findings(ns, pod, notes)
    answer = _refusal(pod, notes, host_network, need_text(namespace, "namespace", "shop"), findings)
    if answer is None:
        answer = _by_selectors(ns, pod, mesh, inject_by_default, findings)
    if REV in notes and notes[REV] != answer["revision"] and pod.get(REV) != notes[REV]:
        # Running pods carry this annotation as a result, so it is worth a word only where it misleads (case
        # D04).
        findings.append(f"annotation {REV}={notes[REV]} selects nothing: set it as a label instead")
    return answer


def _names(revisions: object) -> list[str] | None:
    if revisions is None:
        return None
    if not isinstance(revisions, Sequence) or isinstance(revisions, str):
        raise MeshError("revisions", f"a list is needed, found {kind_of(revisions)}", "give the installed revisions")
    return [need_text(name, "a revision in the list", "1-31-0") for name in revisions]


def _label_findings(ns: dict[str, str], pod: dict[str, str], notes: dict[str, str]) -> list[str]:
    findings: list[str] = []
    if INJECTION in ns:
        if ns[INJECTION] not in ("enabled", "disabled"):
            findings.append(
                f"namespace label {INJECTION}={shown(ns[INJECTION])} is neither enabled nor disabled: "
                f"it injects nothing and blocks {REV}; remove it"
            )
        if REV in ns:
            findings.append(
                f"namespace label {REV}={ns[REV]} is ignored because of {INJECTION}={ns[INJECTION]}; remove "
                f"{INJECTION} to use it"
            )
        if REV in pod:
            findings.append(f"pod label {REV}={pod[REV]} is ignored because of namespace label {INJECTION}")
    elif REV in ns and REV in pod and ns[REV] != pod[REV]:
        findings.append(
            f"pod label {REV}={pod[REV]} is ignored: namespace label {REV}={ns[REV]} wins; change the namespace label"
        )
    for where, labels in (("label", pod), ("annotation", notes)):
        if labels.get(INJECT, "true") not in ("true", "false"):
            findings.append(f"pod {where} {INJECT}={shown(labels[INJECT])} is neither true nor false and has no effect")
    return findings


def _refusal(
    pod: dict[str, str], notes: dict[str, str], host_network: bool, namespace: str, findings: list[str]
) -> Injection | None:
    """Return the answer where no label of the namespace can matter."""
    reason = ""
    if host_network:
        reason = "not injectable: the pod uses the host network"
    elif namespace in SYSTEM_NAMESPACES:
        reason = f"namespace {namespace} is a system namespace, which the injector skips"
    elif pod.get(INJECT) == "false":
        reason = f"pod label {INJECT}=false opts out"
    elif INJECT not in pod and notes.get(INJECT) == "false":
        reason = f"pod annotation {INJECT}=false opts out"
    return _answer(None, "none", None, reason, findings) if reason else None


def _by_selectors(
    ns: dict[str, str], pod: dict[str, str], mesh: _Mesh, by_default: bool, findings: list[str]
) -> Injection:
    asks: list[tuple[bool, str, Via, str]] = [
        (ns.get(INJECTION) == "enabled", "default", "default", f"namespace label {INJECTION}=enabled"),
        (
            INJECTION not in ns and REV in ns,
            ns.get(REV, ""),
            "namespace",
            f"namespace label {REV}={ns.get(REV)}",
        ),
    ]
    if INJECTION not in ns and REV not in ns:
        asks += [
            (REV in pod, pod.get(REV, ""), "pod", f"pod label {REV}={pod.get(REV)}"),
            (pod.get(INJECT) == "true", "default", "default", f"pod label {INJECT}=true"),
            (by_default and INJECT not in pod, "default", "default", "unlabelled namespaces are injected"),
        ]
    for applies, name, via, why in asks:
        if applies:
            return mesh.resolve(name, via, why, findings)
    reason = "neither namespace nor pod asks for injection"
    if INJECTION in ns:
        reason = f"namespace label {INJECTION}={ns[INJECTION]} injects nothing"
    return _answer(None, "none", None, reason, findings)
