"""Forwards requests to endpoints of backends, and responses to clients.

Bodies are streamed in both directions: a receiver that does not keep up stops the sender. WebSocket connections become
tunnels. Redirects of backends are passed on like other responses.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from multidict import CIMultiDict
from yarl import URL

from sampan.host.http import HttpRequest, HttpResponse, StreamResponse
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.http.lean_aiohttp import aiohttp
from sampan.machinery.http.session import HttpSession
from sampan.machinery.multiplex import handshake, upgrade
from sampan.machinery.multiplex.wire import StreamWire, close_writer, join_wires
from sampan.network.ingress.backends import BackendEndpoints, EndpointAddress
from sampan.network.ingress.request_target import BadTarget, RequestTarget, parse_target
from sampan.network.ingress.routing_table import RoutingTable

log = logging.getLogger(__name__)

_ATTEMPTS = 3
"""The maximum number of endpoints that are tried if they do not accept connections."""
_CONNECT_S, _READ_S, _WRITE_S, _BODY_S = 5.0, 60.0, 60.0, 60.0
"""Timeouts of a connection attempt, of each read from an endpoint, and of each write to and read from a client."""
_KEEP_ALIVE_TIMEOUT_S = 2.0
"""Seconds for which an idle connection to an endpoint is kept. This is shorter than the idle timeouts of servers."""
_HOP = {
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"),
    *("transfer-encoding", "upgrade"),
}
_SET_HERE = {"host", "expect", "forwarded", "x-real-ip", "x-scheme", "x-original-forwarded-for"}
_FORWARDED = "x-forwarded-"
_AUTOMATIC = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
"""Headers that the HTTP client would add."""
_PHRASES = {
    400: "Bad Request",
    404: "Not Found",
    408: "Request Time-out",
    502: "Bad Gateway",
    503: "Service Temporarily Unavailable",
    504: "Gateway Time-out",
}


@dataclass(frozen=True, slots=True)
class ClientSide:
    """The scheme and port by which clients reach a listener."""

    scheme: str
    port: int


class IngressForwarder:
    """Serves requests on one node. `close()` ends its connections to endpoints."""

    def __init__(self, *, table: RoutingTable, backends: BackendEndpoints, namespace: NetworkNamespace) -> None:
        """Create the forwarder. It connects to endpoints in the network namespace `namespace`."""
        self._table, self._backends = table, backends
        self._executor: ThreadPoolExecutor | None = (
            namespace.executor("ingress-sockets") if namespace.path is not None else None
        )
        self._session: HttpSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    async def handle(self, request: HttpRequest, side: ClientSide) -> StreamResponse | None:
        try:
            target = parse_target(request.target, request.values("Host"))
        except BadTarget as error:
            log.debug("malformed request of %s: %s", request.remote, error)
            return error_page(400)
        route = self._table.route(target.host, target.path)
        if route is None:
            return error_page(404)
        addresses = self._backends.candidates(route.backend, _ATTEMPTS)
        if not addresses:
            log.debug("Ingress %s: service %s has no ready endpoints", route.ingress, route.backend.service)
            return error_page(503)
        is_websocket = handshake.is_websocket(request.values)
        if is_websocket and not request.has_body:  # a backend would wait for the body
            return await self._tunnel(request, side, target, addresses)
        return await self._forward(request, side, target, addresses)

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _forward(
        self, request: HttpRequest, side: ClientSide, target: RequestTarget, addresses: Iterable[EndpointAddress]
    ) -> StreamResponse | None:
        headers, code = request_headers(request, side, target), 502
        body = _ClientBody(request)
        for address in addresses:
            try:
                upstream = await self._open().request(
                    request.method,
                    URL(f"http://{address.authority}{target.path_and_query}", encoded=True),
                    headers=headers,
                    data=body.pieces() if request.has_body else None,
                    skip_auto_headers=_AUTOMATIC,
                )
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                log.debug("cannot connect to endpoint %s: %s", address.authority, error)
                code = 504 if isinstance(error, TimeoutError) else 502
                continue
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                if body.has_timed_out:
                    return error_page(408, is_last=True)
                log.debug("cannot forward a request to endpoint %s: %s", address.authority, error)
                return error_page(504 if isinstance(error, TimeoutError) else 502, is_last=body.is_begun)
            try:
                return await _relay(request, upstream)
            finally:
                upstream.release()
        return error_page(code)

    def _open(self) -> HttpSession:
        if self._session is None:
            self._session = HttpSession(
                connector=aiohttp.TCPConnector(
                    limit=0, use_dns_cache=False, keepalive_timeout=_KEEP_ALIVE_TIMEOUT_S, socket_factory=self._socket
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_READ_S),
            )
        return self._session

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        """Return a socket in the namespace of the node for an entry of getaddrinfo()."""
        family, kind, protocol = address[:3]
        if self._executor is None:
            return socket.socket(family, kind, protocol)
        return self._executor.submit(socket.socket, family, kind, protocol).result()

    # -- WebSocket connections ---------------------------------------------------------------------------------------

    async def _tunnel(
        self, request: HttpRequest, side: ClientSide, target: RequestTarget, addresses: Iterable[EndpointAddress]
    ) -> StreamResponse | None:
        headers = request_headers(request, side, target)
        headers["Connection"], headers["Upgrade"] = "Upgrade", "websocket"
        connection = await self._dial(addresses)
        if connection is None:
            return error_page(502)
        reader, writer = connection
        try:
            async with asyncio.timeout(_READ_S):
                writer.write(upgrade.request_head(request.method, target.path_and_query, headers.items()))
                await writer.drain()
                head = await upgrade.read_response_head(reader)
                if head.code != upgrade.SWITCHING:
                    return await _read_rejection(reader, head)
            wire = request.take_over(_encode_head(head))
            await join_wires(wire, StreamWire(reader, writer))
            return None
        except TimeoutError:
            return error_page(504)
        except (upgrade.BadResponse, ValueError) as error:
            log.debug("cannot forward a WebSocket request for %s: %s", target.host, error)
            return error_page(502)
        finally:
            await close_writer(writer)

    async def _dial(
        self, addresses: Iterable[EndpointAddress]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        loop = asyncio.get_running_loop()
        for address in addresses:
            family = socket.AF_INET6 if ":" in address.ip else socket.AF_INET
            connection = self._socket((family, socket.SOCK_STREAM, 0))
            connection.setblocking(False)
            try:
                async with asyncio.timeout(_CONNECT_S):
                    await loop.sock_connect(connection, tuple(address))
                    return await asyncio.open_connection(sock=connection)
            except OSError as error:  # includes TimeoutError
                connection.close()
                log.debug("cannot connect to endpoint %s: %s", address.authority, error)
            except BaseException:
                connection.close()
                raise
        return None


class _ClientBody:
    """The body of a request, which may be read once."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self.is_begun = self.has_timed_out = False

    async def pieces(self) -> AsyncIterator[bytes]:
        request = self._request
        request.send_continue()
        self.is_begun = True
        while True:
            try:
                async with asyncio.timeout(_BODY_S):
                    piece = await request.body.read()
            except TimeoutError:
                self.has_timed_out = True
                raise
            if not piece:
                return
            yield piece


