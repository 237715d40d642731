"""The proxy to the API server: accepted requests, forwarded requests, and requests that try to bypass the filter."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from sampan.kubectl.client.session import Session
from sampan.kubectl.commands.proxy.api_proxy import ApiProxy, MalformedRequest, RequestFilter, parse_head
from sampan.kubectl.errors import KubectlError
from sampan.machinery.client.access import Access

_KEEP_ALIVE_S = 0.2
DEFAULT = RequestFilter(
    accepted_paths="^.*",
    rejected_paths="^/api/.*/pods/.*/exec,^/api/.*/pods/.*/attach",
    accepted_hosts=r"^localhost$,^127\.0\.0\.1$",
    rejected_methods="^$",
)


@pytest.mark.parametrize(
    ("method", "path", "host", "is_accepted"),
    [
        ("GET", "/api/v1/pods", "localhost", True),
        ("GET", "/api/v1/pods", "evil.example.com", False),
        ("POST", "/api/v1/namespaces/a/pods/b/exec", "localhost", False),
        ("POST", "/api/v1/namespaces/a/pods/b/attach", "127.0.0.1", False),
    ],
)
def test_request_filter(method: str, path: str, host: str, is_accepted: bool) -> None:
    assert DEFAULT.accepts(method, path, host) is is_accepted


def test_methods_are_rejected_by_pattern() -> None:
    request_filter = RequestFilter(
        accepted_paths="^.*", rejected_paths="", accepted_hosts=".*", rejected_methods="^POST$,^PUT$"
    )
    assert not request_filter.accepts("PUT", "/", "x")
    assert request_filter.accepts("GET", "/", "x")


def test_patterns_that_cannot_be_compiled_are_refused() -> None:
    with pytest.raises(KubectlError, match="Error compiling re"):
        RequestFilter(accepted_paths="(", rejected_paths="", accepted_hosts="", rejected_methods="")


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded: x\r\n\r\n",
        b"GET http://evil/ HTTP/1.1\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"P\tOST / HTTP/1.1\r\n\r\n",
        b"POST; / HTTP/1.1\r\n\r\n",
        b"GET /%zz HTTP/1.1\r\n\r\n",
        b"GET /a\tb HTTP/1.1\r\n\r\n",
        b"GET /api/v1/secrets#/healthz HTTP/1.1\r\n\r\n",
        b"GET /x/%2e%2e/api HTTP/1.1\r\n\r\n",
        b"GET /x/..%2fapi HTTP/1.1\r\n\r\n",
        b"PUT / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n",
        b"PUT / HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n",
        b"PUT / HTTP/1.1\r\nContent-Length : 2\r\n\r\n",
    ],
)
def test_ambiguous_requests_are_malformed(head: bytes) -> None:
    with pytest.raises(MalformedRequest):
        parse_head(head)


def test_host_is_parsed_without_port() -> None:
    assert parse_head(b"GET / HTTP/1.1\r\nHost: localhost:8001\r\n\r\n").host == "localhost"
    assert parse_head(b"GET / HTTP/1.1\r\nHost: [::1]:8001\r\n\r\n").host == "::1"
    assert parse_head(b"GET / HTTP/1.1\r\nHost: [localhost]:1\r\n\r\n").host == "[localhost]:1"
    assert parse_head(b"GET / HTTP/1.1\r\nHost: localhost.:1\r\n\r\n").host == "localhost."


@asynccontextmanager
async def running_proxy(
    directory: Path | None = None, *, keeps_alive: bool = False
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Run a proxy in front of a server that records requests; yield the port and the recorded bytes."""
    received: list[bytes] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.readuntil(b"\r\n\r\n")
        if b"Content-Length: 4" in data:
            data += await reader.readexactly(4)
        received.append(data)
        if b"Upgrade: echo" in data:
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n")
            writer.write(await reader.readexactly(4))
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        if keeps_alive:
            with suppress(TimeoutError):
                async with asyncio.timeout(_KEEP_ALIVE_S):
                    while data := await reader.read(1024):
                        received.append(data)
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    proxy = ApiProxy(
        session=Session(Access(server=address, token="secret-token"), "default"),
        request_filter=DEFAULT,
        api_prefix="/",
        static_prefix="/static/",
        static_directory=directory,
        appends_server_path=False,
        keepalive_s=0,
    )
    listener = socket.create_server(("127.0.0.1", 0))
    task = asyncio.create_task(proxy.serve(listener))
    try:
        yield listener.getsockname()[1], received
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        server.close()


