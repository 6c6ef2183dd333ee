"""Kubernetes objects -> rows: which pods run which proxy, and who owns them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.module_utils import mesh_rows

OLD_IMAGE = "docker.io/istio/proxyv2:1.30.5"


def container(name: str, image: str = OLD_IMAGE) -> dict[str, Any]:
    return {"name": name, "image": image}


def pod(
    init: list[dict[str, Any]] | None = None,
    containers: list[dict[str, Any]] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a running, ready pod with an old proxy; `more` goes over metadata, spec and status."""
    main = [container("app", "app:1"), container("istio-proxy")] if containers is None else containers
    status: dict[str, Any] = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": c["name"], "ready": True} for c in main],
        "initContainerStatuses": [{"name": c["name"], "ready": True} for c in init or []],
    }
    metadata: dict[str, Any] = {
        "namespace": "shop",
        "name": "web-1",
        "annotations": {"istio.io/rev": "1-30-5"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web-67ff", "controller": True}],
    }
    return {
        "metadata": metadata | more.get("metadata", {}),
        "spec": {"initContainers": init or [], "containers": main} | more.get("spec", {}),
        "status": status | more.get("status", {}),
    }


NATIVE = [container("istio-init", "proxyv2:0.0.1"), container("istio-proxy") | {"restartPolicy": "Always"}]
APP = [container("app", "app:1")]


@pytest.mark.parametrize(
    ("item", "native"),
    [
        pytest.param(pod(NATIVE, APP), True, id="B01-native"),
        pytest.param(pod([container("istio-validation", "proxyv2:0.0.1")]), False, id="B02-validation-is-no-proxy"),
        pytest.param(pod(NATIVE[:1]), False, id="B02-classic"),
        pytest.param(pod(None, [container("istio-proxy"), *APP]), False, id="B03-first"),
        pytest.param(pod(None, [*APP, container("istio-proxy")]), False, id="B03-last"),
    ],
)
def test_the_proxy_is_found_by_name_in_both_lists(item: dict[str, Any], native: bool) -> None:
    row = mesh_rows.pod_row(item)
    assert (row["proxy"], row["native"], row["image"], row["ready"]) == (True, native, OLD_IMAGE, True)
    assert (row["revision"], row["live"], row["terminating"]) == ("1-30-5", True, False)


def test_a_mirrored_image_is_found_too() -> None:  # case A13
    row = mesh_rows.pod_row(pod(None, [container("istio-proxy", "mirror.example/mesh/pxy:1.30.5")]))
    assert row["image"] == "mirror.example/mesh/pxy:1.30.5"


@pytest.mark.parametrize("native", [True, False])
def test_readiness_is_read_from_the_right_list(native: bool) -> None:  # case B01
    item = pod(NATIVE, APP) if native else pod()
    listed = item["status"]["initContainerStatuses" if native else "containerStatuses"]
    next(c for c in listed if c["name"] == "istio-proxy")["ready"] = False
    assert mesh_rows.pod_row(item)["ready"] is False


def test_a_pod_that_is_not_ready_has_no_ready_proxy() -> None:
    item = pod(status={"conditions": [{"type": "Ready", "status": "False"}]})
    assert mesh_rows.pod_row(item)["ready"] is False


def test_a_gateway_that_nobody_injected_is_no_version() -> None:  # case B07
    waiting = {"name": "istio-proxy", "ready": False, "state": {"waiting": {"reason": "ErrImagePull"}}}
    item = pod(
        None,
        [container("istio-proxy", "auto")],
        metadata={"annotations": {"inject.istio.io/templates": "gateway"}},
        status={"containerStatuses": [waiting]},
    )
    row = mesh_rows.pod_row(item)
    assert (row["image"], row["revision"], row["gateway"]) == ("auto", "", True)
    assert row["waiting"] == "istio-proxy: ErrImagePull"


def test_a_pod_that_is_starting_is_not_waiting_for_a_cause() -> None:
    waiting = {"name": "app", "state": {"waiting": {"reason": "PodInitializing"}}}
    assert mesh_rows.pod_row(pod(status={"containerStatuses": [waiting]}))["waiting"] == ""


def test_a_host_network_pod() -> None:  # case B08
    row = mesh_rows.pod_row(pod(None, APP, spec={"hostNetwork": True}))
    assert (row["host_network"], row["proxy"], row["revision"]) == (True, False, "")


STATUS = "sidecar.istio.io/status"


@pytest.mark.parametrize(
    ("annotations", "labels", "revision"),
    [
        pytest.param({"istio.io/rev": "1-31-0"}, {}, "1-31-0", id="B09-annotation"),
        pytest.param({STATUS: json.dumps({"revision": "1-16-0"})}, {}, "1-16-0", id="B09-status"),
        pytest.param({"istio.io/rev": "1-30-5"}, {"istio.io/rev": "prod-stable"}, "1-30-5", id="B10-tag-label"),
        pytest.param({}, {"istio.io/rev": "prod-stable"}, "", id="B10-label-alone"),
        pytest.param({STATUS: "{broken"}, {}, "", id="broken-status"),
        pytest.param({STATUS: "null"}, {}, "", id="null-status"),
        pytest.param({STATUS: "[]"}, {}, "", id="list-status"),
        pytest.param({STATUS: '{"revision": null}'}, {}, "", id="null-revision"),
        pytest.param(None, None, "", id="B11-null"),
    ],
)
def test_the_revision_that_injected(annotations: Any, labels: Any, revision: str) -> None:
    row = mesh_rows.pod_row(pod(metadata={"annotations": annotations, "labels": labels}))
    assert row["revision"] == revision


@pytest.mark.parametrize(
    "item",
    [
        pytest.param({"metadata": {"namespace": "shop", "name": "a"}}, id="missing"),
        pytest.param(
            {
                "metadata": {"annotations": None, "labels": None, "ownerReferences": None},
                "spec": {"initContainers": None, "containers": None},
                "status": {"containerStatuses": None, "initContainerStatuses": None, "conditions": None},
            },
            id="nulls",
        ),
        pytest.param({"metadata": None, "spec": None, "status": None}, id="all-null"),
    ],
)
def test_a_pending_pod_with_nulls(item: dict[str, Any]) -> None:  # case B11
    row = mesh_rows.pod_row(item)
    assert (row["proxy"], row["ready"], row["live"], row["phase"]) == (False, False, True, "Unknown")


@pytest.mark.parametrize(
    ("phase", "live"),
    [("Succeeded", False), ("Failed", False), ("Running", True), ("Pending", True), ("Unknown", True)],
)
def test_which_pods_are_live(phase: str, live: bool) -> None:  # case B12
    assert mesh_rows.pod_row(pod(status={"phase": phase}))["live"] is live


def test_a_terminating_and_a_pinned_pod() -> None:  # cases B13, B05
    row = mesh_rows.pod_row(
        pod(
            metadata={
                "deletionTimestamp": "2026-12-01T00:00:00Z",
                "annotations": {"sidecar.istio.io/proxyImage": OLD_IMAGE, "unrelated": "x"},
                "labels": {"sidecar.istio.io/inject": "true", "app": "web"},
            }
        )
    )
    assert row["terminating"] is True
    assert row["pinned"] == OLD_IMAGE
    assert row["labels"] == {"sidecar.istio.io/inject": "true"}
    assert row["annotations"] == {"sidecar.istio.io/proxyImage": OLD_IMAGE}


def test_only_a_controller_owns() -> None:
    owners = [{"kind": "Node", "name": "n"}, {"kind": "Job", "name": "j", "controller": True}]
    row = mesh_rows.pod_row(pod(metadata={"ownerReferences": owners}))
    assert (row["owner_kind"], row["owner_name"]) == ("Job", "j")
    assert mesh_rows.pod_row(pod(metadata={"ownerReferences": owners[:1]}))["owner_kind"] == ""


# --- workloads ---------------------------------------------------------------------------------------------


def deployment(name: str = "web", **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
    return {"metadata": {"namespace": "shop", "name": name}, "spec": {"template": template} | spec}


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        pytest.param({"istio.io/rev": "1-31-0"}, {}, id="D03-template-label"),
        pytest.param({}, {"istio.io/rev": "1-31-0"}, id="D04-template-annotation"),
        pytest.param({"sidecar.istio.io/inject": "false"}, {"sidecar.istio.io/inject": "true"}, id="both"),
    ],
)
def test_what_a_template_asks_of_the_injector(labels: dict[str, str], annotations: dict[str, str]) -> None:
    metadata = {"labels": labels | {"app": "x"}, "annotations": annotations | {"other": "x"}}
    row = mesh_rows.workload_row("Deployment", deployment(template={"metadata": metadata}))
    assert row["template_labels"] == labels
    assert row["template_annotations"] == annotations


