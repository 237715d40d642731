"""Watches over HTTP: frames, ends and errors of streams, and clients that do not read."""

import asyncio
import gc
import logging
import zlib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sampan.api.codec import protobuf
from sampan.apiserver.http.watch_server import ChunkEncoder
from sampan.storage.cacher import CacheItem, WatchLimits
from sampan.storage.cacher.errors import VersionExpired
from tests.apiserver.http.http_server import Site, open_site, run_on_site
from tests.apiserver.http.wire import Wire
from tests.eventually import eventually

MAPS = "/api/v1/namespaces/default/configmaps"
PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


def _config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def _open(wire: Wire, query: str = "", version: str = "1.1", **headers: str) -> dict[str, str]:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    wire.send(f"GET {MAPS}?watch=1{query} HTTP/{version}\r\nHost: x\r\n{lines}\r\n".encode())
    code, fields = await wire.head()
    assert code == 200
    return fields


def test_events_are_sent_until_timeout_seconds_ends_the_stream(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        async with site.wire() as wire:
            headers = await _open(wire, "&timeoutSeconds=2")
            assert headers["content-type"] == "application/json"
            await site.create_config_map(_config_map("a", x="1"))
            await site.create_config_map(_config_map("b"))
            events = [event async for event in wire.events()]
            assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
                ("ADDED", "a"),
                ("ADDED", "b"),
            ]
            again = await wire.request("GET", f"{MAPS}/a")
            assert again.code == 200, "the connection is reused"

    run_on_site(tmp_path, test)


def test_protobuf_and_table_watches_have_their_own_frames(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        await site.create_config_map(_config_map("a"))
        async with site.wire() as wire:
            headers = await _open(wire, "&timeoutSeconds=1&resourceVersion=0", Accept=PROTOBUF)
            assert headers["content-type"] == f"{PROTOBUF};stream=watch"
            (chunk,) = [chunk async for chunk in wire.chunks()]
            assert int.from_bytes(chunk[:4], "big") == len(chunk) - 4
            await _open(wire, "&timeoutSeconds=1&resourceVersion=0", Accept=TABLE)
            (event,) = [event async for event in wire.events()]
            assert event["object"]["kind"] == "Table"

    run_on_site(tmp_path, test)
    assert protobuf.supports("v1", "ConfigMap")


LIST = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=2"
GZIP = {"Accept-Encoding": "deflate, gzip"}


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_watch_that_begins_with_a_list_is_compressed(tmp_path: Path, version: str) -> None:
    async def test() -> None:
        async with open_site(tmp_path, compresses_watch_lists=True) as site, site.wire() as wire:
            await site.create_config_map(_config_map("a"))
            await site.create_config_map(_config_map("b", x="1" * 1000))
            headers = await _open(wire, LIST, version, **GZIP)
            assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
            await site.create_config_map(_config_map("c"))
            if version == "1.0":
                async with asyncio.timeout(60):
                    chunks = [await wire.reader.read()]
            else:
                chunks = [chunk async for chunk in wire.chunks()]
            stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
            parts = [stream.decompress(chunk) for chunk in chunks]
            assert stream.eof, "the stream ends with its checksum, which is right"
            if version == "1.1":
                assert [len(part.splitlines()) for part in parts] == [3, 1, 0]
            events = [msgspec.json.decode(line) for line in b"".join(parts).splitlines()]
            names = [event["object"]["metadata"].get("name") for event in events]
            assert (names, events[2]["type"]) == (["a", "b", None, "c"], "BOOKMARK")

    asyncio.run(test())


@pytest.mark.parametrize(
    ("compresses", "query", "headers"),
    [
        (False, LIST, GZIP),
        (True, LIST, {"Accept-Encoding": "identity"}),
        (True, "&timeoutSeconds=1", GZIP),
        (True, LIST.replace("&allowWatchBookmarks=true", ""), GZIP),
    ],
    ids=["disabled", "not accepted", "no list", "no bookmarks"],
)
def test_other_watches_are_not_compressed(
    tmp_path: Path, compresses: bool, query: str, headers: dict[str, str]
) -> None:
    async def test() -> None:
        async with open_site(tmp_path, compresses_watch_lists=compresses) as site, site.wire() as wire:
            received = await _open(wire, query, **headers)
            assert "content-encoding" not in received
            await site.create_config_map(_config_map("a"))
            assert "a" in [event["object"]["metadata"].get("name") async for event in wire.events()]

    asyncio.run(test())


def test_http_1_0_gets_lines_without_chunks(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        await site.create_config_map(_config_map("a"))
        async with site.wire() as wire:
            headers = await _open(wire, "&timeoutSeconds=1&resourceVersion=0", version="1.0")
            assert "transfer-encoding" not in headers
            async with asyncio.timeout(60):
                lines = (await wire.reader.read()).splitlines()
            assert [line.startswith(b'{"type":"ADDED"') for line in lines] == [True]

    run_on_site(tmp_path, test)


@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        ("&resourceVersion=999999999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", 504, "Timeout"),
    ],
)
def test_a_watch_that_fails_gets_its_error_in_the_stream(tmp_path: Path, query: str, code: int, reason: str) -> None:
    async def test(site: Site) -> None:
        async with site.wire() as wire:
            await _open(wire, query)
            (event,) = [event async for event in wire.events()]
            assert event["type"] == "ERROR"
            assert (event["object"]["code"], event["object"]["reason"]) == (code, reason)

    run_on_site(tmp_path, test)


