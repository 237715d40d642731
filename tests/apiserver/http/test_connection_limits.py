"""Timeouts of slow clients, and limits on connections and requests."""

import logging
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sampan.apiserver.http.connection_limits import HttpLimits, connection_limiter, peer_of
from tests.apiserver.http.http_server import MAPS, POST, WITH_AND_WITHOUT_TLS, Site, run_on_site
from tests.apiserver.http.wire import Wire, request
from tests.eventually import eventually


@WITH_AND_WITHOUT_TLS
def test_slow_request_headers_get_408(tmp_path: Path, tls: bool) -> None:
    async def test(site: Site) -> None:
        async with site.wire(tls=tls) as wire:
            assert (await wire.request("GET", "/healthz")).code == 200
            wire.send(b"GET /healthz HT")
            response = await wire.read_response()
            assert (response.code, "timed out waiting for the request headers" in response.text) == (408, True)

    run_on_site(tmp_path, test, head_s=1)


@WITH_AND_WITHOUT_TLS
def test_idle_connection_is_closed(tmp_path: Path, tls: bool) -> None:
    async def test(site: Site) -> None:
        async with site.wire(tls=tls) as wire:
            assert await wire.is_closed()
        async with site.wire(tls=tls) as wire:
            assert (await wire.request("GET", "/healthz")).code == 200
            assert await wire.is_closed()
        await eventually(lambda: site.http.connections == 0)

    run_on_site(tmp_path, test, head_s=1, idle_s=1)


@WITH_AND_WITHOUT_TLS
def test_slow_request_body_gets_504(tmp_path: Path, tls: bool) -> None:
    async def test(site: Site) -> None:
        async with site.wire(tls=tls) as wire:
            wire.send(POST + b"Content-Length: 20\r\n\r\n{")
            response = await wire.read_response()
            assert (response.code, response.json["reason"]) == (504, "Timeout")

    run_on_site(tmp_path, test, request_s=0.1)


