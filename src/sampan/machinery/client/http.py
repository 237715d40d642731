"""The HTTP transport: aiohttp's client with TLS, client certificates, tokens and persistent connections."""

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode

from multidict import CIMultiDict
from yarl import URL

from sampan.api.codec import json
from sampan.api.codec.errors import JSON_ERRORS
from sampan.machinery import errors
from sampan.machinery.client.access import Access, tls_context
from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.client.responses import BytesResponse, DecodedEvent, read_event
from sampan.machinery.client.transport import ConnectionFailed, Events, Request, Response
from sampan.machinery.http.lean_aiohttp import aiohttp
from sampan.machinery.http.session import HttpSession

_CONNECT_S = 10.0
_ANSWER_S = 60.0
_WATCH_GRACE_S = 30.0
"""How long a watch may be silent beyond its timeout before the connection counts as dead."""
_LAST_SUCCESS = 206
"""Greater status codes are errors, including redirects, as in client-go."""
_SAFE = "/~!$&'()*+,;=:@"


class _ConnectionPool:
    """The connections made with one set of credentials. After they are replaced, they are closed as soon as the last
    request that uses them is finished."""

    def __init__(self, access: Access) -> None:
        connector = aiohttp.TCPConnector(ssl=tls_context(access), limit=0, keepalive_timeout=90)
        self.session = HttpSession(connector=connector, headers={"Accept-Encoding": "identity"})
        self._users, self._is_retired = 0, False

    @asynccontextmanager
    async def used(self) -> AsyncIterator[None]:
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if self._is_retired and not self._users:
                await self.session.close()

    async def retire(self) -> None:
        self._is_retired = True
        if not self._users:
            await self.session.close()


class HttpTransport:
    """The transport over HTTP. It must be created and used in one event loop."""

    def __init__(self, access: Access, *, is_nobody: bool = False) -> None:
        """Create the transport. With `is_nobody` the credentials are not known yet: requests fail until
        `replace_credentials` is called."""
        self._access, self._is_nobody = access, is_nobody
        self._base = access.server.rstrip("/")
        self._connections, self._retired = _ConnectionPool(access), list[_ConnectionPool]()

    async def replace_credentials(self, access: Access) -> None:
        """Use other credentials for the same server from now on, such as a rotated certificate. Requests and watches in
        progress continue with the previous credentials."""
        before, self._connections, self._access = self._connections, _ConnectionPool(access), access
        self._is_nobody = False
        self._retired = [connections for connections in self._retired if not connections.session.closed] + [before]
        await before.retire()

    async def send(self, request: Request) -> Response:
        timeout = aiohttp.ClientTimeout(total=_ANSWER_S, sock_connect=_CONNECT_S)
        connections = self._connections
        try:
            async with connections.used(), self._open(connections, request, timeout) as response:
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError, ssl.SSLError) as error:
            raise _connection_failed(request, error) from error
        if response.status > _LAST_SUCCESS:
            raise _failure(request, response.status, response.headers, body)
        return BytesResponse(response.status, response.headers, body)

    @asynccontextmanager
    async def watch(self, request: Request, codec: ObjectCodec) -> AsyncIterator[Events]:
        silent_s = _timeout_of(request)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=silent_s)
        connections = self._connections
        async with connections.used():
            try:
                response = await self._open(connections, request, timeout).__aenter__()
            except (aiohttp.ClientError, TimeoutError, ssl.SSLError) as error:
                raise _connection_failed(request, error) from error
            try:
                if response.status > _LAST_SUCCESS:
                    raise _failure(request, response.status, response.headers, await response.read())
                yield _HttpEvents(request, response, codec)
            finally:
                _break_off(response)

    async def close(self) -> None:
        for connections in (*self._retired, self._connections):
            await connections.session.close()

    async def __aenter__(self) -> "HttpTransport":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _open(self, connections: _ConnectionPool, request: Request, timeout: aiohttp.ClientTimeout) -> Any:
        if self._is_nobody:
            raise ConnectionFailed(f"{request.method} {request.path}: no certificate yet", may_have_happened=False)
        query = f"?{urlencode(request.query)}" if request.query else ""
        return connections.session.request(
            request.method,
            URL(f"{self._base}{quote(request.path, safe=_SAFE)}{query}", encoded=True),
            data=request.body or None,
            headers=CIMultiDict([*self._access.headers(), *request.headers.items()]),
            timeout=timeout,
            server_hostname=self._access.tls_server_name or None,
            proxy=self._access.proxy_url or None,
        )


class _HttpEvents:
    """Watch events, decoded in batches as their lines arrive."""

    def __init__(self, request: Request, response: aiohttp.ClientResponse, codec: ObjectCodec) -> None:
        self._request, self._response, self._codec = request, response, codec
        self._rest = b""

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Sequence[DecodedEvent]:
        while True:
            lines = await self._lines()
            if events := [self._event(line) for line in lines if line]:
                return events

    async def _lines(self) -> list[bytes]:
        try:
            piece = await self._response.content.readany()
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise _connection_failed(self._request, error) from error
        if not piece:
            if self._rest.strip():
                raise ConnectionFailed(
                    "the watch connection was closed in the middle of an event", may_have_happened=False
                )
            raise StopAsyncIteration
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return lines

    def _event(self, line: bytes) -> DecodedEvent:
        try:
            return read_event(line, self._codec)
        except (*JSON_ERRORS, json.DecodeError) as error:
            raise ConnectionFailed(f"cannot decode a watch event: {error}", may_have_happened=False) from error


def _break_off(response: aiohttp.ClientResponse) -> None:
    """Abort a watch at once: a TLS shutdown would wait for a server that may send nothing more."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()


def _timeout_of(request: Request) -> float | None:
    timeout = next((value for key, value in request.query if key == "timeoutSeconds"), "")
    return int(timeout) + _WATCH_GRACE_S if timeout else None


def _connection_failed(request: Request, error: BaseException) -> ConnectionFailed:
    was_sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.InvalidURL)
    reason = str(error) or type(error).__name__
    may_have_happened = was_sent and request.method != "GET"
    return ConnectionFailed(f"{request.method} {request.path}: {reason}", may_have_happened=may_have_happened)


def _failure(request: Request, code: int, headers: Mapping[str, str], body: bytes) -> errors.ApiError:
    retry_after_s = _seconds(headers.get("Retry-After", ""))
    try:
        status = json.read_any(body)
    except json.DecodeError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        message = body.decode("utf-8", "replace").strip()
        return errors.generic(code, message, verb=request.method, retry_after_s=retry_after_s, is_unexpected=True)
    if retry_after_s and not (status.get("details") or {}).get("retryAfterSeconds"):
        status["details"] = {**(status.get("details") or {}), "retryAfterSeconds": retry_after_s}
    return errors.from_status(status)


def _seconds(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
