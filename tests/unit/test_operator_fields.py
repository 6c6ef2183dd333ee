"""Misspelt fields of an operator file are found where they stand, with the name that was meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from mesh_logic.checks.operator_fields import unknown_fields

ROOT = Path(__file__).resolve().parents[2]

CASES: list[tuple[str, list[tuple[str, str]]]] = [
    ("hubb: example", [("spec.hubb", "hub")]),
    ("components: {pilots: {}}", [("spec.components.pilots", "pilot")]),
    ("components: {pilot: {enable: true}}", [("spec.components.pilot.enable", "enabled")]),
    ("components: {pilot: {k8s: {resource: {}}}}", [("spec.components.pilot.k8s.resource", "resources")]),
    (
        "components: {ingressGateways: [{name: a}, {name: b, labels: {}}]}",
        [("spec.components.ingressGateways[1].labels", "label")],
    ),
    # seed 000's incident in one letter: istioctl takes it, istiod reads past it
    ("meshConfig: {accessLogfile: /dev/stdout}", [("spec.meshConfig.accessLogfile", "accessLogFile")]),
    (
        "meshConfig: {outBoundTrafficPolicy: {mode: REGISTRY_ONLY}}",
        [("spec.meshConfig.outBoundTrafficPolicy", "outboundTrafficPolicy")],
    ),
    ("meshConfig: {defaultConfig: {conccurency: 2}}", [("spec.meshConfig.defaultConfig.conccurency", "concurrency")]),
    ("values: {meshConfig: {zzz: 1}}", [("spec.values.meshConfig.zzz", "")]),
    # what is no misspelling: names as the .proto file has them, free maps, the charts' own values, nothing at all
    ("meshConfig: {access_log_file: /dev/stdout, mesh_mTLS: {}}", []),
    ("meshConfig: {defaultConfig: {proxyMetadata: {ANY_NAME: x}}}", []),
    ("values: {pilot: {extraContainerArgs: []}, anything: {}}", []),
    ("components: {pilot: null, ingressGateways: null}\nmeshConfig: null", []),
]


@pytest.mark.parametrize(("spec", "found"), CASES)
def test_a_field_that_istio_does_not_know(spec: str, found: list[tuple[str, str]]) -> None:
    assert list(unknown_fields(yaml.safe_load(spec))) == found


@pytest.mark.parametrize("path", sorted(ROOT.glob("inventories/*/files/*.yaml")), ids=lambda path: path.parts[-3])
def test_the_files_of_this_project_have_none(path: Path) -> None:
    spec: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
    assert list(unknown_fields(spec)) == []
