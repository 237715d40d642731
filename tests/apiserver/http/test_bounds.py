"""What the server does with requests that are bad, too large, too slow or too many."""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sampan.apiserver.http.acceptor import Acceptor
from sampan.apiserver.http.connection_limits import ConnectionSlot, HttpLimits, connection_limiter, peer_of
from sampan.machinery.certificates import SigningRequest, issue, make_ca
from tests.apiserver.http.http_server import Site, site
from tests.apiserver.http.wire import HEAD, Wire, request
from tests.eventually import eventually

Test = Callable[[Site], Awaitable[None]]
MAPS = "/api/v1/namespaces/default/configmaps"
POST = (
    f"POST {MAPS} HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer admin-token\r\n".encode() + HEAD
)
GET = b"GET /healthz HTTP/1.1\r\n" + HEAD
BOTH = pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])


def _on_a_site(directory: Path, test: Test, **limits: float) -> None:
    async def run() -> None:
        async with site(directory, HttpLimits(**limits)) as here:  # type: ignore[arg-type]
            await test(here)

    asyncio.run(run())


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


@BOTH
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

    _on_a_site(tmp_path, test)
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

    _on_a_site(tmp_path, test)


@BOTH
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

    _on_a_site(tmp_path, test)


@BOTH
def test_what_goes_on_with_a_head_is_not_taken_for_a_request(tmp_path: Path, tls: bool) -> None:
    """A head of which the first part came with the request before it."""

    async def test(here: Site) -> None:
        async with here.wire(tls=tls) as wire:
            wire.send(request("GET", "/healthz") + b"GET /healthz HTTP/1.1\r\nX-Said: ")
            assert (await wire.read_response()).text == "ok"
            wire.send(b"FETCH /version HTTP/1.1\r\n" + HEAD + b"\r\n")
            assert (await wire.read_response()).text == "ok"

    _on_a_site(tmp_path, test)


@BOTH
def test_requests_one_behind_the_other_are_answered_in_order(tmp_path: Path, tls: bool) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=tls) as wire:
            for path in ("/healthz", "/version", "/livez"):
                wire.send(request("GET", path))
            bodies = [(await wire.read_response()).text for _ in range(3)]
            assert (bodies[0], "gitVersion" in bodies[1], bodies[2]) == ("ok", True, "ok")

    _on_a_site(tmp_path, test)


def test_a_client_that_waits_to_send_its_body_gets_100_continue(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with here.wire() as wire:
            wire.send(POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
            assert (await wire.read_response()).code == 100
            wire.send(b"{}")
            assert (await wire.read_response()).code == 422

    _on_a_site(tmp_path, test)


def test_a_client_that_may_not_come_in_is_not_asked_for_its_body(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=True) as wire:
            wire.send(f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n".encode())
            assert (await wire.read_response()).code == 403

    _on_a_site(tmp_path, test)


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

    _on_a_site(tmp_path, test)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@BOTH
def test_a_body_that_goes_wrong_later_is_not_waited_for(tmp_path: Path, tls: bool) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=tls) as wire:
            wire.send(POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}")
            await eventually(lambda: here.requests == 1)
            wire.send(b"no end of a chunk")
            response = await wire.read_response()
            assert response.code == 400
            assert "the body of the request cannot be read" in response.json["message"]

    _on_a_site(tmp_path, test)


# -- time ------------------------------------------------------------------------------------------------------------


@BOTH
def test_a_slow_head_is_given_up(tmp_path: Path, tls: bool) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=tls) as wire:
            assert (await wire.ask("GET", "/healthz")).code == 200
            wire.send(b"GET /healthz HT")
            response = await wire.read_response()
            assert (response.code, "timed out waiting for the request headers" in response.text) == (408, True)

    _on_a_site(tmp_path, test, head_s=1)


@BOTH
def test_a_connection_on_which_nothing_comes_is_closed(tmp_path: Path, tls: bool) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=tls) as wire:
            assert await wire.is_closed()
        async with here.wire(tls=tls) as wire:
            assert (await wire.ask("GET", "/healthz")).code == 200
            assert await wire.is_closed()
        await eventually(lambda: here.http.connections == 0)

    _on_a_site(tmp_path, test, head_s=1, idle_s=1)


@BOTH
def test_a_slow_body_is_given_up(tmp_path: Path, tls: bool) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=tls) as wire:
            wire.send(POST + b"Content-Length: 20\r\n\r\n{")
            response = await wire.read_response()
            assert (response.code, response.json["reason"]) == (504, "Timeout")

    _on_a_site(tmp_path, test, request_s=0.1)


