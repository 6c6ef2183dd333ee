"""A production-like cluster for the checks: two replicas, a budget, a CA that lasts. Nothing is wrong with it."""

from __future__ import annotations

import datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from mesh_logic.checks.run import after_install, before

from tests.unit.mesh_stages import NEW, OLD, OPERATOR, facts, wants

TODAY = "2026-12-01"
NOW = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
CA = "85683ca08b19"
KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(days: int) -> str:
    """Return a CA certificate that ends some days from NOW, as PEM."""
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "cluster.local")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW - datetime.timedelta(days=900))
    made = builder.not_valid_after(NOW + datetime.timedelta(days=days)).sign(KEY, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM).decode()


LASTING = certificate(3000)


def inspected() -> dict[str, Any]:
    """Return what `mesh_inspect` says about a cluster where all is well."""
    labels = {"canary": {"tier": "first"}, "shop": {"tier": "shop"}, "istio-system": {}}
    budget = {"namespace": "istio-system", "name": f"istiod-{OLD}", "revision": OLD, "expressions": [], "holds": []}
    return {
        "incomplete": "",
        "rights": [],
        "objects": [],
        "operators": [],
        "owners": [],
        "leftovers": [{"kind": "ConfigMap", "name": f"istio-{OLD}", "revision": OLD}],
        "daemon_sets": [{"kind": "DaemonSet", "namespace": "istio-system", "name": "cni", "revision": "default"}],
        "gateway_classes": ["istio"],
        "budgets": [
            budget | {"selector": {"app": "istiod", "istio.io/rev": OLD}, "allowed": 1, "expected": 2},
        ],
        "scalers": [{"name": f"istiod-{OLD}", "revision": OLD, "target": f"Deployment istiod-{OLD}", "min": 2}],
        "quotas": [{"name": "some", "hard": {"pods": "20", "requests.cpu": "4"}, "used": {"pods": "2"}}],
        "nodes": [{"name": "n1", "open": True, "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}],
        "istiods": [
            {"name": f"istiod-{OLD}", "revision": OLD, "requests": {"cpu": ["500m"], "memory": ["2Gi"]}},
        ],
        "endpoints": {f"istiod-{OLD}": 2, "istiod-revision-tag-default": 2, "istiod-revision-tag-prod-stable": 2},
        "namespaces": [{"name": name, "labels": found} for name, found in labels.items()],
        "roots": {"canary": "root", "shop": "root", "istio-system": "root"},
        "ca_bundles": {CA: LASTING},
    }


class World:
    """Facts, inspected facts and wishes, to be changed one thing at a time."""

    def __init__(self, stage: str = "start") -> None:
        """Begin with nothing wrong."""
        self.facts = facts(stage)
        self.inspected = inspected()
        self.desired = wants() | {"operator_text": OPERATOR}
        for plane in self.facts["control_planes"]:
            plane.update(dict.fromkeys(("replicas", "updated", "available", "total"), 2))

    def operator(self, text: str) -> None:
        """Add lines to the spec of the operator file."""
        self.desired["operator_text"] = OPERATOR.replace("  profile: minimal\n", "") + text

    def injector(self, tag: str = "prod-stable") -> dict[str, Any]:
        """Return a tag's webhook to change."""
        return next(row for row in self.facts["injectors"] if row["tag"] == tag)

    def add_object(self, kind: str, revision: str | None, **more: str) -> None:
        """Add an object of Istio, such as a VirtualService."""
        row = {"kind": kind, "group": "networking.istio.io", "namespace": "shop", "name": "web", "class": ""}
        self.inspected["objects"].append(row | {"revision": revision} | more)

    def found(self) -> list[dict[str, str]]:
        """Return what the checks before an upgrade find."""
        return before(self.facts, self.inspected, self.desired, TODAY)

    def found_after(self) -> list[dict[str, str]]:
        """Return what the checks after an install find."""
        return after_install(self.facts, self.inspected, self.desired, TODAY)

    def ids(self) -> list[str]:
        """Return the ids of what is found before an upgrade."""
        return [row["id"] for row in self.found()]


__all__ = ["NEW", "NOW", "OLD", "TODAY", "World", "certificate"]
