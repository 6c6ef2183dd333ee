"""The questions before and after a change, asked of recorded facts with one thing wrong at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from mesh_logic import gates
from mesh_logic.istioctl_output import precheck_result

from tests.unit.mesh_stages import (
    CLUSTER,
    NEW,
    OLD,
    STAGES,
    drop_tag,
    facts,
    journal,
    namespace,
    row_of,
    set_tag,
    wants,
    workload,
)

Facts = dict[str, Any]
Change = Callable[[Facts], Any]


def plane(found: Facts, revision: str) -> dict[str, Any]:
    row: dict[str, Any] = next(c for c in found["control_planes"] if c["revision"] == revision)
    return row


def without(found: Facts, revision: str) -> None:
    found["control_planes"] = [c for c in found["control_planes"] if c["revision"] != revision]


# --- may the run start -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", STAGES)
def test_every_recorded_stage_may_start(stage: str) -> None:
    assert gates.start_errors(facts(stage), wants(mesh_cluster_uid=CLUSTER)) == []


def _old_is_gone(found: Facts) -> None:
    without(found, OLD)


def _old_gone_new_incomplete(found: Facts) -> None:
    found["control_planes"] = facts("after_install")["control_planes"]
    without(found, OLD)
    plane(found, NEW)["available"] = 0


def _old_version(found: Facts) -> None:
    plane(found, OLD)["image"] = "docker.io/istio/pilot:1.30.4"


def _new_version(found: Facts) -> None:
    found["control_planes"] = facts("after_install")["control_planes"]
    plane(found, NEW)["image"] = "docker.io/istio/pilot:1.31.1"


def _no_tag(found: Facts) -> None:
    drop_tag(found, "prod-stable")


def _no_tags_at_all(found: Facts) -> None:
    drop_tag(found, "prod-stable")
    drop_tag(found, "default")


def _ambiguous(found: Facts) -> None:
    set_tag(found, "prod-stable", NEW, only="injectors")


def _elsewhere(found: Facts) -> None:
    set_tag(found, "prod-stable", "1-24-2")


def _default_elsewhere(found: Facts) -> None:
    set_tag(found, "default", "1-24-2")


def _no_canary(found: Facts) -> None:
    found["namespaces"] = [n for n in found["namespaces"] if n["name"] != "canary"]


def _no_client(found: Facts) -> None:
    found["workloads"] = [w for w in found["workloads"] if w["name"] != "client"]


def _no_web(found: Facts) -> None:
    found["workloads"] = [w for w in found["workloads"] if w["name"] != "web"]


def _hollow(found: Facts) -> None:
    found["injectors"] = [i for i in found["injectors"] if i["tag"] != "prod-stable"]


# id, change of the start, the beginnings of the messages, a part that says more
START: list[tuple[str, Change, list[str], str]] = [
    # its injector is still there: half removed (cases I04, I10)
    (
        "I04-old-missing",
        _old_is_gone,
        [f"webhook istio-sidecar-injector-{OLD}", f'old revision "{OLD}"'],
        "revisions in the cluster: none",
    ),
    (
        "old-missing-new-incomplete",
        _old_gone_new_incomplete,
        [f"webhook istio-sidecar-injector-{OLD}", f'old revision "{OLD}"'],
        "the new one does not serve everything",
    ),
    ("old-version", _old_version, [f'revision "{OLD}"'], "it runs Istio 1.30.4"),
    ("new-version", _new_version, [f'revision "{NEW}"'], "mesh_to_version is 1.31.0"),
    ("no-such-tag", _no_tag, ['mesh_tags: "prod-stable"'], "tags: default"),
    ("no-tags", _no_tags_at_all, ['mesh_tags: "prod-stable"'], "there are no tags"),
    ("hollow-tag", _hollow, ['tag "prod-stable"'], f"istioctl tag set prod-stable --revision {OLD} --overwrite"),
    ("ambiguous-tag", _ambiguous, ['tag "prod-stable"'], "its webhook and its Service point to different"),
    ("C05-tag-elsewhere", _elsewhere, ['tag "prod-stable"'], "it points to 1-24-2, which is neither"),
    ("default-elsewhere", _default_elsewhere, ['tag "default"'], "it points to 1-24-2"),
    ("D11-canary-namespace", _no_canary, ['mesh_canary_namespaces: "canary"'], "nothing was created"),
    (
        "no-client",
        _no_client,
        ['mesh_evidence_workloads: "canary/client"', 'mesh_probes web: "canary/client"'],
        "no such workload",
    ),
    (
        "no-web",
        _no_web,
        ['mesh_evidence_workloads: "shop/web"', 'mesh_drill.workloads: "shop/web"'],
        "kubectl get deployments -n shop",
    ),
]


@pytest.mark.parametrize(("change", "begins", "more"), [pytest.param(*c[1:], id=c[0]) for c in START])
def test_what_makes_a_start_wrong(change: Change, begins: list[str], more: str) -> None:
    found = facts("start")
    change(found)
    errors = gates.start_errors(found, wants())
    assert len(errors) == len(begins), errors
    for line, begin in zip(errors, begins, strict=True):
        assert line.startswith(begin)
        assert ". Next: " in line
    assert any(more in line for line in errors)


def test_all_start_errors_come_at_once() -> None:
    found = facts("start")
    for change in (_old_version, _ambiguous, _no_canary, _no_web):
        change(found)
    assert len(gates.start_errors(found, wants(mesh_cluster_uid="0"))) == 6


@pytest.mark.parametrize("stage", ["start", "finished"])
def test_another_cluster_is_refused(stage: str) -> None:
    errors = gates.start_errors(facts(stage), wants(mesh_cluster_uid="0"))
    assert len(errors) == 1
    assert f"is {CLUSTER}, and mesh_cluster_uid is 0: another cluster" in errors[0]


def test_an_old_install_without_a_revision_is_told_and_taken_by_its_name() -> None:  # case E08
    found = facts("start")
    for kind in ("control_planes", "injectors", "validators", "services"):
        for row in found[kind]:
            row["revision"] = "default"
    errors = gates.start_errors(found, wants())
    assert errors[0].startswith(
        f'old revision "{OLD}": it is not installed; revisions in the cluster: default (1.30.5)'
    )
    assert "an install without a revision is called default" in errors[0]
    assert gates.start_errors(found, wants(mesh_from_revision="default")) == []


def test_an_absent_default_tag_is_no_error() -> None:  # case H03
    found = facts("start")
    drop_tag(found, "default")
    assert gates.start_errors(found, wants()) == []


def test_a_read_of_the_control_planes_only_says_nothing_about_workloads() -> None:
    found = facts("start")
    del found["workloads"]
    assert gates.start_errors(found, wants()) == []


def test_a_finished_cluster_is_not_asked_for_the_rest() -> None:
    found = facts("finished")
    _no_canary(found)
    _no_web(found)
    assert gates.start_errors(found, wants()) == []


# --- did the install move something ------------------------------------------------------------------------


def test_the_recorded_install_moved_nothing() -> None:
    assert gates.moved_since(facts("start"), facts("after_install"), wants()) == []


def _tag_moved(found: Facts) -> None:
    set_tag(found, "default", NEW)


def _tag_appeared(found: Facts) -> None:
    found["injectors"].append(found["injectors"][0] | {"tag": "blue", "name": "x", "revision": NEW})


def _tag_vanished(found: Facts) -> None:
    drop_tag(found, "prod-stable")


def _label(found: Facts) -> None:
    namespace(found, "shop")["istio.io/rev"] = NEW


def _old_image(found: Facts) -> None:
    plane(found, OLD)["image"] = "docker.io/istio/pilot:1.31.0"


def _old_recreated(found: Facts) -> None:
    plane(found, OLD)["uid"] = "another"


def _captured(found: Facts) -> None:
    web = workload(found, "web")
    web["proxies"].append(web["proxies"][0] | {"revision": NEW})


def _new_workload_captured(found: Facts) -> None:
    found["workloads"].append(row_of("default", "gateway", NEW))


def _template(found: Facts) -> None:
    workload(found, "web")["template_hash"] = "1"


MOVED: list[tuple[str, Change, str]] = [
    ("tag", _tag_moved, f"tag default: {OLD} -> {NEW}"),
    ("new-tag", _tag_appeared, f"tag blue: None -> {NEW}"),
    ("tag-gone", _tag_vanished, f"tag prod-stable: {OLD} -> None"),
    ("label", _label, "namespace shop: labels {'istio.io/rev': 'prod-stable'} -> {'istio.io/rev': '1-31-0'}"),
    (
        "old-image",
        _old_image,
        "old istiod: image docker.io/istio/pilot:1.30.5 -> docker.io/istio/pilot:1.31.0",
    ),
    ("old-uid", _old_recreated, "old istiod: uid 729c2540-e033-4095-a51f-70d14ec288c0 -> another"),
    ("captured", _captured, f"Deployment shop/web: its pods are injected by {NEW} already"),
    (
        "F13-gateway",
        _new_workload_captured,
        f"Deployment default/gateway: its pods are injected by {NEW} already",
    ),
    ("template", _template, "Deployment shop/web: its pod template changed"),
]


@pytest.mark.parametrize(("change", "expected"), [pytest.param(*c[1:], id=c[0]) for c in MOVED])
def test_what_an_install_moved(change: Change, expected: str) -> None:
    after = facts("after_install")
    change(after)
    assert gates.moved_since(facts("start"), after, wants()) == [expected]


def test_the_new_istiod_of_an_install_that_got_stuck_may_change() -> None:  # case F07
    after = facts("after_install")
    workload(after, f"istiod-{NEW}")["template_hash"] = "of a mended file"
    assert gates.moved_since(facts("after_install"), after, wants()) == []
    workload(after, f"istiod-{OLD}")["template_hash"] = "changed too"
    assert gates.moved_since(facts("after_install"), after, wants()) == [
        f"Deployment istio-system/istiod-{OLD}: its pod template changed"
    ]


def test_the_old_istiod_gone_is_found() -> None:
    after = facts("after_install")
    without(after, OLD)
    found = gates.moved_since(facts("start"), after, wants())
    assert "old istiod: image docker.io/istio/pilot:1.30.5 -> None" in found


def test_autoscaled_pods_and_new_namespaces_are_no_move() -> None:
    after = facts("after_install")
    workload(after, "web")["proxies"][0]["pods"] = 7
    namespace(after, "team", **{"istio.io/rev": "prod-stable"})
    assert gates.moved_since(facts("start"), after, wants()) == []


# --- may the old revision go -------------------------------------------------------------------------------


def drilled() -> Facts:
    return facts("after_rollback_drill")


def test_nothing_blocks_after_the_recorded_drill() -> None:
    assert gates.uninstall_blockers(drilled(), wants()) == []


def _no_drill(found: Facts) -> None:
    del found["journal"][f"istio-upgrade-{OLD}-to-{NEW}-rollback-drill"]


def _drill_expired(found: Facts) -> None:
    plane(found, OLD)["uid"] = "another"


def _operator_changed(found: Facts) -> None:
    journal(found, "rollback-drill")["proof"]["operator_sha256"] = "0"


def _drill_failed(found: Facts) -> None:
    journal(found, "rollback-drill")["state"] = "failed"


def _new_incomplete(found: Facts) -> None:
    plane(found, NEW)["updated"] = 0


def _new_gone(found: Facts) -> None:
    without(found, NEW)


def _foreign_tag(found: Facts) -> None:
    entry = {"service": f"istiod-{NEW}", "ca": "1", "deactivated": False}
    found["injectors"].append({"name": "tag-blue", "tag": "blue", "revision": OLD, "entries": [entry]})


def _validator_left(found: Facts) -> None:
    row = next(v for v in found["validators"] if v["name"] == "istiod-default-validator")
    row["entries"][0]["service"] = f"istiod-{OLD}"


def _foreign_webhook(found: Facts) -> None:
    entry = {"service": f"istiod-{OLD}", "ca": "1", "deactivated": False}
    found["injectors"].append({"name": "by-hand", "tag": "", "revision": "", "entries": [entry]})


def _classic_pod(found: Facts) -> None:
    web = workload(found, "web")
    web["proxies"].append(web["proxies"][0] | {"revision": OLD, "native": False, "pods": 2})


def _native_pod(found: Facts) -> None:
    web = workload(found, "web")
    web["proxies"] = [web["proxies"][0] | {"revision": OLD, "native": True, "pods": 1}]


def _on_delete(found: Facts) -> None:
    found["workloads"].append(row_of("shop", "db", OLD, kind="StatefulSet", strategy="OnDelete"))


def _pinned_template(found: Facts) -> None:
    pin = {"istio.io/rev": OLD}
    found["workloads"].append(row_of("default", "asleep", "", replicas=0, template_labels=pin))


def _cron_job(found: Facts) -> None:
    pin = {"istio.io/rev": OLD}
    found["workloads"].append(row_of("default", "nightly", "", kind="CronJob", template_labels=pin))


def _running_job(found: Facts) -> None:
    found["workloads"].append(row_of("shop", "import", OLD, kind="Job"))


def _pinned_namespace(found: Facts) -> None:
    namespace(found, "team", **{"istio.io/rev": OLD})


def loose(**changes: Any) -> dict[str, Any]:
    pod = {
        "namespace": "shop",
        "name": "bare",
        "owner_kind": "",
        "owner_name": "",
        "live": True,
        "terminating": False,
        "revision": OLD,
    }
    return pod | {"image": "docker.io/istio/proxyv2:1.30.5"} | changes


def _bare_pod(found: Facts) -> None:
    found["loose_pods"].append(loose())


def _rollout_pod(found: Facts) -> None:
    found["loose_pods"].append(loose(owner_kind="Rollout", owner_name="blue"))  # case B16


def _xds_client(found: Facts) -> None:
    found["xds"]["istiod-1-30-5-758cbcdd7f-5gddt"] = ["vm-1.shop", "vm-2.shop"]


def _reference(found: Facts) -> None:
    found["references"] = ["VirtualService shop/to-istiod"]


def _not_asked(found: Facts) -> None:
    del found["xds"]


def _references_not_asked(found: Facts) -> None:
    del found["references"]


BLOCKERS: list[tuple[str, Change, str]] = [
    ("drill-missing", _no_drill, "rollback drill: no rollback drill has passed for this pair of revisions."),
    ("drill-expired", _drill_expired, "rollback drill: the old istiod was changed after the drill."),
    ("drill-operator", _operator_changed, "rollback drill: the operator file was changed after the drill."),
    ("drill-failed", _drill_failed, "rollback drill: no rollback drill has passed"),
    ("new-incomplete", _new_incomplete, f"new revision {NEW}: its istiod is not complete."),
    ("new-gone", _new_gone, f"new revision {NEW}: its istiod is not complete."),
    ("I01-tag", _foreign_tag, f'tag "blue": points to the old revision {OLD}.'),
    (
        "validator",
        _validator_left,
        f"webhook istiod-default-validator: sends its requests to the old Service istiod-{OLD}.",
    ),
    ("webhook", _foreign_webhook, f"webhook by-hand: sends its requests to the old Service istiod-{OLD}."),
    ("live-pod", _classic_pod, f"Deployment shop/web: 2 of its pods run the proxy of {OLD}."),
    ("B01-native-pod", _native_pod, f"Deployment shop/web: 1 of its pods run the proxy of {OLD}."),
    ("G04-on-delete", _on_delete, f"StatefulSet shop/db: 1 of its pods run the proxy of {OLD}."),
    (
        "scaled-to-zero",
        _pinned_template,
        f"Deployment default/asleep: its next pod would be injected by {OLD}",
    ),
    ("cron-job", _cron_job, f"CronJob default/nightly: its next pod would be injected by {OLD}"),
    ("running-job", _running_job, f"Job shop/import: 1 of its pods run the proxy of {OLD}."),
    ("namespace", _pinned_namespace, f"namespace team: its label istio.io/rev pins the old revision {OLD}."),
    ("loose-pod", _bare_pod, f"pod shop/bare (no owner): runs the proxy of {OLD}."),
    ("B16-rollout-pod", _rollout_pod, f"pod shop/bare (Rollout blue): runs the proxy of {OLD}."),
    ("xds", _xds_client, "istiod istiod-1-30-5-758cbcdd7f-5gddt: still serves 2 proxies, such as vm-1.shop."),
    ("reference", _reference, f"VirtualService shop/to-istiod: names the Service of the old istiod ({OLD})."),
    ("xds-not-asked", _not_asked, "old istiod: its replicas were not asked for their connected proxies."),
    (
        "references-not-asked",
        _references_not_asked,
        "old istiod: nobody looked for objects that name its Service.",
    ),
]


@pytest.mark.parametrize(("change", "begins"), [pytest.param(*c[1:], id=c[0]) for c in BLOCKERS])
def test_each_kind_of_blocker(change: Change, begins: str) -> None:
    found = drilled()
    change(found)
    blockers = gates.uninstall_blockers(found, wants()) + gates.uninstall_waits(found, wants())
    assert len(blockers) == 1, blockers
    assert blockers[0].startswith(begins)
    assert " Next: " in blockers[0]


def test_a_blocker_says_who_can_move_it() -> None:
    found = drilled()
    _classic_pod(found)
    _on_delete(found)
    lines = gates.uninstall_blockers(found, wants())
    assert "move_tags.yml restarts it" in lines[0]
    assert "its update strategy is OnDelete: a person must move it" in lines[1]


def test_a_tag_on_the_old_side_shows_its_webhooks_too() -> None:
    found = drilled()
    set_tag(found, "prod-stable", OLD)
    lines = gates.uninstall_blockers(found, wants())
    assert any(x.startswith('tag "prod-stable": points to the old revision') for x in lines)
    assert any(x.startswith("webhook istio-revision-tag-prod-stable: ") for x in lines)
    # what the tag would inject again: web and client
    assert sum("its next pod would be injected" in x for x in lines) == 2


def _completed_job(found: Facts) -> None:  # case B12
    found["loose_pods"].append(loose(live=False, owner_kind="Job", owner_name="done"))
    found["workloads"].append(row_of("default", "done", "", kind="Job", ended=1, template_labels={"istio.io/rev": OLD}))


def _host_network(found: Facts) -> None:  # case B08
    pin = {"istio.io/rev": OLD}
    found["workloads"].append(row_of("default", "node-agent", "", host_network=True, template_labels=pin))


def _overruled_label(found: Facts) -> None:
    namespace(found, "team", **{"istio.io/rev": OLD, "istio-injection": "disabled"})


def _bare_new_pod(found: Facts) -> None:
    found["loose_pods"].append(loose(revision=NEW))


@pytest.mark.parametrize("change", [_completed_job, _host_network, _overruled_label, _bare_new_pod])
def test_what_does_not_block(change: Change) -> None:
    found = drilled()
    change(found)
    assert gates.uninstall_blockers(found, wants()) == []


# --- proxies -----------------------------------------------------------------------------------------------


def moved(image: str, terminating: bool = False) -> list[dict[str, Any]]:
    return [
        {
            "namespace": "shop",
            "pods": [{"name": "web-1", "image": image, "terminating": terminating, "revision": NEW}],
        }
    ]


@pytest.mark.parametrize(
    ("image", "expected", "wrong"),
    [
        pytest.param("hub.example/proxyv2:1.31.0", "1.31.0", False, id="same"),
        pytest.param("hub.example/proxyv2:1.31.0-distroless", "1.31.0", False, id="A06-variant"),
        pytest.param("hub.example/proxyv2:1.31.0-corp.1", "1.31.0-corp.2", False, id="A10-base-version"),
        pytest.param("hub.example/proxyv2:latest", "1.31.0", False, id="A08-latest"),
        pytest.param("mirror.example/proxy:to-use-in-prod", "1.31.0", False, id="A11-retagged"),
        pytest.param("hub.example/proxyv2:1.31.0", "latest", False, id="expected-says-none"),
        pytest.param("hub.example/proxyv2:1.30.5", "1.31.0", True, id="B05-pinned-old"),
        pytest.param("hub.example/proxyv2:1.31.1", "1.31.0", True, id="other-patch"),
    ],
)
def test_proxies_of_another_version(image: str, expected: str, wrong: bool) -> None:
    found = gates.wrong_proxies(moved(image), expected)
    assert bool(found) is wrong
    assert all(line.startswith(f"pod shop/web-1: {image}: ") for line in found)


def test_a_terminating_pod_proves_nothing() -> None:  # case B13
    assert gates.wrong_proxies(moved("proxyv2:1.30.5", terminating=True), "1.31.0") == []
    assert gates.unverifiable_proxies(moved("proxyv2:latest", terminating=True)) == []


def test_an_image_without_a_version_is_said() -> None:  # case A11
    assert gates.unverifiable_proxies(moved("proxyv2:latest")) == [
        f"pod shop/web-1: image proxyv2:latest says no version, injected by {NEW}"
    ]
    assert gates.unverifiable_proxies(moved("proxyv2:1.31.0")) == []


def test_unready_proxies_of_the_old_revision_count_too() -> None:  # case G11
    found = facts("after_canary")
    assert gates.unready_proxies(found, ["canary", "shop"]) == []
    workload(found, "web")["proxies"][0]["ready"] = False
    said = ["Deployment shop/web: 2 pod(s) with proxy 1.30.5 are not ready"]
    assert gates.unready_proxies(found, ["canary", "shop"]) == said
    assert gates.unready_proxies(found, ["canary"]) == []
    workload(found, "web")["proxies"][0]["terminating"] = True
    assert gates.unready_proxies(found, ["canary", "shop"]) == []


# --- istioctl's precheck -----------------------------------------------------------------------------------

WARNING = "Warning [IST0169] (DestinationRule shop/web) a rule that is ignored\n"
INFO = "Info [IST0136] (Pod shop/web) an annotation in alpha\n"
CLEAN = "No issues found when checking the cluster. Istio is safe to install or upgrade!\n"
UNREACHABLE = 'Error: Get "https://127.0.0.1:1": connection refused\n'


def waiver(name: str, resource: str = "") -> dict[str, str]:
    return {"id": name, "resource": resource, "reason": "known", "expires": ""}


@pytest.mark.parametrize(
    ("streams", "rc", "waivers", "begins"),
    [
        pytest.param(("", CLEAN), 0, [], [], id="F01-clean"),
        pytest.param(("", ""), 0, [], ["istioctl x precheck, PRECHECK: precheck ended with"], id="F01-silent"),
        pytest.param((INFO, ""), 0, [], [], id="F03-info"),
        pytest.param(
            (WARNING + INFO, ""),
            79,
            [],
            ["istioctl x precheck, IST0169 DestinationRule shop/web: a rule that is ignored."],
            id="F03-mixed",
        ),
        pytest.param((WARNING, ""), 79, [waiver("IST0169")], [], id="F02-waived-by-code"),
        pytest.param((WARNING, ""), 79, [waiver("IST0169", "DestinationRule shop/web")], [], id="F02-and-resource"),
        pytest.param(
            (WARNING, ""),
            79,
            [waiver("IST0169", "DestinationRule shop/db")],
            ["istioctl x precheck, IST0169"],
            id="F02-other",
        ),
        pytest.param((WARNING, ""), 79, [waiver("IST0001")], ["istioctl x precheck, IST0169"], id="F02-other-code"),
        pytest.param((WARNING, ""), 79, [waiver("PRECHECK")], ["istioctl x precheck, IST0169"], id="F02-not-all"),
        pytest.param(("", UNREACHABLE), 1, [], ["istioctl x precheck, PRECHECK: Error: Get"], id="unreachable"),
        pytest.param(("", UNREACHABLE), 1, [waiver("PRECHECK")], [], id="failure-waived"),
    ],
)
def test_what_a_precheck_stops(
    streams: tuple[str, str], rc: int, waivers: list[dict[str, str]], begins: list[str]
) -> None:
    found = gates.precheck_blockers(dict(precheck_result(*streams, rc)), waivers)
    assert len(found) == len(begins)
    for line, begin in zip(found, begins, strict=True):
        assert line.startswith(begin)


# --- tags read back ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", ["default", "prod-stable"])
def test_the_recorded_tags_read_back_well(tag: str) -> None:
    assert gates.tag_errors_after(facts("start"), tag, OLD) == []
    assert gates.tag_errors_after(facts("after_move_tags"), tag, NEW) == []


def test_a_tag_on_the_wrong_side() -> None:
    assert gates.tag_errors_after(facts("after_install"), "prod-stable", NEW) == [
        f"webhook istio-revision-tag-prod-stable points to {OLD}",
        f"webhook istio-revision-tag-prod-stable sends its requests to istiod-{OLD}, expected istiod-{NEW}",
    ]


def test_a_tag_whose_webhook_calls_another_istiod() -> None:
    found = facts("after_move_tags")
    row = next(i for i in found["injectors"] if i["tag"] == "prod-stable")
    row["entries"][0]["service"] = f"istiod-{OLD}"
    assert gates.tag_errors_after(found, "prod-stable", NEW)[0].endswith(f"expected istiod-{NEW}")
    row["entries"] = []
    assert gates.tag_errors_after(found, "prod-stable", NEW)[0].endswith(f"to nothing, expected istiod-{NEW}")


def test_a_finished_cluster_with_an_old_injector_left_is_told() -> None:
    # case I04
    found = facts("finished")
    found["injectors"] += [i for i in facts("start")["injectors"] if i["revision"] == OLD and not i["tag"]]
    assert [e.split(":")[0] for e in gates.start_errors(found, wants())] == [f"webhook istio-sidecar-injector-{OLD}"]


def test_a_tag_may_not_have_the_name_of_any_revision() -> None:
    # case E03
    found = facts("start")
    set_tag(found, "prod-stable", OLD)
    found["control_planes"].append({**found["control_planes"][0], "revision": "prod-stable"})
    assert any("the tag would hijack it" in e for e in gates.start_errors(found, wants()))


def test_webhook_and_service_disagree() -> None:
    found = facts("after_move_tags")
    set_tag(found, "prod-stable", OLD, only="services")
    assert gates.tag_errors_after(found, "prod-stable", NEW) == [f"its webhook and its Service disagree: {OLD}, {NEW}"]


def test_an_empty_ca_bundle() -> None:  # case H08
    found = facts("after_move_tags")
    row = next(i for i in found["injectors"] if i["tag"] == "prod-stable")
    row["entries"][1]["ca"] = ""
    assert gates.tag_errors_after(found, "prod-stable", NEW) == [
        "webhook istio-revision-tag-prod-stable has no caBundle"
    ]


def with_auto(found: Facts, tag: str = "default") -> Facts:
    """Let a tag's webhook answer for namespaces without any label too (enableNamespacesByDefault)."""
    row = next(i for i in found["injectors"] if i["tag"] == tag)
    row["entries"].append(row["entries"][0] | {"name": "auto.sidecar-injector.istio.io"})
    return found


