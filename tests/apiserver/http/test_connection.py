"""What the server does with requests that are bad or too large, and with bodies that do not come."""

import logging
from pathlib import Path

import pytest

from tests.apiserver.http.http_server import GET, MAPS, POST, WITH_AND_WITHOUT_TLS, Site, on_a_site
from tests.apiserver.http.wire import HEAD, request
from tests.eventually import eventually

BAD = {
    "noise": (b"\x00\x01\x02noise\r\n\r\n", 400, "400 Bad Request"),
    "a method that is none": (b"F/O / HTTP/1.1\r\n" + HEAD + b"\r\n", 400, "400 Bad Request"),
    "an unknown method and no host": (b"FOO / HTTP/1.1\r\n\r\n", 400, "400 Bad Request: missing required Host header"),
    "an unknown method and a long line": (b"FOO /" + b"a" * 200_000 + b" HTTP/1.1\r\n" + HEAD, 431, "431 Request"),
    "an unknown method and a bad header": (b"FOO / HTTP/1.1\r\n" + HEAD + b"X: a\x00b\r\n\r\n", 400, "400 Bad Request"),
    "no host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400, "400 Bad Request: missing required Host header"),
    "two hosts": (b"GET /healthz HTTP/1.1\r\n" + HEAD + HEAD + b"\r\n", 400, "400 Bad Request"),
    "an unknown version": (b"GET / HTTP/3.1\r\n" + HEAD + b"\r\n", 505, "505 HTTP Version Not Supported"),
    "a bad escape": (b"GET /api/%zz HTTP/1.1\r\n" + HEAD + b"\r\n", 400, "400 Bad Request"),
    "bytes that are no URL": (b"GET /\xff\xfe HTTP/1.1\r\n" + HEAD + b"\r\n", 400, "400 Bad Request"),
    "no path": (b"OPTIONS * HTTP/1.1\r\n" + HEAD + b"\r\n", 400, "400 Bad Request"),
    "a tunnel": (b"CONNECT a:1 HTTP/1.1\r\n" + HEAD + b"\r\n", 400, "400 Bad Request"),
    "a long line": (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n", 431, "431 Request Header Fields"),
    "a long header": (GET + b"X: " + b"a" * 100_000 + b"\r\n\r\n", 431, "431 Request Header Fields Too Large"),
    "many headers": (GET + b"X: a\r\n" * 2000 + b"\r\n", 431, "431 Request Header Fields Too Large"),
    "a large head": (GET + b"".join(b"X: %b\r\n" % (b"a" * 60_000) for _ in range(60)), 431, "431 Request"),
    "nothing in a header": (GET + b"X: a\x00b\r\n\r\n", 400, "400 Bad Request"),
    "a length that is none": (POST + b"Content-Length: abc\r\n\r\n{}", 400, "400 Bad Request"),
    "two lengths": (POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, "400 Bad Request"),
    "a length and chunks": (POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "400"),
    "a bad chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400, "400 Bad Request"),
    "an unknown coding": (POST + b"Transfer-Encoding: foo\r\n\r\n{}", 400, "400 Bad Request"),
    "a huge length": (
        POST + b"Content-Length: 99999999999\r\n\r\n{}",
        413,
        "Request entity too large: limit is 3145728",
    ),
    "a large body": (POST + b"Content-Length: 5000000\r\n\r\n" + b"x" * 5_000_000, 413, "limit is 3145728"),
    "large chunks": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 60 + b"0\r\n\r\n",
        413,
        "Request entity too large: limit is 3145728",
    ),
    "an unknown wish": (POST + b"Expect: cake\r\nContent-Length: 2\r\n\r\n{}", 417, "Unknown Expect: cake"),
    "a bad time limit": (
        b"GET /healthz?timeout=abc HTTP/1.1\r\n" + HEAD + b"\r\n",
        400,
        "invalid timeout specified in the request URL - time: invalid duration",
    ),
}


@WITH_AND_WITHOUT_TLS
@pytest.mark.parametrize("name", BAD)
def test_bad_requests_get_an_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, tls: bool) -> None:
    async def test(here: Site) -> None:
        sent, code, text = BAD[name]
        async with here.wire(tls=tls) as wire:
            wire.send(sent)
            response = await wire.read_response()
        assert (response.code, text in response.text) == (code, True), response
        async with here.wire(tls=tls) as wire:
            assert (await wire.ask("GET", "/healthz")).text == "ok"

    on_a_site(tmp_path, test)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


