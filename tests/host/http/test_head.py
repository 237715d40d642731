"""Heads of requests: what is accepted, and that nothing which two servers could read differently is."""

from __future__ import annotations

import pytest

from sampan.host.http.head import BadHttpRequest, EdgeLimits, HeadReader, HttpRequestHead
from tests.calls import counted_calls

LIMITS = EdgeLimits(line_bytes=200, field_bytes=100, fields=8, head_bytes=600)
HOST = b"Host: x\r\n"


def read(data: bytes) -> HttpRequestHead | None:
    return HeadReader(LIMITS).read(data)


def refusal(data: bytes) -> int:
    """Return the status code of the refusal; the data may arrive at once or byte by byte."""
    codes = []
    for size in (len(data), 1, 3):
        reader, code = HeadReader(LIMITS), 0
        for end in range(size, len(data) + size, size):
            try:
                if reader.read(bytearray(data[:end])) is not None:
                    break
            except BadHttpRequest as error:
                code = error.code
                break
        codes.append(code)
    assert len(set(codes)) == 1, codes
    return codes[0]


def test_head_is_parsed() -> None:
    head = read(b"POST /a%20b?c=d HTTP/1.1\r\nhOST: x\r\nX: \t a b\t \r\nX:c\r\nContent-Length: 12\r\n\r\nbody")
    assert head is not None
    assert (head.method, head.target, head.version) == ("POST", "/a%20b?c=d", (1, 1))
    assert (head.block.headers["Host"], head.block.headers.getall("x")) == ("x", ["a b", "c"])
    assert (head.block.content_length, head.block.is_chunked) == (12, False)


def test_head_that_arrives_in_pieces_is_read_when_it_is_complete() -> None:
    data = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
    reader = HeadReader(LIMITS)
    for end in range(len(data)):
        assert reader.read(bytearray(data[:end])) is None
    head = reader.read(data + b"GET")
    assert head is not None
    assert head.size == len(data)
    assert reader.read(data) is not None, "the next head is read from its start"


@pytest.mark.parametrize(
    ("version", "connection", "keep_alive"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: close\r\n", False),
        (b"1.1", b"Connection: x, Close\r\n", False),
        (b"1.1", b"Connection: x\r\nConnection: close\r\n", False),
        (b"1.0", b"", False),
        (b"1.0", b"Connection: keep-alive\r\n", True),
    ],
)
def test_connection_header_says_whether_the_connection_stays_open(
    version: bytes, connection: bytes, keep_alive: bool
) -> None:
    head = read(b"GET / HTTP/%b\r\n" % version + HOST + connection + b"\r\n")
    assert head is not None
    assert head.keep_alive is keep_alive


@pytest.mark.parametrize("method", [b"FETCH", b"m-search", b"X" * 100])
def test_unknown_methods_are_for_the_handler(method: bytes) -> None:
    head = read(method + b" / HTTP/1.1\r\n" + HOST + b"\r\n")
    assert head is not None
    assert head.method == method.decode()


REFUSED_LINES = {
    b"GET": 400,
    b"GET /": 400,
    b"GET  / HTTP/1.1": 400,
    b" GET / HTTP/1.1": 400,
    b"GET / HTTP/1.1 ": 400,
    b"GET\t/ HTTP/1.1": 400,
    b"G(T / HTTP/1.1": 400,
    b"GET /\x00 HTTP/1.1": 400,
    b"GET /\x7f HTTP/1.1": 400,
    b"GET /\xc3\xa9 HTTP/1.1": 400,
    b"GET / http/1.1": 400,
    b"GET / HTTP/1": 400,
    b"GET / HTTP/1.10": 400,
    b"GET / HTTP/1.2": 505,
    b"GET / HTTP/0.9": 505,
    b"PRI * HTTP/2.0": 505,
    b"CONNECT a:1 HTTP/1.1": 400,
    b"GET /" + b"a" * 200 + b" HTTP/1.1": 431,
}


@pytest.mark.parametrize("line", REFUSED_LINES)
def test_malformed_request_lines_are_refused(line: bytes) -> None:
    assert refusal(line + b"\r\n" + HOST + b"\r\n") == REFUSED_LINES[line]