def test_the_template_of_a_cron_job() -> None:
    template = {"metadata": {"labels": {"istio.io/rev": "1-30-5"}}}
    item: dict[str, Any] = {"metadata": {"name": "n"}, "spec": {"jobTemplate": {"spec": {"template": template}}}}
    assert mesh_rows.workload_row("CronJob", item)["template_labels"] == {"istio.io/rev": "1-30-5"}
    assert mesh_rows.template_of({"spec": {"jobTemplate": None}}) == {}
    assert mesh_rows.template_of({"spec": None}) == {}


@pytest.mark.parametrize(
    ("kind", "spec", "status", "replicas"),
    [
        pytest.param("Deployment", {}, {}, 1, id="absent-is-one"),
        pytest.param("Deployment", {"replicas": None}, {}, 1, id="null-is-one"),
        pytest.param("Deployment", {"replicas": 0}, {}, 0, id="zero"),
        pytest.param("DaemonSet", {}, {"desiredNumberScheduled": 3}, 3, id="daemon-set"),
        pytest.param("DaemonSet", {}, {}, 0, id="G03-daemon-set"),
    ],
)
def test_replicas(kind: str, spec: dict[str, Any], status: dict[str, Any], replicas: int) -> None:
    assert mesh_rows.workload_row(kind, deployment(**spec) | {"status": status})["replicas"] == replicas


