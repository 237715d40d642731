"""Watches over WebSocket."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import msgspec
import pytest

from sampan.storage.cacher.errors import VersionExpired
from tests.apiserver.http.http_server import Site, site
from tests.eventually import eventually

Test = Callable[[Site, aiohttp.ClientSession], Awaitable[None]]
MAPS = "/api/v1/namespaces/default/configmaps"
ADMIN = {"Authorization": "Bearer admin-token"}


def on_a_site_with_session(directory: Path, test: Test) -> None:
    async def run() -> None:
        async with site(directory) as here, aiohttp.ClientSession() as session:
            await test(here, session)

    asyncio.run(run())


def _url(here: Site, query: str = "") -> str:
    return f"http://127.0.0.1:{here.port}{MAPS}?watch=1{query}"


def test_each_event_is_a_text_message(tmp_path: Path) -> None:
    async def test(here: Site, session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(_url(here)) as socket:
            await here.objects({"metadata": {"name": "a"}})
            await here.objects({"metadata": {"name": "b"}})
            for name in "ab":
                message = await socket.receive(60)
                assert message.type is aiohttp.WSMsgType.TEXT
                event = msgspec.json.decode(message.data)
                assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)

    on_a_site_with_session(tmp_path, test)


def test_protobuf_comes_in_binary_messages_without_lengths(tmp_path: Path) -> None:
    async def test(here: Site, session: aiohttp.ClientSession) -> None:
        await here.objects({"metadata": {"name": "a"}})
        accept = {"Accept": "application/vnd.kubernetes.protobuf"}
        async with session.ws_connect(_url(here, "&resourceVersion=0"), headers=accept) as socket:
            message = await socket.receive(60)
            assert message.type is aiohttp.WSMsgType.BINARY
            assert b"ADDED" in message.data[:12]

    on_a_site_with_session(tmp_path, test)


def test_the_end_of_the_watch_closes_the_socket(tmp_path: Path) -> None:
    async def test(here: Site, session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(_url(here, "&timeoutSeconds=1")) as socket:
            assert (await socket.receive(60)).type is aiohttp.WSMsgType.CLOSE
        assert here.watchers() == 0

    on_a_site_with_session(tmp_path, test)


def test_the_error_that_ends_a_watch_is_sent(tmp_path: Path) -> None:
    async def test(here: Site, session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(_url(here)) as socket:
            resource = here.server.scheme.resource("", "v1", "configmaps")
            assert resource is not None
            cacher = here.server.registry.open_store(resource).cacher
            next(iter(cacher._state.routes.watchers())).end(VersionExpired("too old"))
            event = msgspec.json.decode((await socket.receive(60)).data)
            assert (event["type"], event["object"]["reason"]) == ("ERROR", "Expired")
            assert (await socket.receive(60)).type is aiohttp.WSMsgType.CLOSE

    on_a_site_with_session(tmp_path, test)


def test_a_client_that_goes_ends_its_watch(tmp_path: Path) -> None:
    async def test(here: Site, session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(_url(here)) as socket:
            await socket.send_str("who listens?")
            assert here.watchers() == 1
        await eventually(lambda: here.watchers() == 0)

    on_a_site_with_session(tmp_path, test)


def test_the_end_of_the_server_closes_the_socket(tmp_path: Path) -> None:
    async def test(here: Site, session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(_url(here)) as socket:
            closing = asyncio.create_task(here.http.close())
            assert (await socket.receive(60)).type is aiohttp.WSMsgType.CLOSE
            await closing

    on_a_site_with_session(tmp_path, test)


@pytest.mark.parametrize(("token", "code"), [("admin-token", 101), ("wrong", 401)])
def test_a_browser_sends_its_token_as_a_subprotocol(tmp_path: Path, token: str, code: int) -> None:
    async def test(here: Site, session: aiohttp.ClientSession) -> None:
        encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
        protocols = [f"base64url.bearer.authorization.k8s.io.{encoded}", "base64.binary.k8s.io"]
        url = f"https://localhost:{here.tls_port}{MAPS}?watch=1"
        try:
            async with session.ws_connect(url, protocols=protocols, ssl=here.trusting()) as socket:
                status, protocol = 101, socket.protocol
        except aiohttp.WSServerHandshakeError as fault:
            status, protocol = fault.status, ""
        assert (status, protocol) == (code, "base64.binary.k8s.io" if code == 101 else "")

    on_a_site_with_session(tmp_path, test)


def test_a_handshake_that_is_none_is_refused(tmp_path: Path) -> None:
    async def test(here: Site, session: aiohttp.ClientSession) -> None:
        async with here.wire() as wire:
            response = await wire.ask(
                "GET", f"{MAPS}?watch=1", headers={"Connection": "Upgrade", "Upgrade": "websocket"}
            )
            assert response.code == 400
            assert (await wire.ask("GET", "/healthz")).text == "ok"

    on_a_site_with_session(tmp_path, test)


def test_other_requests_take_no_notice_of_the_wish(tmp_path: Path) -> None:
    async def test(here: Site, session: aiohttp.ClientSession) -> None:
        async with here.wire() as wire:
            wish = {"Connection": "Upgrade", "Upgrade": "websocket"}
            assert (await wire.ask("GET", MAPS, headers=wish)).json["kind"] == "ConfigMapList"
            assert (await wire.ask("GET", "/healthz")).text == "ok"

    on_a_site_with_session(tmp_path, test)
