"""Several clusters: what has to hold between them, and the row that each one gets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mesh_logic.errors import MeshError
from mesh_logic.fleet import Cluster, Failure, errors, files, lines, row, seen, warnings
from mesh_logic.steps import step_role

from tests.unit.mesh_stages import CLUSTER, facts, wants

BROKEN: Failure = {"host": "a", "step": "canary", "reason": "a probe\nanswered 503"}


def cluster(host: str, **more: Any) -> Cluster:
    """Return a cluster with which nothing is wrong."""
    found: dict[str, Any] = {
        "host": host,
        "environment": "production",
        "mesh_id": "",
        "server": f"https://{host}:6443",
        "uid": f"uid-{host}",
        "wanted_uid": "",
        "from_version": "1.30.5",
        "to_version": "1.31.0",
        "running": ["1.30.5"],
        "roots": ["0a1b"],
        "evidence_dir": f"evidence/production/{host}/1.30.5-to-1.31.0",
        "finished": False,
    }
    return found | more  # type: ignore[return-value]


def two(left: dict[str, Any] | None = None, right: dict[str, Any] | None = None) -> list[Cluster]:
    """Return two clusters that share a mesh."""
    return [cluster("a", mesh_id="m", **left or {}), cluster("b", mesh_id="m", **right or {})]


@pytest.mark.parametrize("serial", [1, "2", 3, "50%", [1, "3", "100%"]])
def test_a_sound_fleet_starts(serial: object) -> None:
    assert errors([cluster("a"), cluster("b")], serial) == []
    assert errors(two(), serial) == []
    assert warnings(two()) == []


@pytest.mark.parametrize("serial", [0, -1, "", "0%", "all", "101%", [], [1, 0], None, 1.5])
def test_a_wave_has_at_least_one_cluster(serial: object) -> None:
    (found,) = errors([cluster("a")], serial)
    assert found.startswith("mesh_fleet_serial ")
    assert found.endswith("Next: -e mesh_fleet_serial=1.")


def test_one_cluster_under_two_names_is_refused() -> None:
    (found,) = errors([cluster("a"), cluster("b"), cluster("c", uid="uid-a")])
    assert found.startswith(
        "clusters a and c: they are one and the same: kube-system has the UID uid-a at https://a:6443"
    )
    assert "mesh_kubeconfig" in found


def test_two_clusters_that_are_meant_to_be_one_are_refused() -> None:
    (found,) = errors([cluster("a", wanted_uid="u"), cluster("b", wanted_uid="u")])
    assert found.startswith("clusters a and b: both have mesh_cluster_uid u")
    assert errors([cluster("a", wanted_uid="u"), cluster("b", wanted_uid="v")]) == []


def test_two_clusters_may_not_write_one_folder() -> None:
    (found,) = errors([cluster("a", evidence_dir="evidence/x"), cluster("b", evidence_dir="evidence/y/../x")])
    assert found.startswith("clusters a and b: both write their evidence to evidence/x")


def test_a_summary_of_two_environments_needs_a_place() -> None:
    mixed = [cluster("a"), cluster("b", environment="staging")]
    (found,) = errors(mixed)
    assert found.startswith("mesh_environment production, staging: ")
    assert errors(mixed, folder="evidence") == []


def test_clusters_of_one_mesh_go_to_one_minor() -> None:
    (found,) = errors(two(right={"to_version": "1.30.9"}))
    assert found.startswith('mesh "m": its clusters go to different minors: a 1.31.0, b 1.30.9')
    assert errors(two(right={"to_version": "1.31.4"})) == [], "patches of one minor may differ"
    assert errors([cluster("a"), cluster("b", to_version="1.30.9")]) == [], "meshes of their own may"


def test_clusters_of_one_mesh_stay_within_two_minors() -> None:
    assert errors(two(left={"running": ["1.29.2"]})) == []
    (found,) = errors(two(left={"running": ["1.28.8"]}))
    assert found.startswith('mesh "m": 1.28.8 in a and 1.31.0 in ')
    assert "Next: bring a nearer first, alone: --limit a." in found
    # one by one each could go; together they cannot
    assert errors([cluster("a", running=["1.28.8"]), cluster("b")]) == []


def test_clusters_of_one_mesh_share_a_root() -> None:
    (found,) = errors(two(right={"roots": ["ffff"]}))
    assert found.startswith('clusters a and b, mesh "m": they have no root certificate in common (0a1b and ffff)')
    assert errors([cluster("a"), cluster("b", roots=["ffff"])]) == [], "meshes of their own need not"


def test_a_root_that_is_being_replaced_is_told() -> None:
    rows = two(right={"roots": ["0a1b", "ffff"]})
    assert errors(rows) == []
    (found,) = warnings(rows)
    assert "they share a root certificate, and trust different ones beside it (0a1b and 0a1b, ffff)" in found


def test_a_root_that_cannot_be_read_is_told() -> None:
    rows = two(right={"roots": []})
    assert errors(rows) == []
    (found,) = warnings(rows)
    assert found.startswith('cluster b, mesh "m": it keeps no ConfigMap istio-ca-root-cert')
    assert warnings([cluster("a", roots=[])]) == []


def test_every_error_is_told_at_once() -> None:
    assert len(errors(two(right={"uid": "uid-a", "roots": ["ffff"], "to_version": "1.30.9"}), 0)) == 4


def test_what_is_seen_of_a_cluster() -> None:
    desired = wants() | {"evidence_dir": "evidence/lab/a", "mesh_id": "m"}
    found = seen(facts("after_install") | {"roots": ["0a1b"]}, desired, "a")
    assert found["uid"] == CLUSTER
    assert found["running"] == ["1.30.5", "1.31.0"]
    assert (found["host"], found["mesh_id"], found["roots"], found["finished"]) == ("a", "m", ["0a1b"], False)
    assert seen(facts("finished") | {"roots": []}, desired, "a")["finished"] is True


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({}, ("", "not touched", ""), id="before its wave"),
        pytest.param({"reached": "report", "end": "finished"}, ("report", "upgraded", ""), id="upgraded"),
        pytest.param(
            {"failure": BROKEN, "end": "unfinished"}, ("canary", "failed", "a probe answered 503"), id="failed"
        ),
        pytest.param(
            {"reached": "canary", "end": "unfinished", "reason": "the tags are not moved"},
            ("canary", "unfinished", "the tags are not moved"),
            id="stopped as asked",
        ),
        pytest.param(
            {"reached": "report", "end": "checked"}, ("report", "checked", "a check run changes nothing"), id="check"
        ),
        pytest.param(
            {"failure": BROKEN | {"host": "b"}, "reached": "install", "end": "unfinished"},
            ("install", "held", "b failed in canary"),
            id="another of its wave failed",
        ),
        pytest.param(
            {"failure": BROKEN | {"host": "b"}, "end": "unfinished"},
            ("", "not touched", "b failed in canary"),
            id="another failed first",
        ),
        pytest.param(
            {"failure": BROKEN | {"host": "b"}, "reached": "report", "end": "finished"},
            ("report", "upgraded", ""),
            id="another failed and it was done",
        ),
    ],
)
def test_the_row_of_a_cluster(arguments: dict[str, Any], expected: tuple[str, str, str]) -> None:
    found = row(cluster("a"), **arguments)
    assert (found["step"], found["outcome"], found["reason"]) == expected
    assert (found["cluster"], found["from"], found["to"]) == ("a", "1.30.5", "1.31.0")


def test_a_cluster_that_was_finished_before_has_the_row_of_one_that_is_finished_now() -> None:
    # else a run that changes nothing would rewrite the summary
    assert row(cluster("a", finished=True)) == row(cluster("a"), "report", None, "finished")


def test_the_summary_for_people_and_for_programs() -> None:
    rows = [row(cluster("a"), "report", None, "finished"), row(cluster("long-name"), "", BROKEN | {"reason": "a | b"})]
    assert lines(rows) == [
        "cluster    from    to      step reached  outcome      reason",
        "a          1.30.5  1.31.0  report        upgraded     -",
        "long-name  1.30.5  1.31.0  -             not touched  a failed in canary",
    ]
    made = files(rows, "production")
    assert "1 of 2 clusters are upgraded." in made["fleet.md"]
    assert "| a | 1.30.5 | 1.31.0 | report | upgraded | - |" in made["fleet.md"]
    assert json.loads(made["fleet.json"]) == {"environment": "production", "clusters": rows}
    broken = row(cluster("a"), "", BROKEN | {"reason": "a | b"})
    assert "| failed | a \\| b |" in files([broken], "production")["fleet.md"]


def test_a_step_that_is_none_has_no_role() -> None:
    assert step_role("move_tags") == "tag_move"
    with pytest.raises(MeshError, match='step "dance": no such step'):
        step_role("dance")
