"""The checks on a real cluster: each thing is broken for real, the precheck finds it, and nothing is changed."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.lab import KUBECONFIG, Run, kubectl, lab_reset

pytestmark = pytest.mark.lab

OLD, ISTIO = "1-30-5", "istio-system"
VALIDATOR = "validatingwebhookconfiguration/istiod-default-validator"
TAG = "mutatingwebhookconfiguration/istio-revision-tag-prod-stable"
Play = Callable[..., Run]
BOUND = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: bound, namespace: shop, labels: {istio.io/rev: 1-30-5}}
spec:
  hosts: [web]
  http: [{route: [{destination: {host: web}}]}]
"""


def dump(name: str) -> str:
    """Return an object as it can be created again."""
    item = json.loads(kubectl("get", name, "-o", "json"))
    for key in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        item["metadata"].pop(key, None)
    return json.dumps(item)


@contextlib.contextmanager
def without_validator() -> Iterator[None]:
    """Delete the default validator."""
    was = dump(VALIDATOR)
    kubectl("delete", VALIDATOR)
    try:
        yield
    finally:
        kubectl("create", "-f", "-", stdin=was)


@contextlib.contextmanager
def bound_object() -> Iterator[None]:
    """Bind a VirtualService to the old revision."""
    kubectl("apply", "-f", "-", stdin=BOUND)
    try:
        yield
    finally:
        kubectl("delete", "-f", "-", stdin=BOUND)


@contextlib.contextmanager
def dangling_tag() -> Iterator[None]:
    """Make a tag whose revision was removed long ago."""
    item = json.loads(dump(TAG))
    item["metadata"] |= {"name": "istio-revision-tag-gone"}
    item["metadata"]["labels"] |= {"istio.io/tag": "gone", "istio.io/rev": "1-24-2"}
    for hook in item["webhooks"]:
        hook["clientConfig"]["service"]["name"] = "istiod-1-24-2"
        for term in hook["namespaceSelector"]["matchExpressions"] + hook["objectSelector"]["matchExpressions"]:
            if term["key"] == "istio.io/rev" and term.get("values"):
                term["values"] = ["gone"]
    kubectl("create", "-f", "-", stdin=json.dumps(item))
    try:
        yield
    finally:
        kubectl("delete", "mutatingwebhookconfiguration/istio-revision-tag-gone")


@contextlib.contextmanager
def no_istiod() -> Iterator[None]:
    """Scale istiod to nothing; an autoscaler leaves it so."""
    kubectl("scale", "deployment", "-n", ISTIO, f"istiod-{OLD}", "--replicas=0")
    kubectl("wait", "pod", "-n", ISTIO, "-l", "app=istiod", "--for=delete", "--timeout=90s")
    try:
        yield
    finally:
        kubectl("scale", "deployment", "-n", ISTIO, f"istiod-{OLD}", "--replicas=1")
        kubectl("rollout", "status", "deployment", "-n", ISTIO, f"istiod-{OLD}", "--timeout=110s")
        answers()


def answers() -> None:
    """Wait until istiod's webhooks answer again; ready is not yet reachable (case F06)."""
    for _attempt in range(30):
        with contextlib.suppress(RuntimeError):
            kubectl("apply", "--dry-run=server", "-f", "-", stdin=BOUND)
            return
        time.sleep(1)
    raise RuntimeError("the validator of istiod does not answer 30 s after its rollout")


@contextlib.contextmanager
def empty_bundle() -> Iterator[None]:
    """Empty the CA bundle of a tag, as a tool does that applies the webhook anew, while istiod cannot mend it."""
    was = json.loads(kubectl("get", TAG, "-o", "json"))["webhooks"]
    with no_istiod():
        for number in range(len(was)):
            kubectl("patch", TAG, "--type=json", "-p", json.dumps([_bundle(number, "")]))
        try:
            yield
        finally:
            for number, hook in enumerate(was):
                kubectl(
                    "patch", TAG, "--type=json", "-p", json.dumps([_bundle(number, hook["clientConfig"]["caBundle"])])
                )


