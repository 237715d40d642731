"""Forwards requests and responses, and connects both sides of an upgraded connection."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from multidict import CIMultiDict
from yarl import URL

from sampan.api import limits
from sampan.apiserver.proxy.browser_isolation import isolate_page, remove_origin_rights, remove_session_cookies
from sampan.apiserver.proxy.kubelets import Kubelets, make_unverified_context
from sampan.apiserver.proxy.locations import Location, unreachable_error
from sampan.apiserver.proxy.logs import kubelet_error
from sampan.apiserver.proxy.response_rewriter import LinkRewriter, rewrite_body_links
from sampan.apiserver.response.responses import RawResponse
from sampan.host.http import HttpRequest, HttpResponse, StreamResponse
from sampan.machinery import errors
from sampan.machinery.http.lean_aiohttp import aiohttp
from sampan.machinery.http.session import REDIRECTS, HttpSession
from sampan.machinery.multiplex import handshake, upgrade
from sampan.machinery.multiplex.wire import StreamWire, close_writer, join_wires

_HOP_BY_HOP_HEADERS = {
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"),
    *("transfer-encoding", "upgrade"),
}
_UNFORWARDED_HEADERS = {"authorization", "host", "expect"}
"""Request headers that are not forwarded, because they are for this server only, or because this server sets its own
values."""
_IMPERSONATION = "impersonate-"
_REMOTE_USER = "x-remote-"
_HANDSHAKE = {"connection", "upgrade", "sec-websocket-accept", "sec-websocket-protocol"}
_CORS = {f"access-control-allow-{name}" for name in ("credentials", "headers", "methods", "origin")}
_MAX_INLINE_REWRITE_BYTES = 16 << 10
"""Pages up to this size are rewritten on the event loop, larger ones in a thread: 16 kB may take about 10 ms."""
_MAX_CONCURRENT_REWRITES = 2
"""The number of large pages rewritten concurrently, so that threads remain for other work."""
_PIECE = 256 << 10
_ERROR_TEXT_BYTES = 100_000
_KEEP_ALIVE_TIMEOUT_S = 2.0
"""How long an idle connection is kept: shorter than the idle timeout of servers."""
_SILENT_HEADERS = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
_PASSED_HEADERS = ("Cache-Control", "Content-Encoding", "ETag", "Expires", "Last-Modified", "Location", "Vary")


_VERIFY_ERRORS = {
    10: "x509: certificate has expired or is not yet valid",
    **dict.fromkeys((18, 19, 20, 21), "x509: certificate signed by unknown authority"),
}
"""The messages of Go for OpenSSL verification errors."""


class RedirectForbidden(ConnectionError):
    """A kubelet responded with a redirect, which is never followed: the credentials are for that kubelet only."""


class UpstreamClient:
    """A client for kubelets, pods and services, which must be closed with `close()`."""

    def __init__(self, *, kubelets: Kubelets, has_dashboard: bool) -> None:
        """With `has_dashboard`, pages of pods and services get an origin of their own in browsers, because this server
        serves the dashboard on its origin."""
        self.kubelets, self._has_dashboard = kubelets, has_dashboard
        self._session: HttpSession | None = None
        self._unverified = make_unverified_context()
        self._page_turns = asyncio.Semaphore(_MAX_CONCURRENT_REWRITES)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    # -- requests ----------------------------------------------------------------------------------------------------

    async def forward(
        self,
        request: HttpRequest,
        location: Location,
        target: str,
        prefix: str | None,
        user: Sequence[tuple[str, str]] = (),
    ) -> StreamResponse | None:
        """Forward a request and return the response. `target` is the path and query at the destination. `prefix` is the
        path of the proxy subresource, which precedes `target` in the URLs of the client; None if links are not
        rewritten. `user` are headers that name the user; they replace such headers of the client."""
        if handshake.is_upgrade(request.values):
            return await self.upgrade(request, location, target, user)
        headers = _set_user_headers(_request_headers(request), user)
        if prefix is not None:
            headers["X-Forwarded-Uri"] = prefix + target.partition("?")[0]
        upstream_response = await self._send(request, location, target, headers)
        try:
            return await _relay(
                request,
                upstream_response,
                _rewriter(request, location, prefix),
                self._page_turns,
                is_isolated=prefix is not None and self._has_dashboard,
            )
        finally:
            upstream_response.release()

    async def forward_to_kubelet(self, request: HttpRequest, node: str, target: str) -> StreamResponse | None:
        """Forward a request to a path of a node's kubelet."""
        if (local := self.kubelets.find_local(node)) is not None:
            return await local.handle(request.derive(target=target))
        return await self.forward(request, await self.kubelets.location(node), target, None)

    async def read_from_kubelet(self, node: str, target: str, name: str) -> AsyncGenerator[bytes, None]:
        """Return the pieces of a log, of which the first is empty. Errors are reported for the pod of that name."""
        location = await self.kubelets.location(node)
        try:
            upstream_response = await self.fetch(location, target)
        except RedirectForbidden as error:
            raise errors.internal_error(str(error)) from None
        except ConnectionError as dial_error:
            url = self._url(location, target)
            raise errors.internal_error(f'Get "{url}": {dial_error}') from None
        try:
            if not 200 <= upstream_response.status <= 206:
                raise kubelet_error(
                    upstream_response.status,
                    (await upstream_response.content.read(_ERROR_TEXT_BYTES)).decode("utf-8", "replace"),
                    name,
                )
            yield b""
            async for piece in upstream_response.content.iter_any():
                yield piece
        except aiohttp.ClientPayloadError:
            return
        finally:
            upstream_response.close()

    async def fetch(self, location: Location, target: str) -> aiohttp.ClientResponse:
        """Send a GET with the server's credentials. Raise ConnectionError if no response is received."""
        try:
            response = await self._open().get(
                self._url(location, target),
                ssl=self._context(location),
                server_hostname=location.server_name or None,
            )
        except aiohttp.ClientConnectorError as error:
            raise ConnectionError(dial_error(error.os_error, location)) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(str(error) or "timeout") from None
        if response.status in REDIRECTS:
            response.close()
            raise RedirectForbidden(f'Get "{response.headers.get("Location", "")}": redirects forbidden')
        return response

    async def read(self, location: Location, target: str) -> bytes:
        """Read a small document with the server's credentials. Raise ConnectionError for any status but 200."""
        async with await self.fetch(location, target) as response:
            if response.status != HTTPStatus.OK:
                raise ConnectionError(f"{location.authority} answers {response.status}")
            return await _read_body(response, limits.KUBELET_SUMMARY_BYTES)

    async def ask(
        self,
        location: Location,
        target: str,
        *,
        headers: Iterable[tuple[str, str]],
        tls: ssl.SSLContext,
        server_name: str,
        method: str = "GET",
        body: bytes = b"",
        limit: int = limits.AGGREGATED_RESPONSE_BYTES,
    ) -> RawResponse:
        """Send a request on behalf of a user to a server whose certificate must have `server_name`, and return the
        response. Redirects are returned to the client, not followed. Raise OSError as `fetch` does, and if the response
        has more than `limit` bytes."""
        options: dict[str, Any] = {
            "ssl": tls,
            "server_hostname": server_name,
            "skip_auto_headers": _SILENT_HEADERS,
        }
        try:
            async with self._open().request(
                method, self._url(location, target), headers=CIMultiDict(headers), data=body or None, **options
            ) as upstream_response:
                content = await _read_body(upstream_response, limit)
        except aiohttp.ClientConnectorError as error:
            raise ConnectionError(dial_error(error.os_error, location)) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(str(error) or "timeout") from None
        passed_headers = {
            name: upstream_response.headers[name] for name in _PASSED_HEADERS if name in upstream_response.headers
        }
        return RawResponse(
            content, upstream_response.headers.get("Content-Type", ""), upstream_response.status, passed_headers
        )

    async def _send(
        self, request: HttpRequest, location: Location, target: str, headers: CIMultiDict[str]
    ) -> aiohttp.ClientResponse:
        request.send_continue()
        try:
            return await self._open().request(
                request.method,
                self._url(location, target),
                headers=headers,
                data=request.body.pieces() if request.has_body else None,
                ssl=self._context(location),
                server_hostname=location.server_name or None,
                skip_auto_headers=_SILENT_HEADERS,
            )
        except aiohttp.ClientConnectorError as error:
            raise unreachable_error(dial_error(error.os_error, location)) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise unreachable_error(str(error) or "EOF") from None

    def _open(self) -> HttpSession:
        if self._session is None:
            connect = aiohttp.ClientTimeout(total=None, sock_connect=self.kubelets.access.timeout_s)
            self._session = HttpSession(
                connector=aiohttp.TCPConnector(limit=0, use_dns_cache=False, keepalive_timeout=_KEEP_ALIVE_TIMEOUT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=connect,
            )
        return self._session

    def _url(self, location: Location, target: str) -> URL:
        return URL(f"{location.scheme}://{location.authority}{target}", encoded=True)

    def _context(self, location: Location) -> ssl.SSLContext | bool:
        if not location.is_tls:
            return True
        if location.tls is not None:
            return location.tls
        return self.kubelets.tls() if location.is_kubelet else self._unverified

    # -- upgraded connections ----------------------------------------------------------------------------------------

    async def upgrade(
        self, request: HttpRequest, location: Location, target: str, user: Sequence[tuple[str, str]] = ()
    ) -> StreamResponse | None:
        """Send the upgrade request to the destination and connect both sides."""
        reader, writer = await self._dial(location)
        try:
            headers = _set_user_headers(CIMultiDict(_upgrade_headers(request)), user)
            writer.write(upgrade.request_head(request.method, target, headers.items()))
            await writer.drain()
            head = await upgrade.read_response_head(reader)
            if head.code != upgrade.SWITCHING:
                return await _respond_not_upgraded(reader, head)
            wire = request.take_over(_encode_head(head, is_delegated=request.prepare_response is not None))
            await join_wires(wire, StreamWire(reader, writer))
            return None
        except upgrade.BadResponse as error:
            raise errors.ApiError(str(error), code=500, reason="") from None
        finally:
            await close_writer(writer)

    async def _dial(self, location: Location) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = self._context(location)
        try:
            async with asyncio.timeout(self.kubelets.access.timeout_s):
                if not isinstance(context, ssl.SSLContext):
                    return await asyncio.open_connection(location.host, location.port)
                name = location.server_name or None
                return await asyncio.open_connection(location.host, location.port, ssl=context, server_hostname=name)
        except (OSError, TimeoutError) as error:
            text = dial_error(error, location)
            raise errors.ApiError(f"error dialing backend: {text}", code=500, reason="") from None


async def _read_body(upstream_response: aiohttp.ClientResponse, limit: int) -> bytes:
    body = bytearray()
    async for piece in upstream_response.content.iter_any():
        body += piece
        if len(body) > limit:
            raise ConnectionError(f"the response has more than {limit} bytes")
    return bytes(body)


def dial_error(error: BaseException, location: Location) -> str:
    """Return the error message of kube-apiserver for a failed connection."""
    dial_text = f"dial tcp {location.authority}"
    if isinstance(error, TimeoutError) and not getattr(error, "errno", None):
        return f"{dial_text}: i/o timeout"
    if isinstance(error, ssl.SSLCertVerificationError):
        code = getattr(error, "verify_code", 0)
        text = _VERIFY_ERRORS.get(code) or getattr(error, "verify_message", "") or error.strerror
        return f"tls: failed to verify certificate: {text}"
    if isinstance(error, ssl.SSLError):
        return f"tls: {getattr(error, 'reason', '') or error}"
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number in errno.errorcode:
        return f"{dial_text}: connect: {os.strerror(number).lower()}"
    return f"{dial_text}: {error}"


# -- heads -----------------------------------------------------------------------------------------------------------


def _request_headers(request: HttpRequest) -> CIMultiDict[str]:
    named = {word.strip().lower() for value in request.values("Connection") for word in value.split(",")}
    headers = CIMultiDict(
        (name, value)
        for name, value in request.headers.items()
        if name.lower() not in _HOP_BY_HOP_HEADERS | named and _is_passed(name)
    )
    headers["Host"] = request.headers.get("Host", "")
    remove_session_cookies(headers)
    _add_forwarded(headers, request)
    return headers


def _upgrade_headers(request: HttpRequest) -> Iterator[tuple[str, str]]:
    headers = CIMultiDict((name, value) for name, value in request.headers.items() if _is_passed(name))
    protocols = handshake.list_requested_protocols(request.values)
    headers.popall(handshake.WEBSOCKET_PROTOCOL, None)
    if protocols:  # a bearer token among the subprotocols has been removed
        headers[handshake.WEBSOCKET_PROTOCOL] = ", ".join(protocols)
    remove_session_cookies(headers)
    yield "Host", request.headers.get("Host", "")
    _add_forwarded(headers, request)
    yield from headers.items()


def _set_user_headers(headers: CIMultiDict[str], user: Sequence[tuple[str, str]]) -> CIMultiDict[str]:
    """Return headers in which only this server names the user."""
    if user:
        for name in {name for name in headers if name.lower().startswith(_REMOTE_USER)}:
            headers.popall(name)
        headers.extend(user)
    return headers


def _is_passed(name: str) -> bool:
    lower = name.lower()
    return lower not in _UNFORWARDED_HEADERS and not lower.startswith(_IMPERSONATION)


def _add_forwarded(headers: CIMultiDict[str], request: HttpRequest) -> None:
    addresses = [*headers.popall("X-Forwarded-For", []), request.remote]
    headers["X-Forwarded-For"] = ", ".join(address for address in addresses if address)


def _encode_head(head: upgrade.ResponseHead, *, is_delegated: bool) -> bytes:
    """Return the head as bytes. A site that delegates its requests shares its origin with the response, so that only
    the headers of the handshake are passed, and never a cookie."""
    headers = CIMultiDict(pair for pair in head.headers if not is_delegated or pair[0].lower() in _HANDSHAKE)
    remove_origin_rights(headers)
    lines = [f"HTTP/1.1 {head.code} {head.phrase}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape")


# -- responses -------------------------------------------------------------------------------------------------------


async def _respond_not_upgraded(reader: asyncio.StreamReader, head: upgrade.ResponseHead) -> HttpResponse:
    if head.code < HTTPStatus.BAD_REQUEST:
        raise errors.ApiError(f"invalid upgrade response: status code {head.code}", code=500, reason="")
    body = await upgrade.read_response_body(reader, head)
    response = HttpResponse(status=head.code, reason=head.phrase, body=body, headers=_response_headers(head.headers))
    response.is_last = True
    return response


def _response_headers(headers: Iterable[tuple[str, str]]) -> CIMultiDict[str]:
    pairs = list(headers)
    named = {word.strip().lower() for name, value in pairs if name.lower() == "connection" for word in value.split(",")}
    left_out = _HOP_BY_HOP_HEADERS | named | _CORS | {"content-length"}
    passed_headers = CIMultiDict((name, value) for name, value in pairs if name.lower() not in left_out)
    remove_origin_rights(passed_headers)
    return passed_headers


def _rewriter(request: HttpRequest, location: Location, prefix: str | None) -> LinkRewriter | None:
    if prefix is None:
        return None
    return LinkRewriter(prefix=prefix, host=location.authority, asked_host=request.headers.get("Host", ""))


async def _relay(
    request: HttpRequest,
    upstream_response: aiohttp.ClientResponse,
    rewriter: LinkRewriter | None,
    page_turns: asyncio.Semaphore,
    *,
    is_isolated: bool,
) -> StreamResponse | None:
    headers = _response_headers(upstream_response.headers.items())
    if is_isolated:
        isolate_page(request.headers, headers)
    if rewriter is not None:
        if "Location" in headers:
            headers["Location"] = rewriter.link(headers["Location"])
        elif upstream_response.headers.get("Content-Type", "").partition(";")[0].strip() == "text/html":
            return await _page(request, upstream_response, headers, rewriter, page_turns)
    return await _stream_response(request, upstream_response, headers)


async def _stream_response(
    request: HttpRequest, upstream_response: aiohttp.ClientResponse, headers: CIMultiDict[str], first: bytes = b""
) -> StreamResponse | None:
    response = StreamResponse(status=upstream_response.status, reason=upstream_response.reason, headers=headers)
    length = upstream_response.headers.get("Content-Length", "")
    if length.isdecimal():
        response.content_length = int(length)
    response.start(request)
    try:
        if first:
            await response.write(first)
        if request.method != "HEAD":
            async for piece in upstream_response.content.iter_any():
                await response.write(piece)
    except aiohttp.ClientError:
        request.abort()  # so that the client notices the truncation
        raise ConnectionError("the response was truncated") from None
    return response


async def _page(
    request: HttpRequest,
    upstream_response: aiohttp.ClientResponse,
    headers: CIMultiDict[str],
    rewriter: LinkRewriter,
    turns: asyncio.Semaphore,
) -> StreamResponse | None:
    """Respond with a rewritten page. A page that is too large, compressed or not, is forwarded unchanged."""
    body = bytearray()
    async for piece in upstream_response.content.iter_chunked(_PIECE):
        body += piece
        if len(body) > limits.PROXIED_PAGE_BYTES:
            return await _stream_response(request, upstream_response, headers, bytes(body))
    encoding = upstream_response.headers.get("Content-Encoding", "")
    work = partial(rewrite_body_links, rewriter, bytes(body), encoding, limits.PROXIED_PAGE_BYTES)
    if len(body) <= _MAX_INLINE_REWRITE_BYTES and not encoding:
        page = work()
    else:
        async with turns:
            page = await asyncio.to_thread(work)
    content = page if page is not None else bytes(body)
    return HttpResponse(status=upstream_response.status, reason=upstream_response.reason, body=content, headers=headers)


__all__ = ["UpstreamClient", "dial_error", "unreachable_error"]
