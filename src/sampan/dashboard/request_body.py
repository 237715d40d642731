"""Bodies of requests of the page, read within a limit."""

from __future__ import annotations

from aiohttp import web

from sampan.machinery import errors

_JSON = "application/json"


async def read_json_body(request: web.BaseRequest, limit: int) -> bytes:
    """Return the body of a request with JSON. Another media type is rejected: a form of another site can send some
    without asking."""
    if request.method != "POST":
        raise errors.generic(405)
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type != _JSON:
        raise errors.unsupported_media_type([_JSON])
    body = bytearray()
    async for piece in request.content.iter_any():
        body += piece
        if len(body) > limit:
            raise errors.request_entity_too_large(f"limit is {limit}")
    return bytes(body)
