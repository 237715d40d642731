"""A request as its handler sees it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from multidict import CIMultiDict, CIMultiDictProxy, MultiDict, MultiMapping

from sampan.host.http.body import IncomingBytes
from sampan.host.http.head import BadHttpRequest

if TYPE_CHECKING:
    from sampan.host.http.connection import HttpConnection, UpgradedWire
    from sampan.host.http.response import StreamResponse

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpRequest:
    """One request. It shares the connection, and the body, with requests that are made from it by `derive`."""

    prepare_response: Callable[[StreamResponse], None] | None = None
    """Called with each response before its head is sent."""

    def __init__(
        self,
        connection: HttpConnection,
        *,
        method: str,
        target: str,
        version: tuple[int, int],
        headers: MultiMapping[str],
        body: IncomingBytes,
        has_body: bool,
        content_length: int | None,
    ) -> None:
        self.connection, self.method, self.version, self.headers = connection, method, version, headers
        self.target = target
        """The target as the client sent it."""
        self.body, self.has_body = body, has_body
        self.content_length = content_length
        """The length of the body if the client has announced it."""
        if target[:1] != "/" and (absolute := _ABSOLUTE.match(target)) is not None:
            target = target[absolute.end() :]
            target = target if target[:1] == "/" else f"/{target}"
        if "#" in target:
            target = target.partition("#")[0]
        self.raw_path, _, self.raw_query = target.partition("?")
        """Path and query of the target, still percent-encoded, without the question mark."""

    def derive(
        self,
        *,
        target: str | None = None,
        headers: CIMultiDict[str] | None = None,
        prepare_response: Callable[[StreamResponse], None] | None = None,
    ) -> HttpRequest:
        """Return a request with another target or other headers, for another handler of the same connection."""
        derived = HttpRequest(
            self.connection,
            method=self.method,
            target=self.target if target is None else target,
            version=self.version,
            headers=self.headers if headers is None else CIMultiDictProxy(headers),
            body=self.body,
            has_body=self.has_body,
            content_length=self.content_length,
        )
        derived.prepare_response = prepare_response or self.prepare_response
        return derived

    # -- the target --------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The decoded path."""
        return unquote(self.raw_path)

    @property
    def path_and_query(self) -> str:
        return f"{self.raw_path}?{self.raw_query}" if self.raw_query else self.raw_path

    @cached_property
    def query(self) -> MultiDict[str]:
        """The decoded parameters of the query."""
        return MultiDict(parse_qsl(self.raw_query, keep_blank_values=True))

    # -- headers -----------------------------------------------------------------------------------------------------

    def values(self, name: str) -> list[str]:
        """Return all values of a header."""
        return self.headers.getall(name, [])

    @property
    def cookies(self) -> Mapping[str, str]:
        pairs = (pair.partition("=") for value in self.values("Cookie") for pair in value.split(";"))
        return {name.strip(): value.strip().strip('"') for name, _, value in pairs}

    @property
    def awaits_continue(self) -> bool:
        """Whether the client waits for a 100 response before it sends the body."""
        return self.version != (1, 0) and self.headers.get("Expect", "").lower() == "100-continue"

    def send_continue(self) -> None:
        """Ask for the body if the client waits for that."""
        if self.awaits_continue and not self.body.is_ended and self.transport is not None:
            self.transport.write(_CONTINUE)

    async def read(self, max_bytes: int) -> bytes:
        """Return the whole body. Raise BadHttpRequest if it is larger."""
        self.send_continue()
        body = bytearray()
        async for piece in self.body.pieces():
            body += piece
            if len(body) > max_bytes:
                raise BadHttpRequest(413)
        return bytes(body)

    # -- the connection ----------------------------------------------------------------------------------------------

    @property
    def transport(self) -> asyncio.Transport | None:
        """The transport of the connection; None when it is lost."""
        return self.connection.transport

    @property
    def remote(self) -> str:
        """The address of the client; empty for a Unix socket and for a connection that is lost."""
        address = self.connection.peer
        return str(address[0]) if isinstance(address, tuple) and address else ""

    @property
    def scheme(self) -> str:
        return "https" if self.connection.is_tls else "http"

    def abort(self) -> None:
        """Close the connection without waiting for the client, and drop what is buffered for it."""
        if self.transport is not None:
            self.transport.abort()

    def take_over(self, head: bytes) -> UpgradedWire:
        """Send the head of a response, and take the connection over: from then on it is not an HTTP connection any
        more. The handler must return None when it has finished with the wire."""
        return self.connection.take_over(head)
