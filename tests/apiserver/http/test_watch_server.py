"""Watches over HTTP: what is sent, when it ends, and what happens to clients that do not listen."""

import asyncio
import gc
import logging
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import protobuf
from sampan.storage.cacher import WatchLimits
from sampan.storage.cacher.errors import VersionExpired
from tests.apiserver.http.http_server import Site, on_a_site, site
from tests.apiserver.http.wire import Wire
from tests.eventually import eventually

MAPS = "/api/v1/namespaces/default/configmaps"


def _map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def _open(wire: Wire, query: str = "", version: str = "1.1", **headers: str) -> dict[str, str]:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    wire.send(f"GET {MAPS}?watch=1{query} HTTP/{version}\r\nHost: x\r\n{lines}\r\n".encode())
    code, fields = await wire.head()
    assert code == 200
    return fields


def test_events_come_as_they_happen_and_the_time_ends_the_stream(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with here.wire() as wire:
            headers = await _open(wire, "&timeoutSeconds=5")
            assert headers["content-type"] == "application/json"
            await here.objects(_map("a", x="1"))
            await here.objects(_map("b"))
            events = [event async for event in wire.events()]
            assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
                ("ADDED", "a"),
                ("ADDED", "b"),
            ]
            again = await wire.ask("GET", f"{MAPS}/a")
            assert again.code == 200, "the connection can be used again"

    on_a_site(tmp_path, test)


def test_every_form_has_its_frames(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        await here.objects(_map("a"))
        async with here.wire() as wire:
            content_type = "application/vnd.kubernetes.protobuf"
            headers = await _open(wire, "&timeoutSeconds=1&resourceVersion=0", Accept=content_type)
            assert headers["content-type"] == f"{content_type};stream=watch"
            (chunk,) = [chunk async for chunk in wire.chunks()]
            assert int.from_bytes(chunk[:4], "big") == len(chunk) - 4
            table = "application/json;as=Table;g=meta.k8s.io;v=v1"
            await _open(wire, "&timeoutSeconds=1&resourceVersion=0", Accept=table)
            (event,) = [event async for event in wire.events()]
            assert event["object"]["kind"] == "Table"

    on_a_site(tmp_path, test)
    assert protobuf.supports("v1", "ConfigMap")


def test_http_1_0_gets_lines_without_chunks(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        await here.objects(_map("a"))
        async with here.wire() as wire:
            headers = await _open(wire, "&timeoutSeconds=1&resourceVersion=0", version="1.0")
            assert "transfer-encoding" not in headers
            async with asyncio.timeout(60):
                lines = (await wire.reader.read()).splitlines()
            assert [line.startswith(b'{"type":"ADDED"') for line in lines] == [True]

    on_a_site(tmp_path, test)


@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        ("&resourceVersion=999999999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", 504, "Timeout"),
    ],
)
def test_a_watch_that_fails_gets_its_error_in_the_stream(tmp_path: Path, query: str, code: int, reason: str) -> None:
    async def test(here: Site) -> None:
        async with here.wire() as wire:
            await _open(wire, query)
            (event,) = [event async for event in wire.events()]
            assert event["type"] == "ERROR"
            assert (event["object"]["code"], event["object"]["reason"]) == (code, reason)

    on_a_site(tmp_path, test)


