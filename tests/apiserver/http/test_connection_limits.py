"""What the server does with requests and clients that are too slow or too many."""

import logging
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sampan.apiserver.http.connection_limits import HttpLimits, connection_limiter, peer_of
from tests.apiserver.http.http_server import MAPS, POST, WITH_AND_WITHOUT_TLS, Site, on_a_site
from tests.apiserver.http.wire import Wire, request
from tests.eventually import eventually


@WITH_AND_WITHOUT_TLS
def test_a_slow_head_is_given_up(tmp_path: Path, tls: bool) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=tls) as wire:
            assert (await wire.ask("GET", "/healthz")).code == 200
            wire.send(b"GET /healthz HT")
            response = await wire.read_response()
            assert (response.code, "timed out waiting for the request headers" in response.text) == (408, True)

    on_a_site(tmp_path, test, head_s=1)


@WITH_AND_WITHOUT_TLS
def test_a_connection_on_which_nothing_comes_is_closed(tmp_path: Path, tls: bool) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=tls) as wire:
            assert await wire.is_closed()
        async with here.wire(tls=tls) as wire:
            assert (await wire.ask("GET", "/healthz")).code == 200
            assert await wire.is_closed()
        await eventually(lambda: here.http.connections == 0)

    on_a_site(tmp_path, test, head_s=1, idle_s=1)


@WITH_AND_WITHOUT_TLS
def test_a_slow_body_is_given_up(tmp_path: Path, tls: bool) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=tls) as wire:
            wire.send(POST + b"Content-Length: 20\r\n\r\n{")
            response = await wire.read_response()
            assert (response.code, response.json["reason"]) == (504, "Timeout")

    on_a_site(tmp_path, test, request_s=0.1)


def test_a_request_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with here.wire() as wire:
            response = await wire.ask("GET", "/wait?timeout=50ms")
            assert response.json["message"] == "Timeout: request did not complete within the allotted timeout"
            here.waiting.go.set()
            assert (await wire.ask("GET", "/wait")).text == "waited"

    on_a_site(tmp_path, test)


def test_an_answer_that_nobody_takes_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(here: Site) -> None:
        for number in range(100):
            await here.objects({"metadata": {"name": f"m{number}"}, "data": {"x": "y" * 100_000}})
        async with here.wire(is_narrow=True) as wire:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await eventually(lambda: here.http.connections == 1)
            wire.send(request("GET", MAPS))
            await eventually(lambda: here.http.connections == 0)

    on_a_site(tmp_path, test, request_s=0.3)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


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

    on_a_site(tmp_path, test, reading=1)


def test_watches_do_not_count(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with here.wire() as wire, here.wire(tls=True) as other:
            wire.send(request("GET", f"{MAPS}?watch=1"))
            assert (await wire.head())[0] == 200
            assert (await other.ask("GET", "/api", headers={"Authorization": "Bearer joe-token"})).code == 200

    on_a_site(tmp_path, test, reading=1)


@WITH_AND_WITHOUT_TLS
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

    on_a_site(tmp_path, test, connections=1)


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

    on_a_site(tmp_path, test, connections=100, connections_per_peer=3)


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

    on_a_site(tmp_path, test, connections=5, handshake_s=600)


def test_idle_connections_without_credentials_give_way(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with AsyncExitStack() as stack:
            for _ in range(5):
                wire = await stack.enter_async_context(here.wire(tls=True))
                assert (await wire.ask("GET", "/healthz")).code == 200
            async with here.wire(tls=True) as another:
                assert (await another.ask("GET", "/healthz")).code == 200

    on_a_site(tmp_path, test, connections=5)


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
