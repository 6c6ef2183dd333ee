"""Dry runs against an API that is only a dict: what is asked, how often, and what each kind of refusal counts as."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible.module_utils.mesh_api import MeshApiError
from ansible.module_utils.mesh_rows import short_hash

mesh_proof = importlib.import_module("mesh_proof")
NEW, OLD = "1-31-0", "1-30-5"
IMAGE = "docker.io/istio/proxyv2:1.31.0"
CONFIG = '{"discoveryAddress":"istiod-1-31-0.istio-system.svc:15012"}'
INJECTOR = "rev.namespace.sidecar-injector.istio.io"
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def workload(name: str = "web", kind: str = "Deployment", namespace: str = "shop", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "namespace": namespace, "name": name, "revision": NEW} | more


def template(
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "web"} | (labels or {}), "annotations": annotations},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]} | spec,
    }


def stored(name: str = "web", replicas: int | None = 2, **parts: Any) -> dict[str, Any]:
    """Return a workload object; an owner and a status must never reach the pod."""
    return {
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": [{"name": "someone"}]},
        "spec": {"replicas": replicas, "template": template(**parts)},
        "status": {"replicas": replicas},
    }


def injected(pod: dict[str, Any], revision: str = NEW, image: str = IMAGE, native: bool = True) -> dict[str, Any]:
    """Return a pod as the injector hands it on."""
    pod = copy.deepcopy(pod)
    proxy = {"name": "istio-proxy", "image": image, "env": [{"name": "PROXY_CONFIG", "value": CONFIG}]}
    where = "initContainers" if native else "containers"
    pod["spec"][where] = [*(pod["spec"].get(where) or []), proxy]
    noted = {"istio.io/rev": revision, "sidecar.istio.io/status": json.dumps({"revision": revision})}
    pod["metadata"]["annotations"] = (pod["metadata"].get("annotations") or {}) | noted
    return pod


def refusal(status: int, said: str) -> MeshApiError:
    return MeshApiError(f"POST /x: HTTP {status}, {said}", status, said)


class FakeApi:
    """Holds objects by path; every POST gets the next answer, the last one for ever."""

    def __init__(self, objects: dict[str, dict[str, Any]], answers: list[Answer | MeshApiError] | None = None) -> None:
        self.objects, self.answers = objects, answers or [injected]
        self.lists: dict[str, list[dict[str, Any]]] = {}
        self.asked: list[str] = []
        self.pods: list[dict[str, Any]] = []
        self.queries: list[Any] = []
        self.requests = 0

    def get(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        return self.objects.get(path)

    def list(self, path: str, selector: str = "", metadata_only: bool = False) -> list[dict[str, Any]]:
        self.asked.append(f"{path}?{selector}" if selector else path)
        if path in self.lists:
            return self.lists[path]
        return [item for key, item in self.objects.items() if key.rpartition("/")[0] == path]

    def request(self, method: str, path: str, query: Any = None, body: Any = None) -> dict[str, Any]:
        if method == "GET":
            self.asked.append(path)
            return self.objects[path]
        self.pods.append(body)
        self.queries.append((method, path, query))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, MeshApiError):
            raise answer
        return answer(body)


class Task:
    check_mode = True

    def __init__(self, workloads: list[dict[str, Any]], **options: Any) -> None:
        self.params: dict[str, Any] = {"workloads": workloads, "concurrency": 1, "patience": 30, "settle": 0} | options
        self.told: list[str] = []

    def tell(self, line: str) -> None:
        self.told.append(line)


DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"


def api_of(*items: dict[str, Any], answers: list[Answer | MeshApiError] | None = None) -> FakeApi:
    return FakeApi({f"{DEPLOYMENTS}/{item['metadata']['name']}": item for item in items}, answers)


def prove(api: FakeApi, *workloads: dict[str, Any], **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = mesh_proof.run(Task(list(workloads) or [workload()], **options), api)
    assert found["changed"] is False
    return found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_proof, "RETRY_SECONDS", 0.001)


def test_a_pod_of_the_own_template_is_asked_for_and_never_stored() -> None:
    api = api_of(stored(annotations={"note": "x"}, serviceAccountName="web"))
    (row,) = prove(api)["groups"]
    assert api.queries == [("POST", "/api/v1/namespaces/shop/pods", {"dryRun": "All"})]
    assert api.pods == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "web-",
                "namespace": "shop",
                "labels": {"app": "web"},
                "annotations": {"note": "x"},
            },
            "spec": {"containers": [{"name": "app", "image": "app:1"}], "serviceAccountName": "web"},
        }
    ]
    assert (row["state"], row["revision"], row["image"], row["native"]) == ("proven", NEW, IMAGE, True)
    assert row["settings"] == short_hash(CONFIG)
    assert row["covers"] == [row["representative"]] == ["Deployment shop/web"]


def test_nothing_to_prove_asks_nothing() -> None:
    api = api_of()
    found = mesh_proof.run(Task([]), api)
    assert (found["groups"], found["not_asked"], api.asked, api.pods) == ([], [], [], [])


def test_workloads_that_the_injector_cannot_tell_apart_are_asked_about_once() -> None:
    names = [f"w{n}" for n in range(20)]
    api = api_of(*(stored(n) for n in names))
    found = prove(api, *(workload(n) for n in names))
    assert len(found["groups"][0]["covers"]) == 20
    assert (len(api.asked), len(api.pods)) == (1, 1), "one list and one dry run"


# id, what makes the second workload another question
DISTINCT: list[tuple[str, dict[str, Any]]] = [
    ("revision-label", {"labels": {"istio.io/rev": OLD}}),
    ("inject-label", {"labels": {"sidecar.istio.io/inject": "true"}}),
    ("B05-pinned", {"annotations": {"sidecar.istio.io/proxyImage": "x:1"}}),
    ("native", {"annotations": {"sidecar.istio.io/nativeSidecar": "false"}}),
    ("settings", {"annotations": {"proxy.istio.io/config": "concurrency: 2"}}),
    ("gateway", {"annotations": {"inject.istio.io/templates": "gateway"}}),
    ("service-account", {"serviceAccountName": "other"}),
    ("B08-host-network", {"hostNetwork": True}),
    ("own-proxy", {"containers": [{"name": "istio-proxy", "image": "auto"}]}),
]


@pytest.mark.parametrize("parts", [pytest.param(r[1], id=r[0]) for r in DISTINCT])
def test_what_makes_another_question(parts: dict[str, Any]) -> None:
    found = prove(api_of(stored("a"), stored("b", **parts)), workload("a"), workload("b"))
    assert [g["covers"] for g in found["groups"]] == [["Deployment shop/a"], ["Deployment shop/b"]]


@pytest.mark.parametrize("parts", [{"labels": {"app": "other"}}, {"annotations": {"checksum": "1"}}, {"priority": 1}])
def test_what_the_injector_does_not_look_at_makes_no_other_question(parts: dict[str, Any]) -> None:
    found = prove(api_of(stored("a"), stored("b", **parts)), workload("a"), workload("b"))
    assert len(found["groups"]) == 1


def test_another_namespace_is_another_question() -> None:
    api = api_of(stored("a"))
    api.objects["/apis/apps/v1/namespaces/bank/deployments/a"] = stored("a")
    assert len(prove(api, workload("a"), workload("a", namespace="bank"))["groups"]) == 2


def test_the_smallest_workload_with_pods_stands_for_the_others() -> None:
    api = api_of(stored("a", 0), stored("b", 5), stored("c", 1), stored("d", None))
    (row,) = prove(api, *(workload(n) for n in "abcd"))["groups"]
    assert row["representative"] == "Deployment shop/c"
    assert api.pods[0]["metadata"]["generateName"] == "c-"


def test_a_daemon_set_without_nodes_does_not_stand_for_others() -> None:
    here = "/apis/apps/v1/namespaces/shop/daemonsets"
    idle = stored("a") | {"status": {}}
    busy = stored("b") | {"status": {"desiredNumberScheduled": 3}}
    api = FakeApi({f"{here}/a": idle, f"{here}/b": busy})
    (row,) = prove(api, workload("a", "DaemonSet"), workload("b", "DaemonSet"))["groups"]
    assert row["representative"] == "DaemonSet shop/b"


def test_a_cron_jobs_template_lies_deeper() -> None:
    item = {"metadata": {"name": "tick"}, "spec": {"jobTemplate": {"spec": {"template": template()}}}}
    api = FakeApi({"/apis/batch/v1/namespaces/shop/cronjobs/tick": item})
    assert prove(api, workload("tick", "CronJob"))["groups"][0]["state"] == "proven"
    assert api.pods[0]["spec"]["containers"][0]["name"] == "app"


def test_a_custom_kind_is_found_through_the_apis_own_list() -> None:
    version = "argoproj.io/v1alpha1"
    served = [
        {"name": "rollouts/status", "kind": "Rollout"},
        {"name": "rollouts", "kind": "Rollout"},
    ]
    api = FakeApi({f"/apis/{version}": {"resources": served}})
    for name in ("a", "b"):
        for namespace in ("shop", "bank"):
            api.objects[f"/apis/{version}/namespaces/{namespace}/rollouts/{name}"] = stored(name)
    asked = [workload(n, "Rollout", s, api_version=version) for n in ("a", "b") for s in ("shop", "bank")]
    found = prove(api, *asked)
    assert len(found["groups"]) == 2
    assert api.asked.count(f"/apis/{version}") == 1
    with pytest.raises(MeshApiError, match="needs its api_version"):
        prove(api, workload("a", "Rollout"))
    with pytest.raises(MeshApiError, match=r"Canary .* does not serve this kind"):
        prove(api, workload("a", "Canary", api_version=version))


def test_an_object_without_a_pod_template_is_inconclusive() -> None:
    api = api_of({"metadata": {"name": "web"}, "spec": {"workloadRef": {"name": "web"}}})
    (row,) = prove(api)["groups"]
    assert (row["state"], row["said"], api.pods) == ("inconclusive", "it holds no pod template", [])


def test_a_workload_that_is_gone_is_an_error() -> None:
    with pytest.raises(MeshApiError, match=r"Deployment shop/web and 1 more: gone since the mesh was read"):
        prove(api_of(stored("x")), workload("web"), workload("zoo"), workload("x"))


# id, what the API server hands back, state, revision, image
ANSWERS: list[tuple[str, Answer, str, str, str]] = [
    ("proven-classic", lambda pod: injected(pod, native=False), "proven", NEW, IMAGE),
    ("D01-other-revision", lambda pod: injected(pod, OLD), "wrong", OLD, IMAGE),
    ("no-proxy", copy.deepcopy, "wrong", "", ""),
]


@pytest.mark.parametrize(("answer", "state", "revision", "image"), [pytest.param(*r[1:], id=r[0]) for r in ANSWERS])
def test_what_an_answer_counts_as(answer: Answer, state: str, revision: str, image: str) -> None:
    (row,) = prove(api_of(stored(), answers=[answer]))["groups"]
    assert (row["state"], row["revision"], row["image"]) == (state, revision, image)


def test_an_annotation_of_the_template_is_no_proof() -> None:  # case D04
    own = [{"name": "istio-proxy", "image": "auto"}]
    item = stored(annotations={"istio.io/rev": NEW}, containers=own)
    (row,) = prove(api_of(item, answers=[copy.deepcopy]))["groups"]
    assert (row["state"], row["revision"], row["image"], row["own_proxy"]) == ("wrong", "", "auto", "auto")  # case B07


def test_a_wrong_answer_comes_with_what_explains_it() -> None:  # cases D01, D03
    api = api_of(stored(labels={"istio.io/rev": NEW}), answers=[lambda pod: injected(pod, OLD)])
    api.objects["/api/v1/namespaces/shop"] = {"metadata": {"labels": {"istio.io/rev": "prod-stable", "team": "x"}}}
    api.lists[mesh_proof.WEBHOOKS] = [
        {"metadata": {"labels": {"istio.io/rev": OLD}}},
        {"metadata": {"labels": {"istio.io/rev": OLD, "istio.io/tag": "prod-stable"}}},
    ]
    found = prove(api)
    assert (found["tags"], found["revisions"], found["context_error"]) == ({"prod-stable": OLD}, [OLD], "")
    assert found["groups"][0]["namespace_labels"] == {"istio.io/rev": "prod-stable"}
    assert found["groups"][0]["labels"] == {"istio.io/rev": NEW}


def test_an_explanation_that_cannot_be_read_does_not_hide_the_answer() -> None:
    class Forbidden(FakeApi):
        def list(self, path: str, selector: str = "", metadata_only: bool = False) -> list[dict[str, Any]]:
            raise refusal(403, "no webhooks for you")

    found = prove(Forbidden(api_of(stored()).objects, [copy.deepcopy]))
    assert "no webhooks for you" in found["context_error"]
    assert found["groups"][0]["state"] == "wrong"


def test_a_wrong_answer_just_after_a_change_is_asked_again() -> None:
    api = api_of(stored(), answers=[copy.deepcopy, lambda pod: injected(pod, OLD), injected])
    assert prove(api, settle=5)["groups"][0]["state"] == "proven"
    assert len(api.pods) == 3


# id, status, the API server's words, who refused
INCONCLUSIVE: list[tuple[str, int, str, str]] = [
    (
        "webhook-without-dry-run",
        400,
        'admission webhook "audit.example.com" does not support dry run',
        "webhook audit.example.com (it does not support dry runs)",
    ),
    (
        "istio-webhook-without-dry-run",
        400,
        f'admission webhook "{INJECTOR}" does not support dry run',
        f"webhook {INJECTOR} (it does not support dry runs)",
    ),
    (
        "policy-engine",
        400,
        'admission webhook "validate.kyverno.svc-fail" denied the request: no bare pods',
        "webhook validate.kyverno.svc-fail",
    ),
    (
        "policy-engine-down",
        500,
        'Internal error occurred: failed calling webhook "mutate.kyverno.svc-fail": connection refused',
        "webhook mutate.kyverno.svc-fail",
    ),
    (
        "G08-quota",
        403,
        'pods "web-x" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0',
        "ResourceQuota none",
    ),
    ("quota-needs-limits", 403, 'pods "x" is forbidden: failed quota: q: must specify cpu', "ResourceQuota q"),
    ("quota-slow", 500, "Internal error occurred: resource quota evaluation timed out", "ResourceQuota"),
    (
        "limit-range",
        403,
        'pods "x" is forbidden: maximum cpu usage per Container is 1, but limit is 2',
        "LimitRange",
    ),
    (
        "pod-security",
        403,
        'pods "x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
        "PodSecurity restricted:latest",
    ),
    (
        "admission-policy",
        422,
        "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'owners' with binding 'b' denied request: no",
        "ValidatingAdmissionPolicy owners",
    ),
    (
        "service-account",
        403,
        'pods "x" is forbidden: error looking up service account shop/web: serviceaccount "web" not found',
        "service account shop/web",
    ),
    ("B04-invalid", 422, 'Pod "x" is invalid: spec.initContainers[1]', "the API server's validation of the pod"),
    ("something-else", 403, 'pods "x" is forbidden: says a plugin', "the API server's admission"),
]


@pytest.mark.parametrize(("status", "said", "who"), [pytest.param(*r[1:], id=r[0]) for r in INCONCLUSIVE])
def test_a_refusal_by_anything_but_istio_is_inconclusive(status: int, said: str, who: str) -> None:
    api = api_of(stored(), answers=[refusal(status, said)])
    (row,) = prove(api)["groups"]
    assert (row["state"], row["who"], row["said"]) == ("inconclusive", who, said)
    assert len(api.pods) == 1, "it will not change by asking again"


FAILING = f'Internal error occurred: failed calling webhook "{INJECTOR}": failed to call webhook: '
TIMEOUT = FAILING + "context deadline exceeded"
TLS = FAILING + "tls: failed to verify certificate: x509: certificate signed by unknown authority"
DENIED = f'admission webhook "{INJECTOR}" denied the request: failed to run injection template'


def test_an_injector_that_does_not_answer_yet_is_asked_again() -> None:  # case F06
    api = api_of(stored(), answers=[refusal(500, TIMEOUT), refusal(500, TIMEOUT), injected])
    task = Task([workload()])
    found = mesh_proof.run(task, api)
    assert found["groups"][0]["state"] == "proven"
    assert len(api.pods) == 3
    assert len(task.told) == 1
    assert "context deadline exceeded" in task.told[0]


@pytest.mark.parametrize("said", [TIMEOUT, TLS, DENIED], ids=["F06-timeout", "H08-no-ca-bundle", "denied"])
def test_an_injector_that_keeps_failing_is_wrong_with_its_words(said: str) -> None:
    (row,) = prove(api_of(stored(), answers=[refusal(500, said)]), patience=0)["groups"]
    assert (row["state"], row["who"], row["said"]) == ("wrong", f"webhook {INJECTOR}", said)


def test_a_dead_injector_is_not_asked_for_every_workload() -> None:
    names = [f"w{n}" for n in range(9)]
    items = [stored(n, serviceAccountName=n) for n in names]
    api = api_of(*items, answers=[refusal(500, TIMEOUT)])
    found = prove(api, *(workload(n) for n in names), patience=0)
    assert len(found["groups"]) == len(api.pods) == mesh_proof.MAX_BROKEN
    assert found["not_asked"] == [f"Deployment shop/{n}" for n in names[mesh_proof.MAX_BROKEN :]]


def test_the_missing_right_is_named_and_nothing_is_inconclusive() -> None:
    said = 'pods is forbidden: User "ops" cannot create resource "pods" in API group "" in the namespace "shop"'
    api = api_of(stored("a"), stored("b", hostNetwork=True), answers=[refusal(403, said)])
    with pytest.raises(MeshApiError, match=r"may not create pods in namespace shop.*grant `create pods`") as caught:
        prove(api, workload("a"), workload("b"))
    assert caught.value.status == 403
    assert len(api.pods) == 1


@pytest.mark.parametrize(("status", "patience"), [(0, 0), (429, 0), (503, 0), (401, 30), (404, 30)])
def test_an_api_server_that_does_not_answer_is_a_failure(status: int, patience: int) -> None:
    api = api_of(stored(), answers=[refusal(status, "it is ill")])
    with pytest.raises(MeshApiError, match="is ill"):
        prove(api, patience=patience)
    assert len(api.pods) == 1


def test_an_api_server_that_restarts_is_waited_for() -> None:
    api = api_of(stored(), answers=[refusal(503, "it is ill"), injected])
    assert prove(api)["groups"][0]["state"] == "proven"


def test_of_a_namespace_without_workloads_a_bare_pod_is_asked_about() -> None:
    api = api_of(stored())
    found = mesh_proof.run(Task([workload("dry", "Pod", "empty"), workload()]), api)
    assert [(g["state"], g["representative"], g["covers"]) for g in found["groups"]] == [
        ("proven", "Pod empty/dry", ["Pod empty/dry"]),
        ("proven", "Deployment shop/web", ["Deployment shop/web"]),
    ]
    assert api.asked == [f"{DEPLOYMENTS}/web"], "nothing is read of it"
    assert [path for _, path, _ in api.queries] == ["/api/v1/namespaces/empty/pods", "/api/v1/namespaces/shop/pods"]
    pod = api.pods[0]
    assert (pod["metadata"]["labels"], pod["metadata"]["generateName"]) == ({}, "dry-")
    assert all(query == {"dryRun": "All"} for _, _, query in api.queries)
    assert "limits" in pod["spec"]["containers"][0]["resources"], "a quota wants them"


def test_no_right_to_create_pods_where_nothing_runs_is_said_and_stops_nothing() -> None:
    said = 'pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "empty"'
    api = api_of(stored(), answers=[refusal(403, said)])
    row = mesh_proof.run(Task([workload("dry", "Pod", "empty")]), api)["groups"][0]
    assert (row["state"], row["who"], row["said"]) == (
        "inconclusive",
        "this account, which may not create pods there,",
        said,
    )
    with pytest.raises(MeshApiError, match="may not create pods"):
        mesh_proof.run(Task([workload()]), api)
