"""HTTP requests that are malformed, too large, unusual or incomplete."""

import logging
from collections.abc import Iterator

import pytest

from sampan.apiserver.http.connection_limits import HttpLimits
from tests.apiserver.http.http_server import (
    GET,
    MAPS,
    POST,
    WITH_AND_WITHOUT_TLS,
    SharedSite,
    Site,
    shared_site,
)
from tests.apiserver.http.wire import HEAD, request
from tests.eventually import eventually


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedSite]:
    with shared_site(tmp_path_factory.mktemp("site"), HttpLimits(linger_s=2)) as shared:
        yield shared


MALFORMED = {
    "random bytes": (b"\x00\x01\x02noise\r\n\r\n", 400, "400 Bad Request"),
    "invalid method": (b"F/O / HTTP/1.1\r\n" + HEAD + b"\r\n", 400, "400 Bad Request"),
    "unknown method without host": (b"FOO / HTTP/1.1\r\n\r\n", 400, "400 Bad Request: missing required Host header"),
    "unknown method and long request line": (b"FOO /" + b"a" * 200_000 + b" HTTP/1.1\r\n" + HEAD, 431, "431 Request"),
    "unknown method and invalid header": (b"FOO / HTTP/1.1\r\n" + HEAD + b"X: a\x00b\r\n\r\n", 400, "400 Bad Request"),
    "missing host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400, "400 Bad Request: missing required Host header"),
    "two hosts": (b"GET /healthz HTTP/1.1\r\n" + HEAD + HEAD + b"\r\n", 400, "400 Bad Request"),
    "unknown HTTP version": (b"GET / HTTP/3.1\r\n" + HEAD + b"\r\n", 505, "505 HTTP Version Not Supported"),
    "invalid percent escape": (b"GET /api/%zz HTTP/1.1\r\n" + HEAD + b"\r\n", 400, "400 Bad Request"),
    "non-ASCII path": (b"GET /\xff\xfe HTTP/1.1\r\n" + HEAD + b"\r\n", 400, "400 Bad Request"),
    "asterisk instead of a path": (b"OPTIONS * HTTP/1.1\r\n" + HEAD + b"\r\n", 400, "400 Bad Request"),
    "CONNECT": (b"CONNECT a:1 HTTP/1.1\r\n" + HEAD + b"\r\n", 400, "400 Bad Request"),
    "long request line": (
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
        431,
        "431 Request Header Fields",
    ),
    "long header": (GET + b"X: " + b"a" * 100_000 + b"\r\n\r\n", 431, "431 Request Header Fields Too Large"),
    "many headers": (GET + b"X: a\r\n" * 2000 + b"\r\n", 431, "431 Request Header Fields Too Large"),
    "large headers": (GET + b"".join(b"X: %b\r\n" % (b"a" * 60_000) for _ in range(60)), 431, "431 Request"),
    "NUL in a header": (GET + b"X: a\x00b\r\n\r\n", 400, "400 Bad Request"),
    "invalid content length": (POST + b"Content-Length: abc\r\n\r\n{}", 400, "400 Bad Request"),
    "two content lengths": (POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, "400 Bad Request"),
    "content length and chunks": (
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "400",
    ),
    "invalid chunk size": (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400, "400 Bad Request"),
    "unknown transfer encoding": (POST + b"Transfer-Encoding: foo\r\n\r\n{}", 400, "400 Bad Request"),
    "huge content length": (
        POST + b"Content-Length: 99999999999\r\n\r\n{}",
        413,
        "Request entity too large: limit is 3145728",
    ),
    "large body": (POST + b"Content-Length: 5000000\r\n\r\n" + b"x" * 5_000_000, 413, "limit is 3145728"),
    "large chunks": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 60 + b"0\r\n\r\n",
        413,
        "Request entity too large: limit is 3145728",
    ),
    "unknown Expect header": (POST + b"Expect: cake\r\nContent-Length: 2\r\n\r\n{}", 417, "Unknown Expect: cake"),
    "invalid timeout parameter": (
        b"GET /healthz?timeout=abc HTTP/1.1\r\n" + HEAD + b"\r\n",
        400,
        "invalid timeout specified in the request URL - time: invalid duration",
    ),
}


@WITH_AND_WITHOUT_TLS
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_requests_get_an_error_response(
    server: SharedSite, caplog: pytest.LogCaptureFixture, name: str, tls: bool
) -> None:
    async def test(site: Site) -> None:
        sent, code, text = MALFORMED[name]
        async with site.wire(tls=tls) as wire:
            wire.send(sent)
            response = await wire.read_response()
        assert (response.code, text in response.text) == (code, True), response
        async with site.wire(tls=tls) as wire:
            assert (await wire.request("GET", "/healthz")).text == "ok"

    server.run(test)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


