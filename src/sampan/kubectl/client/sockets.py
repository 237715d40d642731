"""Connections to the API server for commands that stream data to and from containers.

They are WebSockets. For an API server that does not support those for streams (before v1.30 for commands, v1.31 for
ports) they fall back to SPDY, as in `client-go/tools/remotecommand/fallback.go`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import SplitResult, urlencode

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.kubectl.client.session import ServerEndpoint, Session, proxy_headers
from sampan.kubectl.errors import ServerError
from sampan.machinery import errors
from sampan.machinery.cli_errors import CliError
from sampan.machinery.multiplex import port_forward, remote_command, upgrade
from sampan.machinery.multiplex.websocket import WebSocket
from sampan.machinery.multiplex.wire import StreamWire, Wire, close_writer

_PIECE = 32 << 10
_COMMAND_VARIABLE, _PORT_VARIABLE = "KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"
"""The environment variables of kubectl that turn WebSockets off, so that only SPDY is used."""

Query = Sequence[tuple[str, str]]
Upgrade = Callable[..., Awaitable[tuple[StreamWire, str]]]


async def run_process(
    session: Session,
    path: str,
    query: Query,
    output: remote_command.Output,
    *,
    stdin: remote_command.Input | None = None,
    sizes: remote_command.Sizes | None = None,
) -> dict[str, Any]:
    """Run the process of an exec or attach request until it has exited; return its Status. Raise ConnectionError if
    the connection broke off."""
    socket = await _open_websocket(session, path, query, remote_command.PROTOCOLS, _COMMAND_VARIABLE)
    if socket is not None:
        return await remote_command.run_client(socket, output, stdin=stdin, sizes=sizes)
    wire, protocol = await _open_spdy(session, path, query, remote_command.SPDY_PROTOCOLS)
    return await remote_command.run_spdy_client(wire, protocol, output, stdin=stdin, sizes=sizes)


async def open_port_forward(session: Session, path: str) -> Wire:
    """Return the wire of a SPDY connection whose streams are connections to ports."""
    socket = await _open_websocket(session, path, (), port_forward.PROTOCOLS, _PORT_VARIABLE)
    if socket is not None:
        return upgrade.WebSocketTunnel(socket)
    return (await _open_spdy(session, path, (), port_forward.SPDY_PROTOCOLS))[0]


async def _open_websocket(
    session: Session, path: str, query: Query, protocols: Sequence[str], variable: str
) -> WebSocket | None:
    """Open a WebSocket with one of the protocols. Return None if the server refuses for any reason, or if the
    environment variable `variable` turns WebSockets off. As in kubectl, the caller then requests SPDY, and an error of
    that request is reported."""
    if os.environ.get(variable, "").lower() == "false":
        return None
    try:
        wire, protocol = await _open(session, path, query, protocols, upgrade.open_websocket)
    except upgrade.NotUpgraded:
        return None
    if protocol not in protocols:
        await wire.close()
        return None
    return WebSocket(wire, is_server=False, protocol=protocol)


async def _open_spdy(session: Session, path: str, query: Query, protocols: Sequence[str]) -> tuple[StreamWire, str]:
    try:
        return await _open(session, path, query, protocols, upgrade.open_spdy)
    except upgrade.NotUpgraded as refused:
        raise _refusal(refused) from None


async def _open(
    session: Session, path: str, query: Query, protocols: Sequence[str], request_upgrade: Upgrade
) -> tuple[StreamWire, str]:
    """Connect and request an upgrade; return the wire and the protocol. Raise NotUpgraded if the server refuses."""
    endpoint = session.endpoint()
    try:
        reader, writer = await open_stream(endpoint)
    except OSError as error:
        raise CliError(f"cannot reach the server: {error}") from None
    target = session.target(path) + (f"?{urlencode(query)}" if query else "")
    headers = [("Host", endpoint.host_header), ("User-Agent", "sampan-kubectl"), *session.identity()]
    try:
        return await request_upgrade(reader, writer, target, headers, protocols)
    except ConnectionError as error:
        await close_writer(writer)
        raise CliError(f"error sending request: {error}") from None
    except BaseException:
        await close_writer(writer)
        raise


async def open_stream(endpoint: ServerEndpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the API server, through the proxy if there is one. Raise OSError if the connection fails."""
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
    except (*JSON_ERRORS, AttributeError):
        return CliError(f"unable to upgrade connection: {refused}")


async def standard_input() -> AsyncIterator[bytes]:
    """Yield the data of standard input. It is read by a daemon thread, which may block forever without delaying the
    exit."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[bytes](maxsize=16)
    free_pieces = threading.Semaphore(16)

    def read() -> None:
        while True:
            free_pieces.acquire()
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
        free_pieces.release()
        yield data
