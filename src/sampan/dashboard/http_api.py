"""The Kubernetes API with the rights of one user, over HTTP. It serves clusters other than the one in this process."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode, urlsplit

from multidict import CIMultiDict
from yarl import URL

from sampan.api.codec import json as json_codec
from sampan.dashboard.request_checks import is_websocket
from sampan.host.http import HttpRequest, HttpResponse, StreamResponse
from sampan.machinery import errors
from sampan.machinery.client.access import Access, tls_context
from sampan.machinery.client.responses import BytesResponse
from sampan.machinery.client.transport import ConnectionFailed, Request
from sampan.machinery.client.user_api import EventLines, PrepareResponse, UserCredentials
from sampan.machinery.http.lean_aiohttp import aiohttp
from sampan.machinery.http.session import HttpSession
from sampan.machinery.multiplex import upgrade
from sampan.machinery.multiplex.wire import StreamWire, close_writer, join_wires

if TYPE_CHECKING:
    from aiohttp.client import _RequestContextManager

_CONNECT_S, _RESPONSE_S = 10.0, 60.0
_BODY_BYTES = 64 << 20
_EVENT_BYTES = 8 << 20
"""The largest accepted watch event, in bytes. The largest object has 1.5 MiB, and a Table repeats parts of it."""
_WATCH_SILENCE_S = 30.0
_FIRST_ERROR = 300
_SAFE = "/~!$&'()*+,;=:@"
_HANDSHAKE = ("connection", "upgrade", "sec-websocket-accept", "sec-websocket-protocol")
_NOT_SENT = ("host", "content-length", "transfer-encoding", "connection", "upgrade")
_DROPPED = ("connection", "keep-alive", "transfer-encoding", "content-length", "upgrade", "trailer")


class HttpApi:
    """The `UserApi` of a cluster that is reached over HTTP. It must be created and used in one event loop."""

    def __init__(self, access: Access) -> None:
        self._access, self._base = access, access.server.rstrip("/")
        self._session: HttpSession | None = None
        self._tls: ssl.SSLContext | bool = True
        self._opening = asyncio.Lock()

    async def send(self, request: Request) -> BytesResponse:
        timeout = aiohttp.ClientTimeout(total=_RESPONSE_S, sock_connect=_CONNECT_S)
        try:
            async with await self._request(request, timeout) as response:
                body = await _read_bounded_body(response)
        except (aiohttp.ClientError, TimeoutError, ssl.SSLError) as error:
            raise _connection_failed(request, error) from error
        if response.status >= _FIRST_ERROR:
            raise _api_error(response.status, response.headers, body)
        return BytesResponse(response.status, response.headers, body)

    @asynccontextmanager
    async def watch(self, request: Request) -> AsyncIterator[EventLines]:
        requested = next((value for name, value in request.query if name == "timeoutSeconds"), "")
        silence_s = int(requested) + _WATCH_SILENCE_S if requested else None
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=silence_s)
        try:
            response = await (await self._request(request, timeout))
        except (aiohttp.ClientError, TimeoutError, ssl.SSLError) as error:
            raise _connection_failed(request, error) from error
        try:
            if response.status >= _FIRST_ERROR:
                raise _api_error(response.status, response.headers, await _read_bounded_body(response))
            yield _lines(request, response)
        finally:
            if response.connection is not None and response.connection.transport is not None:
                response.connection.transport.abort()
            response.close()

    async def forward(
        self, request: HttpRequest, *, target: str, headers: CIMultiDict[str], prepare: PrepareResponse
    ) -> StreamResponse | None:
        headers = CIMultiDict(headers)
        headers.extend(await self._credentials())
        if is_websocket(request):
            return await self._upgrade(request, target, headers, prepare)
        sent = CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _NOT_SENT)
        sent["Accept-Encoding"] = request.headers.get("Accept-Encoding", "identity")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
        request.send_continue()
        data = request.body.pieces() if request.has_body else None
        try:
            upstream_response = await (await self._open()).request(
                request.method,
                URL(self._base + target, encoded=True),
                headers=sent,
                data=data,
                timeout=timeout,
                server_hostname=self._access.tls_server_name or None,
                proxy=self._access.proxy_url or None,
                skip_auto_headers=("User-Agent", "Content-Type", "Accept"),
            )
        except (aiohttp.ClientError, TimeoutError, ssl.SSLError) as error:
            raise ConnectionFailed(f"{request.method} {target}: {error}", may_have_happened=True) from error
        try:
            return await _relay(request, upstream_response, prepare)
        finally:
            upstream_response.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _request(self, request: Request, limits: aiohttp.ClientTimeout) -> _RequestContextManager:
        """Send a request for an uncompressed body. The HTTP session does not decompress bodies, because `forward`
        passes them on unchanged."""
        query = f"?{urlencode(request.query)}" if request.query else ""
        headers = CIMultiDict([*(await self._credentials()), *request.headers.items()])
        headers["Accept-Encoding"] = "identity"
        return (await self._open()).request(
            request.method,
            URL(f"{self._base}{quote(request.path, safe=_SAFE)}{query}", encoded=True),
            data=request.body or None,
            headers=headers,
            timeout=limits,
            server_hostname=self._access.tls_server_name or None,
            proxy=self._access.proxy_url or None,
        )

    async def _open(self) -> HttpSession:
        async with self._opening:
            if self._session is None:
                self._tls = await asyncio.to_thread(tls_context, self._access)
                connector = aiohttp.TCPConnector(ssl=self._tls, limit=0, keepalive_timeout=30)
                jar = aiohttp.DummyCookieJar()
                self._session = HttpSession(connector=connector, cookie_jar=jar, auto_decompress=False)
            return self._session

    async def _credentials(self) -> list[tuple[str, str]]:
        """Return the authentication headers. An exec plugin runs in a thread, because it may ask the person."""
        if self._access.credential_source is None:
            return self._access.headers()
        return await asyncio.to_thread(self._access.headers)

    async def _upgrade(
        self, request: HttpRequest, target: str, headers: CIMultiDict[str], prepare: PrepareResponse
    ) -> StreamResponse | None:
        """Forward a request that upgrades its connection, and then the data in both directions. Of the response headers
        only those of the handshake are forwarded."""
        await self._open()
        url = urlsplit(self._base)
        is_tls = isinstance(self._tls, ssl.SSLContext)
        host, port = url.hostname or "", url.port or (443 if is_tls else 80)
        try:
            async with asyncio.timeout(_CONNECT_S):
                name = self._access.tls_server_name or host
                tls = {"ssl": self._tls, "server_hostname": name} if is_tls else {}
                reader, writer = await asyncio.open_connection(host, port, **tls)  # type: ignore[arg-type]
        except (OSError, TimeoutError) as error:
            raise ConnectionFailed(f"cannot connect to {self._base}: {error}", may_have_happened=False) from error
        try:
            headers["Host"] = url.netloc
            writer.write(upgrade.request_head(request.method, url.path.rstrip("/") + target, headers.items()))
            await writer.drain()
            head = await upgrade.read_response_head(reader)
            if head.code != upgrade.SWITCHING:
                body = await upgrade.read_response_body(reader, head)
                response = HttpResponse(status=head.code, body=body, headers={"Content-Type": head.get("Content-Type")})
                prepare(response)
                response.is_last = True
                return response
            passed = [(name, value) for name, value in head.headers if name.lower() in _HANDSHAKE]
            lines = [f"HTTP/1.1 {head.code} {head.phrase}", *(f"{name}: {value}" for name, value in passed), "", ""]
            wire = request.take_over("\r\n".join(lines).encode("utf-8", "surrogateescape"))
            await join_wires(wire, StreamWire(reader, writer))
            return None
        except upgrade.BadResponse as error:
            raise errors.ApiError(str(error), code=500, reason="") from None
        finally:
            await close_writer(writer)


class HttpApiSource:
    """A cluster that is reached over HTTP. Its address and CA are those of the kubeconfig that the dashboard was
    started with, whatever a log-in contains."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def open_with_credentials(self, credentials: UserCredentials) -> HttpApi:
        access = replace(
            self._access,
            token=credentials.token,
            token_file=None,
            username=credentials.username,
            password=credentials.password,
            client_cert_pem=credentials.client_cert_pem,
            client_key_pem=credentials.client_key_pem,
            credential_source=None,
            impersonation=(),
        )
        return HttpApi(access)

    async def open_for_request(self, request: HttpRequest) -> HttpApi:
        raise errors.unauthorized()

    def with_own_credentials(self) -> HttpApi:
        """Return the API with the credentials of the kubeconfig."""
        return HttpApi(self._access)


