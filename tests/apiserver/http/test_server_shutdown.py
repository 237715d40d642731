"""The end of the server: nobody new, what is under way is finished, nothing is left."""

import asyncio
from pathlib import Path

import pytest

from tests.apiserver.http.http_server import site
from tests.apiserver.http.wire import Wire, request
from tests.eventually import eventually


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_a_request_under_way_is_finished(tmp_path: Path, tls: bool) -> None:
    async with site(tmp_path) as here, here.wire(tls=tls) as busy, here.wire(tls=tls) as idle:
        assert (await idle.ask("GET", "/healthz")).code == 200
        busy.send(request("GET", "/wait", headers={"Authorization": "Bearer admin-token"}))
        await here.waiting.arrived.acquire()
        closing = asyncio.create_task(here.http.close())
        assert await idle.is_closed(), "an idle connection is closed at once"
        with pytest.raises(ConnectionRefusedError):
            await Wire(here.port).__aenter__()
        here.waiting.go.set()
        assert (await busy.read_response()).text == "waited"
        assert await busy.is_closed()
        await closing
        assert here.http.connections == 0


async def test_a_request_that_does_not_end_is_ended(tmp_path: Path) -> None:
    async with site(tmp_path) as here, here.wire() as busy:
        busy.send(request("GET", "/wait"))
        await here.waiting.arrived.acquire()
        await here.http.close(0.05)
        assert await busy.is_closed()
        assert here.http.connections == 0
        assert not [task for task in asyncio.all_tasks() if "RequestHandler" in str(task.get_coro())]


async def test_a_client_in_the_middle_of_a_body_does_not_hold_it_up(tmp_path: Path) -> None:
    async with site(tmp_path) as here, here.wire() as busy:
        busy.send(b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        await eventually(lambda: here.http.connections == 1)
        await here.http.close(0.05)
        async with asyncio.timeout(60):
            await busy.reader.read()
        assert here.http.connections == 0


async def test_it_can_be_closed_before_it_listens_and_twice(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        await here.http.close()
        await here.http.close()
