"""What istioctl printed: cases C09, C12, C13, F01, F03, I02."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import mesh_upgrade
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mesh_logic.errors import MeshError
from mesh_logic.istioctl_output import (
    istioctl_version,
    overlapping_webhooks,
    precheck_result,
    proxy_status,
    uninstall_warnings,
    without_ansi,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "istioctl"


def fixture(name: str) -> str:
    return (FIXTURES / name).read_text()


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        pytest.param("\x1b[1;31mError\x1b[0m x\n", "Error x\n", id="C13-colour"),
        pytest.param("\x1b[32m✔\x1b[0m done \x1b[2K\n", "✔ done \n", id="C13-check-mark"),
        pytest.param("a\r\nb\rc", "a\nb\nc", id="line-ends"),
        pytest.param("\x1b]0;title\x07x\x1b]8;;http://e\x1b\\y\x1b(B", "xy", id="titles-and-links"),
        pytest.param("a\x00b\x08c\td", "abc\td", id="control"),
        pytest.param("⛵️ 🧠", "⛵️ 🧠", id="pictures-stay"),
    ],
)
def test_strip_ansi(text: str, plain: str) -> None:
    assert without_ansi(text) == plain


@settings(max_examples=100, deadline=None)
@given(st.text(string.printable, max_size=40))
def test_stripping_twice_is_stripping_once(text: str) -> None:
    once = without_ansi(f"\x1b[33m{text}\x1b[0m")
    assert without_ansi(once) == once


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        pytest.param(
            "proxy-status-1.12.txt",
            [
                ("client-7d9f.canary", "", "istiod-6c86-x2x7k", "1.12.9"),
                ("web-0.shop", "", "istiod-6c86-x2x7k", "1.12.9"),
            ],
            id="1.12",
        ),
        pytest.param("proxy-status-1.13.txt", [("web-0.shop", "Kubernetes", "istiod-6c86-x2x7k", "1.13.2")], id="1.13"),
        pytest.param(
            "proxy-status-1.26.txt",
            [
                ("client-7d9f.canary", "Kubernetes", "istiod-1-26-4-6c86-x2x7k", "1.26.4"),
                ("web-0.shop", "Kubernetes", "istiod-1-26-4-6c86-x2x7k", "1.26.4"),
            ],
            id="C09-1.26",
        ),
        pytest.param(
            "proxy-status-1.27.txt",
            [
                ("client-7d9f.canary", "Kubernetes", "istiod-1-26-4-6c86-x2x7k", "1.26.4"),
                ("web-0.shop", "Kubernetes", "istiod-1-26-4-6c86-x2x7k", "1.26.4"),
            ],
            id="C09-1.27",
        ),
        pytest.param(
            "proxy-status-1.31-verbose.txt",
            [("web-0.shop", "Kubernetes", "istiod-1-31-0-6c86-x2x7k", "1.31.0")],
            id="1.31-verbose",
        ),
        pytest.param(
            "proxy-status-1.31.json",
            [
                ("web-0.shop", "Kubernetes", "istiod-1-30-5-a", "1.30.5"),
                ("web-1.shop", "Kubernetes", "istiod-1-30-5-a", "1.30.5"),
                ("client-7d9f.canary", "Kubernetes", "istiod-1-31-0-b", "1.31.0"),
            ],
            id="json-documents",
        ),
    ],
)
@pytest.mark.parametrize("before", ["", "W1130 a warning\n"])
def test_proxy_status(name: str, rows: list[tuple[str, ...]], before: str) -> None:
    found = proxy_status(before + fixture(name))
    assert [(row["name"], row["cluster"], row["istiod"], row["version"]) for row in found] == rows


def test_cells_with_spaces_stay_whole() -> None:
    columns = proxy_status(fixture("proxy-status-1.26.txt"))[1]["columns"]
    assert (columns["LDS"], columns["EDS"]) == ("STALE (Never Acknowledged)", "NOT SENT")
    assert proxy_status(fixture("proxy-status-1.27.txt"))[0]["columns"]["SUBSCRIBED TYPES"] == "4 (CDS,LDS,EDS,RDS)"
    assert proxy_status(fixture("proxy-status-1.31.json"))[0]["columns"] == {
        "Cluster": "SYNCED",
        "Listener": "STALE",
    }


def test_nobody_connected() -> None:
    header = fixture("proxy-status-1.27.txt").split("\n", maxsplit=1)[0]
    assert proxy_status(header + "\n") == []
    assert proxy_status('{"controlPlane": {"identifier": "istiod"}}') == []


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param('Error: no running Istio pods in "istio-system"\n', "name the revision", id="no-istiod"),
        pytest.param("Error: Unauthorized\n", "Unauthorized", id="error"),
        pytest.param("something else\n", "neither its table nor its JSON", id="other"),
        pytest.param(
            "NAME CLUSTER ISTIOD VERSION SUBSCRIBED TYPES\nweb.shop Kubernetes istiod-a 1.26.4 4 (CDS,LDS)\n",
            "does not fit",
            id="C09-collapsed-columns",
        ),
        pytest.param('{"resources": [{"node": {"id": "x"}}]}', "has the id", id="odd-node"),
        pytest.param('{"kind": "List"}', "no answer of proxy-status", id="other-json"),
        pytest.param('{"resources": [', "cut or broken", id="cut-json"),
        pytest.param(12, "quote it", id="number"),
    ],
)
def test_proxy_status_refuses(text: object, cause: str) -> None:
    with pytest.raises(MeshError, match=cause):
        proxy_status(text)


def test_version_text() -> None:  # case C12
    assert istioctl_version(fixture("version-mixed.txt")) == {
        "client": "1.31.0",
        "mesh": [{"revision": None, "version": v} for v in ("1.30.5", "1.30.5", "1.31.0")],
        "dataplane": {"1.30.5": 6, "1.31.0": 3},
        "state": "running",
    }


def test_version_json() -> None:  # case C12
    assert istioctl_version(fixture("version-mixed.json")) == {
        "client": "1.31.0",
        "mesh": [{"revision": "1-30-5", "version": "1.30.5"}, {"revision": "1-31-0", "version": "1.31.0"}],
        "dataplane": {"1.30.5": 2, "1.31.0": 1},
        "state": "running",
    }


@pytest.mark.parametrize(
    ("text", "state"),
    [
        pytest.param(fixture("version-none.txt"), "no_running_pods", id="C12-no-running"),
        pytest.param('no running Istio pods in "istio-system"\n', "no_running_pods", id="C12-without-client"),
        pytest.param(
            'Istio is not present in the cluster: x\n{"clientVersion": {"version": "1.31.0"}}',
            "not_present",
            id="not-present-json",
        ),
        pytest.param("client version: 1.31.0\n", "not_asked", id="client-only"),
    ],
)
def test_version_states(text: str, state: str) -> None:
    found = istioctl_version(text)
    assert (found["state"], found["mesh"], found["dataplane"]) == (state, [], {})


def test_version_collapsed_and_long() -> None:
    text = 'client version: version.BuildInfo{Version:"1.31.0", Tag:"a"}\ncontrol plane version: 1.31.0\n'
    found = istioctl_version(text + "data plane version: 1.31.0 (1 proxy)\n")
    assert (found["client"], found["mesh"], found["dataplane"]) == (
        "1.31.0",
        [{"revision": None, "version": "1.31.0"}],
        {"1.31.0": 1},
    )
    assert istioctl_version("client version: 1.31.0\ndata plane version: none\n")["dataplane"] == {}


@pytest.mark.parametrize("text", ["", "command not found", "{}", '{"clientVersion": '])
def test_version_refuses(text: str) -> None:
    with pytest.raises(MeshError):
        istioctl_version(text)


@pytest.mark.parametrize("name", ["version-client.json", "version-client-long.txt"])
def test_recorded_client_version(name: str) -> None:
    # A binary built without version stamps calls itself "unknown": an answer that equals no version.
    found = istioctl_version(fixture(f"recorded/{name}"))
    assert (found["client"], found["state"]) == ("unknown", "not_asked")


def test_recorded_precheck_of_an_unreachable_cluster() -> None:
    found = precheck_result("", fixture("recorded/precheck-unreachable.stderr.txt"), 1)
    assert (found["level"], found["clean"]) == ("error", False)
    assert "connection refused" in found["messages"][0]["text"]


INFO = "Info\x1b[0m [IST0136] (Pod web-0.shop) an alpha annotation\n"
CLEAN = fixture("precheck-clean.stderr.txt")


@pytest.mark.parametrize(
    ("stdout", "stderr", "rc", "level", "clean", "codes"),
    [
        pytest.param("", CLEAN, 0, "none", True, [], id="F01-clean-is-on-stderr"),
        pytest.param(INFO, "", 0, "info", True, ["IST0136"], id="F03-info-does-not-stop"),
        pytest.param(
            fixture("precheck-mixed.stdout.txt"),
            fixture("precheck-mixed.stderr.txt"),
            1,
            "error",
            False,
            ["IST0169", "IST0136", "IST0142"],
            id="F03-mixed",
        ),
        pytest.param("Warning [IST0169] (DestinationRule a/b) x", "", 1, "warning", False, ["IST0169"], id="warning"),
        pytest.param(fixture("precheck.json"), "Error: Issues found", 1, "error", False, ["IST0141"], id="json"),
        pytest.param("[]", CLEAN, 0, "none", True, [], id="json-empty"),
        pytest.param("", CLEAN, 1, "warning", False, [""], id="hidden-by-threshold"),
        pytest.param("", "Error: connection refused\n", 1, "error", False, [""], id="cluster-unreachable"),
        pytest.param("", "", 1, "error", False, [""], id="failed-without-a-word"),
        pytest.param("", "", 0, "error", False, [""], id="F01-zero-is-no-proof"),
        pytest.param("Warning [IST0169] no resource here", "", 0, "warning", False, ["IST0169"], id="rc-0-warning"),
    ],
)
def test_precheck(stdout: str, stderr: str, rc: int, *, level: str, clean: bool, codes: list[str]) -> None:
    found = precheck_result(stdout, stderr, rc)
    assert (found["level"], found["clean"], found["rc"]) == (level, clean, rc)
    assert [message["code"] for message in found["messages"]] == codes
    assert f"rc={rc}" in found["text"]  # case F01: never empty
    assert "\x1b" not in found["text"]


def test_precheck_keeps_all_text_and_resources() -> None:
    found = precheck_result(fixture("precheck-mixed.stdout.txt"), fixture("precheck-mixed.stderr.txt"), 1)
    assert [message["resource"] for message in found["messages"]] == [
        "DestinationRule shop/web",
        "Pod web-0.shop",
        "Cluster",
    ]
    assert found["messages"][0]["text"] == "behaviour changed (see notes)"
    for part in ("IST0169", "IST0136", "IST0142", "Error: Issues found", "rc=1"):
        assert part in found["text"]
    assert "No issues found" in precheck_result("", CLEAN, 0)["text"]
    two_lines = precheck_result("Warning [IST0169] (A b) one\n  two\n", "", 1)
    assert two_lines["messages"][0]["text"] == "one two"
    assert "connection refused" in precheck_result("", "Error: connection refused", 1)["messages"][0]["text"]


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        ((None, "", 0), "stdout of precheck"),
        (("", 1, 0), "stderr of precheck"),
        (("", "", "0"), "an integer is needed"),
        (("", "", True), "an integer is needed"),
        (('[{"code": "x"}]', "", 1), "has no level"),
        (('[{"code": "x"', "", 1), "cut or broken"),
    ],
)
def test_precheck_refuses(arguments: tuple[Any, Any, Any], cause: str) -> None:
    with pytest.raises(MeshError, match=cause):
        precheck_result(*arguments)


OLD_WORDING = (
    "There are still proxies pointing to the control plane revision 1-8:\n"
    "a.b \nc.d. If you proceed with the uninstall, these proxies will become detached"
)


def test_uninstall_with_connected_proxies() -> None:  # case I02
    first, second = uninstall_warnings(fixture("uninstall-connected.txt"))
    assert (first["kind"], first["revision"], first["count"]) == ("proxies_connected", "1-30-5", 2)
    assert first["names"] == ["web-0.shop", "client-7d9f.canary"]
    assert (second["kind"], second["names"]) == (
        "gateways_removed",
        ["istio-ingressgateway", "istio-egressgateway"],
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param(
            "There are still 5 proxies pointing to the control plane revision 1-30-5",
            "proxies_connected",
            id="I02",
        ),
        pytest.param(
            OLD_WORDING,
            "proxies_connected",
            id="I02-old-wording",
        ),
        pytest.param(
            "Unable to find any proxies pointing to the 1-30-5 control plane. This may be because",
            "proxies_unknown",
            id="I02-unreachable",
        ),
        pytest.param("No resources will be pruned from the cluster.", "nothing_pruned", id="nothing"),
        pytest.param("Error: could not find target revision 1-30-5", "revision_missing", id="missing"),
    ],
)
def test_uninstall_sentences(text: str, kind: str) -> None:
    (found,) = uninstall_warnings(f"\x1b[1m{text}\x1b[0m\n✔ Uninstall complete\n")
    assert found["kind"] == kind


def test_uninstall_details_and_silence() -> None:
    old = OLD_WORDING
    assert uninstall_warnings(old)[0]["names"] == ["a.b", "c.d"]
    assert uninstall_warnings("  Removed apps/v1, Kind=Deployment/istiod.x.\n✔ Uninstall complete\n") == []
    assert json.dumps(uninstall_warnings(old))  # plain types only


# What istioctl 1.31 printed on the lab, over two lines, for a tag's webhook and its copy.
CLASH = (FIXTURES / "recorded" / "tag-set-overlap.stderr.txt").read_text(encoding="utf-8")
SEVERAL = (
    "Error [IST0139] (MutatingWebhookConfiguration a) Webhook overlaps with others: [c/x.istio.io,b/y.istio.io]. "
    "This may cause injection to occur twice."
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(CLASH, ["by-hand", "istio-revision-tag-prod-stable"], id="H02-recorded"),
        pytest.param(f"\x1b[31m{SEVERAL}\x1b[0m", ["a", "b", "c"], id="H02-several-and-colours"),
        pytest.param("Error [IST0132] (VirtualService a.b) overlaps with [x]", [], id="another-message"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_overlapping_webhooks_are_named(text: str, names: list[str]) -> None:  # case H02
    assert overlapping_webhooks(text) == names


def test_the_reason_of_a_failed_task_names_overlapping_webhooks() -> None:  # case H02
    said = mesh_upgrade.reason({"msg": "non-zero return code", "stderr": CLASH, "rc": 1})
    assert said.startswith(
        "Overlapping webhooks, of which nothing was deleted: by-hand and istio-revision-tag-prod-stable. It said: "
        "non-zero return code: creating tag would conflict"
    )
    assert "\n" not in said
    assert mesh_upgrade.reason({"msg": "no"}) == "no"