async def exchange(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    response = await reader.read()
    writer.close()
    return response


async def test_credentials_are_added_and_the_body_passes() -> None:
    async with running_proxy() as (port, received):
        request = b"POST /api/v1/pods HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody"
        assert (await exchange(port, request)).endswith(b"ok")
        assert b"Authorization: Bearer secret-token\r\n" in received[0]
        assert received[0].endswith(b"\r\n\r\nbody")


async def test_pipelined_second_request_is_not_forwarded() -> None:
    async with running_proxy() as (port, received):
        hidden = b"POST /api/v1/namespaces/a/pods/b/exec HTTP/1.1\r\nHost: localhost\r\n\r\n"
        await exchange(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + hidden)
        assert b"exec" not in b"".join(received)


@pytest.mark.parametrize("upgrade", [b"Upgrade: x\r\n", b""], ids=["refused", "without-protocol"])
async def test_request_behind_a_refused_upgrade_is_not_forwarded(upgrade: bytes) -> None:
    """The server of the test keeps the connection open for another request."""
    async with running_proxy(keeps_alive=True) as (port, received):
        hidden = b"POST /api/v1/namespaces/a/pods/b/exec HTTP/1.1\r\nHost: localhost\r\n\r\n"
        request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n" + upgrade + b"\r\n"
        assert (await exchange(port, request + hidden)).endswith(b"ok")
        assert len(received) == 1


@pytest.mark.parametrize(
    ("target", "location"),
    [
        ("//api/v1/namespaces/a/pods/b/exec", "/api/v1/namespaces/a/pods/b/exec"),
        ("/x/../api/v1/namespaces/a/pods/b/exec?a=/../b", "/api/v1/namespaces/a/pods/b/exec?a=/../b"),
        ("/./api//v1/", "/api/v1/"),
        ("/\\evil//", "/%5Cevil/"),
        ("/..", "/"),
    ],
)
async def test_paths_that_are_not_clean_are_redirected(target: str, location: str) -> None:
    """The patterns of the filter apply to clean paths only."""
    async with running_proxy() as (port, received):
        response = await exchange(port, f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert response.startswith(b"HTTP/1.1 301 ")
        assert f"Location: {location}\r\n".encode() in response
        assert received == []


@pytest.mark.parametrize("size", ["+3", "0x3", "-1", "1_0", "", "4"])
async def test_a_body_with_malformed_chunks_ends_the_connection(size: str) -> None:
    async with running_proxy(keeps_alive=True) as (port, received):
        head = b"PUT / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        hidden = b"POST /api/v1/namespaces/a/pods/b/exec HTTP/1.1\r\nHost: localhost\r\n\r\n"
        await exchange(port, head + f"{size}\r\nabc\r\n0\r\n\r\n".encode() + hidden)
        assert b"exec" not in b"".join(received)


async def test_rejected_requests_do_not_reach_the_server() -> None:
    async with running_proxy() as (port, received):
        assert b"403 Forbidden" in await exchange(port, b"GET / HTTP/1.1\r\nHost: evil\r\n\r\n")
        assert b"400 Bad Request" in await exchange(port, b"GET x\r\n\r\n")
        assert received == []


async def test_both_directions_stay_open_after_an_upgrade() -> None:
    async with running_proxy() as (port, _):
        request = b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nping"
        assert (await exchange(port, request)).endswith(b"\r\n\r\nping")


async def test_static_files_stay_inside_of_the_directory(tmp_path: Path) -> None:
    directory = tmp_path / "www"
    directory.mkdir()
    (directory / "a.txt").write_text("hello")
    (tmp_path / "secret").write_text("hidden")
    (directory / "link").symlink_to(tmp_path / "secret")
    async with running_proxy(directory) as (port, _):

        async def get(path: str) -> bytes:
            return await exchange(port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

        assert (await get("/static/a.txt")).endswith(b"hello")
        for path in ("/static/link", "/static/nosuch"):
            assert b"404 Not Found" in await get(path)
        assert b"Location: /secret\r\n" in await get("/static/../secret")
        assert b"400 Bad Request" in await get("/static/%2e%2e/secret")