def test_what_keeps_a_workload_from_a_restart() -> None:  # cases G01, G04, B15
    item = deployment(paused=True, updateStrategy={"type": "OnDelete"})
    item["metadata"]["ownerReferences"] = [{"kind": "Kafka", "name": "main", "controller": True}]
    row = mesh_rows.workload_row("StatefulSet", item)
    assert (row["paused"], row["strategy"], row["managed_by"]) == (True, "OnDelete", "Kafka/main")
    assert mesh_rows.workload_row("Deployment", deployment())["managed_by"] == ""


def test_the_template_hash_follows_the_template_only() -> None:
    one, same, other = deployment(), deployment(replicas=5), deployment(template={"spec": {}})
    hashes = [mesh_rows.workload_row("Deployment", d)["template_hash"] for d in (one, same, other)]
    assert hashes[0] == hashes[1] != hashes[2]
    assert mesh_rows.short_hash({"a": 1, "b": 2}) == mesh_rows.short_hash({"b": 2, "a": 1})


def test_pods_are_counted_per_kind_of_proxy() -> None:
    row = mesh_rows.workload_row("Deployment", deployment())
    pods = [mesh_rows.pod_row(pod()), mesh_rows.pod_row(pod()), mesh_rows.pod_row(pod(NATIVE, APP))]
    pods.append(mesh_rows.pod_row(pod(metadata={"deletionTimestamp": "x"})))
    pods.append(mesh_rows.pod_row(pod(status={"phase": "Succeeded"})))
    pods.append(mesh_rows.pod_row(pod(None, APP)))
    pods.append(mesh_rows.pod_row(pod(None, APP, metadata={"deletionTimestamp": "x"})))
    mesh_rows.count_pods(row, pods)
    found = [(p["native"], p["terminating"], p["pods"]) for p in row["proxies"]]
    assert sorted(found) == [(False, False, 2), (False, True, 1), (True, False, 1)]
    assert (row["ended"], row["without_proxy"]) == (1, 1)


# --- owners ------------------------------------------------------------------------------------------------


def replica_set(name: str, kind: str, owner: str) -> dict[str, Any]:
    owners = [{"kind": kind, "name": owner, "controller": True}]
    return {"metadata": {"namespace": "shop", "name": name, "ownerReferences": owners}}


