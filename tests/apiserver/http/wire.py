"""An HTTP client that sends raw bytes and reads raw responses, for tests with malformed requests."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from sampan.machinery.multiplex.wire import close_writer

HEAD = b"Host: x\r\n"
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class WireResponse:
    code: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class Wire:
    """One connection to a local port: `async with Wire(port) as wire:`."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None, *, has_small_buffer: bool = False) -> None:
        """With `has_small_buffer`, the kernel buffers only few bytes for a client that does not read."""
        self._port, self._tls, self._has_small_buffer = port, tls, has_small_buffer

    async def __aenter__(self) -> Wire:
        name = "localhost" if self._tls else None
        client = socket.socket()
        client.setblocking(False)
        if self._has_small_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self._port))
                self.reader, self.writer = await asyncio.open_connection(
                    sock=client, ssl=self._tls, server_hostname=name, limit=1 << 26
                )
        except BaseException:
            client.close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await close_writer(self.writer)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def abort(self) -> None:
        self.writer.transport.abort()

    def finish(self) -> None:
        """Close the sending side; responses can still be read."""
        self.writer.write_eof()

    async def request(
        self, method: str, target: str, value: Any = None, headers: Mapping[str, str] | None = None
    ) -> WireResponse:
        self.send(request(method, target, value, headers))
        return await self.read_response(is_head=method == "HEAD")

    async def read_response(self, is_head: bool = False) -> WireResponse:
        """Read the next response to its end."""
        async with asyncio.timeout(TIMEOUT_S):
            code, headers = await self.head()
            if is_head or code in (100, 204, 304):
                return WireResponse(code, headers, b"")
            if headers.get("transfer-encoding") == "chunked":
                return WireResponse(code, headers, b"".join([chunk async for chunk in self.chunks()]))
            if "content-length" in headers:
                return WireResponse(code, headers, await self.reader.readexactly(int(headers["content-length"])))
            return WireResponse(code, headers, await self.reader.read())

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(TIMEOUT_S):
            first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        pairs = [line.partition(": ") for line in lines]
        return int(first.split(" ")[1]), {name.lower(): value for name, _, value in pairs}

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the chunks of the response; raise IncompleteReadError if it ends without a last chunk."""
        while True:
            async with asyncio.timeout(TIMEOUT_S):
                size = int(await self.reader.readuntil(b"\r\n"), 16)
                data = (await self.reader.readexactly(size + 2))[:-2]
            if not size:
                return
            yield data

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a watch until the response ends."""
        async for chunk in self.chunks():
            for line in chunk.splitlines():
                yield msgspec.json.decode(line)

    async def is_closed(self) -> bool:
        """Wait for the server to close the connection properly."""
        async with asyncio.timeout(TIMEOUT_S):
            return await self.reader.read(1) == b""


def request(method: str, target: str, value: Any = None, headers: Mapping[str, str] | None = None) -> bytes:
    body = b"" if value is None else value if isinstance(value, bytes) else msgspec.json.encode(value)
    lines = [f"{method} {target} HTTP/1.1", "Host: x", *(f"{name}: {text}" for name, text in (headers or {}).items())]
    if body:
        if not any(line.lower().startswith("content-type:") for line in lines):
            lines.append("Content-Type: application/json")
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body
