"""Webhooks without Istio's labels that call an istiod: seen by the reader, refused where they inject twice, guarded."""

from __future__ import annotations

import copy
from typing import Any

import mesh_read  # type: ignore[import-not-found] # mypy reads library/ in a run of its own
import pytest
from mesh_logic import foreign, gates
from mesh_logic.model import build_view
from mesh_logic.plan import step_plan

from tests.unit.mesh_stages import NEW, OLD, facts, wants

Facts = dict[str, Any]
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
PODS = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def hook(service: str = f"istiod-{OLD}", namespace: Any = None, pod: Any = None, **more: Any) -> dict[str, Any]:
    """Return an entry as `istioctl tag set prod-stable` makes it."""
    selector = [term("istio.io/rev", "In", "prod-stable"), term("istio-injection", "DoesNotExist")]
    return {
        "name": "rev.namespace.sidecar-injector.istio.io",
        "clientConfig": {"service": {"name": service, "namespace": "istio-system", "path": "/inject"}},
        "namespaceSelector": {"matchExpressions": selector if namespace is None else namespace},
        "objectSelector": pod or {"matchExpressions": [term("sidecar.istio.io/inject", "NotIn", "false")]},
        "rules": PODS,
    } | more


def webhook(*hooks: dict[str, Any], name: str = "by-hand", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "webhooks": list(hooks)}


class Api:
    def __init__(self, **lists: list[dict[str, Any]]) -> None:
        self.lists = lists

    def list(self, path: str) -> list[dict[str, Any]]:
        return self.lists.get(path.rsplit("/", 1)[1], [])


def read(**lists: list[dict[str, Any]]) -> Facts:
    found: Facts = mesh_read.read_webhooks(Api(**lists))
    return found


def test_the_reader_sees_a_tag_webhook_that_was_copied_without_its_labels() -> None:
    found = read(
        mutatingwebhookconfigurations=[
            webhook(hook(), name="istio-revision-tag-x", app="sidecar-injector", **{"istio.io/rev": OLD}),
            webhook(hook()),
            webhook(hook("other-injector"), name="not-istio"),
        ],
        validatingwebhookconfigurations=[
            webhook(hook(rules=[]), name="istiod-default-validator"),
            webhook(hook(rules=[]), name="validator-copy"),
            webhook({"name": "x", "clientConfig": {"url": "https://x"}}, name="somebody-else"),
        ],
    )
    assert [row["name"] for row in found["injectors"]] == ["istio-revision-tag-x"]
    assert [row["name"] for row in found["validators"]] == ["istiod-default-validator"]
    assert [(row["kind"], row["name"]) for row in found["foreign_webhooks"]] == [
        ("MutatingWebhookConfiguration", "by-hand"),
        ("ValidatingWebhookConfiguration", "validator-copy"),
    ]


NO_LABEL = [term("istio.io/rev", "DoesNotExist"), term("istio-injection", "DoesNotExist")]


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        pytest.param(hook(), ["prod-stable"], id="namespace-label"),
        pytest.param(hook(namespace=NO_LABEL, pod={"matchLabels": {"istio.io/rev": "blue"}}), ["blue"], id="pod-label"),
        pytest.param(hook(namespace=[term("istio-injection", "In", "enabled")]), ["default"], id="istio-injection"),
        pytest.param(
            hook(namespace=NO_LABEL, pod={"matchExpressions": [term("sidecar.istio.io/inject", "In", "true")]}),
            ["default"],
            id="inject-true",
        ),
        pytest.param(hook(rules=[{"operations": ["CREATE"], "resources": ["secrets"]}]), [], id="not-for-pods"),
        pytest.param(hook(rules=[{"operations": ["UPDATE"], "resources": ["pods"]}]), [], id="not-for-new-pods"),
        pytest.param(hook(rules=[{"operations": ["*"], "resources": ["*"]}]), ["prod-stable"], id="for-everything"),
        pytest.param(hook(rules=None), [], id="no-rules"),
        pytest.param(hook(namespace=[term("proof", "In", "x")]), [], id="a-label-of-its-own"),
        pytest.param(
            hook(pod={"matchLabels": {"istio.io/deactivated": "never-match"}}), [], id="deactivated-by-a-default-tag"
        ),
    ],
)
def test_what_a_foreign_webhook_answers_for(entry: dict[str, Any], names: list[str]) -> None:
    row = read(mutatingwebhookconfigurations=[webhook(entry)])["foreign_webhooks"][0]
    assert foreign.names_claimed(row) == names