def test_a_tag_answers_for_what_it_answered_for_before() -> None:  # case D08
    before, after = with_auto(facts("after_canary")), facts("after_move_tags")
    assert gates.injects_unlabelled(before, "default")
    assert not gates.injects_unlabelled(before, "prod-stable")
    assert gates.tag_errors_after(after, "default", NEW, before) == [
        "its webhook had an entry auto.sidecar-injector.istio.io before and has none now: namespaces without a label "
        "would lose injection"
    ]
    assert gates.tag_errors_after(with_auto(facts("after_move_tags")), "default", NEW, before) == []
    assert gates.tag_errors_after(with_auto(after), "default", NEW, facts("after_canary")) == [
        "its webhook has a new entry auto.sidecar-injector.istio.io: namespaces without a label would be injected"
    ]


def test_a_default_tag_takes_over_all_that_a_plain_install_answered_for() -> None:  # case D08
    before = facts("start")
    plain = next(i for i in before["injectors"] if i["tag"] == "default") | {"tag": "", "revision": "default"}
    before["injectors"] = [i for i in before["injectors"] if i["tag"] != "default"] + [plain]
    after = facts("after_move_tags")
    assert gates.tag_errors_after(after, "default", NEW, before) == []
    plain["entries"] = [*plain["entries"], plain["entries"][0] | {"name": "auto.sidecar-injector.istio.io"}]
    assert gates.injects_unlabelled(before, "default")
    assert len(gates.tag_errors_after(after, "default", NEW, before)) == 1
    plain["entries"][-1]["deactivated"] = True
    assert gates.tag_errors_after(after, "default", NEW, before) == []


