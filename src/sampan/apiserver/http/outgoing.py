"""From a rendered answer to bytes on the wire."""

from __future__ import annotations

import asyncio

from aiohttp import web

from sampan.apiserver.call import Call
from sampan.apiserver.rendering import Rendered

_NO_CACHE = "no-cache, private"


def opening(call: Call, rendered: Rendered | None = None) -> web.StreamResponse:
    """The head of an answer that comes in pieces."""
    response = web.StreamResponse(status=rendered.code if rendered else 200, headers=_headers(rendered))
    _warn(response, call)
    return response


async def respond(request: web.BaseRequest, call: Call, rendered: Rendered) -> web.StreamResponse:
    """Send an answer to its end."""
    chunks = iter(rendered.chunks)
    first = next(chunks, b"")
    second = next(chunks, None)
    if second is None:
        response: web.StreamResponse = web.Response(status=rendered.code, body=first, headers=_headers(rendered))
        _warn(response, call)
        await response.prepare(request)
        await response.write_eof()
        return response
    response = opening(call, rendered)
    await response.prepare(request)
    await response.write(first)
    await response.write(second)
    for chunk in chunks:
        await response.write(chunk)
        await asyncio.sleep(0)
    await response.write_eof()
    return response


def plain(code: int, text: str) -> web.Response:
    """A few words, after which the connection is closed."""
    response = web.Response(status=code, text=text, content_type="text/plain", charset="utf-8")
    response.force_close()
    return response


def _headers(rendered: Rendered | None) -> dict[str, str]:
    if rendered is None:
        return {"Cache-Control": _NO_CACHE}
    return {"Content-Type": rendered.content_type, "Cache-Control": _NO_CACHE, **rendered.headers}


def _warn(response: web.StreamResponse, call: Call) -> None:
    for text in call.warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')


__all__ = ["opening", "plain", "respond"]
