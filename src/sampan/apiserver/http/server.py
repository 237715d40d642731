"""The HTTP server: listeners, requests to calls, answers to responses."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from sampan.apiserver.call import Call, Query, User
from sampan.apiserver.http import watching
from sampan.apiserver.http.storage_errors import translated
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.rendering import Rendered, Renderer
from sampan.apiserver.request_metrics import RequestMetrics
from sampan.apiserver.results import Answer, WatchAnswer
from sampan.machinery import errors
from sampan.machinery.metrics import Metrics

log = logging.getLogger(__name__)

MAX_BODY = 3 * 1024 * 1024
_BODY_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Listener:
    host: str
    port: int
    tls: ssl.SSLContext | None = None
    user: User | None = None
    """Who everybody at this listener is taken for; None: callers are authenticated."""


class HttpServer:
    def __init__(self, *, pipeline: Pipeline, max_in_flight: int = 400, metrics: RequestMetrics | None = None) -> None:
        self._pipeline = pipeline
        self._metrics = metrics or RequestMetrics(metrics=Metrics())
        self._renderer = Renderer(endpoints=pipeline.endpoints)
        self._in_flight = 0
        self._max_in_flight = max_in_flight
        self._sockets: list[asyncio.Server] = []
        self._webs: list[web.Server] = []

    async def listen(self, listeners: Sequence[Listener]) -> list[int]:
        """Open the listeners; the ports they have."""
        loop = asyncio.get_running_loop()
        for listener in listeners:
            accept = partial(self._handle, listener.user)
            factory: web.Server = web.Server(accept, keepalive_timeout=3600, access_log=None)
            self._webs.append(factory)
            self._sockets.append(
                await loop.create_server(factory, listener.host, listener.port, ssl=listener.tls, backlog=1024)
            )
        return [server.sockets[0].getsockname()[1] for server in self._sockets]

    async def close(self, grace_s: float = 5) -> None:
        """Take no new connections, let requests under way finish, end the rest."""
        for server in self._sockets:
            server.close()
        for web_server in self._webs:
            await web_server.shutdown(grace_s)

    async def _handle(self, user: User | None, request: web.BaseRequest) -> web.StreamResponse:
        call = Call(
            method=request.method,
            path=unquote(request.rel_url.raw_path),
            query=Query(request.rel_url.raw_query_string),
            headers=request.headers,
            peer=_subject(request),
        )
        started = time.perf_counter()
        try:
            call.body = await _read_body(request)
            answer = await self._serve(call, user)
            if isinstance(answer, WatchAnswer):
                frames = self._renderer.frames(answer, call)
                return await watching.stream(request, call, answer, frames, self._metrics)
            rendered = await self._renderer.render(answer, call.form, call)
        except errors.ApiError as error:
            rendered = await self._renderer.error(error, call)
        response = await _respond(request, call, rendered)
        size = response.content_length or response.body_length
        self._metrics.done(call, rendered.code, time.perf_counter() - started, size)
        return response

    async def _serve(self, call: Call, user: User | None) -> Answer:
        try:
            if user is None:
                return await self._pipeline.serve(call)
            call.user = user
            return await self._pipeline.serve_as(call)
        except errors.ApiError:
            raise
        except asyncio.CancelledError:
            raise
        except Exception as fault:
            known = translated(fault, call)
            if known is not None:
                raise known from fault
            log.exception("%s %s", call.method, call.path)
            raise errors.internal_error("the request could not be carried out") from fault


def _subject(request: web.BaseRequest) -> Any:
    """Whom the client's certificate names, if it has one; TLS has verified it."""
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    return certificate.get("subject") if certificate else None


async def _read_body(request: web.BaseRequest) -> bytes:
    if not request.body_exists:
        return b""
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            body = bytearray()
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > MAX_BODY:
                    raise errors.request_entity_too_large(f"limit is {MAX_BODY}")
            return bytes(body)
    except TimeoutError:
        raise errors.timeout("the body of the request did not arrive in time") from None


async def _respond(request: web.BaseRequest, call: Call, rendered: Rendered) -> web.StreamResponse:
    headers = {"Content-Type": rendered.content_type, "Cache-Control": "no-cache, private", **rendered.headers}
    chunks = iter(rendered.chunks)
    first = next(chunks, b"")
    second = next(chunks, None)
    if second is None:
        response: web.StreamResponse = web.Response(status=rendered.code, body=first, headers=headers)
        _warn(response, call)
        return response
    response = web.StreamResponse(status=rendered.code, headers=headers)
    _warn(response, call)
    await response.prepare(request)
    for chunk in (first, second):
        await response.write(chunk)
    for chunk in chunks:
        await response.write(chunk)
    await response.write_eof()
    return response


def _warn(response: web.StreamResponse, call: Call) -> None:
    for text in call.warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
