"""The minors of Istio that this project knows, and all that depends on which one it is.

A new minor is one more row: read its sources for what the columns say, then run the lab with it. What a mesh shows by
itself (a tag with or without a Service, a ConfigMap with the chart's values) is looked at there and not taken from a
version, so that patched and vendor builds are judged by what they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mesh_logic.versions import parse_version

MAJOR = 1
# How a minor was looked at.
Known = Literal["read", "run"]
# Whether a version may be used.
Support = Literal["supported", "next", "unsupported"]


@dataclass(frozen=True)
class Release:
    """One minor.

    Attributes:
        minor: of Istio 1.
        kubernetes: oldest minor of Kubernetes 1 (`MinK8SVersion`, istioctl/pkg/install/k8sversion/version.go).
        known: `read` in its sources, or `run` on the lab as well.
        new: what an upgrade meets from this minor on, and has to take into account.
    """

    minor: int
    kubernetes: int
    known: Known = "read"
    new: tuple[str, ...] = ()


RELEASES = (
    Release(
        24,
        28,
        new=(
            "`istioctl uninstall --revision` finds nothing of a revision that Helm installed, and says complete",
            "an IstioOperator object in the cluster is read by nothing any more",
            "`istioctl tag list -o yaml` is there",
        ),
    ),
    Release(25, 28),
    Release(26, 29, new=("the chart's values are kept in a ConfigMap of each revision",)),
    Release(
        27,
        29,
        new=(
            "an install by revision becomes the default where there is no default tag",
            "proxies are native sidecars where every kubelet is 1.33 or newer",
        ),
    ),
    Release(
        28,
        30,
        new=(
            "a tag is a webhook and a Service; an older istioctl moves only the webhook",
            "`istioctl proxy-status` and `version` ask only the revision of the default tag",
        ),
    ),
    Release(29, 30),
    Release(30, 32, known="run"),
    Release(31, 32, known="run", new=("`istioctl tag remove default` also removes the default validator",)),
)
OLDEST, NEWEST = RELEASES[0], RELEASES[-1]
RANGE = f"{MAJOR}.{OLDEST.minor} to {MAJOR}.{NEWEST.minor}"


def support(version: object) -> Support:
    """Tell whether a version is in the range, is the minor after it, or is neither.

    Raises:
        MeshError: it is no version.
    """
    major, minor, _ = parse_version(version)
    if major == MAJOR and OLDEST.minor <= minor <= NEWEST.minor:
        return "supported"
    return "next" if (major, minor) == (MAJOR, NEWEST.minor + 1) else "unsupported"


def release_of(version: object) -> Release:
    """Return the row of a version; a newer one has that of the newest, an older one that of the oldest.

    Raises:
        MeshError: it is no version.
    """
    numbers = parse_version(version)[:2]
    return next((row for row in reversed(RELEASES) if (MAJOR, row.minor) <= numbers), OLDEST)
