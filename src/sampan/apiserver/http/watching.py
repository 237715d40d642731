"""Watches over HTTP: frames from the cacher, written as they come."""

from __future__ import annotations

from aiohttp import web

from sampan.apiserver.call import Call
from sampan.apiserver.frames import Frames, NoForm
from sampan.apiserver.http.storage_errors import translated
from sampan.apiserver.request_metrics import RequestMetrics
from sampan.apiserver.results import WatchAnswer
from sampan.machinery import errors
from sampan.storage.cacher.errors import CacheError


async def stream(
    request: web.BaseRequest, call: Call, answer: WatchAnswer, frames: Frames, metrics: RequestMetrics
) -> web.StreamResponse:
    headers = {"Content-Type": frames.content_type, "Cache-Control": "no-cache, private"}
    response = web.StreamResponse(headers=headers)
    response.enable_chunked_encoding()
    try:
        async with answer.watcher as watcher:
            await response.prepare(request)
            with metrics.watching(call) as count:
                async for events in watcher:
                    joined = frames.join(events)
                    await response.write(joined)
                    count.sent(len(events), len(joined))
    except CacheError as fault:
        error = translated(fault, call) or errors.internal_error(str(fault))
        if not response.prepared:
            raise error from fault
        await response.write(frames.error(error.status))
    except NoForm:
        pass
    except ConnectionResetError:
        return response
    await response.write_eof()
    return response
