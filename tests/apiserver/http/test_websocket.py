"""Watches over WebSocket."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import msgspec
import pytest

from sampan.storage.cacher.errors import VersionExpired
from tests.apiserver.http.http_server import Site, open_site
from tests.eventually import eventually

Test = Callable[[Site, aiohttp.ClientSession], Awaitable[None]]
MAPS = "/api/v1/namespaces/default/configmaps"
ADMIN = {"Authorization": "Bearer admin-token"}


def run_with_session(directory: Path, test: Test) -> None:
    async def run() -> None:
        async with open_site(directory) as site, aiohttp.ClientSession() as session:
            await test(site, session)

    asyncio.run(run())


def _url(site: Site, query: str = "") -> str:
    return f"http://127.0.0.1:{site.port}{MAPS}?watch=1{query}"


def test_each_event_is_a_text_message(tmp_path: Path) -> None:
    async def test(site: Site, session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(_url(site)) as socket:
            await site.create_config_map({"metadata": {"name": "a"}})
            await site.create_config_map({"metadata": {"name": "b"}})
            for name in "ab":
                message = await socket.receive(60)
                assert message.type is aiohttp.WSMsgType.TEXT
                event = msgspec.json.decode(message.data)
                assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)

    run_with_session(tmp_path, test)


def test_protobuf_events_are_binary_messages_without_length_prefix(tmp_path: Path) -> None:
    async def test(site: Site, session: aiohttp.ClientSession) -> None:
        await site.create_config_map({"metadata": {"name": "a"}})
        accept = {"Accept": "application/vnd.kubernetes.protobuf"}
        async with session.ws_connect(_url(site, "&resourceVersion=0"), headers=accept) as socket:
            message = await socket.receive(60)
            assert message.type is aiohttp.WSMsgType.BINARY
            assert b"ADDED" in message.data[:12]

    run_with_session(tmp_path, test)


def test_the_end_of_the_watch_closes_the_socket(tmp_path: Path) -> None:
    async def test(site: Site, session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(_url(site, "&timeoutSeconds=1")) as socket:
            assert (await socket.receive(60)).type is aiohttp.WSMsgType.CLOSE
        assert site.count_watchers() == 0

    run_with_session(tmp_path, test)


def test_the_error_that_ends_a_watch_is_sent(tmp_path: Path) -> None:
    async def test(site: Site, session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(_url(site)) as socket:
            resource = site.server.scheme.resource("", "v1", "configmaps")
            assert resource is not None
            cacher = site.server.registry.open_store(resource).cacher
            next(iter(cacher._state.routes.watchers())).end(VersionExpired("too old"))
            event = msgspec.json.decode((await socket.receive(60)).data)
            assert (event["type"], event["object"]["reason"]) == ("ERROR", "Expired")
            assert (await socket.receive(60)).type is aiohttp.WSMsgType.CLOSE

    run_with_session(tmp_path, test)


def test_client_disconnect_ends_its_watch(tmp_path: Path) -> None:
    async def test(site: Site, session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(_url(site)) as socket:
            await socket.send_str("ignored")
            assert site.count_watchers() == 1
        await eventually(lambda: site.count_watchers() == 0)

    run_with_session(tmp_path, test)


def test_server_shutdown_closes_the_socket(tmp_path: Path) -> None:
    async def test(site: Site, session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(_url(site)) as socket:
            closing = asyncio.create_task(site.http.close())
            assert (await socket.receive(60)).type is aiohttp.WSMsgType.CLOSE
            await closing

    run_with_session(tmp_path, test)


@pytest.mark.parametrize(("token", "code"), [("admin-token", 101), ("wrong", 401)])
def test_bearer_token_is_accepted_as_a_subprotocol(tmp_path: Path, token: str, code: int) -> None:
    async def test(site: Site, session: aiohttp.ClientSession) -> None:
        encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
        protocols = [f"base64url.bearer.authorization.k8s.io.{encoded}", "base64.binary.k8s.io"]
        url = f"https://localhost:{site.tls_port}{MAPS}?watch=1"
        try:
            async with session.ws_connect(url, protocols=protocols, ssl=site.client_tls()) as socket:
                status, protocol = 101, socket.protocol
        except aiohttp.WSServerHandshakeError as fault:
            status, protocol = fault.status, ""
        assert (status, protocol) == (code, "base64.binary.k8s.io" if code == 101 else "")

    run_with_session(tmp_path, test)


def test_incomplete_websocket_handshake_gets_400(tmp_path: Path) -> None:
    async def test(site: Site, session: aiohttp.ClientSession) -> None:
        async with site.wire() as wire:
            response = await wire.request(
                "GET", f"{MAPS}?watch=1", headers={"Connection": "Upgrade", "Upgrade": "websocket"}
            )
            assert response.code == 400
            assert (await wire.request("GET", "/healthz")).text == "ok"

    run_with_session(tmp_path, test)


def test_upgrade_header_is_ignored_without_watch(tmp_path: Path) -> None:
    async def test(site: Site, session: aiohttp.ClientSession) -> None:
        async with site.wire() as wire:
            upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
            assert (await wire.request("GET", MAPS, headers=upgrade)).json["kind"] == "ConfigMapList"
            assert (await wire.request("GET", "/healthz")).text == "ok"

    run_with_session(tmp_path, test)