def test_invalid_resource_version_gets_an_error_response(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        async with site.wire() as wire:
            response = await wire.request("GET", f"{MAPS}?watch=1&resourceVersion=abc")
            assert response.code == 500
            assert "reason" not in response.json

    run_on_site(tmp_path, test)


def _watcher(site: Site) -> Any:
    resource = site.server.scheme.resource("", "v1", "configmaps")
    assert resource is not None
    return next(iter(site.server.registry.open_store(resource).cacher._state.routes.watchers()))


def test_expired_watch_ends_with_an_error_event(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        async with site.wire() as wire:
            await _open(wire)
            await eventually(lambda: site.count_watchers() == 1)
            _watcher(site).end(VersionExpired("too old resource version: 1 (2)"))
            (event,) = [event async for event in wire.events()]
            assert (event["type"], event["object"]["reason"]) == ("ERROR", "Expired")

    run_on_site(tmp_path, test)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_disconnected_clients_are_removed_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tls: bool
) -> None:
    async def test(site: Site) -> None:
        wires = [site.wire(tls=tls) for _ in range(5)]
        for wire in wires:
            await wire.__aenter__()
            await _open(wire, Authorization="Bearer admin-token")
        await eventually(lambda: site.count_watchers() == 5)
        for wire in wires:
            wire.abort()
        await site.create_config_map(_config_map("a"))
        await eventually(lambda: site.count_watchers() == 0)
        await eventually(lambda: site.http.connections == 0)
        for wire in wires:
            await wire.__aexit__()

    caplog.set_level(logging.INFO)
    run_on_site(tmp_path, test)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_slow_client_receives_all_events(tmp_path: Path, tls: bool) -> None:
    async def test(site: Site) -> None:
        async with site.wire(tls=tls, has_small_buffer=True) as wire:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            wire.send(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n\r\n".encode())
            await eventually(lambda: site.count_watchers() == 1)
            for number in range(60):
                await site.create_config_map(_config_map(f"m{number:03d}", x="y" * 100_000))
            watcher = _watcher(site)
            await eventually(lambda: watcher.queued > 0 or site.count_watchers() == 0)
            wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
            code, _ = await wire.head()
            assert code == 200
            names = []
            async for event in wire.events():
                names.append(event["object"]["metadata"]["name"])
                if len(names) == 60:
                    break
            assert names == [f"m{number:03d}" for number in range(60)]

    run_on_site(tmp_path, test)


def test_client_beyond_the_event_queue_limit_is_disconnected(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        async with site.wire(has_small_buffer=True) as wire:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            wire.send(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await eventually(lambda: site.count_watchers() == 1)
            _watcher(site)._limits = WatchLimits(events=3)
            for number in range(200):
                await site.create_config_map(_config_map(f"m{number:03d}", x="y" * 100_000))
                if site.count_watchers() == 0:
                    break
            await eventually(lambda: site.count_watchers() == 0)

    run_on_site(tmp_path, test)


async def _open_unread(site: Site, *, tls: bool) -> Wire:
    """Open a watch whose client never reads."""
    wire = await site.wire(tls=tls, has_small_buffer=True).__aenter__()
    wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
    wire.send(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n\r\n".encode())
    return wire


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_clients_that_never_read_stay_within_the_watch_budget(tmp_path: Path, tls: bool) -> None:
    async def test(site: Site) -> None:
        budget = site.server.registry.watch_budget
        budget._limit, budget._pressure = 4 << 20, 512 << 10
        async with site.wire() as reader:
            await _open(reader)
            unread = [await _open_unread(site, tls=tls) for _ in range(20)]
            await eventually(lambda: site.count_watchers() == 21)
            names: list[str] = []

            async def read() -> None:
                async for event in reader.events():
                    names.append(event["object"]["metadata"]["name"])

            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(read())
                number = 0
                while site.count_watchers() > 1:
                    await site.create_config_map(_config_map(f"m{number:03d}", x="y" * 100_000))
                    assert budget.used <= (4 << 20) + 110_000
                    number += 1
                await eventually(lambda: len(names) == number)
                reading.cancel()
            assert names == [f"m{index:03d}" for index in range(number)], "a client that reads receives all events"
            assert _count_terminated_watchers(site) == 20
            await eventually(lambda: site.http.connections == 1)
            assert budget.used == 0
            for wire in unread:
                await wire.__aexit__()

    run_on_site(tmp_path, test)


def _count_terminated_watchers(site: Site) -> int:
    resource = site.server.scheme.resource("", "v1", "configmaps")
    assert resource is not None
    return site.server.registry.open_store(resource).cacher.stats().cut_off


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_client_that_does_not_read_is_disconnected_after_a_timeout(tmp_path: Path, tls: bool) -> None:
    async def test(site: Site) -> None:
        site.http._watch_server._congested_s = 0.05
        wire = await _open_unread(site, tls=tls)
        await eventually(lambda: site.count_watchers() == 1)
        watcher = _watcher(site)
        number = 0
        while watcher.blocked_at is None and not watcher.is_ended:
            await site.create_config_map(_config_map(f"m{number:03d}", x="y" * 100_000))
            number += 1
        await eventually(lambda: site.http.connections == 0)
        assert _count_terminated_watchers(site) == 1
        await wire.__aexit__()

    run_on_site(tmp_path, test)


def _count(name: str) -> int:
    return sum(type(item).__name__ == name for item in gc.get_objects())


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_ended_watch_leaves_no_reference_cycles(tmp_path: Path, tls: bool) -> None:
    """The garbage collector examines old objects rarely; the buffers of a connection must not wait for it."""

    async def test(site: Site) -> None:
        async with site.wire(tls=tls) as wire:
            await _open(wire, Authorization="Bearer admin-token")
            await site.create_config_map(_config_map("a"))
            await eventually(lambda: site.http.connections == 1)
            gc.collect()
            gc.disable()
        try:
            await eventually(lambda: site.http.connections == 0 and not _count("_WatchStream"))
        finally:
            gc.enable()

    async def run() -> None:
        async with open_site(tmp_path) as site:
            await test(site)

    pytest.importorskip("uvloop").run(run())  # The transports of asyncio itself are reference cycles.


def test_server_shutdown_completes_watch_streams(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with open_site(tmp_path) as site:
            wires = [site.wire(tls=bool(number % 2)) for number in range(4)]
            for wire in wires:
                await wire.__aenter__()
                await _open(wire, Authorization="Bearer admin-token")
            await site.create_config_map(_config_map("a"))
            await site.http.close()
            for wire in wires:
                assert [event["type"] async for event in wire.events()] == ["ADDED"]
                assert await wire.is_closed()
                await wire.__aexit__()
            assert site.http.connections == 0

    asyncio.run(run())
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_event_is_encoded_once_per_format_for_all_watchers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[bytes] = []
    encode = ChunkEncoder.frame

    def record(chunk: ChunkEncoder, type: str, item: CacheItem) -> bytes:
        encoded.append(encode(chunk, type, item))
        return encoded[-1]

    async def test(site: Site) -> None:
        async with AsyncExitStack() as stack:
            wires = [await stack.enter_async_context(site.wire()) for _ in range(9)]
            for wire, accept in zip(wires, ("application/json", PROTOBUF, TABLE) * 3, strict=True):
                await _open(wire, Accept=accept)
            await site.create_config_map(_config_map("a"))
            received = [await anext(wire.chunks()) for wire in wires]
        assert received == received[:3] * 3
        assert sorted(encoded) == sorted(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in received[:3])

    monkeypatch.setattr(ChunkEncoder, "frame", record)
    run_on_site(tmp_path, test)
