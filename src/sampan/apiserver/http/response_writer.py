"""From a rendered response to bytes on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from sampan.apiserver.request.call import Call
from sampan.apiserver.response.renderer import RenderedResponse, gzip_chunks
from sampan.host.bounded_cache import BoundedCache
from sampan.host.http import HttpRequest, HttpResponse, StreamResponse, date_line, phrase_of

_NO_CACHE = "no-cache, private"
_CONTROL = dict.fromkeys((*range(32), 127))


def send(request: HttpRequest, call: Call, rendered: RenderedResponse) -> bool:
    """Send a response that is complete; return False for one that must be streamed. Raise ConnectionError if the client
    is gone."""
    chunks = rendered.chunks
    if not (isinstance(chunks, tuple) and len(chunks) == 1):
        return False
    body, connection = chunks[0], request.connection
    if (
        request.version == (1, 1)
        and not connection.closes_after_response
        and request.method != "HEAD"
        and not call.warnings
        and rendered.code not in (204, 304)
        and request.prepare_response is None
    ):
        head = _heads[rendered.code, rendered.content_type, tuple(rendered.headers.items())]
        data = b"%bContent-Length: %d\r\n%b\r\n%b" % (head, len(body), date_line(), body)
        connection.send_response(rendered.code, data, len(body))
    else:
        response = HttpResponse(status=rendered.code, body=body, headers=_headers(rendered))
        _add_warnings(response, call)
        response.send(request)
    return True


async def stream(request: HttpRequest, call: Call, rendered: RenderedResponse) -> None:
    """Send a response of several chunks."""
    response = make_streamed_response(call, rendered)
    response.start(request)
    chunks = rendered.chunks
    async for chunk in gzip_chunks(chunks) if rendered.is_gzipped else _iterate_async(chunks):
        await response.write(chunk)
        await asyncio.sleep(0)
    response.finish()


async def _iterate_async(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def make_streamed_response(call: Call, rendered: RenderedResponse | None = None) -> StreamResponse:
    """Return a response whose body is streamed."""
    response = StreamResponse(status=rendered.code if rendered else 200, headers=_headers(rendered))
    _add_warnings(response, call)
    return response


def text_response(code: int, text: str) -> HttpResponse:
    """Return a short text response, after which the connection is closed."""
    response = HttpResponse(status=code, text=text)
    response.is_last = True
    return response


# -- heads -----------------------------------------------------------------------------------------------------------


_HeadParts = tuple[int, str, tuple[tuple[str, str], ...]]


def _make_head(parts: _HeadParts) -> bytes:
    """Return the head of a response, up to the Content-Length, from its code, content type and headers."""
    code, content_type, headers = parts
    lines = [f"HTTP/1.1 {code} {phrase_of(code)}"]
    if content_type:
        lines.append(f"Content-Type: {content_type}")
    if not any(name == "Cache-Control" for name, _ in headers):
        lines.append(f"Cache-Control: {_NO_CACHE}")
    lines += [f"{name}: {value.translate(_CONTROL)}" for name, value in headers]
    return "".join(f"{line}\r\n" for line in lines).encode()


_heads = BoundedCache(_make_head, max_entries=1024)


def _headers(rendered: RenderedResponse | None) -> dict[str, str]:
    if rendered is None:
        return {"Cache-Control": _NO_CACHE}
    content_type = {"Content-Type": rendered.content_type} if rendered.content_type else {}
    return {**content_type, "Cache-Control": _NO_CACHE, **rendered.headers}


def _add_warnings(response: StreamResponse, call: Call) -> None:
    for text in call.warnings:
        quoted = text.translate(_CONTROL).replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
