"""The HTTP transport: TLS, certificates, tokens, lost connections, responses without a Status, retries."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from sampan.api.types.core_v1 import ConfigMap
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, RetryConfig
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport
from tests.eventually import eventually
from tests.machinery.client.certificates import make

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
OBJECT = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m"}}'


@asynccontextmanager
async def running_server(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Run a server with this handler, and yield its URL."""
    factory = web.Server(handler)
    server = await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await factory.shutdown(0.01)


def client_of(transport: HttpTransport, clock: VirtualClock | None = None) -> Client:
    retry = RetryConfig(attempts=3, connections=2)
    return Client(transport=transport, clock=clock or VirtualClock(), component="test", retry=retry)


async def respond_with_object(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=OBJECT, content_type="application/json")


async def test_error_response_without_a_status() -> None:
    async def fail(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=503, text="no route")

    async with running_server(fail) as url, HttpTransport(Access(server=url)) as transport:
        with pytest.raises(errors.ServiceUnavailable) as caught:
            await client_of(transport).for_kind(ConfigMap).get("m", "a")
        assert caught.value.causes == [{"reason": "UnexpectedServerResponse", "message": "no route"}]


async def test_new_credentials_apply_to_new_requests_only() -> None:
    """An open watch keeps its connections, which are closed when the watch ends."""

    second_event = asyncio.Event()

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" not in request.query:
            name = request.headers["Authorization"].removeprefix("Bearer ")
            return web.Response(body=OBJECT.replace(b'"m"', f'"{name}"'.encode()), content_type="application/json")
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(2):
            await response.write(b'{"type":"ADDED","object":%s}\n' % OBJECT)
            await second_event.wait()
        return response

    async with running_server(respond) as url, HttpTransport(Access(server=url, token="one")) as transport:
        maps = client_of(transport).for_kind(ConfigMap)
        async with maps.watch() as events:
            await anext(aiter(events))
            before = transport._connections.session
            await transport.replace_credentials(Access(server=url, token="two"))
            assert (await maps.get("m", "a")).metadata.name == "two"
            assert not before.closed
            second_event.set()
            assert [event.type for event in await anext(aiter(events))] == ["ADDED"]
        assert before.closed


@pytest.mark.parametrize("response", [b"nonsense", b'{"kind":"ConfigMap","apiVersion":"v1","data":7}', b"[]"])
async def test_undecodable_response_raises_api_error(response: bytes) -> None:
    async def speak(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=response, content_type="application/json")

    async with running_server(speak) as url, HttpTransport(Access(server=url)) as transport:
        maps = client_of(transport).for_kind(ConfigMap)
        with pytest.raises(errors.ApiError, match="cannot decode the response of the server"):
            await maps.get("m", "a")


async def test_request_is_repeated_after_retry_after() -> None:
    requested_at: list[float] = []
    clock = VirtualClock()

    async def busy(request: web.BaseRequest) -> web.StreamResponse:
        requested_at.append(clock.now())
        if len(requested_at) < 3:
            return web.Response(status=429, text="busy", headers={"Retry-After": "7"})
        return await respond_with_object(request)

    async with (
        running_server(busy) as url,
        HttpTransport(Access(server=url)) as transport,
        asyncio.TaskGroup() as group,
    ):
        getting = group.create_task(client_of(transport, clock).for_kind(ConfigMap).get("m", "a"))

        async def pass_wait() -> None:
            if clock.next_wake() is not None:
                await clock.advance(7)

        await eventually(getting.done, step=pass_wait)
        assert [when - requested_at[0] for when in requested_at] == [0, 7, 14]
        assert getting.result().metadata.name == "m"


async def test_retries_end_with_too_many_requests() -> None:
    async def busy(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=429, text="busy")

    async with running_server(busy) as url, HttpTransport(Access(server=url)) as transport:
        with pytest.raises(errors.TooManyRequests):
            await client_of(transport).for_kind(ConfigMap).get("m", "a")


async def test_refused_connection_raises_connection_failed() -> None:
    clock = VirtualClock()
    async with running_server(respond_with_object) as url:
        pass
    async with HttpTransport(Access(server=url)) as transport, asyncio.TaskGroup() as group:
        creating = group.create_task(_failure_of(client_of(transport, clock)))
        await eventually(creating.done, step=lambda: clock.advance(1))
        assert not creating.result().may_have_happened
        assert "Connect call failed" in str(creating.result())


async def _failure_of(client: Client) -> ConnectionFailed:
    try:
        await client.for_kind(ConfigMap).create(ConfigMap())
    except ConnectionFailed as failure:
        return failure
    raise AssertionError("the request succeeded")


