"""The HTTP proxy behind `kubectl proxy` (kubectl's pkg/proxy).

Each connection carries one request. The proxy checks it, sends it to the API server over a new connection with the
credentials of the session, and passes the response on byte by byte. Watches, logs and upgrades (exec, WebSocket)
therefore need no special treatment, except that both directions stay open once the server has agreed to an upgrade.
Before that, only the body that the request head announces is passed on, so that no further request can reach the server
unchecked.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import mimetypes
import posixpath
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import re2

from sampan.kubectl.client.session import Session
from sampan.kubectl.client.sockets import open_stream
from sampan.kubectl.errors import KubectlError

_MAX_HEAD = 1 << 20
_PIECE = 1 << 16
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(r"/(?:[!-\"$&-~]|%[0-9A-Fa-f]{2})*")
"""A request target of printable ASCII characters without a fragment. Servers differ in whether a fragment is part of
the path."""
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")
_HOP_BY_HOP_HEADERS = frozenset({"connection", "keep-alive", "proxy-connection", "te", "host"})


def _patterns(text: str) -> list[re2._Regexp[str]]:
    """Compile a comma-separated list of patterns; matching takes time linear in the text."""
    options = re2.Options()
    options.log_errors = False
    try:
        return [re2.compile(pattern, options) for pattern in text.split(",")] if text else []
    except re2.error as error:
        raise KubectlError(f"Error compiling re: {error}") from None


class RequestFilter:
    """Decides which requests the proxy accepts, by comma-separated lists of patterns."""

    def __init__(self, *, accepted_paths: str, rejected_paths: str, accepted_hosts: str, rejected_methods: str) -> None:
        self._accepted_paths = _patterns(accepted_paths)
        self._rejected_paths = _patterns(rejected_paths)
        self._accepted_hosts = _patterns(accepted_hosts)
        self._rejected_methods = _patterns(rejected_methods)

    def accepts(self, method: str, path: str, host: str) -> bool:
        if _matches(path, self._rejected_paths) or _matches(method, self._rejected_methods):
            return False
        return _matches(path, self._accepted_paths) and _matches(host, self._accepted_hosts)


def _matches(text: str, patterns: Sequence[re2._Regexp[str]]) -> bool:
    return any(pattern.search(text) for pattern in patterns)


class MalformedRequest(ValueError):
    """The bytes of a client are not an HTTP request that can be forwarded safely."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    method: str
    target: str
    headers: list[tuple[str, str]]

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    @property
    def path(self) -> str:
        return unquote(self.target.partition("?")[0])

    @property
    def host(self) -> str:
        """The host name without the port."""
        host = self.header("host")
        name, colon, port = host.rpartition(":")
        if not colon or not port.isdigit():
            return host
        if name.startswith("[") and name.endswith("]") and ":" in name:
            return name[1:-1]
        return host if ":" in name or "[" in name else name

    @property
    def is_upgrade(self) -> bool:
        tokens = [token.strip() for token in self.header("connection").lower().split(",")]
        return "upgrade" in tokens and bool(self.header("upgrade"))

    @property
    def clean_target(self) -> str:
        """The target without empty segments and dot segments, as Go's HTTP server cleans it."""
        path, question_mark, query = self.target.partition("?")
        clean = "/" + posixpath.normpath(path).lstrip("/")
        if path.endswith("/") and clean != "/":
            clean += "/"
        return clean + question_mark + query


def parse_head(data: bytes) -> RequestHead:
    """Parse a request line and headers. Raise MalformedRequest for a head that servers could interpret in different
    ways."""
    first, *lines = data.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0") or not _TOKEN.fullmatch(words[0]):
        raise MalformedRequest("malformed request line")
    if not _TARGET.fullmatch(words[1]) or _has_encoded_dots(words[1]):
        raise MalformedRequest("malformed path")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name) or "\n" in line or "\r" in line or "\0" in line:
            raise MalformedRequest("malformed header")
        headers.append((name, value.strip()))
    names = [name.lower() for name, _ in headers]
    if names.count("content-length") + names.count("transfer-encoding") > 1 or names.count("host") > 1:
        raise MalformedRequest("ambiguous length or host")
    head = RequestHead(words[0], words[1].replace("\\", "%5C"), headers)
    length, encoding = head.header("content-length"), head.header("transfer-encoding")
    if (length and not (length.isascii() and length.isdigit())) or encoding.lower() not in ("", "chunked"):
        raise MalformedRequest("malformed length")
    return head