STRANGE = {
    "the old version": (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
    "the whole URL": (b"GET http://x/healthz HTTP/1.1\r\n" + HEAD + b"\r\n", 200),
    "a name with nothing in it": (b"GET /api/v1/namespaces/%00 HTTP/1.1\r\n" + HEAD + b"\r\n", 404),
    "a name that is no text": (b"GET /api/v1/namespaces/%ff%fe HTTP/1.1\r\n" + HEAD + b"\r\n", 404),
    "headers that are no text": (
        b"GET /api/v1/namespaces/x HTTP/1.1\r\n" + HEAD + b"User-Agent: \xe9\xff\r\n\r\n",
        404,
    ),
    "chunks": (POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 422),
    "another time limit": (b"GET /healthz?timeout=1s HTTP/1.1\r\n" + HEAD + b"\r\n", 200),
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_requests_are_served(tmp_path: Path, name: str) -> None:
    async def test(here: Site) -> None:
        sent, code = STRANGE[name]
        async with here.wire() as wire:
            wire.send(sent)
            assert (await wire.read_response()).code == code

    on_a_site(tmp_path, test)


@WITH_AND_WITHOUT_TLS
@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        (MAPS, 405, "the server does not allow this method on the requested resource"),
        ("/no/such", 404, "404 page not found"),
    ],
)
def test_methods_that_nobody_knows(tmp_path: Path, tls: bool, path: str, code: int, text: str) -> None:
    async def test(here: Site) -> None:
        sent = f"FETCH {path} HTTP/1.1\r\nAuthorization: Bearer admin-token\r\n".encode() + HEAD
        async with here.wire(tls=tls) as wire:
            for _ in range(2):
                wire.send(sent + b"Content-Length: 2\r\n\r\n{}")
                response = await wire.read_response()
                assert (response.code, text in response.text) == (code, True), response
                assert (await wire.ask("GET", "/healthz")).text == "ok", "the connection goes on"

    on_a_site(tmp_path, test)


@WITH_AND_WITHOUT_TLS
def test_what_goes_on_with_a_head_is_not_taken_for_a_request(tmp_path: Path, tls: bool) -> None:
    """A head of which the first part came with the request before it."""

    async def test(here: Site) -> None:
        async with here.wire(tls=tls) as wire:
            wire.send(request("GET", "/healthz") + b"GET /healthz HTTP/1.1\r\nX-Said: ")
            assert (await wire.read_response()).text == "ok"
            wire.send(b"FETCH /version HTTP/1.1\r\n" + HEAD + b"\r\n")
            assert (await wire.read_response()).text == "ok"

    on_a_site(tmp_path, test)


@WITH_AND_WITHOUT_TLS
def test_requests_one_behind_the_other_are_answered_in_order(tmp_path: Path, tls: bool) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=tls) as wire:
            for path in ("/healthz", "/version", "/livez"):
                wire.send(request("GET", path))
            bodies = [(await wire.read_response()).text for _ in range(3)]
            assert (bodies[0], "gitVersion" in bodies[1], bodies[2]) == ("ok", True, "ok")

    on_a_site(tmp_path, test)


def test_a_client_that_waits_to_send_its_body_gets_100_continue(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with here.wire() as wire:
            wire.send(POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
            assert (await wire.read_response()).code == 100
            wire.send(b"{}")
            assert (await wire.read_response()).code == 422

    on_a_site(tmp_path, test)


def test_a_client_that_may_not_come_in_is_not_asked_for_its_body(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=True) as wire:
            wire.send(f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n".encode())
            assert (await wire.read_response()).code == 403

    on_a_site(tmp_path, test)


HALVES = {
    "a whole request": (GET + b"\r\n", [200]),
    "three requests": ((GET + b"\r\n") * 3, [200, 200, 200]),
    "half a head": (b"GET /healthz HTT", [400]),
    "half a body": (POST + b"Content-Length: 20\r\n\r\n{}", [400]),
    "half a chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\n20\r\n{}", [400]),
}


@pytest.mark.parametrize("name", HALVES)
def test_who_sends_no_more_still_gets_answers(tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    async def test(here: Site) -> None:
        sent, codes = HALVES[name]
        async with here.wire() as wire:
            wire.send(sent)
            wire.finish()
            assert [(await wire.read_response()).code for _ in codes] == codes
            assert await wire.is_closed()

    on_a_site(tmp_path, test)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@WITH_AND_WITHOUT_TLS
def test_a_body_that_goes_wrong_later_is_not_waited_for(tmp_path: Path, tls: bool) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=tls) as wire:
            wire.send(POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}")
            await eventually(lambda: here.requests == 1)
            wire.send(b"no end of a chunk")
            response = await wire.read_response()
            assert response.code == 400
            assert "the body of the request cannot be read" in response.json["message"]

    on_a_site(tmp_path, test)
