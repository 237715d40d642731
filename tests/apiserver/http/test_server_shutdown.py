"""Shutdown of the HTTP server: no new connections, requests in flight are finished, and nothing is left over."""

import asyncio
from pathlib import Path

import pytest

from sampan.apiserver.http.server import HttpServer
from tests.api_server import running_api_server
from tests.apiserver.http.http_server import open_site
from tests.apiserver.http.wire import Wire, request
from tests.eventually import eventually


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_request_in_flight_is_finished(tmp_path: Path, tls: bool) -> None:
    async with open_site(tmp_path) as site, site.wire(tls=tls) as busy, site.wire(tls=tls) as idle:
        assert (await idle.request("GET", "/healthz")).code == 200
        busy.send(request("GET", "/wait", headers={"Authorization": "Bearer admin-token"}))
        await site.wait_handler.arrived.acquire()
        closing = asyncio.create_task(site.http.close())
        assert await idle.is_closed(), "an idle connection is closed at once"
        with pytest.raises(ConnectionRefusedError):
            await Wire(site.port).__aenter__()
        site.wait_handler.go.set()
        assert (await busy.read_response()).text == "waited"
        assert await busy.is_closed()
        await closing
        assert site.http.connections == 0


async def test_request_in_flight_is_cancelled_after_the_grace_period(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site, site.wire() as busy:
        busy.send(request("GET", "/wait"))
        await site.wait_handler.arrived.acquire()
        await site.http.close(0.05)
        assert await busy.is_closed()
        assert site.http.connections == 0
        assert not [task for task in asyncio.all_tasks() if "HttpConnection" in str(task.get_coro())]


async def test_incomplete_request_body_does_not_delay_the_shutdown(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site, site.wire() as busy:
        busy.send(b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        await eventually(lambda: site.http.connections == 1)
        await site.http.close(0.05)
        async with asyncio.timeout(60):
            await busy.reader.read()
        assert site.http.connections == 0


async def test_server_can_be_closed_before_it_listens() -> None:
    async with running_api_server() as api:
        server = HttpServer(pipeline=api.pipeline, start_task=asyncio.create_task)
        await server.close()
        assert (server.connections, server.is_stopping) == (0, True)


async def test_close_can_be_called_twice(tmp_path: Path) -> None:
    async with open_site(tmp_path) as site:
        await site.http.close()
        await site.http.close()
