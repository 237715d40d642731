"""Watches over HTTP: frames from the cacher, written as they come."""

from __future__ import annotations

from aiohttp import web

from sampan.api.codec import json as json_codec
from sampan.apiserver.call import Call
from sampan.apiserver.http.storage_errors import translated
from sampan.apiserver.negotiation import Form
from sampan.apiserver.results import WatchAnswer
from sampan.machinery import errors
from sampan.storage.cacher.errors import CacheError


async def stream(request: web.BaseRequest, call: Call, answer: WatchAnswer, form: Form) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    try:
        async with answer.watcher as watcher:
            await response.prepare(request)
            async for events in watcher:
                await response.write(b"".join([event.frame() for event in events]))
    except CacheError as fault:
        error = translated(fault, call) or errors.internal_error(str(fault))
        if not response.prepared:
            raise error from fault
        await response.write(json_codec.encode({"type": "ERROR", "object": error.status}) + b"\n")
    except ConnectionResetError:
        return response
    await response.write_eof()
    return response
