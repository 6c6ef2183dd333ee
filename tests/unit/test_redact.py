"""Secrets are hidden wherever they stand, and what only looks like one is left."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mesh_logic.redact import redact, redact_text

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJl"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIcanary\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param(f"the token {JWT} was refused", "the token *** was refused", id="jwt"),
        pytest.param("Authorization: Bearer canary-1234567890", "Authorization: *** ***", id="header"),
        pytest.param("sent Bearer abcdef0123456789abcdef", "sent Bearer ***", id="bearer"),
        pytest.param("token: canary", "token: ***", id="kubeconfig"),
        pytest.param('{"password": "can ary", "a": 1}', '{"password": ***, "a": 1}', id="json"),
        pytest.param("client-key-data: Y2FuYXJ5", "client-key-data: ***", id="key-data"),
        pytest.param("istioctl --auth-token=canary x", "istioctl --auth-token=*** x", id="flag"),
        pytest.param("https://me:canary@shop.example/x", "https://***@shop.example/x", id="url"),
        pytest.param("https://h/x?access_token=canary&a=b", "https://h/x?access_token=***&a=b", id="query"),
        pytest.param(f"a\n{KEY}\nb", "a\n***\nb", id="private-key"),
        pytest.param(KEY[:40], "***", id="cut-private-key"),
    ],
)
def test_a_secret_is_hidden(text: str, left: str) -> None:
    assert redact_text(text) == left
    assert redact_text(left) == left


@pytest.mark.parametrize(
    "text",
    [
        "code=200\nprod_stable=1-31-0\n",
        "Bearer authentication is configured",
        "http://web.shop/ from client-5c58f95796-twhpf",
        "docker.io/istio/proxyv2@sha256:0123",
        "Secret istio-system/cacerts expires on 2027-01-01",
        "an account without the right to create serviceaccounts/token",
    ],
)
def test_what_is_none_is_left(text: str) -> None:
    assert redact_text(text) == text


def test_every_level_of_a_record_is_looked_at() -> None:
    record: dict[str, Any] = {"a": [{"b": f"x {JWT}"}, 1, None, True], "argv": ["kubectl", "--token", "canary", "get"]}
    assert redact(record) == {"a": [{"b": "x ***"}, 1, None, True], "argv": ["kubectl", "--token", "***", "get"]}


def test_a_setting_that_holds_a_secret_keeps_its_name_only() -> None:
    row = {
        "kind": "lost",
        "setting": "spec.values.pilot.env.DB_PASSWORD",
        "running": "canary1",
        "new": "canary",
        "text": "DB_PASSWORD is canary1 and would be canary",
    }
    assert "canary" not in json.dumps(redact(row))
    assert redact(row)["setting"] == row["setting"]
    other = row | {"setting": "spec.values.pilot.env.PILOT_TRACE"}
    assert redact(other)["running"] == "canary1"