def _has_encoded_dots(target: str) -> bool:
    """Whether a segment of the path is a dot segment only after it has been decoded."""
    path = target.partition("?")[0]
    decoded = {segment for segment in unquote(path).split("/") if segment in (".", "..")}
    return not decoded <= set(path.split("/"))


class ApiProxy:
    """Serves the API below `api_prefix` and, with a directory, its files below `static_prefix`."""

    def __init__(
        self,
        *,
        session: Session,
        request_filter: RequestFilter | None,
        api_prefix: str,
        static_prefix: str,
        static_directory: Path | None,
        appends_server_path: bool,
        keepalive_s: float,
    ) -> None:
        self._session = session
        self._filter = request_filter
        self._api_prefix = api_prefix
        self._static_prefix = static_prefix
        self._static_directory = static_directory
        self._appends_server_path = appends_server_path
        self._keepalive_s = keepalive_s
        self._endpoint = session.endpoint()

    async def serve(self, listener: socket.socket) -> None:
        """Accept connections until the task is cancelled."""
        start = asyncio.start_unix_server if listener.family == socket.AF_UNIX else asyncio.start_server
        server = await start(self._handle, sock=listener, limit=_MAX_HEAD)
        async with server:
            await server.serve_forever()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._handle_request(reader, writer)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, TimeoutError):
            pass
        except MalformedRequest as error:
            _respond(writer, "400 Bad Request", f"400 Bad Request: {error}")
        except (OSError, KubectlError) as error:
            _respond(writer, "502 Bad Gateway", f"{error}\n")
        finally:
            with contextlib.suppress(ConnectionError, TimeoutError):
                await writer.drain()
            writer.close()

    async def _handle_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = parse_head(await reader.readuntil(b"\r\n\r\n"))
        if head.clean_target != head.target:
            _respond(writer, "301 Moved Permanently", "", location=head.clean_target)
            return
        directory = self._static_directory
        is_static = directory is not None and head.path.startswith(self._static_prefix)
        if is_static and not (
            head.path.startswith(self._api_prefix) and len(self._api_prefix) > len(self._static_prefix)
        ):
            assert directory is not None
            _serve_file(writer, head, directory, self._static_prefix)
            return
        for prefix in (self._api_prefix, self._static_prefix if directory is not None else self._api_prefix):
            if head.path == prefix.rstrip("/") and prefix != "/":
                _respond(writer, "301 Moved Permanently", "", location=prefix)
                return
        if not head.path.startswith(self._api_prefix):
            _respond(writer, "404 Not Found", "404 page not found\n")
            return
        target = head.target
        if not self._api_prefix.startswith("/api"):
            target = "/" + target.removeprefix(self._api_prefix)
        path = unquote(target.partition("?")[0])
        if self._filter is not None and not self._filter.accepts(head.method, path, head.host):
            _respond(writer, "403 Forbidden", "Forbidden\n")
            return
        await self._forward(head, target, reader, writer)

    async def _forward(
        self, head: RequestHead, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        upstream_reader, upstream_writer = await open_stream(self._endpoint)
        is_upgraded = asyncio.Event()
        try:
            self._set_keepalive(upstream_writer)
            upstream_writer.write(self._upstream_head(head, target, _peer(writer)))
            sender = asyncio.create_task(_send(head, reader, upstream_writer, is_upgraded))
            try:
                status = await upstream_reader.readuntil(b"\r\n")
                writer.write(status)
                if head.is_upgrade and status.split(b" ")[1:2] == [b"101"]:
                    is_upgraded.set()
                while piece := await upstream_reader.read(_PIECE):
                    writer.write(piece)
                    await writer.drain()
            finally:
                sender.cancel()
                await asyncio.gather(sender, return_exceptions=True)
        finally:
            upstream_writer.close()

    def _set_keepalive(self, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        if connection is not None and self._keepalive_s > 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, int(self._keepalive_s)))

    def _upstream_head(self, head: RequestHead, target: str, client: str) -> bytes:
        """Return the head for the API server: with its host name, the credentials and the address of the client, and
        with a single request on the connection."""
        headers = [(name, value) for name, value in head.headers if name.lower() not in _HOP_BY_HOP_HEADERS]
        own = [(name, value) for name, value in self._session.identity() if not head.header(name.lower())]
        if client:
            own.append(("X-Forwarded-For", client))
        connection = "Upgrade" if head.is_upgrade else "close"
        lines = [("Host", self._endpoint.host_header), ("Connection", connection), *headers, *own]
        prefix = self._session.target("").rstrip("/") if self._appends_server_path else ""
        text = f"{head.method} {prefix}{target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines)
        return (text + "\r\n").encode("latin-1")


