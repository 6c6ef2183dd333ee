"""What the dry runs of `mesh_proof` mean for a restart: go, stop, or one workload first.

Cases: B05 (pinned image), F06 and H08 (the injector fails), F10 (another repository), A11 (unknown version), D01-D05
(labels that do something else than they seem to).
"""

from __future__ import annotations

from typing import Any, TypedDict

from mesh_logic.errors import MeshError, shown
from mesh_logic.images import ProxyImage, proxy_image, same_version
from mesh_logic.injection import Injection, injecting_revision
from mesh_logic.model import build_view, workload_ref

# So many wrong groups are told in full; a wrong tag would else fill the screen.
SHOWN_ERRORS = 10
PIN = "sidecar.istio.io/proxyImage"


class Expected(TypedDict):
    """What proxies of a revision look like: tag (""; not known) and accepted repositories ([]: not compared)."""

    tag: str
    repositories: list[str]


class Verdict(TypedDict):
    """`errors` stop before any restart; `first` are restarted first, each alone; `warnings` are for the report."""

    errors: list[str]
    first: list[dict[str, Any]]
    warnings: list[str]


def expected_images(facts: dict[str, Any]) -> dict[str, Expected]:
    """Return revision -> what its proxies should be, from the image of its istiod.

    In: the facts of `mesh_read`. The tag is istiod's. The repository is istiod's hub and `proxyv2`; a mesh that takes
    its proxies from elsewhere (values.global.proxy.image) shows that in the proxies that run already, so their
    repositories are accepted as well, as long as the hub of the control plane is the same (case F10: it is not).
    """
    view = build_view(facts)
    hubs = {name: _hub(row["image"]) for name, row in view["revisions"].items()}
    running: dict[str, set[str]] = {}
    for row in view["workloads"]:
        for group in [] if row["template_annotations"].get(PIN) else row["proxies"]:
            hub, image = hubs.get(group["revision"]), _parsed(group["image"])
            if hub and image:
                running.setdefault(hub, set()).add(_plain(image["repository"]))
    return {
        name: {
            "tag": row["tag"],
            "repositories": sorted({_plain(f"{hubs[name]}/proxyv2"), *running.get(hubs[name], set())})
            if hubs[name]
            else [],
        }
        for name, row in view["revisions"].items()
    }


def injection_proof(proof: dict[str, Any], workloads: list[dict[str, Any]], images: dict[str, Expected]) -> Verdict:
    """Decide whether the workloads may be restarted.

    In: the result of `mesh_proof`; the rows it and `mesh_move` are given (kind, namespace, name, revision);
    `expected_images`. Out: see `Verdict`. A workload that no dry run covers is an error, unless others are told
    already. Errors: none of its own.
    """
    rows = {workload_ref(w): w for w in workloads}
    errors: list[str] = []
    warnings: list[str] = []
    first: list[dict[str, Any]] = []
    left = set(rows)
    for group in proof["groups"]:
        left -= set(group["covers"])
        if group["state"] == "inconclusive":
            first.append(rows[group["representative"]])
            warnings.append(
                f"{_where(group)}: the dry run is inconclusive: {group['who']} refused it ({shown(group['said'])}); "
                f"the prediction from the labels stands, and {group['representative']} is restarted first, alone"
            )
            continue
        problems, notes = _look(group, rows, proof, images)
        errors += problems
        warnings += notes
    if left and not errors:
        errors.append(
            _say(
                f"{_some(sorted(left))}",
                "no dry run covers it, so nothing says which proxy its new pods would get",
                "run again, it will be planned anew",
            )
        )
    if len(errors) > SHOWN_ERRORS:
        more = len(errors) - SHOWN_ERRORS
        errors = [*errors[:SHOWN_ERRORS], f"{more} more groups of workloads are wrong as well"]
    return {"errors": errors, "first": first, "warnings": warnings}


def _look(
    group: dict[str, Any], rows: dict[str, Any], proof: dict[str, Any], images: dict[str, Expected]
) -> tuple[list[str], list[str]]:
    """Return (errors, warnings) of one answered group; one error is enough, the first cause is told."""
    if group["who"]:
        return [_injector_failed(group)], []
    for revision in sorted({rows[r]["revision"] for r in group["covers"] if r in rows}):
        problem = _wrong_injector(group, revision, proof)
        if problem:
            return [problem], []
    return _image(group, images.get(group["revision"]) or {"tag": "", "repositories": []})


def _injector_failed(group: dict[str, Any]) -> str:
    """Return the words for an injector that was asked again and again (cases F06, H08)."""
    said, todo = group["said"], "kubectl get pods -A -l app=istiod -o wide; run again once they are ready"
    why = "Istio's own injector failed, also when asked again"
    if "x509" in said or "certificate" in said:
        why = f"{why}; its certificate is not accepted, so the caBundle of the webhook is empty or of another CA"
        todo = (
            "kubectl get mutatingwebhookconfigurations -l istio.io/rev -o "
            "custom-columns=NAME:.metadata.name,CA:.webhooks[*].clientConfig.caBundle; istiod fills it in, unless "
            "something like GitOps takes it away"
        )
    return _say(_where(group), f"{group['who']}: {why}. It said: {shown(said)}", todo)


