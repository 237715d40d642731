"""Refused requests leave nothing behind: neither memory nor garbage that only the cycle collector frees."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sampan.api import limits
from sampan.apiserver.request.call import Call
from tests.api_server import Server, running_api_server
from tests.apiserver.http.wire import HEAD, Wire

MAPS = "/api/v1/namespaces/default/configmaps"
MIB = 1 << 20
BLANKS = b" " * MIB
BODIES = {
    "invalid JSON": (MAPS, b"[" + BLANKS, 400),
    "other kind": (MAPS, b'{"apiVersion":"v1","kind":"Nothing","metadata":{"name":"' + b"a" * MIB + b'"}}', 400),
    "invalid name": (MAPS, b'{"metadata":{"name":"' + b"A" * MIB + b'"}}', 422),
    "invalid time": (MAPS, b'{"metadata":{"creationTimestamp":"2020-01-01T00:00:00.' + b"0" * MIB + b'"}}', 400),
    "other namespace": (MAPS, b'{"metadata":{"name":"a","namespace":"b"}}' + BLANKS, 400),
    "invalid YAML": (MAPS, b"a: [" + BLANKS, 400),
    "no such path": ("/apis/none/v1/things", BLANKS, 404),
    "no such verb": ("/api/v1/namespaces/default/configmaps/a", BLANKS, 405),
}


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def count_calls(path: str) -> int:
    """Count the calls to this path in memory. Calls of the server's own components come and go meanwhile."""
    return sum(isinstance(obj, Call) and obj.method == "POST" and obj.path == path for obj in gc.get_objects())


async def send_refused(server: Server, name: str, count: int) -> None:
    path, body, code = BODIES[name]
    media = b"application/yaml" if "YAML" in name else b"application/json"
    head = b"POST %s HTTP/1.1\r\n%sContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    port = urlsplit(server.url).port
    assert port is not None
    async with Wire(port) as wire:
        for _ in range(count):
            wire.send(head % (path.encode(), HEAD, media, len(body)) + body)
            response = await wire.read_response()
            assert response.code == code, response.body[:500]


@pytest.mark.parametrize("name", BODIES)
async def test_refused_calls_are_freed_by_reference_counts(name: str) -> None:
    async with running_api_server() as server:
        await send_refused(server, name, 2)
        with without_collector():
            await send_refused(server, name, 20)
            assert count_calls(BODIES[name][0]) <= 1


async def test_too_many_query_parameters_are_refused() -> None:
    async with running_api_server() as server:
        port = urlsplit(server.url).port
        assert port is not None
        for count, code in ((limits.QUERY_PARAMETERS, 200), (limits.QUERY_PARAMETERS + 1, 400)):
            async with Wire(port) as wire:
                assert (await wire.request("GET", f"{MAPS}?{'&'.join(['a=b'] * count)}")).code == code


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="/proc/self/statm exists on Linux")
async def test_a_thousand_refused_bodies_do_not_stay_in_memory() -> None:
    async with running_api_server() as server:
        await send_refused(server, "invalid JSON", 20)
        with without_collector():
            before = resident_bytes()
            await send_refused(server, "invalid JSON", 1000)
            assert resident_bytes() - before < 30 * MIB
