"""WebSockets to the API server, for commands that stream data to and from containers."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from urllib.parse import SplitResult, urlencode

import msgspec

from sampan.cli.failures import CliError
from sampan.cli.kubectl.session import ServerEndpoint, ServerError, Session, proxy_headers
from sampan.machinery import errors
from sampan.machinery.multiplex import upgrade
from sampan.machinery.multiplex.websocket import WebSocket
from sampan.machinery.multiplex.wire import close_writer

_PIECE = 32 << 10


async def open_socket(
    session: Session, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]
) -> WebSocket:
    endpoint = session.endpoint()
    try:
        reader, writer = await open_stream(endpoint)
    except OSError as error:
        raise CliError(f"cannot reach the server: {error}") from None
    target = session.target(path) + (f"?{urlencode(query)}" if query else "")
    headers = [("Host", endpoint.host_header), ("User-Agent", "sampan-kubectl"), *session.identity()]
    try:
        wire, protocol = await upgrade.open_websocket(reader, writer, target, headers, protocols)
    except upgrade.NotUpgraded as refused:
        await close_writer(writer)
        raise _refusal(refused) from None
    except ConnectionError as error:
        await close_writer(writer)
        raise CliError(f"error sending request: {error}") from None
    except BaseException:
        await close_writer(writer)
        raise
    return WebSocket(wire, is_server=False, protocol=protocol)


async def open_stream(endpoint: ServerEndpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the API server, through the proxy if there is one. Raise OSError if that fails."""
    proxy, name = endpoint.proxy, endpoint.server_name if endpoint.tls is not None else None
    if proxy is None:
        return await asyncio.open_connection(endpoint.host, endpoint.port, ssl=endpoint.tls, server_hostname=name)
    reader, writer = await asyncio.open_connection(proxy.hostname or "", proxy.port or 80)
    try:
        await _open_tunnel(reader, writer, endpoint, proxy)
        if endpoint.tls is not None:
            await writer.start_tls(endpoint.tls, server_hostname=name)
    except BaseException:
        await close_writer(writer)
        raise
    return reader, writer


async def _open_tunnel(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: ServerEndpoint, proxy: SplitResult
) -> None:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    address = f"{host}:{endpoint.port}"
    headers = {"Host": address, **proxy_headers(proxy)}
    lines = [f"CONNECT {address} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    writer.write("\r\n".join(lines).encode("latin-1"))
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ConnectionError(f"proxy {proxy.hostname} closed the connection: {error}") from None
    status = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    if len(status) < 2 or status[1] != "200":
        raise ConnectionError(f"proxy {proxy.hostname} refused the connection: {' '.join(status[1:])}")


def _refusal(refused: upgrade.NotUpgraded) -> Exception:
    try:
        return ServerError(errors.from_status(msgspec.json.decode(refused.body)))
    except (msgspec.MsgspecError, AttributeError):
        return CliError(f"unable to upgrade connection: {refused}")


async def standard_input() -> AsyncIterator[bytes]:
    """Yield the data of standard input. It is read by a daemon thread, which may block forever without delaying the
    exit."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[bytes](maxsize=16)
    room = threading.Semaphore(16)

    def read() -> None:
        while True:
            room.acquire()
            try:
                data = os.read(sys.stdin.fileno(), _PIECE)
            except OSError:
                data = b""
            try:
                loop.call_soon_threadsafe(queue.put_nowait, data)
            except RuntimeError:
                return
            if not data:
                return

    threading.Thread(target=read, daemon=True).start()
    while data := await queue.get():
        room.release()
        yield data
