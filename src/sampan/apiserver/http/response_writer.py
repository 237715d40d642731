"""From a rendered response to bytes on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from http import HTTPStatus

from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time

from sampan.apiserver.http.delegated_request import DelegatedRequest
from sampan.apiserver.request.call import Call
from sampan.apiserver.response.renderer import RenderedResponse, gzip_chunks
from sampan.host.bounded_cache import BoundedCache

_NO_CACHE = "no-cache, private"
_CONTROL = dict.fromkeys((*range(32), 127))


class SentResponse(web.StreamResponse):
    """A response that was written in one piece, bypassing aiohttp. It implements what aiohttp's protocol uses
    afterwards."""

    def __init__(self, code: int, size: int) -> None:
        self.code, self.size = code, size
        self._is_last = False

    @property
    def keep_alive(self) -> bool:
        return not self._is_last

    def force_close(self) -> None:
        self._is_last = True

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


async def respond(request: web.BaseRequest, call: Call, rendered: RenderedResponse) -> web.StreamResponse:
    """Send a complete response."""
    chunks = rendered.chunks
    if isinstance(chunks, tuple) and len(chunks) == 1:
        if _is_plain(request, call, rendered.code):
            return await _send(request, rendered, chunks[0])
        return await _send_whole(request, call, rendered, chunks[0])
    response = make_streamed_response(call, rendered)
    is_plain = _is_plain(request, call, rendered.code)
    if is_plain:
        response.enable_chunked_encoding()
    await response.prepare(request)
    async for chunk in gzip_chunks(chunks) if rendered.is_gzipped else _iterate_async(chunks):
        if is_plain:
            await _send_chunk(request, chunk)
        else:
            await response.write(chunk)
        await asyncio.sleep(0)
    await response.write_eof()
    return response


async def _iterate_async(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def _send_chunk(request: web.BaseRequest, chunk: bytes) -> None:
    """Write a chunk without the copy that aiohttp would make."""
    transport = request.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client closed the connection")
    if chunk:
        transport.writelines((b"%x\r\n" % len(chunk), chunk, b"\r\n"))
        request.writer.output_size += len(chunk)
        await request.writer.drain()


def make_streamed_response(call: Call, rendered: RenderedResponse | None = None) -> web.StreamResponse:
    """Return a response whose body is streamed."""
    response = web.StreamResponse(status=rendered.code if rendered else 200, headers=_headers(rendered))
    _finish_head(response, call)
    return response


def text_response(code: int, text: str) -> web.Response:
    """Return a short text response, after which the connection is closed."""
    response = web.Response(status=code, text=text, content_type="text/plain", charset="utf-8")
    response.force_close()
    return response


def respond_unsupported_version(request: web.BaseRequest) -> SentResponse:
    """Respond to an unsupported HTTP version, in HTTP/1.0, which every client can read."""
    text = b"505 HTTP Version Not Supported"
    if request.transport is not None:
        request.transport.write(b"HTTP/1.0 %b\r\nContent-Length: %d\r\n\r\n%b" % (text, len(text), text))
    response = SentResponse(505, len(text))
    response.force_close()
    return response


# -- responses in one piece ------------------------------------------------------------------------------------------


def _is_plain(request: web.BaseRequest, call: Call, code: int) -> bool:
    """Whether the response needs no special headers or framing, as is the case for nearly all."""
    return (
        request.keep_alive
        and request.version == (1, 1)
        and call.method != "HEAD"
        and not call.warnings
        and code not in (204, 304)
        and not isinstance(request, DelegatedRequest)
    )


async def _send(request: web.BaseRequest, rendered: RenderedResponse, body: bytes) -> SentResponse:
    transport = request.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client closed the connection")
    head = _heads[rendered.code, rendered.content_type, tuple(rendered.headers.items())]
    data = b"%bContent-Length: %d\r\nDate: %b\r\n\r\n%b" % (head, len(body), rfc822_formatted_time().encode(), body)
    transport.write(data)
    request.writer.output_size += len(data)
    await request.writer.drain()
    return SentResponse(rendered.code, len(body))


_HeadParts = tuple[int, str, tuple[tuple[str, str], ...]]


def _make_head(parts: _HeadParts) -> bytes:
    """Return the head of a response, up to the Content-Length, from its code, content type and headers."""
    code, content_type, headers = parts
    lines = [f"HTTP/1.1 {code} {_phrase(code)}"]
    if content_type:
        lines.append(f"Content-Type: {content_type}")
    if not any(name == "Cache-Control" for name, _ in headers):
        lines.append(f"Cache-Control: {_NO_CACHE}")
    lines += [f"{name}: {value.translate(_CONTROL)}" for name, value in headers]
    return "".join(f"{line}\r\n" for line in lines).encode()


_heads = BoundedCache(_make_head, max_entries=1024)


def _phrase(code: int) -> str:
    return HTTPStatus(code).phrase if code in HTTPStatus._value2member_map_ else ""


async def _send_whole(
    request: web.BaseRequest, call: Call, rendered: RenderedResponse, body: bytes
) -> web.StreamResponse:
    response = web.Response(status=rendered.code, body=body, headers=_headers(rendered))
    _finish_head(response, call)
    await response.prepare(request)
    await response.write_eof()
    return response


# -- heads -----------------------------------------------------------------------------------------------------------


def _headers(rendered: RenderedResponse | None) -> dict[str, str]:
    if rendered is None:
        return {"Cache-Control": _NO_CACHE}
    return {"Content-Type": rendered.content_type, "Cache-Control": _NO_CACHE, **rendered.headers}


def _finish_head(response: web.StreamResponse, call: Call) -> None:
    for text in call.warnings:
        quoted = text.translate(_CONTROL).replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