def test_request_beyond_its_timeout_parameter_gets_a_timeout_error(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        async with site.wire() as wire:
            response = await wire.request("GET", "/wait?timeout=50ms")
            assert response.json["message"] == "Timeout: request did not complete within the allotted timeout"
            site.wait_handler.go.set()
            assert (await wire.request("GET", "/wait")).text == "waited"

    run_on_site(tmp_path, test)


def test_unread_response_is_aborted_after_the_request_timeout(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(site: Site) -> None:
        for number in range(100):
            await site.create_config_map({"metadata": {"name": f"m{number}"}, "data": {"x": "y" * 100_000}})
        async with site.wire(has_small_buffer=True) as wire:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await eventually(lambda: site.http.connections == 1)
            wire.send(request("GET", MAPS))
            await eventually(lambda: site.http.connections == 0)

    run_on_site(tmp_path, test, request_s=0.3)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_requests_beyond_the_limit_get_429_unless_of_administrators(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        joe = {"Authorization": "Bearer joe-token"}
        async with site.wire(tls=True) as first, site.wire(tls=True) as second:
            first.send(request("GET", "/wait", headers={"Authorization": "Bearer admin-token"}))
            await site.wait_handler.arrived.acquire()
            response = await second.request("GET", "/api", headers=joe)
            assert (response.code, response.headers["retry-after"]) == (429, "1")
            assert response.json["reason"] == "TooManyRequests"
            admin = {"Authorization": "Bearer admin-token"}
            assert (await second.request("GET", "/api", headers=admin)).code == 200, (
                "requests of administrators are not limited"
            )
            site.wait_handler.go.set()
            assert (await first.read_response()).text == "waited"
            assert (await second.request("GET", "/api", headers=joe)).code == 200

    run_on_site(tmp_path, test, reading=1)


def test_watches_do_not_count_against_the_request_limit(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        async with site.wire() as wire, site.wire(tls=True) as other:
            wire.send(request("GET", f"{MAPS}?watch=1"))
            assert (await wire.head())[0] == 200
            assert (await other.request("GET", "/api", headers={"Authorization": "Bearer joe-token"})).code == 200

    run_on_site(tmp_path, test, reading=1)


@WITH_AND_WITHOUT_TLS
def test_connections_beyond_the_limit_wait(tmp_path: Path, tls: bool) -> None:
    async def test(site: Site) -> None:
        async with site.wire(tls=tls) as first:
            admin = {"Authorization": "Bearer admin-token"}
            assert (await first.request("GET", "/healthz", headers=admin)).code == 200
            async with site.wire() as late:
                late.send(request("GET", "/healthz"))
                assert (await first.request("GET", "/version", headers=admin)).code == 200
                assert site.http.connections == 1
                first.writer.close()
                assert (await late.read_response()).text == "ok"

    run_on_site(tmp_path, test, connections=1)


def test_one_peer_cannot_hold_all_connections(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        async with AsyncExitStack() as stack:
            wires = [await stack.enter_async_context(site.wire()) for _ in range(4)]
            await eventually(lambda: site.http.connections == 3)
            assert await wires[3].is_closed(), "the limit of connections of a peer is exceeded"
            assert (await wires[0].request("GET", "/healthz")).text == "ok"
            wires[1].abort()
            await eventually(lambda: site.http.connections == 2)
            again = await stack.enter_async_context(site.wire())
            assert (await again.request("GET", "/healthz")).text == "ok"

    run_on_site(tmp_path, test, connections=100, connections_per_peer=3)


@pytest.mark.parametrize("first_bytes", [b"", b"\x16\x03\x01"], ids=["no bytes", "truncated ClientHello"])
def test_unfinished_tls_handshakes_do_not_block_new_connections(tmp_path: Path, first_bytes: bytes) -> None:
    async def test(site: Site) -> None:
        async with site.wire(tls=True) as first, AsyncExitStack() as stack:
            admin = {"Authorization": "Bearer admin-token"}
            assert (await first.request("GET", "/healthz", headers=admin)).code == 200
            for _ in range(20):
                wire = await stack.enter_async_context(Wire(site.tls_port))
                wire.send(first_bytes)
            async with site.wire(tls=True) as another:
                assert (await another.request("GET", "/healthz", headers=admin)).code == 200
                assert (await first.request("GET", "/healthz", headers=admin)).code == 200, (
                    "an authenticated connection stays open"
                )

    run_on_site(tmp_path, test, connections=5, handshake_s=600)


def test_idle_unauthenticated_connections_are_closed_for_new_connections(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        async with AsyncExitStack() as stack:
            for _ in range(5):
                wire = await stack.enter_async_context(site.wire(tls=True))
                assert (await wire.request("GET", "/healthz")).code == 200
            async with site.wire(tls=True) as another:
                assert (await another.request("GET", "/healthz")).code == 200

    run_on_site(tmp_path, test, connections=5)


@pytest.mark.parametrize(
    ("descriptors", "total", "per_peer"),
    [(128, 96, 72), (1024, 768, 576), (20_000, 16_000, 12_000), (1 << 20, 16_000, 12_000)],
)
def test_connection_limits_derive_from_the_file_descriptor_limit(descriptors: int, total: int, per_peer: int) -> None:
    limiter = connection_limiter(HttpLimits(), descriptors)
    assert (limiter.total, limiter.per_peer) == (total, per_peer)


def test_ipv6_addresses_of_one_64_prefix_are_one_peer() -> None:
    assert peer_of(("2001:db8::1", 1, 0, 0)) == peer_of(("2001:db8::2:3", 2, 0, 0)) != peer_of(("2001:db8:0:1::", 1))
    assert peer_of(("::ffff:10.0.0.1", 1)) == peer_of(("10.0.0.1", 2)) == "10.0.0.1"