async def _read_bounded_body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > _BODY_BYTES:
            raise errors.request_entity_too_large(f"the response has more than {_BODY_BYTES} bytes")
    return bytes(body)


async def _lines(request: Request, response: aiohttp.ClientResponse) -> EventLines:
    remainder = b""
    while True:
        try:
            piece = await response.content.readany()
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise _connection_failed(request, error) from error
        if not piece:
            return
        *lines, remainder = (remainder + piece).split(b"\n")
        if len(remainder) > _EVENT_BYTES:
            raise ConnectionFailed("a watch event is too large", may_have_happened=False)
        if complete := [line for line in lines if line]:
            yield complete


async def _relay(
    request: HttpRequest, upstream_response: aiohttp.ClientResponse, prepare: PrepareResponse
) -> StreamResponse | None:
    headers = CIMultiDict(
        (name, value) for name, value in upstream_response.headers.items() if name.lower() not in _DROPPED
    )
    response = StreamResponse(status=upstream_response.status, headers=headers)
    prepare(response)
    length = upstream_response.headers.get("Content-Length", "")
    if length.isdecimal():
        response.content_length = int(length)
    response.start(request)
    try:
        async for piece in upstream_response.content.iter_any():
            await response.write(piece)
    except aiohttp.ClientError:
        request.abort()  # so that the page notices the truncation
        raise ConnectionError("the response was truncated") from None
    return response


def _api_error(code: int, headers: Mapping[str, str], body: bytes) -> errors.ApiError:
    try:
        status = json_codec.read_any(body)
    except json_codec.DecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return errors.from_status(status)
    wait = headers.get("Retry-After", "")
    return errors.generic(
        code,
        body.decode("utf-8", "replace").strip()[:1000],
        retry_after_s=int(wait) if wait.isdecimal() else 0,
        is_unexpected=True,
    )


def _connection_failed(request: Request, error: BaseException) -> ConnectionFailed:
    reason = str(error) or type(error).__name__
    return ConnectionFailed(f"{request.method} {request.path}: {reason}", may_have_happened=request.method != "GET")