def _wrong_injector(group: dict[str, Any], expected: str, proof: dict[str, Any]) -> str:
    """Return what is wrong with who injects, or "" (cases B07, D01 to D05)."""
    if group["revision"] == expected and group["image"] != "auto":
        return ""
    got = f"would be injected by revision {group['revision']}" if group["revision"] else "would get no proxy at all"
    if group["image"] == "auto":
        got = "would keep the placeholder image auto, since nothing injects it"
    causes, todo = _explained(group, expected, proof)
    return _say(
        _where(group),
        f"a new pod {got}, expected revision {expected}: {'; '.join(causes)}; nothing was restarted",
        todo,
    )


def _explained(group: dict[str, Any], expected: str, proof: dict[str, Any]) -> tuple[list[str], str]:
    """Return (causes, next step): what the labels predict, set beside what the dry run showed (case D03)."""
    todo = f"kubectl get namespace {group['namespace']} --show-labels; correct what is named, then run again"
    if proof.get("context_error"):
        return [f"the labels that decide could not be read ({proof['context_error']})"], todo
    predicted = _predicted(group, proof)
    causes = [predicted["reason"], *predicted["findings"]]
    if group["own_proxy"] and group["own_proxy"] != "auto":
        causes.append(f"the template itself holds a container istio-proxy ({group['own_proxy']}): a manual injection")
        todo = "take the container out of the template, or make it anew with istioctl kube-inject, then run again"
    elif predicted["revision"] == expected:
        causes.append(
            f"the labels predict revision {expected}, the dry run shows otherwise: something else decides, such as a "
            "changed webhook selector, a webhook with failurePolicy Ignore, or neverInjectSelector of the injector"
        )
        todo = (
            f"kubectl get mutatingwebhookconfigurations -l istio.io/rev={expected} -o yaml; compare its selectors with "
            f"the labels of namespace {group['namespace']}"
        )
    return causes, todo


def _predicted(group: dict[str, Any], proof: dict[str, Any]) -> Injection:
    revisions = sorted(set(proof["revisions"]))
    return injecting_revision(
        group["namespace_labels"],
        group["labels"],
        proof["tags"],
        revisions,
        pod_annotations={key: value for key, value in group["annotations"].items() if key != "proxy.istio.io/config"},
        host_network=group["host_network"],
        namespace=group["namespace"],
    )


def _image(group: dict[str, Any], expected: Expected) -> tuple[list[str], list[str]]:
    """Compare version and repository of the image that a new pod would run."""
    where = _where(group)
    try:
        found = proxy_image(group["image"], group["representative"])
    except MeshError as error:
        return [str(error)], []
    pinned = bool(group["pinned"]) and group["pinned"] == group["image"]
    verdict = same_version(expected["tag"] or None, found["tag"])
    if verdict["same"] is False:
        return [_wrong_version(where, group, expected, verdict["reason"], pinned)], []
    notes = []
    if verdict["same"] is None:
        notes.append(
            f"{where}: version unknown: image {group['image']} {verdict['reason']}; the injecting revision "
            f"{group['revision']} is the proof"
        )
    if pinned:
        return [], [*notes, f"{where}: pinned to {group['image']} by {PIN}; the next upgrade will not change it"]
    if expected["repositories"] and _plain(found["repository"]) not in expected["repositories"]:
        why = (
            f"a new pod would run {group['image']}, from repository {found['repository']}, expected "
            f"{' or '.join(expected['repositories'])} as istiod {group['revision']}; nothing was restarted"
        )
        return [_say(where, why, "look at hub and values.global.proxy.image in the operator file, then run again")], []
    return [], notes


def _wrong_version(where: str, group: dict[str, Any], expected: Expected, reason: str, pinned: bool) -> str:
    if pinned:
        return _say(
            where,
            f"its proxy image is pinned: the annotation {PIN} of the pod template holds {group['image']}, and revision "
            f"{group['revision']} runs {expected['tag']} ({reason}); a restart would keep the old proxy",
            "take the annotation out of the pod template, or set it to the new image, at its source; then run again",
        )
    return _say(
        where,
        f"a new pod would run {group['image']}, injected by {group['revision']}, whose istiod is {expected['tag']} "
        f"({reason}); nothing was restarted",
        "look at tag and values.global.proxy.image in the operator file and at ProxyConfig objects, then run again",
    )


def _say(what: str, why: str, todo: str) -> str:
    return str(MeshError(what, why, todo))


def _where(group: dict[str, Any]) -> str:
    more = len(group["covers"]) - 1
    return str(group["representative"]) + (f" and {more} like it in namespace {group['namespace']}" if more else "")


def _some(names: list[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _hub(image: str) -> str:
    """Return the hub of a control plane's image, or "" where its name is not Istio's."""
    parsed = _parsed(image)
    name = parsed["repository"] if parsed else ""
    return _plain(name.removesuffix("/pilot")) if name.endswith("/pilot") else ""


def _plain(repository: str) -> str:
    return repository.removeprefix("docker.io/")


def _parsed(reference: str) -> ProxyImage | None:
    try:
        return proxy_image(reference)
    except MeshError:
        return None
