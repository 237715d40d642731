"""The cost of requests in Python calls, which do not depend on the load of the machine."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import msgspec

from tests.apiserver.http.http_server import MAPS, Site, open_site
from tests.apiserver.http.wire import request
from tests.calls import counted_calls

_COUNT = 50
GET_CALLS, CREATE_CALLS = 170, 475
"""The budgets of a GET and of a create, from the bytes of the request to the bytes of the response; the event loop's
own calls are included."""


def _exchange(port: int, requests: list[bytes], code: int) -> None:
    """Send requests one by one over a connection of a thread, whose calls are not counted."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as reader:
        for data in requests:
            connection.sendall(data)
            assert int(reader.readline().split(b" ")[1]) == code
            length = 0
            while (line := reader.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line[15:])
            reader.read(length)


async def _count_calls(site: Site, requests: list[bytes], code: int) -> float:
    """Return the calls of the event loop for each request; the first ones fill the caches."""
    await asyncio.to_thread(_exchange, site.port, requests[:5], code)
    with counted_calls() as count:
        await asyncio.to_thread(_exchange, site.port, requests[5:], code)
    return count.calls / len(requests[5:])


def _config_map(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": {"key": "value"}}


async def test_calls_of_a_get_stay_within_the_budget(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        await site.create_config_map(_config_map("a"))
        calls = await _count_calls(site, [request("GET", f"{MAPS}/a")] * _COUNT, 200)
        assert calls <= GET_CALLS


async def test_calls_of_a_create_stay_within_the_budget(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        bodies = [msgspec.json.encode(_config_map(f"a-{number}")) for number in range(_COUNT)]
        calls = await _count_calls(site, [request("POST", MAPS, body) for body in bodies], 201)
        assert calls <= CREATE_CALLS