def test_a_version_that_is_none_fails_before_the_stream(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with here.wire() as wire:
            response = await wire.ask("GET", f"{MAPS}?watch=1&resourceVersion=abc")
            assert response.code == 500
            assert "reason" not in response.json

    on_a_site(tmp_path, test)


def _watcher(here: Site) -> Any:
    resource = here.server.scheme.resource("", "v1", "configmaps")
    assert resource is not None
    return next(iter(here.server.registry.open_store(resource).cacher._state.routes.watchers()))


def test_a_watch_that_can_go_no_further_says_so(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with here.wire() as wire:
            await _open(wire)
            await eventually(lambda: here.watchers() == 1)
            _watcher(here).end(VersionExpired("too old resource version: 1 (2)"))
            (event,) = [event async for event in wire.events()]
            assert (event["type"], event["object"]["reason"]) == ("ERROR", "Expired")

    on_a_site(tmp_path, test)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_client_that_goes_is_forgotten_and_not_worth_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tls: bool
) -> None:
    async def test(here: Site) -> None:
        wires = [here.wire(tls=tls) for _ in range(5)]
        for wire in wires:
            await wire.__aenter__()
            await _open(wire, Authorization="Bearer admin-token")
        await eventually(lambda: here.watchers() == 5)
        for wire in wires:
            wire.abort()
        await here.objects(_map("a"))
        await eventually(lambda: here.watchers() == 0)
        await eventually(lambda: here.http.connections == 0)
        for wire in wires:
            await wire.__aexit__()

    caplog.set_level(logging.INFO)
    on_a_site(tmp_path, test)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_slow_client_gets_everything_in_the_end(tmp_path: Path, tls: bool) -> None:
    async def test(here: Site) -> None:
        async with here.wire(tls=tls, is_narrow=True) as wire:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            wire.send(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n\r\n".encode())
            await eventually(lambda: here.watchers() == 1)
            for number in range(60):
                await here.objects(_map(f"m{number:03d}", x="y" * 100_000))
            watcher = _watcher(here)
            await eventually(lambda: watcher.queued > 0 or here.watchers() == 0)
            wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
            code, _ = await wire.head()
            assert code == 200
            names = []
            async for event in wire.events():
                names.append(event["object"]["metadata"]["name"])
                if len(names) == 60:
                    break
            assert names == [f"m{number:03d}" for number in range(60)]

    on_a_site(tmp_path, test)


def test_a_client_that_falls_too_far_behind_is_cut_off(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with here.wire(is_narrow=True) as wire:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            wire.send(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await eventually(lambda: here.watchers() == 1)
            _watcher(here)._limits = WatchLimits(events=3)
            for number in range(200):
                await here.objects(_map(f"m{number:03d}", x="y" * 100_000))
                if here.watchers() == 0:
                    break
            await eventually(lambda: here.watchers() == 0)

    on_a_site(tmp_path, test)


async def _deaf(here: Site, *, tls: bool) -> Wire:
    """A watch whose client never reads."""
    wire = await here.wire(tls=tls, is_narrow=True).__aenter__()
    wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
    wire.send(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-token\r\n\r\n".encode())
    return wire


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_many_clients_that_never_read_hold_no_more_than_the_budget(tmp_path: Path, tls: bool) -> None:
    async def test(here: Site) -> None:
        budget = here.server.registry.watch_budget
        budget._limit, budget._pressure = 4 << 20, 512 << 10
        async with here.wire() as reader:
            await _open(reader)
            deaf = [await _deaf(here, tls=tls) for _ in range(20)]
            await eventually(lambda: here.watchers() == 21)
            names: list[str] = []

            async def read() -> None:
                async for event in reader.events():
                    names.append(event["object"]["metadata"]["name"])

            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(read())
                number = 0
                while here.watchers() > 1:
                    await here.objects(_map(f"m{number:03d}", x="y" * 100_000))
                    assert budget.used <= (4 << 20) + 110_000
                    number += 1
                await eventually(lambda: len(names) == number)
                reading.cancel()
            assert names == [f"m{index:03d}" for index in range(number)], "who reads misses nothing"
            assert _terminated(here) == 20
            await eventually(lambda: here.http.connections == 1)
            assert budget.used == 0
            for wire in deaf:
                await wire.__aexit__()

    on_a_site(tmp_path, test)


def _terminated(here: Site) -> int:
    resource = here.server.scheme.resource("", "v1", "configmaps")
    assert resource is not None
    return here.server.registry.open_store(resource).cacher.stats().cut_off


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_client_that_does_not_read_at_all_is_disconnected_in_time(tmp_path: Path, tls: bool) -> None:
    async def test(here: Site) -> None:
        here.http._watch_server._congested_s = 0.05
        wire = await _deaf(here, tls=tls)
        await eventually(lambda: here.watchers() == 1)
        watcher = _watcher(here)
        number = 0
        while watcher.blocked_at is None and not watcher.is_ended:
            await here.objects(_map(f"m{number:03d}", x="y" * 100_000))
            number += 1
        await eventually(lambda: here.http.connections == 0)
        assert _terminated(here) == 1
        await wire.__aexit__()

    on_a_site(tmp_path, test)


def _count(name: str) -> int:
    return sum(type(item).__name__ == name for item in gc.get_objects())


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_watch_that_ends_leaves_nothing_for_the_collector(tmp_path: Path, tls: bool) -> None:
    """The collector looks at old objects very seldom; a connection's buffers must not wait for it."""

    async def test(here: Site) -> None:
        async with here.wire(tls=tls) as wire:
            await _open(wire, Authorization="Bearer admin-token")
            await here.objects(_map("a"))
            await eventually(lambda: here.http.connections == 1)
            gc.collect()
            gc.disable()
        try:
            await eventually(lambda: here.http.connections == 0 and not _count("_Stream"))
        finally:
            gc.enable()

    async def run() -> None:
        async with site(tmp_path) as here:
            await test(here)

    pytest.importorskip("uvloop").run(run())  # asyncio's own transports are cycles


def test_the_end_of_the_server_is_a_proper_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with site(tmp_path) as here:
            wires = [here.wire(tls=bool(number % 2)) for number in range(4)]
            for wire in wires:
                await wire.__aenter__()
                await _open(wire, Authorization="Bearer admin-token")
            await here.objects(_map("a"))
            await here.http.close()
            for wire in wires:
                assert [event["type"] async for event in wire.events()] == ["ADDED"]
                assert await wire.is_closed()
                await wire.__aexit__()
            assert here.http.connections == 0

    asyncio.run(run())
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_one_event_is_framed_once_for_all(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        wires = [here.wire() for _ in range(3)]
        for wire in wires:
            await wire.__aenter__()
            await _open(wire)
        await here.objects(_map("a"))
        events = []
        for wire in wires:
            async for chunk in wire.chunks():
                events.append(chunk)
                break
            await wire.__aexit__()
        assert len(set(events)) == 1

    on_a_site(tmp_path, test)