def with_copy(stage: str, **change: Any) -> Facts:
    return facts(stage) | {"foreign_webhooks": read(**{MUTATING: [webhook(hook(**change))]})["foreign_webhooks"]}


@pytest.mark.parametrize("from_start", [False, True], ids=["for-real", "check-mode"])
@pytest.mark.parametrize(
    ("stage", "step"), [("start", "precheck"), ("start", "install"), ("after_canary", "move_tags")]
)
def test_two_injectors_for_the_same_pods_stop_a_step(stage: str, step: str, from_start: bool) -> None:  # case H02
    plan = step_plan(with_copy(stage), wants(), step, from_start)
    assert plan["state"] == "refused"
    assert plan["refused"].startswith("MutatingWebhookConfiguration by-hand: it carries no label of Istio")
    assert "answers for istio.io/rev=prod-stable as istio-revision-tag-prod-stable does" in plan["refused"]
    assert "Next: kubectl delete mutatingwebhookconfiguration by-hand, once you know what made it" in plan["refused"]
    harmless = with_copy(stage, namespace=[term("istio.io/rev", "In", "blue")])
    assert step_plan(harmless, wants(), step, from_start)["state"] == "todo"


def test_two_foreign_injectors_overlap_too() -> None:  # case H02
    blue = hook(namespace=[term("istio.io/rev", "In", "blue")])
    hooks = [webhook(blue, name="one"), webhook(blue, name="two")]
    found = facts("start") | {"foreign_webhooks": read(**{MUTATING: hooks})["foreign_webhooks"]}
    assert len(foreign.overlapping(found)) == 2
    assert "as two does" in foreign.overlapping(found)[0]


def asked(stage: str = "after_rollback_drill") -> Facts:
    """Return facts with which nothing blocks the removal."""
    return facts(stage) | {"xds": {}, "references": []}


@pytest.mark.parametrize("kind", [MUTATING, VALIDATING])
def test_the_guard_of_the_uninstall_sees_foreign_webhooks_of_both_kinds(kind: str) -> None:
    found = asked()
    assert gates.uninstall_blockers(found, wants()) == []
    found["foreign_webhooks"] = read(**{kind: [webhook(hook(namespace=[]))]})["foreign_webhooks"]
    blockers = gates.uninstall_blockers(found, wants())
    assert len(blockers) == 1
    assert blockers[0].startswith(f"webhook by-hand: sends its requests to the old Service istiod-{OLD}")
    found["foreign_webhooks"][0]["entries"][0]["service"] = f"istiod-{NEW}"
    assert gates.uninstall_blockers(found, wants()) == []


def test_a_copy_that_lost_only_its_tag_is_not_the_revisions_own_injector() -> None:
    found = asked()
    own = next(row for row in found["injectors"] if row["revision"] == OLD and not row["tag"])
    found["injectors"].append(copy.deepcopy(own) | {"name": "copy", "managed": False})
    for order in (found["injectors"], found["injectors"][::-1]):
        assert build_view(found | {"injectors": order})["revisions"][OLD]["injector"] == own["name"]
    blockers = gates.uninstall_blockers(found, wants())
    assert [line.split(":")[0] for line in blockers] == ["webhook copy"], "the removal would leave it, calling nobody"