def test_a_request_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with here.wire() as wire:
            response = await wire.ask("GET", "/wait?timeout=50ms")
            assert response.json["message"] == "Timeout: request did not complete within the allotted timeout"
            here.waiting.go.set()
            assert (await wire.ask("GET", "/wait")).text == "waited"

    _on_a_site(tmp_path, test)


def test_an_answer_that_nobody_takes_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(here: Site) -> None:
        for number in range(100):
            await here.objects({"metadata": {"name": f"m{number}"}, "data": {"x": "y" * 100_000}})
        async with here.wire(is_narrow=True) as wire:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await eventually(lambda: here.http.connections == 1)
            wire.send(request("GET", MAPS))
            await eventually(lambda: here.http.connections == 0)

    _on_a_site(tmp_path, test, request_s=0.3)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


# -- numbers ---------------------------------------------------------------------------------------------------------


def test_requests_beyond_the_limit_are_asked_to_retry(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        joe = {"Authorization": "Bearer joe-token"}
        async with here.wire(tls=True) as first, here.wire(tls=True) as second:
            first.send(request("GET", "/wait", headers={"Authorization": "Bearer admin-token"}))
            await here.waiting.arrived.acquire()
            response = await second.ask("GET", "/api", headers=joe)
            assert (response.code, response.headers["retry-after"]) == (429, "1")
            assert response.json["reason"] == "TooManyRequests"
            admin = {"Authorization": "Bearer admin-token"}
            assert (await second.ask("GET", "/api", headers=admin)).code == 200, "administrators are never refused"
            here.waiting.go.set()
            assert (await first.read_response()).text == "waited"
            assert (await second.ask("GET", "/api", headers=joe)).code == 200

    _on_a_site(tmp_path, test, reading=1)


def test_watches_do_not_count(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with here.wire() as wire, here.wire(tls=True) as other:
            wire.send(request("GET", f"{MAPS}?watch=1"))
            assert (await wire.head())[0] == 200
            assert (await other.ask("GET", "/api", headers={"Authorization": "Bearer joe-token"})).code == 200

    _on_a_site(tmp_path, test, reading=1)


@BOTH
def test_more_connections_than_there_is_room_for_wait(tmp_path: Path, tls: bool) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=tls) as first:
            admin = {"Authorization": "Bearer admin-token"}
            assert (await first.ask("GET", "/healthz", headers=admin)).code == 200
            async with here.wire() as late:
                late.send(request("GET", "/healthz"))
                assert (await first.ask("GET", "/version", headers=admin)).code == 200
                assert here.http.connections == 1
                first.writer.close()
                assert (await late.read_response()).text == "ok"

    _on_a_site(tmp_path, test, connections=1)


# -- what is no HTTP, or not the HTTP that is spoken here -------------------------------------------------------------


def test_plain_http_on_the_tls_port_gets_an_explanation(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with Wire(here.tls_port) as wire:
            wire.send(GET + b"\r\n")
            response = await wire.read_response()
            assert response.code == 400
            assert response.text == "Client sent an HTTP request to an HTTPS server.\n"

    _on_a_site(tmp_path, test)


NO_TLS = {
    "nothing": b"",
    "noise": b"\x05\x01\x00",
    "an old greeting": b"\x80\x2e\x01\x00\x02\x00\x15",
    "a greeting cut off": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    "a broken greeting": b"\x16\x03\x01\x00\x05hello" * 3,
}


@pytest.mark.parametrize("name", NO_TLS)
def test_what_is_no_tls_is_dropped_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    async def test(here: Site) -> None:
        async with Wire(here.tls_port) as wire:
            wire.send(NO_TLS[name])
            async with asyncio.timeout(60):
                await wire.reader.read()
        async with here.wire(tls=True) as wire:
            assert (await wire.ask("GET", "/healthz")).text == "ok"

    _on_a_site(tmp_path, test, handshake_s=1)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_client_that_goes_during_the_greeting_frees_its_place(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", here.tls_port)) as client:
                client.sendall(b"\x16\x03\x01")
        async with here.wire(tls=True) as wire:
            assert (await wire.ask("GET", "/healthz")).text == "ok"

    _on_a_site(tmp_path, test, connections=3, handshake_s=60)


def test_a_certificate_that_somebody_else_signed_is_no_way_in(tmp_path: Path) -> None:
    """The real server takes the connection and answers 401; TLS as Python has it can only refuse it."""

    async def test(here: Site) -> None:
        request = SigningRequest(common_name="admin", organizations=("system:masters",), is_client=True)
        stranger = issue(make_ca("stranger", now=time.time()), request, now=time.time())
        (tmp_path / "key").write_bytes(stranger.key)
        (tmp_path / "certificate").write_bytes(stranger.certificate)
        context = here.trusting()
        context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            async with here.wire(context=context) as wire:
                await wire.ask("GET", "/healthz")

    _on_a_site(tmp_path, test)


# -- connections of those who have no credentials ----------------------------------------------------------------------


def test_one_peer_cannot_hold_all_connections(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with AsyncExitStack() as stack:
            wires = [await stack.enter_async_context(here.wire()) for _ in range(4)]
            await eventually(lambda: here.http.connections == 3)
            assert await wires[3].is_closed(), "one more than a peer may have"
            assert (await wires[0].ask("GET", "/healthz")).text == "ok"
            wires[1].abort()
            await eventually(lambda: here.http.connections == 2)
            again = await stack.enter_async_context(here.wire())
            assert (await again.ask("GET", "/healthz")).text == "ok"

    _on_a_site(tmp_path, test, connections=100, connections_per_peer=3)


@pytest.mark.parametrize("greeting", [b"", b"\x16\x03\x01"], ids=["silent", "half a greeting"])
def test_sockets_held_open_before_tls_shut_nobody_out(tmp_path: Path, greeting: bytes) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=True) as first, AsyncExitStack() as stack:
            admin = {"Authorization": "Bearer admin-token"}
            assert (await first.ask("GET", "/healthz", headers=admin)).code == 200
            for _ in range(20):
                wire = await stack.enter_async_context(Wire(here.tls_port))
                wire.send(greeting)
            async with here.wire(tls=True) as another:
                assert (await another.ask("GET", "/healthz", headers=admin)).code == 200
                assert (await first.ask("GET", "/healthz", headers=admin)).code == 200, "it was proven"

    _on_a_site(tmp_path, test, connections=5, handshake_s=600)


def test_idle_connections_without_credentials_give_way(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with AsyncExitStack() as stack:
            for _ in range(5):
                wire = await stack.enter_async_context(here.wire(tls=True))
                assert (await wire.ask("GET", "/healthz")).code == 200
            async with here.wire(tls=True) as another:
                assert (await another.ask("GET", "/healthz")).code == 200

    _on_a_site(tmp_path, test, connections=5)


def test_accepting_goes_on_after_an_error_that_nobody_expected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(here: Site) -> None:
        entered, admitted = here.http._limiter.enter, Acceptor._speaks_tls
        failures = ["room", "tls"]

        async def enter(peer: str) -> ConnectionSlot | None:
            if "room" in failures:
                failures.remove("room")
                raise RuntimeError("nobody expected this")
            return await entered(peer)

        async def speaks_tls(self: Acceptor, client: socket.socket) -> bool:
            if "tls" in failures:
                failures.remove("tls")
                raise RuntimeError("nor this")
            return await admitted(self, client)

        monkeypatch.setattr(here.http._limiter, "enter", enter)
        monkeypatch.setattr(Acceptor, "_speaks_tls", speaks_tls)
        monkeypatch.setattr("sampan.apiserver.http.acceptor._PAUSE_S", 0.0)
        for _ in range(2):
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                async with here.wire(tls=True) as wire:
                    await wire.ask("GET", "/healthz")
        async with here.wire(tls=True) as wire:
            assert (await wire.ask("GET", "/healthz")).text == "ok"

    _on_a_site(tmp_path, test)
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 2


@pytest.mark.parametrize(
    ("descriptors", "total", "per_peer"),
    [(128, 96, 72), (1024, 768, 576), (20_000, 16_000, 12_000), (1 << 20, 16_000, 12_000)],
)
def test_connections_leave_descriptors_for_everything_else(descriptors: int, total: int, per_peer: int) -> None:
    limiter = connection_limiter(HttpLimits(), descriptors)
    assert (limiter.total, limiter.per_peer) == (total, per_peer)


def test_a_network_of_ipv6_addresses_is_one_peer() -> None:
    assert peer_of(("2001:db8::1", 1, 0, 0)) == peer_of(("2001:db8::2:3", 2, 0, 0)) != peer_of(("2001:db8:0:1::", 1))
    assert peer_of(("::ffff:10.0.0.1", 1)) == peer_of(("10.0.0.1", 2)) == "10.0.0.1"
