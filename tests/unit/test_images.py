"""Image references: cases A01-A14 and B07."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mesh_logic.errors import MeshError
from mesh_logic.images import proxy_image, same_version

DIGEST = "sha256:" + "0123456789abcdef" * 4


def ref(repository: str, tag: str | None = None, **more: Any) -> dict[str, Any]:
    first, slash, _ = repository.partition("/")
    host = first if slash and ("." in first or ":" in first or first == "localhost") else ""
    base = {"registry": host, "repository": repository, "tag": tag, "digest": None}
    return base | {"version": None, "suffix": "", "variant": ""} | more


# id, reference, expected
REFERENCES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "A01-port",
        "registry.example:5000/istio/proxyv2:1.30.5",
        ref("registry.example:5000/istio/proxyv2", "1.30.5", version="1.30.5"),
    ),
    ("A02-port-no-tag", "registry.example:5000/istio/proxyv2", ref("registry.example:5000/istio/proxyv2")),
    (
        "A04-tag-and-digest",
        f"registry.example:5000/istio/proxyv2:1.20.3-distroless@{DIGEST}",
        ref(
            "registry.example:5000/istio/proxyv2",
            "1.20.3-distroless",
            version="1.20.3",
            variant="distroless",
            digest=DIGEST,
        ),
    ),
    ("digest-only", f"hub.example/proxyv2@{DIGEST}", ref("hub.example/proxyv2", digest=DIGEST)),
    ("A08-latest", "proxyv2:latest", ref("proxyv2", "latest")),
    ("A08-master", "proxyv2:master", ref("proxyv2", "master")),
    (
        "A09-branch-and-date",
        "istio/proxyv2:release-1.3-20190829-10-16",
        ref("istio/proxyv2", "release-1.3-20190829-10-16"),
    ),
    ("A09-alpha", "istio/proxyv2:1.31-alpha.79957a3", ref("istio/proxyv2", "1.31-alpha.79957a3")),
    (
        "A09-rc",
        "istio/proxyv2:1.31.0-rc.0-distroless",
        ref("istio/proxyv2", "1.31.0-rc.0-distroless", version="1.31.0", suffix="rc.0", variant="distroless"),
    ),
    (
        "A10-vendor",
        "istio/proxyv2:1.31.0-corp.2",
        ref("istio/proxyv2", "1.31.0-corp.2", version="1.31.0", suffix="corp.2"),
    ),
    (
        "vendor-and-variant",
        "gcr.example/asm/proxyv2:1.11.2-asm.17-distroless",
        ref(
            "gcr.example/asm/proxyv2",
            "1.11.2-asm.17-distroless",
            version="1.11.2",
            suffix="asm.17",
            variant="distroless",
        ),
    ),
    (
        "debug",
        "istio/proxyv2:1.31.0-debug",
        ref("istio/proxyv2", "1.31.0-debug", version="1.31.0", variant="debug"),
    ),
    (
        "A11-retagged",
        "mirror.example/proxy:to-use-in-prod",
        ref("mirror.example/proxy", "to-use-in-prod"),
    ),
    (
        "A13-other-name",
        "mirror.example/mesh/pxy:1.30.5",
        ref("mirror.example/mesh/pxy", "1.30.5", version="1.30.5"),
    ),
    (
        "A14-localhost",
        "localhost:5000/proxyv2:1.31.0",
        ref("localhost:5000/proxyv2", "1.31.0", version="1.31.0"),
    ),
    ("localhost-no-port", "localhost/proxyv2:1.31.0", ref("localhost/proxyv2", "1.31.0", version="1.31.0")),
    ("two-parts", "istio/proxyv2:1.12", ref("istio/proxyv2", "1.12")),
    (
        "two-parts-variant",
        "istio/proxyv2:1.12-distroless",
        ref("istio/proxyv2", "1.12-distroless", variant="distroless"),
    ),
    ("four-parts", "istio/proxyv2:1.30.5.2", ref("istio/proxyv2", "1.30.5.2")),
    ("date", "istio/proxyv2:2025.01.31", ref("istio/proxyv2", "2025.01.31")),
    ("leading-v", "istio/proxyv2:v1.30.5", ref("istio/proxyv2", "v1.30.5", version="1.30.5")),
    (
        "mirror-with-inner-host",
        "mirror.example/docker.io/istio/proxyv2:1.30.5",
        ref("mirror.example/docker.io/istio/proxyv2", "1.30.5", version="1.30.5"),
    ),
    (
        "auto-is-a-fine-folder",
        "hub.example/auto/proxyv2:1.30.5",
        ref("hub.example/auto/proxyv2", "1.30.5", version="1.30.5"),
    ),
]


@pytest.mark.parametrize(("reference", "expected"), [row[1:] for row in REFERENCES], ids=[row[0] for row in REFERENCES])
def test_references(reference: str, expected: dict[str, Any]) -> None:
    assert proxy_image(reference) == expected


REFUSED: list[tuple[str, object, str]] = [
    ("A03-empty", "", "empty"),
    ("A03-colon", ":", "not a valid image reference"),
    ("A03-null", None, "nothing (null)"),
    ("A03-dict", {"image": "x"}, "a mapping"),
    ("A03-bool", True, "the boolean true"),
    (
        "A12-doubled-two-tags",
        "hub.example/istio/hub.example/istio/proxyv3:1.6.8:1.6.7",
        "not a valid image reference",
    ),
    ("A12-doubled", "hub.example/istio/hub.example/istio/proxyv3:1.6.8", "twice"),
    ("A12-doubled-port", "localhost:5000/localhost:5000/proxyv2:1.6.8", "twice"),
    ("A12-colon-in-path", "hub.example/a:1/b:2", "colon inside its path"),
    ("B07-auto", "auto", "not injected"),
    ("B07-auto-qualified", "docker.io/library/auto:latest", "not injected"),
    ("image-id", "sha256:" + "a" * 64, "image ID"),
    ("bare-id", "a" * 64, "image ID"),
    ("scheme", f"docker-pullable://hub.example/proxyv2@{DIGEST}", "scheme"),
    ("short-digest", "hub.example/proxyv2@sha256:abc", "not a digest"),
    ("empty-tag", "hub.example/proxyv2:", "not a tag"),
    ("upper-case", "hub.example/Proxyv2:1.30.5", "not a repository name"),
    ("leading-slash", "/proxyv2:1.30.5", "not a repository name"),
    ("space", " hub.example/proxyv2:1.30.5", "not a"),
    ("newline", "hub.example/proxyv2:1.30.5\n", "not a tag"),
]


@pytest.mark.parametrize(("reference", "cause"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused_with_pod_value_and_cause(reference: object, cause: str) -> None:
    with pytest.raises(MeshError) as error:
        proxy_image(reference, pod="shop/web-0")
    message = str(error.value)
    assert "pod shop/web-0" in message
    assert cause in message
    assert " Next: " in message
    assert "\n" not in message


SAME: list[tuple[str, object, object, bool, bool | None, str]] = [
    ("A06-variant", "1.31.0", "1.31.0-distroless", False, True, "variant differs"),
    ("A08-latest", "1.31.0", "latest", False, None, "cannot be compared"),
    ("A08-same-moving-tag", "master", "master", False, None, "cannot be compared"),
    ("A09-branch", "1.31.0", "release-1.3-20190829-10-16", False, None, "cannot be compared"),
    ("A09-prerelease", "1.31.0", "1.31.0-rc.0", False, False, "versions differ"),
    ("A09-alpha", "1.31.0", "1.31-alpha.79957a3", False, False, "versions differ"),
    ("A09-same-alpha", "1.31-alpha.79957a3", "1.31-alpha.79957a3-distroless", False, True, "variant differs"),
    ("A10-strict", "1.31.0-corp.2", "1.31.0-corp.1", True, False, "full tags differ"),
    ("A10-default", "1.31.0-corp.2", "1.31.0-corp.1", False, True, "build differs"),
    ("A10-strict-variant", "1.31.0", "1.31.0-distroless", True, False, "full tags differ"),
    ("A11-retagged", "1.31.0", "to-use-in-prod", False, None, "holds no version"),
    ("old", "1.31.0", "1.30.5", False, False, "expected 1.31.0, found 1.30.5"),
    ("equal", "1.31.0", "1.31.0", True, True, "same tag"),
    ("digest-only", "1.31.0", None, False, None, "no tag"),
    ("two-parts", "1.31.0", "1.31", False, None, "holds no version"),
]


@pytest.mark.parametrize(
    ("expected", "found", "strict", "same", "reason"), [row[1:] for row in SAME], ids=[row[0] for row in SAME]
)
def test_same_version(expected: object, found: object, strict: bool, same: bool | None, reason: str) -> None:
    verdict = same_version(expected, found, strict)
    assert verdict["same"] is same
    assert reason in verdict["reason"]


def test_same_version_refuses_numbers() -> None:
    with pytest.raises(MeshError, match="quote it"):
        same_version("1.31.0", 1.31)


NAMES = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
HOSTS = st.one_of(st.just(""), st.just("localhost"), st.builds("{}.example:{}".format, NAMES, st.integers(1, 65535)))
NUMBERS = st.tuples(st.integers(0, 9), st.integers(0, 99), st.integers(0, 99)).map(lambda n: "{}.{}.{}".format(*n))
SUFFIXES = st.one_of(st.just(""), st.builds("{}.{}".format, st.sampled_from(["asm", "corp", "rc"]), st.integers(0, 99)))


@settings(max_examples=100, deadline=None)
@given(
    HOSTS,
    st.lists(NAMES, min_size=1, max_size=3),
    NUMBERS,
    SUFFIXES,
    st.sampled_from(["", "distroless", "debug"]),
    st.sampled_from([None, DIGEST]),
)
def test_what_is_built_from_parts_is_parsed_back(  # noqa: PLR0917 - hypothesis fills them by position
    host: str, path: list[str], version: str, suffix: str, variant: str, digest: str | None
) -> None:
    repository = "/".join([host, *path] if host else ["library", *path])
    tag = "-".join(part for part in (version, suffix, variant) if part)
    reference = f"{repository}:{tag}" + (f"@{digest}" if digest else "")
    assert proxy_image(reference) == ref(
        repository, tag, version=version, suffix=suffix, variant=variant, digest=digest
    )


@settings(max_examples=200, deadline=None)
@given(st.text(string.ascii_letters + string.digits + ":/@.-_ \n", max_size=60))
def test_any_text_gives_a_reference_or_a_mesh_error(text: str) -> None:
    try:
        found = proxy_image(text)
    except MeshError:
        return
    tail = (f":{found['tag']}" if found["tag"] else "") + (f"@{found['digest']}" if found["digest"] else "")
    assert found["repository"] + tail == text
