"""What istioctl 1.31 really printed on the lab, after the drill, with both revisions installed."""

from __future__ import annotations

from pathlib import Path

from mesh_logic.istioctl_output import istioctl_version, proxy_status
from mesh_logic.tags import revision_tags, tag_map

from tests.unit.mesh_stages import FIXTURES, NEW, OLD, facts

RECORDED = FIXTURES / "istioctl" / "recorded"
TAGS = [
    {"tag": "", "revision": OLD, "namespaces": []},
    {"tag": "default", "revision": NEW, "namespaces": []},
    {"tag": "prod-stable", "revision": NEW, "namespaces": ["canary", "shop"]},
]


def recorded(name: str) -> str:
    return Path(RECORDED / f"lab-1.31-drilled-{name}.txt").read_text(encoding="utf-8")


def test_tag_list_table_and_json_say_the_same() -> None:  # cases C01, C02
    assert revision_tags(recorded("tag_list")) == TAGS
    assert revision_tags(recorded("tag_list_-o_json")) == TAGS


def test_the_tags_are_those_that_the_modules_read() -> None:
    services = facts("after_rollback_drill")["services"]
    read = {s["tag"]: s["revision"] for s in services if s["tag"]}
    assert tag_map(revision_tags(recorded("tag_list"))) == read


def test_proxy_status() -> None:  # case C09
    rows = proxy_status(recorded("proxy-status"))
    assert [(r["name"], r["cluster"], r["istiod"], r["version"]) for r in rows] == [
        ("client-5c58f95796-twhpf.canary", "Kubernetes", "istiod-1-31-0-7bf55bbc95-ln47h", "1.31.0"),
        ("web-67ff8cb76d-2wxb4.shop", "Kubernetes", "istiod-1-31-0-7bf55bbc95-ln47h", "1.31.0"),
        ("web-67ff8cb76d-h46xk.shop", "Kubernetes", "istiod-1-31-0-7bf55bbc95-ln47h", "1.31.0"),
    ]
    assert {r["columns"]["SUBSCRIBED TYPES"] for r in rows} == {"4 (CDS,LDS,EDS,RDS)"}


def test_the_old_revision_serves_nobody() -> None:
    assert proxy_status(recorded("proxy-status_--revision_1-30-5")) == []


def test_version_text_and_json() -> None:  # case C12
    expected_dataplane = {"1.31.0": 3, "65536.65536.65536": 1}
    text = istioctl_version(recorded("version"))
    assert text["client"] == "1.31.0"
    assert text["mesh"] == [{"revision": None, "version": "1.31.0"}]
    assert text["dataplane"] == expected_dataplane
    assert text["state"] == "running"
    found = istioctl_version(recorded("version_-o_json"))
    assert found["client"] == "1.31.0"
    assert found["mesh"] == [{"revision": NEW, "version": "1.31.0"}]  # only the default revision is asked
    assert found["dataplane"] == expected_dataplane