UNUSUAL = {
    "HTTP/1.0": (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
    "absolute URL": (b"GET http://x/healthz HTTP/1.1\r\n" + HEAD + b"\r\n", 200),
    "NUL in a name": (b"GET /api/v1/namespaces/%00 HTTP/1.1\r\n" + HEAD + b"\r\n", 404),
    "name that is not UTF-8": (b"GET /api/v1/namespaces/%ff%fe HTTP/1.1\r\n" + HEAD + b"\r\n", 404),
    "header that is not UTF-8": (
        b"GET /api/v1/namespaces/x HTTP/1.1\r\n" + HEAD + b"User-Agent: \xe9\xff\r\n\r\n",
        404,
    ),
    "chunked body": (POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 422),
    "timeout parameter": (b"GET /healthz?timeout=1s HTTP/1.1\r\n" + HEAD + b"\r\n", 200),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_requests_are_served(server: SharedSite, name: str) -> None:
    async def test(site: Site) -> None:
        sent, code = UNUSUAL[name]
        async with site.wire() as wire:
            wire.send(sent)
            assert (await wire.read_response()).code == code

    server.run(test)


@WITH_AND_WITHOUT_TLS
@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        (MAPS, 405, "the server does not allow this method on the requested resource"),
        ("/no/such", 404, "404 page not found"),
    ],
)
def test_unknown_methods_get_405_or_404(server: SharedSite, tls: bool, path: str, code: int, text: str) -> None:
    async def test(site: Site) -> None:
        sent = f"FETCH {path} HTTP/1.1\r\nAuthorization: Bearer admin-token\r\n".encode() + HEAD
        async with site.wire(tls=tls) as wire:
            for _ in range(2):
                wire.send(sent + b"Content-Length: 2\r\n\r\n{}")
                response = await wire.read_response()
                assert (response.code, text in response.text) == (code, True), response
                assert (await wire.request("GET", "/healthz")).text == "ok", "the connection stays open"

    server.run(test)


@WITH_AND_WITHOUT_TLS
def test_second_part_of_a_request_head_is_not_parsed_as_a_request(server: SharedSite, tls: bool) -> None:
    """The first part of the head arrives together with the previous request."""

    async def test(site: Site) -> None:
        async with site.wire(tls=tls) as wire:
            wire.send(request("GET", "/healthz") + b"GET /healthz HTTP/1.1\r\nX-Value: ")
            assert (await wire.read_response()).text == "ok"
            wire.send(b"FETCH /version HTTP/1.1\r\n" + HEAD + b"\r\n")
            assert (await wire.read_response()).text == "ok"

    server.run(test)


@WITH_AND_WITHOUT_TLS
def test_pipelined_requests_are_answered_in_order(server: SharedSite, tls: bool) -> None:
    async def test(site: Site) -> None:
        async with site.wire(tls=tls) as wire:
            for path in ("/healthz", "/version", "/livez"):
                wire.send(request("GET", path))
            bodies = [(await wire.read_response()).text for _ in range(3)]
            assert (bodies[0], "gitVersion" in bodies[1], bodies[2]) == ("ok", True, "ok")

    server.run(test)


def test_expect_header_gets_100_continue(server: SharedSite) -> None:
    async def test(site: Site) -> None:
        async with site.wire() as wire:
            wire.send(POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
            assert (await wire.read_response()).code == 100
            wire.send(b"{}")
            assert (await wire.read_response()).code == 422

    server.run(test)


def test_forbidden_request_gets_403_instead_of_100_continue(server: SharedSite) -> None:
    async def test(site: Site) -> None:
        async with site.wire(tls=True) as wire:
            wire.send(f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n".encode())
            assert (await wire.read_response()).code == 403

    server.run(test)


HALF_CLOSED = {
    "complete request": (GET + b"\r\n", [200]),
    "three requests": ((GET + b"\r\n") * 3, [200, 200, 200]),
    "incomplete head": (b"GET /healthz HTT", [400]),
    "incomplete body": (POST + b"Content-Length: 20\r\n\r\n{}", [400]),
    "incomplete chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\n20\r\n{}", [400]),
}


@pytest.mark.parametrize("name", HALF_CLOSED)
def test_half_closed_connection_gets_responses(server: SharedSite, caplog: pytest.LogCaptureFixture, name: str) -> None:
    async def test(site: Site) -> None:
        sent, codes = HALF_CLOSED[name]
        async with site.wire() as wire:
            wire.send(sent)
            wire.finish()
            assert [(await wire.read_response()).code for _ in codes] == codes
            assert await wire.is_closed()

    server.run(test)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@WITH_AND_WITHOUT_TLS
def test_malformed_chunk_of_a_pending_request_gets_400(server: SharedSite, tls: bool) -> None:
    async def test(site: Site) -> None:
        async with site.wire(tls=tls) as wire:
            wire.send(POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}")
            await eventually(lambda: site.requests == 1)
            wire.send(b"not the end of the chunk")
            response = await wire.read_response()
            assert response.code == 400
            assert "the body of the request cannot be read" in response.json["message"]

    server.run(test)