def _peer(writer: asyncio.StreamWriter) -> str:
    """Return the address of the client, or an empty string for a client of a Unix socket."""
    address = writer.get_extra_info("peername")
    return str(address[0]) if isinstance(address, tuple) else ""


async def _send(
    head: RequestHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_upgraded: asyncio.Event
) -> None:
    """Forward the body that the head announces and, once the server has agreed to an upgrade, all further data. Close
    the connection to the server if the body is malformed."""
    try:
        await _send_body(head, reader, writer)
    except (MalformedRequest, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.close()
        return
    await is_upgraded.wait()
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _send_body(head: RequestHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if head.header("transfer-encoding"):
        await _send_chunks(reader, writer)
    elif length := head.header("content-length"):
        remaining = int(length)
        while remaining > 0 and (piece := await reader.read(min(remaining, _PIECE))):
            remaining -= len(piece)
            writer.write(piece)
            await writer.drain()


async def _send_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward a chunked body. Each chunk is parsed and encoded again, which drops extensions and trailers."""
    while True:
        text = (await reader.readuntil(b"\r\n")).partition(b";")[0].rstrip()
        if not _CHUNK_SIZE.fullmatch(text):
            raise MalformedRequest("malformed chunk")
        if not (size := int(text, 16)):
            break
        writer.write(b"%x\r\n" % size)
        await _send_chunk(size, reader, writer)
        if await reader.readexactly(2) != b"\r\n":
            raise MalformedRequest("malformed chunk")
        writer.write(b"\r\n")
    while await reader.readuntil(b"\r\n") != b"\r\n":
        continue
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _send_chunk(size: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while size:
        piece = await reader.read(min(size, _PIECE))
        if not piece:
            raise asyncio.IncompleteReadError(b"", size)
        size -= len(piece)
        writer.write(piece)
        await writer.drain()


def _respond(writer: asyncio.StreamWriter, status: str, text: str, *, location: str = "") -> None:
    data = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
    head += f"Location: {location}\r\n" if location else ""
    writer.write(f"{head}Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data)


# -- static files ----------------------------------------------------------------------------------------------------


def _serve_file(writer: asyncio.StreamWriter, head: RequestHead, directory: Path, prefix: str) -> None:
    """Serve a file below a directory, or the list of a directory. Links that leave the directory are not followed."""
    relative = head.path.removeprefix(prefix)
    root = directory.resolve()
    try:
        path = (root / relative.lstrip("/")).resolve()
        if not path.is_relative_to(root) or "\0" in relative:
            raise FileNotFoundError
        if path.is_dir() and (path / "index.html").is_file():
            path /= "index.html"
        data = _list_directory(path) if path.is_dir() else path.read_bytes()
    except (OSError, ValueError):
        _respond(writer, "404 Not Found", "404 page not found\n")
        return
    kind = "text/html" if path.is_dir() else mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    charset = "; charset=utf-8" if kind.startswith("text/") else ""
    text = (
        f"HTTP/1.1 200 OK\r\nContent-Type: {kind}{charset}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(text.encode() + (b"" if head.method == "HEAD" else data))


def _list_directory(path: Path) -> bytes:
    names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in path.iterdir())
    links = "".join(f'<a href="{quote(name)}">{html.escape(name)}</a>\n' for name in names)
    return f'<!doctype html>\n<meta name="viewport" content="width=device-width">\n<pre>\n{links}</pre>\n'.encode()
