"""Watches over WebSocket: one message for each event, text for JSON and binary for protobuf."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import web

from sampan.apiserver.authn.authenticator import SUBPROTOCOL
from sampan.apiserver.metrics import WatchCount
from sampan.apiserver.request.negotiation import JSON
from sampan.apiserver.response.watch_frames import UnsupportedOutputFormat, WatchFrames
from sampan.storage.cacher import Watcher
from sampan.storage.cacher.errors import CacheError

_LENGTH_BYTES = 4
"""The size of the length prefix of protobuf frames, which is omitted here because a message has its own length."""
_MAX_MESSAGE_BYTES = 64 << 10
_CLOSE_S = 2.0
"""How long the client may take to confirm the closing handshake."""


def is_upgrade(request: web.BaseRequest) -> bool:
    headers = request.headers
    if headers.get("Upgrade", "").lower() != "websocket":
        return False
    return "upgrade" in [word.strip().lower() for word in headers.get("Connection", "").split(",")]


async def open_socket(request: web.BaseRequest) -> web.WebSocketResponse:
    """Perform the WebSocket handshake. aiohttp responds to a bad one with an HTTP error."""
    wished = [word.strip() for word in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    protocols = [word for word in wished if word and not word.startswith(SUBPROTOCOL)]
    socket = web.WebSocketResponse(
        protocols=protocols, max_msg_size=_MAX_MESSAGE_BYTES, compress=False, timeout=_CLOSE_S
    )
    await socket.prepare(request)
    return socket


async def send(socket: web.WebSocketResponse, watcher: Watcher, frames: WatchFrames, count: WatchCount) -> None:
    """Send events until the watch ends or the client disconnects. Messages of the client are ignored."""
    async with asyncio.TaskGroup() as group:
        both = (group.create_task(_write(socket, watcher, frames, count)), group.create_task(_read(socket)))
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()


async def _read(socket: web.WebSocketResponse) -> None:
    async for _ in socket:
        pass


async def _write(socket: web.WebSocketResponse, watcher: Watcher, frames: WatchFrames, count: WatchCount) -> None:
    with suppress(CacheError, ConnectionError, UnsupportedOutputFormat):
        async for events in watcher:
            watcher.block()  # until the client has read these events
            for frame in frames.encode(events):
                await send_frame(socket, frames, frame)
                count.record_sent(1, len(frame))
            watcher.unblock()


async def send_frame(socket: web.WebSocketResponse, frames: WatchFrames, frame: bytes) -> None:
    if frames.content_type == JSON:
        await socket.send_str(frame.decode())
    else:
        await socket.send_bytes(frame[_LENGTH_BYTES:])
