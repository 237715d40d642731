"""An HTTP client of the Docker Engine on its Unix socket."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlencode

from sampan.machinery.http.lean_aiohttp import aiohttp
from sampan.machinery.http.session import REDIRECTS, HttpSession
from sampan.machinery.multiplex import upgrade
from sampan.runtimes.contract import RuntimeFailure

TIMEOUT_S = 120.0
_MAX_LINE_BYTES = 8 << 20
_HOST = "http://docker"
Query = Mapping[str, str | int]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class DockerError(RuntimeFailure):
    """An error response of the engine. `code` is the HTTP status, or 0 if there was no response."""

    def __init__(self, reason: str, code: int, message: str) -> None:
        super().__init__(reason, message)
        self.code = code

    @property
    def is_missing(self) -> bool:
        return self.code == 404


class DockerClient:
    """A client of the engine at `socket`, a path with or without `unix://`."""

    def __init__(self, socket: str) -> None:
        self._path = socket.removeprefix("unix://")
        self._session = HttpSession(
            connector=aiohttp.UnixConnector(path=self._path, limit=0), timeout=aiohttp.ClientTimeout(total=None)
        )

    async def close(self) -> None:
        await self._session.close()

    async def get(self, path: str, query: Query | None = None, *, reason: str = "RuntimeError") -> Any:
        return await self._call("GET", path, query, None, reason, TIMEOUT_S)

    async def post(
        self,
        path: str,
        query: Query | None = None,
        body: Any = None,
        *,
        reason: str = "RuntimeError",
        timeout_s: float | None = TIMEOUT_S,
    ) -> Any:
        return await self._call("POST", path, query, body, reason, timeout_s)

    async def delete(self, path: str, query: Query | None = None) -> None:
        """Send a DELETE request. A missing object is not an error."""
        try:
            await self._call("DELETE", path, query, None, "RuntimeError", TIMEOUT_S)
        except DockerError as error:
            if not error.is_missing:
                raise

    async def _call(
        self, method: str, path: str, query: Query | None, body: Any, reason: str, timeout_s: float | None
    ) -> Any:
        """Send a request and return the decoded response. `body` is sent as JSON, or unchanged if it is a file."""
        content = {"data": body} if isinstance(body, io.IOBase) else {"json": body} if body is not None else {}
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.request(method, _HOST + path, params=query, **content) as response,
            ):
                data = await response.read()
        except TimeoutError:
            raise DockerError(reason, 0, f"{method} {path}: no response in time") from None
        except aiohttp.ClientError as error:
            raise DockerError(reason, 0, f"Cannot connect to the Docker daemon at {self._path}: {error}") from None
        return _decode_response(response.status, data, reason)

    async def lines(
        self, method: str, path: str, query: Query | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Any]:
        """Yield the JSON values of a streamed response as they arrive."""
        async for value in _values(self.pieces(method, path, query, headers)):
            yield value

    async def pieces(
        self, method: str, path: str, query: Query | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the data of a streamed response as it arrives."""
        try:
            async with self._session.request(method, _HOST + path, params=query, headers=headers) as response:
                if response.status >= 300:
                    _decode_response(response.status, await response.read(), "RuntimeError")
                async for data in response.content.iter_any():
                    yield data
        except aiohttp.ClientError as error:
            raise DockerError("RuntimeError", 0, f"{path}: {error}") from None

    async def take_over(self, path: str, query: Query | None = None, body: Any = None) -> Streams:
        """Return the streams of a hijacked connection, which carries raw data instead of HTTP after the response."""
        target = f"{path}?{urlencode(query)}" if query else path
        data = json.dumps(body).encode() if body is not None else b""
        headers = [("Host", "docker"), ("Connection", "Upgrade"), ("Upgrade", "tcp")]
        headers += [("Content-Type", "application/json"), ("Content-Length", str(len(data)))]
        try:
            reader, writer = await asyncio.open_unix_connection(self._path)
            try:
                writer.write(upgrade.request_head("POST", target, headers) + data)
                head = await upgrade.read_response_head(reader)
                if head.code != upgrade.SWITCHING:
                    _decode_response(head.code, await upgrade.read_response_body(reader, head), "StreamError")
                    raise upgrade.BadResponse("the Docker daemon did not upgrade the connection")
            except BaseException:
                writer.close()
                raise
        except OSError as error:
            raise DockerError("StreamError", 0, f"{path}: {error}") from None
        return reader, writer


async def _values(pieces: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    remainder = b""
    async for data in pieces:
        *lines, remainder = (remainder + data).split(b"\n")
        if len(remainder) > _MAX_LINE_BYTES:
            raise DockerError("RuntimeError", 0, "a line of the response is too long")
        for line in lines:
            if line.strip():
                yield json.loads(line)
    if remainder.strip():
        yield json.loads(remainder)


def _decode_response(code: int, data: bytes, reason: str) -> Any:
    try:
        value = json.loads(data) if data.strip() else None
    except ValueError:
        value = data.decode("utf-8", "replace")
    if code >= 400 or code in REDIRECTS:
        message = value.get("message", "") if isinstance(value, dict) else str(value or "")
        raise DockerError(reason, code, f"Error response from daemon: {message.strip() or code}")
    return value
