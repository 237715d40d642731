"""Image references."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.runtimes.images import BadReference, ImageReference, parse_reference

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("team/app", "docker.io/team/app:latest"),
        ("index.docker.io/nginx", "docker.io/library/nginx:latest"),
        ("quay.io/a/b/c:v1", "quay.io/a/b/c:v1"),
        ("localhost/x", "localhost/x:latest"),
        ("localhost:5000/x", "localhost:5000/x:latest"),
        ("127.0.0.1:5000/x:1", "127.0.0.1:5000/x:1"),
        ("[::1]:5000/x", "[::1]:5000/x:latest"),
        (f"nginx@{DIGEST}", f"docker.io/library/nginx@{DIGEST}"),
        (f"nginx:1@{DIGEST}", f"docker.io/library/nginx:1@{DIGEST}"),
        ("sampan.local/host", "sampan.local/host:latest"),
    ],
)
def test_references_are_normalized(text: str, full: str) -> None:
    assert str(parse_reference(text)) == full
    assert parse_reference(full) == parse_reference(text)


@pytest.mark.parametrize(
    "text",
    ["", ":tag", "Upper", "a//b", "a/", "/a", "a:", "a:-x", "a@sha256:12", "a@md5:" + "0" * 32, "a b", "a:b:c", "../a"],
)
def test_invalid_references_are_rejected(text: str) -> None:
    with pytest.raises(BadReference):
        parse_reference(text)


@given(st.text(max_size=60))
def test_valid_references_round_trip(text: str) -> None:
    try:
        reference = parse_reference(text)
    except BadReference:
        return
    assert parse_reference(str(reference)) == reference
    assert isinstance(reference, ImageReference)
