"""WebSockets to the API server, for commands that stream data to and from containers."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlencode

import msgspec

from sampan.cli.failures import CliError
from sampan.cli.kubectl.session import ServerError, Session
from sampan.machinery import errors
from sampan.machinery.multiplex import upgrade
from sampan.machinery.multiplex.websocket import WebSocket
from sampan.machinery.multiplex.wire import close_writer

_PIECE = 32 << 10


async def open_socket(
    session: Session, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]
) -> WebSocket:
    host, port, context = session.place()
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
    except OSError as error:
        raise CliError(f"cannot reach the server: {error}") from None
    target = session.target(path) + (f"?{urlencode(query)}" if query else "")
    headers = [("Host", f"{host}:{port}"), ("User-Agent", "sampan-kubectl"), *session.identity()]
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