def test_a_tag_that_is_new_has_nothing_to_keep() -> None:  # case D08
    before = facts("start")
    drop_tag(before, "default")
    assert gates.tag_errors_after(facts("after_move_tags"), "default", NEW, before) == []


def test_a_tag_without_a_webhook_or_with_two() -> None:
    found = facts("after_move_tags")
    found["injectors"] += [i for i in found["injectors"] if i["tag"] == "prod-stable"]
    assert gates.tag_errors_after(found, "prod-stable", NEW) == ["2 webhooks carry it"]
    found["injectors"] = [i for i in found["injectors"] if i["tag"] != "prod-stable"]
    assert gates.tag_errors_after(found, "prod-stable", NEW) == ["0 webhooks carry it"]


def test_default_brings_its_validator() -> None:
    found = facts("after_move_tags")
    _validator_left(found)
    assert gates.tag_errors_after(found, "default", NEW) == [
        f"the default validator sends its requests to istiod-{OLD}, expected istiod-{NEW}"
    ]
    assert gates.tag_errors_after(found, "prod-stable", NEW) == []
    found["validators"] = []
    assert "to nothing, expected" in gates.tag_errors_after(found, "default", NEW)[0]


def test_tags_are_found_by_label_not_by_name() -> None:  # case H09
    found = facts("start")
    for row in found["injectors"]:
        row["name"] += "-custom-istio-system"
    for row in found["validators"]:
        row["name"] += "-custom-istio-system"
    assert gates.tag_errors_after(found, "default", OLD) == []