def request_headers(request: HttpRequest, side: ClientSide, target: RequestTarget) -> CIMultiDict[str]:
    """Return the headers for the backend.

    Headers of the client about proxies are removed. Headers whose names have an underscore are removed too, because
    some servers treat it like a hyphen.
    """
    named = {word.strip().lower() for value in request.values("Connection") for word in value.split(",")}
    left_out = _HOP | named | _SET_HERE
    headers = CIMultiDict(
        (name, value)
        for name, value in request.headers.items()
        if (lower := name.lower()) not in left_out and not lower.startswith(_FORWARDED) and "_" not in lower
    )
    client = request.remote
    headers["Host"] = target.authority
    headers.setdefault("X-Request-ID", secrets.token_hex(16))
    forwarded = {
        "X-Real-IP": client,
        "X-Forwarded-For": client,
        "X-Forwarded-Host": target.authority,
        "X-Forwarded-Port": str(side.port),
        "X-Forwarded-Proto": side.scheme,
        "X-Forwarded-Scheme": side.scheme,
        "X-Scheme": side.scheme,
    }
    headers.update(forwarded)
    return headers


async def _relay(request: HttpRequest, upstream: aiohttp.ClientResponse) -> StreamResponse | None:
    if upstream.status < 200:
        return error_page(502)
    response = StreamResponse(
        status=upstream.status, reason=upstream.reason, headers=_response_headers(upstream.headers.items())
    )
    length = upstream.headers.get("Content-Length", "")
    if length.isdecimal():
        response.content_length = int(length)
    response.start(request)
    try:
        if request.method != "HEAD":
            async for piece in upstream.content.iter_any():
                async with asyncio.timeout(_WRITE_S):
                    await response.write(piece)
    except (aiohttp.ClientError, TimeoutError) as error:
        request.abort()  # so that the client notices the truncation
        raise ConnectionError(f"the response was truncated: {error}") from None
    return response


def _response_headers(headers: Iterable[tuple[str, str]]) -> CIMultiDict[str]:
    pairs = list(headers)
    named = {word.strip().lower() for name, value in pairs if name.lower() == "connection" for word in value.split(",")}
    left_out = _HOP | named | {"content-length"}
    passed_headers = CIMultiDict((name, value) for name, value in pairs if name.lower() not in left_out)
    passed_headers.setdefault("Server", "sampan")
    return passed_headers


async def _read_rejection(reader: asyncio.StreamReader, head: upgrade.ResponseHead) -> HttpResponse:
    """Return the response of a backend that does not accept a WebSocket connection."""
    body = await upgrade.read_response_body(reader, head)
    response = HttpResponse(status=head.code, reason=head.phrase, body=body, headers=_response_headers(head.headers))
    response.is_last = True
    return response


def _encode_head(head: upgrade.ResponseHead) -> bytes:
    lines = [f"HTTP/1.1 {head.code} {head.phrase}", *(f"{name}: {value}" for name, value in head.headers), "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape")


def error_page(code: int, *, is_last: bool = False) -> HttpResponse:
    """Return an error response of the controller itself, with the text of ingress-nginx.

    With `is_last` the connection is closed, because the rest of the request is not read.
    """
    title = f"{code} {_PHRASES[code]}"
    text = f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n"
    headers: Mapping[str, str] = {"Server": "sampan"}
    response = HttpResponse(
        status=code,
        reason=_PHRASES[code],
        text=f"{text}</body>\r\n</html>\r\n",
        content_type="text/html",
        headers=headers,
    )
    if is_last:
        response.is_last = True
    return response
