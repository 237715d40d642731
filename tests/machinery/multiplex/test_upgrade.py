"""Heads of HTTP responses to an upgrade. Mutated heads are a target of tests/fuzz ("http targets")."""

import pytest

from sampan.machinery.multiplex import upgrade


def test_head_of_a_response_is_parsed() -> None:
    head = upgrade.parse_response_head(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nX: a: b \r\nEmpty:\r\n\r\n"
    )
    assert (head.code, head.phrase) == (101, "Switching Protocols")
    assert list(head.headers) == [("Upgrade", "websocket"), ("X", "a: b"), ("Empty", "")]
    assert [head.get(name) for name in ("upgrade", "x", "missing")] == ["websocket", "a: b", ""]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 -10 OK\r\n\r\n",
        "HTTP/1.1 ²⁰⁰ OK\r\n\r\n".encode(),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_malformed_status_lines_raise_bad_response(raw: bytes) -> None:
    with pytest.raises(upgrade.BadResponse, match="malformed HTTP response"):
        upgrade.parse_response_head(raw)