def owned(kind: str, name: str, **more: Any) -> dict[str, Any]:
    owners = [{"kind": kind, "name": name, "controller": True}] if kind else []
    found: dict[str, Any] = mesh_rows.pod_row(pod(metadata={"ownerReferences": owners}, **more))
    return found


def assemble(pods: list[dict[str, Any]], *kinds: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    known = {(kind, "shop", "web"): mesh_rows.workload_row(kind, deployment()) for kind in kinds}
    sets = [replica_set("web-67ff", "Deployment", "web"), replica_set("blue-1", "Rollout", "blue")]
    sets.append({"metadata": {"namespace": "shop", "name": "bare-set"}})
    rows, loose = mesh_rows.assemble(known, dict(map(mesh_rows.replica_set_owner, sets)), pods)
    return rows, loose


def test_a_pod_belongs_to_the_deployment_above_its_replica_set() -> None:  # case B17
    rows, loose = assemble([owned("ReplicaSet", "web-67ff")], "Deployment")
    assert loose == []
    assert rows[0]["proxies"][0]["pods"] == 1


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet", "Job"])
def test_a_pod_belongs_to_its_direct_owner(kind: str) -> None:
    rows, loose = assemble([owned(kind, "web")], "Deployment", kind)
    assert loose == []
    assert [(r["kind"], len(r["proxies"])) for r in rows] == [("Deployment", 0), (kind, 1)]


@pytest.mark.parametrize(
    ("item", "owner"),
    [
        pytest.param(owned("", ""), ("", ""), id="bare"),
        pytest.param(owned("ReplicaSet", "unknown"), ("ReplicaSet", "unknown"), id="replica-set-that-is-too-new"),
        pytest.param(owned("Job", "new"), ("Job", "new"), id="job-that-is-too-new"),
        pytest.param(owned("Kafka", "main", status={"phase": "Succeeded"}), ("Kafka", "main"), id="B12-ended"),
    ],
)
def test_pods_that_no_known_workload_owns(item: dict[str, Any], owner: tuple[str, str]) -> None:
    rows, loose = assemble([item], "Deployment")
    assert rows[0]["proxies"] == []
    assert [(p["owner_kind"], p["owner_name"]) for p in loose] == [owner]


@pytest.mark.parametrize(
    ("item", "owner"),
    [
        pytest.param(owned("ReplicaSet", "blue-1"), ("Rollout", "blue"), id="B16-rollout"),
        pytest.param(owned("ReplicaSet", "bare-set"), ("ReplicaSet", "bare-set"), id="replica-set-of-its-own"),
        pytest.param(owned("Kafka", "main"), ("Kafka", "main"), id="custom-owner"),
    ],
)
def test_injected_pods_of_an_owner_that_is_not_read_make_a_workload(
    item: dict[str, Any], owner: tuple[str, str]
) -> None:
    item["labels"], item["annotations"] = (
        {"istio.io/rev": "x"},
        {"istio.io/rev": "1-30-5", "sidecar.istio.io/inject": "1"},
    )
    rows, loose = assemble([item, item], "Deployment")
    assert loose == []
    made = rows[1]
    assert (made["kind"], made["name"]) == owner
    assert made["replicas"] == made["proxies"][0]["pods"] == 2
    assert made["template_labels"] == {"istio.io/rev": "x"}
    assert made["template_annotations"] == {"sidecar.istio.io/inject": "1"}, "what injection wrote is not asked for"


@pytest.mark.parametrize(
    ("kind", "api", "told"),
    [
        pytest.param("StatefulSet", "apps/v1", "StatefulSet", id="its-own"),
        pytest.param("StatefulSet", "apps/v1beta2", "StatefulSet", id="another-version"),
        pytest.param("StatefulSet", "apps.kruise.io/v1beta1", "StatefulSet.apps.kruise.io", id="another-group"),
        pytest.param("Job", "batch.volcano.sh/v1alpha1", "Job.batch.volcano.sh", id="another-job"),
        pytest.param("Rollout", "argoproj.io/v1alpha1", "Rollout", id="B16-no-double"),
    ],
)
def test_kinds_of_the_same_name_are_told_apart(kind: str, api: str, told: str) -> None:
    owners = [{"kind": kind, "name": "web", "apiVersion": api, "controller": True}]
    row = mesh_rows.pod_row(pod(metadata={"ownerReferences": owners}))
    assert (row["owner_kind"], row["owner_api"]) == (told, api)
    rows, loose = assemble([row], "StatefulSet", "Job")
    assert loose == []
    assert [(r["kind"], r["api_version"]) for r in rows if r["proxies"]] == [
        (told, mesh_rows.API_VERSIONS.get(told, api))
    ]


def test_pods_of_a_custom_owner_without_a_proxy_count_too() -> None:  # case B16
    owners = [{"kind": "Kafka", "name": "main", "controller": True}]
    plain = mesh_rows.pod_row(pod(None, APP, metadata={"ownerReferences": owners}))
    rows, _loose = assemble([plain, owned("Kafka", "main")], "Deployment")
    assert (rows[1]["replicas"], rows[1]["without_proxy"], rows[1]["proxies"][0]["pods"]) == (2, 1, 1)
    assert assemble([plain], "Deployment") == (rows[:1], []), "without any proxy it is nobody's business"


def test_a_custom_owner_asks_what_its_newest_live_pod_carries() -> None:
    old, new, ended = (owned("Kafka", "main") for _ in range(3))
    old |= {"created": "2026-01-01", "labels": {"istio.io/rev": "r1"}}
    new |= {"created": "2026-01-02", "labels": {"istio.io/rev": "r2"}}
    ended |= {"created": "2026-01-03", "labels": {"istio.io/rev": "r3"}, "live": False}
    rows, _loose = assemble([new, ended, old], "Deployment")
    assert (rows[1]["template_labels"], rows[1]["replicas"], rows[1]["ended"]) == ({"istio.io/rev": "r2"}, 2, 1)


def test_a_loose_pod_without_a_proxy_is_nobodys_business() -> None:
    plain = mesh_rows.pod_row(pod(None, APP, metadata={"ownerReferences": []}))
    assert assemble([plain], "Deployment")[1] == []


def test_the_same_name_in_another_namespace_is_another_workload() -> None:
    other = owned("ReplicaSet", "web-67ff") | {"namespace": "team"}
    rows, loose = assemble([other], "Deployment")
    assert rows[0]["proxies"] == []
    assert len(loose) == 1


def test_what_a_restart_may_cost() -> None:
    app = container("app", "app:1") | {"lifecycle": {"preStop": {"exec": {}}}, "readinessProbe": {"httpGet": {}}}
    proxy = container("istio-proxy", "auto") | {"lifecycle": {"preStop": {}}}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%", "partition": 2}}
    item = deployment(template={"spec": {"containers": [app, proxy]}}, updateStrategy=strategy)
    row = mesh_rows.workload_row("StatefulSet", item)
    assert [row[k] for k in ("partition", "max_unavailable", "pre_stop", "readiness")] == [2, "100%", True, True]
    bare = mesh_rows.workload_row("Deployment", deployment(template={"spec": {"containers": [proxy]}}))
    assert [bare[k] for k in ("partition", "max_unavailable", "pre_stop", "readiness")] == [0, "", False, False]


@pytest.mark.parametrize(
    ("kind", "conditions", "over"),
    [
        ("Job", [{"type": "Complete", "status": "True"}], True),
        ("Job", [{"type": "Failed", "status": "True"}], True),
        ("Job", [{"type": "Complete", "status": "False"}], False),
        ("Job", None, False),
        ("Deployment", [{"type": "Failed", "status": "True"}], False),
    ],
)
def test_a_job_that_is_over(kind: str, conditions: Any, over: bool) -> None:
    item = deployment()
    item["status"] = {"conditions": conditions}
    assert mesh_rows.workload_row(kind, item)["finished"] is over


def test_settings_are_told_apart_by_what_injection_wrote() -> None:
    def proxied(value: str) -> dict[str, Any]:
        env = [{"name": "POD_NAME"}, {"name": "PROXY_CONFIG", "value": value}]
        return pod([container("istio-proxy", "proxyv2:1.31.0") | {"env": env}], APP)

    one, two = (mesh_rows.pod_row(proxied(v))["settings"] for v in ("{}", '{"concurrency":2}'))
    assert one != two
    assert mesh_rows.pod_row(pod())["settings"] == ""


# --- the control plane -------------------------------------------------------------------------------------


def test_a_control_plane() -> None:
    item: dict[str, Any] = {
        "metadata": {"name": "istiod", "uid": "u", "generation": 4},
        "spec": {"template": {"spec": {"containers": [container("discovery", "pilot:1.30.5"), container("other")]}}},
        "status": {"observedGeneration": 4},
    }
    row = mesh_rows.control_plane_row(item)
    assert (row["revision"], row["image"], row["helm"]) == ("default", "pilot:1.30.5", False)
    # case G03: counters that are missing are 0
    assert [row[k] for k in ("replicas", "updated", "available", "total", "observed")] == [1, 0, 0, 0, 4]
    item["metadata"]["labels"] = {"istio.io/rev": "1-30-5", "app.kubernetes.io/managed-by": "Helm"}
    assert mesh_rows.control_plane_row(item)["revision"] == "1-30-5"
    assert mesh_rows.control_plane_row(item)["helm"] is True
    item["metadata"]["labels"]["operator.istio.io/managed"] = "Reconcile"
    assert mesh_rows.control_plane_row(item)["helm"] is False, "istioctl renders the same charts"


@pytest.mark.parametrize(
    ("name", "labels", "revision"),
    [
        pytest.param("istiod-1-30-5", {"istio.io/rev": "1-31-0"}, "1-31-0", id="the-label-and-not-the-name"),
        pytest.param("istio-egressgateway-6f7d-x2x", {"istio.io/rev": "canary"}, "canary", id="a-name-without-it"),
        pytest.param("istiod", {}, "default", id="no-label"),
        pytest.param("istiod-1-30-5", None, "default", id="a-name-never-counts"),
    ],
)
def test_the_revision_of_a_control_plane_comes_from_its_label(
    name: str, labels: dict[str, str] | None, revision: str
) -> None:  # case C14
    assert mesh_rows.control_plane_row({"metadata": {"name": name, "labels": labels}})["revision"] == revision


def test_a_webhook_and_a_deactivated_one() -> None:
    selector = {"matchLabels": {"istio.io/deactivated": "never-match"}}
    service = {"name": "istiod", "namespace": "istio-system"}
    hooks = [
        {"name": "a", "clientConfig": {"service": service, "caBundle": "Q0E="}, "failurePolicy": "Fail"},
        {"name": "b", "clientConfig": {"url": "https://x", "caBundle": ""}, "namespaceSelector": selector},
        {"name": "c", "clientConfig": None, "objectSelector": selector},
    ]
    labels = {"istio.io/rev": "1-30-5", "istio.io/tag": "default", "app": "sidecar-injector"}
    row = mesh_rows.webhook_row({"metadata": {"name": "w", "labels": labels}, "webhooks": hooks})
    assert (row["revision"], row["tag"], row["managed"]) == ("1-30-5", "default", False)
    assert [e["service"] for e in row["entries"]] == ["istiod", "", ""]
    assert [bool(e["ca"]) for e in row["entries"]] == [True, False, False]  # case H08
    assert [e["deactivated"] for e in row["entries"]] == [False, True, True]
    assert mesh_rows.webhook_row({"webhooks": None})["entries"] == []


def test_namespaces_and_services() -> None:
    labels = {"istio-injection": "true", "istio.io/rev": "default", "team": "x"}
    item = {"metadata": {"name": "shop", "labels": labels, "deletionTimestamp": "x"}}
    assert mesh_rows.namespace_row(item) == {  # case D05: the value is kept as it is
        "name": "shop",
        "labels": {"istio-injection": "true", "istio.io/rev": "default"},
        "terminating": True,
    }
    assert mesh_rows.namespace_row({"metadata": {"name": "a", "labels": None}})["labels"] == {}
    assert mesh_rows.service_row({"metadata": {"name": "s"}, "spec": None})["selector"] == {}