# --- prune -------------------------------------------------------------------------------------------------


def test_what_an_install_would_prune() -> None:
    def thing(kind: str, name: str, namespace: str = "") -> dict[str, str]:
        return {"kind": kind, "namespace": namespace, "name": name}

    live = [
        thing("Deployment", "istiod", "a"),
        thing("Service", "gateway", "a"),
        thing("ClusterRole", "reader"),
    ]
    assert gates.prune_takes(live, live) == []
    assert gates.prune_takes(live, live[:1]) == ["ClusterRole reader", "Service a/gateway"]
    assert gates.prune_takes(live[:1], [thing("Deployment", "istiod", "b")]) == ["Deployment a/istiod"]
    assert gates.prune_takes([], live) == []


# --- soak --------------------------------------------------------------------------------------------------

LAST_MOVE = 1796083359.914669  # the recorded drill, after the recorded tag move


@pytest.mark.parametrize(
    ("soak", "later", "left"),
    [
        pytest.param(0, 1, 0, id="none-wanted"),
        pytest.param(100, 40, 60, id="under-way"),
        pytest.param(100, 100, 0, id="over"),
        pytest.param(100, 5000, 0, id="long-over"),
    ],
)
def test_soak(soak: int, later: int, left: int) -> None:
    assert gates.soak_left(drilled(), wants(mesh_soak_before_uninstall=soak), LAST_MOVE + later) == left


