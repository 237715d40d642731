"""Watches over WebSocket: one message for each event, text for JSON and binary for protobuf."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from sampan.apiserver.authn.authenticator import SUBPROTOCOL
from sampan.apiserver.metrics import WatchCount
from sampan.apiserver.request.negotiation import JSON
from sampan.apiserver.response.watch_frames import UnsupportedOutputFormat, WatchFrames
from sampan.host.http import HttpRequest
from sampan.machinery import errors
from sampan.machinery.multiplex.handshake import UpgradeRefused, list_requested_protocols
from sampan.machinery.multiplex.upgrade import accept_websocket
from sampan.machinery.multiplex.websocket import BINARY, TEXT, WebSocket
from sampan.storage.cacher import Watcher
from sampan.storage.cacher.errors import CacheError

_LENGTH_BYTES = 4
"""The size of the length prefix of protobuf frames, which is omitted here because a message has its own length."""
_MAX_MESSAGE_BYTES = 64 << 10


def is_upgrade(request: HttpRequest) -> bool:
    headers = request.headers
    if headers.get("Upgrade", "").lower() != "websocket":
        return False
    return "upgrade" in [word.strip().lower() for word in headers.get("Connection", "").split(",")]


def open_socket(request: HttpRequest) -> WebSocket:
    """Perform the WebSocket handshake. Raise BadRequest if it is not valid."""
    protocols = [word for word in list_requested_protocols(request.values) if not word.startswith(SUBPROTOCOL)]
    try:
        return accept_websocket(request, protocols[0] if protocols else "", max_message_bytes=_MAX_MESSAGE_BYTES)
    except UpgradeRefused as refused:
        raise errors.bad_request(refused.text) from None


async def send(socket: WebSocket, watcher: Watcher, frames: WatchFrames, count: WatchCount) -> None:
    """Send events until the watch ends or the client disconnects. Messages of the client are ignored."""
    async with asyncio.TaskGroup() as group:
        both = (group.create_task(_write(socket, watcher, frames, count)), group.create_task(_read(socket)))
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()


async def _read(socket: WebSocket) -> None:
    with suppress(ConnectionError):
        while await socket.receive() is not None:
            pass


async def _write(socket: WebSocket, watcher: Watcher, frames: WatchFrames, count: WatchCount) -> None:
    with suppress(CacheError, ConnectionError, UnsupportedOutputFormat):
        async for events in watcher:
            watcher.block()  # until the client has read these events
            for frame in frames.encode(events):
                await send_frame(socket, frames, frame)
                count.record_sent(1, len(frame))
            watcher.unblock()


async def send_frame(socket: WebSocket, frames: WatchFrames, frame: bytes) -> None:
    if frames.content_type == JSON:
        await socket.send(frame, TEXT)
    else:
        await socket.send(frame[_LENGTH_BYTES:], BINARY)