def _bundle(number: int, value: str) -> dict[str, Any]:
    return {"op": "replace", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": value}


BREAKS: dict[str, tuple[Callable[[], contextlib.AbstractContextManager[None]], bool, str]] = {
    "DEFAULT_VALIDATOR_MISSING": (without_validator, False, "istiod-default-validator"),  # case H03
    "OBJECT_OLD_REVISION": (bound_object, True, "VirtualService shop/bound"),
    "TAG_DANGLING": (dangling_tag, True, "it points to 1-24-2, which is not installed"),  # case C05
    "WEBHOOK_NO_ENDPOINTS": (no_istiod, True, f"Service {ISTIO}/istiod-{OLD}"),  # case I10
    "CA_BUNDLE_EMPTY": (empty_bundle, True, "istio-revision-tag-prod-stable"),  # case H08
}


@pytest.fixture(scope="module", autouse=True)
def start(lab: None) -> None:
    lab_reset()


@pytest.fixture(autouse=True)
def no_records() -> None:
    """Let the precheck run anew: a step that is done is not asked again."""
    kubectl("delete", "configmaps", "-n", ISTIO, "-l", "app.kubernetes.io/managed-by=istio-upgrade")


def test_the_start_passes_and_says_so(play: Play, tmp_path: Path) -> None:
    run = play("precheck.yml")
    assert run.rc == 0, run.text
    text = (tmp_path / "evidence" / "02-precheck.txt").read_text(encoding="utf-8")
    said, _, checks = text.partition("\n\nchecks:\n")
    assert "rc=0\n" in said
    assert "\nfindings:\n" in said
    assert "block " not in checks
    (result,) = [r for r in run.results("mesh_inspect") if r["incomplete"] == ""]
    assert result["rights"] == []
    assert run.rc == 0, run.text
    assert result["requests"] <= 30
    assert result["seconds"] < 5


@pytest.mark.parametrize("code", BREAKS)
def test_what_is_broken_is_found(play: Play, code: str) -> None:
    breaking, stops, named = BREAKS[code]
    with breaking():
        run = play("precheck.yml")
    assert (run.rc != 0) is stops, run.text
    told = run.messages() if stops else run.text.replace("\n", " ")
    assert code in told
    assert named in " ".join(told.split())


def test_a_waiver_lets_it_pass_and_stays_in_the_report(play: Play, tmp_path: Path) -> None:
    waiver = {"id": "OBJECT_OLD_REVISION", "resource": "VirtualService shop/*", "reason": "agreed", "expires": ""}
    with bound_object():
        run = play("precheck.yml", mesh_waivers=[waiver])
    assert run.rc == 0, run.text
    text = (tmp_path / "evidence" / "02-precheck.txt").read_text(encoding="utf-8")
    assert "waived OBJECT_OLD_REVISION: VirtualService shop/bound" in text


Rules = list[dict[str, Any]]
Limited = Callable[[dict[str, Rules]], Path]


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Limited]:
    """Return a function that makes an account with rules by namespace ("" is everywhere); it returns its kubeconfig."""
    kubectl("create", "serviceaccount", "limited", "-n", "default")
    made: list[str] = []

    def grant(namespace: str, rules: Rules) -> None:
        kind, where = ("Role", ("-n", namespace)) if namespace else ("ClusterRole", ())
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "limited"}}
        made.append(namespace)
        kubectl("apply", *where, "-f", "-", stdin=json.dumps(role | {"rules": rules}))
        binding, flag = f"{kind.lower()}binding", f"--{kind.lower()}=limited"
        kubectl("create", binding, "limited", *where, flag, "--serviceaccount=default:limited")

    def make(rules: dict[str, Rules]) -> Path:
        for namespace, some in rules.items():
            grant(namespace, some)
        config = yaml.safe_load(KUBECONFIG.read_text(encoding="utf-8"))
        config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token()}}]
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        path.chmod(0o600)
        return path

    yield make
    for namespace in made:
        kinds, where = ("rolebinding,role", ("-n", namespace)) if namespace else ("clusterrolebinding,clusterrole", ())
        kubectl("delete", kinds, "limited", *where, "--ignore-not-found")
    kubectl("delete", "serviceaccount", "limited", "-n", "default")


def token() -> str:
    return kubectl("create", "token", "limited", "-n", "default", "--duration=20m").strip()


def test_an_account_without_a_right_is_told_all_it_lacks_before_anything_is_read(
    play: Play, limited: Limited
) -> None:  # case F17
    everything = {"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}
    config = limited({"": [everything, {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["list", "get"]}]})
    run = play("precheck.yml", mesh_kubeconfig=str(config))
    assert run.rc != 0
    told = run.messages()
    assert "Nothing was changed. The account lacks rights" in told
    assert "RIGHT_MISSING mutatingwebhookconfigurations.admissionregistration.k8s.io: the account may not list" in told
    assert "RIGHT_MISSING deployments.apps: the account may not patch" in told
    assert "RIGHT_MISSING pods:" not in told


def rules_of_the_table() -> dict[str, Rules]:
    """Return the rows of the step precheck as rules, each where it is needed and nowhere else."""
    from ansible.module_utils.mesh_rights import RIGHTS  # noqa: PLC0415 - only importable after conftest

    places = {"cluster": [""], "istio": [ISTIO], "mesh": ["shop", "canary"], "probes": ["canary"]}
    rules: dict[str, Rules] = {}
    for row in RIGHTS:
        for place in places[row.where] if {"precheck", "read"} & set(row.steps) else []:
            rule = {"apiGroups": [row.group], "resources": list(row.resources), "verbs": list(row.verbs)}
            rules.setdefault(place, []).append(rule)
    return rules


def test_the_table_is_all_that_a_precheck_needs(play: Play, limited: Limited) -> None:
    """An account with the rights of the step precheck, and no other, runs it."""
    config = limited(rules_of_the_table())
    waivers = [
        {"id": code, "resource": "", "reason": "istioctl asks for the rights of an install", "expires": ""}
        for code in ("PRECHECK", "IST0141")
    ]
    run = play("precheck.yml", mesh_kubeconfig=str(config), precheck_account_steps=["precheck"], mesh_waivers=waivers)
    assert "RIGHT_MISSING" not in run.text, run.text
    assert "HTTP 403" not in run.text
    (result,) = [r for r in run.results("mesh_inspect") if r["incomplete"] == ""]
    assert result["rights"] == []
    assert run.rc == 0, run.text