def test_the_soak_of_a_mesh_without_a_recorded_move_is_whole() -> None:
    desired = wants(mesh_soak_before_uninstall=100)
    assert gates.soak_left(facts("after_canary"), desired, LAST_MOVE) == 100
    assert gates.soak_left(facts("after_move_tags"), desired, 1796083291.789351 + 30) == 70


# --- what is stale, and for whom ---------------------------------------------------------------------------


def stale_mesh() -> Facts:
    """The mesh after the tags moved, with stale workloads of every kind."""
    found = facts("after_move_tags")
    found["workloads"] += [
        row_of("shop", "a"),
        row_of("shop", "b", kind="StatefulSet"),
        row_of("shop", "c", kind="DaemonSet"),
        row_of("shop", "g01", paused=True),
        row_of("shop", "g04", kind="StatefulSet", strategy="OnDelete"),
        row_of("shop", "b15", kind="StatefulSet", managed_by="Kafka/main"),
        row_of("shop", "job", kind="Job"),
        row_of("canary", "d"),
        row_of("default", "never", NEW),
    ]
    return found


def test_stale_moves() -> None:
    assert gates.stale_moves(stale_mesh(), wants(), ["shop"]) == [
        {"kind": "Deployment", "namespace": "shop", "name": "a", "revision": NEW},
        {"kind": "StatefulSet", "namespace": "shop", "name": "b", "revision": NEW},
        {"kind": "DaemonSet", "namespace": "shop", "name": "c", "revision": NEW},
    ]
    assert gates.stale_moves(facts("after_move_tags"), wants(), ["shop", "canary"]) == []


