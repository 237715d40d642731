"""The client side of port-forward: connections to local ports, each a pair of SPDY streams."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress

from sampan.machinery.multiplex.handshake import TUNNELLED_PORT_FORWARD
from sampan.machinery.multiplex.port_forward import exchanged
from sampan.machinery.multiplex.spdy import SpdyConnection
from sampan.machinery.multiplex.streams import DATA, ERROR, Stream
from sampan.machinery.multiplex.wire import close_writer

PROTOCOLS = (TUNNELLED_PORT_FORWARD,)
_TYPE, _PORT, _REQUEST = "streamType", "port", "requestID"


class Forwarding:
    """Joins local connections with ports of the other side. `tell` is called with error messages."""

    def __init__(self, connection: SpdyConnection, tell: Callable[[str], None]) -> None:
        self._connection, self._tell = connection, tell
        self._numbers = itertools.count()

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, local: int, remote: int) -> None:
        headers = {_PORT: str(remote), _REQUEST: str(next(self._numbers))}
        try:
            error = await self._connection.open({**headers, _TYPE: ERROR})
            await error.close()
            data = await self._connection.open({**headers, _TYPE: DATA})
            await exchanged(data, reader, writer, ends_with_stream=True)
            await data.close()
            if message := await _all(error):
                self._tell(f"an error occurred forwarding {local} -> {remote}: {message}")
            await data.reset()
        except ConnectionError as failure:
            self._tell(f"error creating forwarding stream for port {local} -> {remote}: {failure}")
        finally:
            await close_writer(writer)


async def _all(stream: Stream) -> str:
    content = b""
    with suppress(ConnectionError):
        while data := await stream.read():
            content += data
    return content.decode("utf-8", "replace")
