"""Every check by its id, wherever it is asked."""

from __future__ import annotations

from mesh_logic.checks import catalogue
from mesh_logic.checks.catalogue import Check, by_id
from mesh_logic.checks.elsewhere import WORKLOADS

# Heading of the page -> its checks, in the order of the page.
GROUPS: dict[str, tuple[Check, ...]] = {
    "Rights": catalogue.RIGHTS,
    "Control plane and room for a second one": catalogue.CONTROL_PLANE,
    "Tags, injectors, validators": catalogue.TAGS,
    "Objects of Istio and of the Gateway API": catalogue.OBJECTS,
    "What belongs to somebody else": catalogue.OWNERS,
    "The operator file": catalogue.OPERATOR_FILE,
    "Certificates": catalogue.CERTIFICATES,
    "Waivers": catalogue.WAIVERS,
    "At the start of every step": catalogue.START,
    "Namespaces and workloads": WORKLOADS,
}
CHECKS: dict[str, Check] = by_id(check for group in GROUPS.values() for check in group)