@pytest.mark.parametrize("method", ["read", "write"])
async def test_lost_connection_repeats_a_read_and_fails_a_write(method: str) -> None:
    """A write is not repeated, because it may have happened."""

    requests = []

    async def lose(request: web.BaseRequest) -> web.StreamResponse:
        requests.append(request.method)
        if len(requests) == 1 and request.transport is not None:
            request.transport.abort()
        return await respond_with_object(request)

    clock = VirtualClock()
    async with running_server(lose) as url, HttpTransport(Access(server=url)) as transport:
        maps = client_of(transport, clock).for_kind(ConfigMap)
        if method == "write":
            with pytest.raises(ConnectionFailed) as caught:
                await maps.create(ConfigMap())
            assert caught.value.may_have_happened
            assert requests == ["POST"]
            return
        async with asyncio.TaskGroup() as group:
            getting = group.create_task(maps.get("m", "a"))
            await eventually(getting.done, step=lambda: clock.advance(1))
        assert getting.result().metadata.name == "m"
        assert requests == ["GET", "GET"]


@pytest.mark.parametrize(
    ("sent", "raised"),
    [
        (b'{"type":"ADDED","object":' + OBJECT + b'}\n{"type":"ADDED","obj', ConnectionFailed),
        (b'{"type":"ADDED","object":' + OBJECT + b"}\nnonsense\n", ConnectionFailed),
        (
            b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n',
            errors.Expired,
        ),
    ],
    ids=["truncated event", "malformed event", "error event"],
)
async def test_broken_watch_raises_an_error(sent: bytes, raised: type[Exception]) -> None:
    async def stream(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=sent, content_type="application/json")

    async with (
        running_server(stream) as url,
        HttpTransport(Access(server=url)) as transport,
        client_of(transport).for_kind(ConfigMap).watch() as events,
    ):
        with pytest.raises(raised):
            async for _ in events:
                pass


async def test_watch_events_split_over_several_chunks() -> None:
    line = b'{"type":"ADDED","object":' + OBJECT + b"}\n"

    async def stream(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for at in range(0, len(line * 3), 7):
            await response.write((line * 3)[at : at + 7])
            await asyncio.sleep(0)
        return response

    async with (
        running_server(stream) as url,
        HttpTransport(Access(server=url)) as transport,
        client_of(transport).for_kind(ConfigMap).watch() as events,
    ):
        names = [event.key.name async for batch in events for event in batch]
    assert names == ["m", "m", "m"]


async def test_special_characters_in_paths_and_queries_are_escaped() -> None:
    paths = []

    async def record(request: web.BaseRequest) -> web.StreamResponse:
        paths.append((request.rel_url.path, dict(request.rel_url.query), request.headers["User-Agent"]))
        return await respond_with_object(request)

    async with running_server(record) as url, HttpTransport(Access(server=url + "/prefix/")) as transport:
        await client_of(transport).for_kind(ConfigMap).get("system:a%b c", "ns", resource_version="7&8=9")
    path = "/prefix/api/v1/namespaces/ns/configmaps/system:a%b c"
    assert paths == [(path, {"resourceVersion": "7&8=9"}, "test/sampan")]


async def test_mutual_tls(tmp_path: Path) -> None:
    ca, server_pem, client_cert, client_key = make()
    (tmp_path / "server.pem").write_bytes(server_pem)
    (tmp_path / "ca.pem").write_bytes(ca)

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.pem"))
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(tmp_path / "server.pem")
    subjects = []

    async def record(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        subjects.append(request.transport.get_extra_info("peercert")["subject"])
        return await respond_with_object(request)

    async with running_server(record, tls) as url:
        access = Access(server=url, ca_pem=ca, client_cert_pem=client_cert, client_key_pem=client_key)
        async with HttpTransport(access) as transport:
            await client_of(transport).for_kind(ConfigMap).get("m", "a")
        named = Access(
            server=url.replace("127.0.0.1", "localhost"),
            ca_pem=ca,
            client_cert_pem=client_cert,
            client_key_pem=client_key,
            tls_server_name="kubernetes",
        )
        async with HttpTransport(named) as transport:
            await client_of(transport).for_kind(ConfigMap).get("m", "a")
        untrusting = Access(server=url, client_cert_pem=client_cert, client_key_pem=client_key)
        async with HttpTransport(untrusting) as transport:
            with pytest.raises(ConnectionFailed, match="certificate verify failed"):
                await (
                    Client(
                        transport=transport,
                        clock=VirtualClock(),
                        component="test",
                        retry=RetryConfig(connections=1),
                    )
                    .for_kind(ConfigMap)
                    .get("m", "a")
                )
    assert subjects == [((("commonName", "tester"),),)] * 2