def test_born_meanwhile() -> None:
    assert [m["name"] for m in gates.born_meanwhile(stale_mesh(), wants())] == ["a", "b", "c", "d"]
    assert gates.born_meanwhile(drilled(), wants()) == []
    # while the tag still points back, nothing is to be moved forward
    back = stale_mesh()
    set_tag(back, "prod-stable", OLD)
    assert gates.born_meanwhile(back, wants()) == []


def test_what_is_left_to_a_person() -> None:
    found = stale_mesh()
    found["loose_pods"] += [
        loose(),
        loose(name="gateway", image="auto", revision=""),  # case B07
        loose(name="over", live=False),
    ]
    assert gates.for_a_person(found, wants()) == [
        "Deployment shop/g01: it is paused",
        "StatefulSet shop/g04: its update strategy is OnDelete",
        "StatefulSet shop/b15: it belongs to Kafka/main, which would undo or repeat a restart",
        "Job shop/job: Job pods are not restarted",
        "pod shop/bare: no workload restarts it",
        "pod shop/gateway: it was not injected (image auto)",
    ]


# --- small figures -----------------------------------------------------------------------------------------


def test_counts() -> None:
    found = facts("after_canary")
    assert gates.counts(found) == {"workloads": 2, "proxies": 3}
    assert gates.counts(found, ["canary"]) == {"workloads": 1, "proxies": 1}
    workload(found, "web")["proxies"][0]["terminating"] = True
    assert gates.counts(found)["proxies"] == 1


def test_the_proof_of_a_drill_is_valid_at_once() -> None:
    found, desired = drilled(), wants()
    rows = [{"kind": "Deployment", "namespace": "shop", "name": "web"}]
    proof = gates.drill_proof(found, desired, rows, "2026-12-01T00:02:39Z")
    assert proof == journal(found, "rollback-drill")["proof"]
    other = copy.deepcopy(found)
    journal(other, "rollback-drill")["proof"] = gates.drill_proof(found, desired | {"operator_sha256": "0"}, rows, "")
    assert gates.uninstall_blockers(other, desired) != []