REFUSED_HEADERS = {
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n": 400,
    b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n": 400,
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n": 400,
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n": 400,
    b"Transfer-Encoding: gzip, chunked\r\n": 400,
    b"Transfer-Encoding: chunked, chunked\r\n": 400,
    b"Transfer-Encoding: identity\r\n": 400,
    b"Transfer-Encoding: xchunked\r\n": 400,
    b"Transfer-Encoding:\x0bchunked\r\n": 400,
    b"Transfer-Encoding : chunked\r\n": 400,
    b"Transfer-Encoding:\r\n": 400,
    b"TE : chunked\r\n": 400,
    b"Content-Length: 5\r\nContent-Length: 6\r\n": 400,
    b"Content-Length: 5\r\nContent-Length: 5\r\n": 400,
    b"Content-Length: 5, 5\r\n": 400,
    b"Content-Length: +5\r\n": 400,
    b"Content-Length: -5\r\n": 400,
    b"Content-Length: 0x5\r\n": 400,
    b"Content-Length: 5 5\r\n": 400,
    b"Content-Length: 1_0\r\n": 400,
    b"Content-Length: \xd9\xa5\r\n": 400,
    b"Content-Length:\r\n": 400,
    b"Content-Length: 99999999999999999999\r\n": 400,
    b"Host: y\r\n": 400,
    b"X: a\r\n b\r\n": 400,
    b"X: a\r\n\tTransfer-Encoding: chunked\r\n": 400,
    b" X: a\r\n": 400,
    b"X: a\nTransfer-Encoding: chunked\r\n": 400,
    b"X: a\rTransfer-Encoding: chunked\r\n": 400,
    b"X: a\x00b\r\n": 400,
    b"X: a\x7fb\r\n": 400,
    b"X y: z\r\n": 400,
    b"X\xc3\xa9: z\r\n": 400,
    b": z\r\n": 400,
    b"no colon\r\n": 400,
    b"X: " + b"a" * 100 + b"\r\n": 431,
    b"X: a\r\n" * 8: 431,
    (b"X: " + b"a" * 90 + b"\r\n") * 7: 431,
}


@pytest.mark.parametrize("headers", REFUSED_HEADERS)
def test_ambiguous_and_malformed_headers_are_refused(headers: bytes) -> None:
    for block in (HOST + headers, headers + HOST):
        with pytest.raises(BadHttpRequest) as refused:
            read(b"POST / HTTP/1.1\r\n" + block + b"\r\n")
        assert refused.value.code == REFUSED_HEADERS[headers]


def test_chunked_body_of_http_1_0_is_refused() -> None:
    assert refusal(b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n") == 400


def test_host_is_required_by_http_1_1_only() -> None:
    assert read(b"GET / HTTP/1.0\r\n\r\n") is not None
    with pytest.raises(BadHttpRequest, match="missing required Host header"):
        read(b"GET / HTTP/1.1\r\n\r\n")
    assert refusal(b"GET / HTTP/1.0\r\n" + HOST + HOST + b"\r\n") == 400


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x16\x03\x01", 400),
        (b"\x00", 400),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\n", 400),
        (b"GET / HTTP/3.1\r\n", 505),
        (b"a" * 201, 431),
        (b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 200, 431),
    ],
)
def test_incomplete_heads_are_refused_as_soon_as_they_are_wrong(data: bytes, code: int) -> None:
    assert refusal(data) == code


def test_repeated_headers_are_not_parsed_again() -> None:
    data, reader = b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n" * 5 + b"\r\n", HeadReader(LIMITS)
    first = reader.read(data)
    assert first is not None
    with counted_calls() as count:
        second = reader.read(data.replace(b"GET /", b"PUT /b"))
    assert second is not None
    assert second.block is first.block
    assert (second.method, second.target) == ("PUT", "/b")
    assert count.calls <= 5


def test_time_for_hostile_heads_is_linear() -> None:
    limits = EdgeLimits(line_bytes=1 << 20, field_bytes=1 << 20, head_bytes=1 << 20)
    for text in (b"a" * 500_000, b"a:" + b" " * 500_000 + b"\x00", b"a: b" * 100_000 + b"\x01", b"(" * 500_000):
        with pytest.raises(BadHttpRequest):
            HeadReader(limits).read(b"GET / HTTP/1.1\r\n" + text + b"\r\n\r\n")
