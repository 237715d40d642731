"""The HTTP server: listeners, requests to calls, answers to responses."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from aiohttp import web

from sampan.apiserver import negotiation, rendering
from sampan.apiserver.call import Call, Query
from sampan.apiserver.http import watching
from sampan.apiserver.http.storage_errors import translated
from sampan.apiserver.negotiation import OBJECT_FORMS, PLAIN, STREAM_FORMS, Form
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.results import Answer, ValueAnswer, WatchAnswer
from sampan.machinery import errors

log = logging.getLogger(__name__)

MAX_BODY = 3 * 1024 * 1024
_BODY_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Listener:
    host: str
    port: int
    tls: ssl.SSLContext | None = None


class HttpServer:
    def __init__(self, *, pipeline: Pipeline, max_in_flight: int = 400) -> None:
        self._pipeline = pipeline
        self._in_flight = 0
        self._max_in_flight = max_in_flight
        self._servers: list[asyncio.Server] = []
        self._web = web.Server(self.handle, keepalive_timeout=3600, access_log=None)

    async def listen(self, listeners: Sequence[Listener]) -> list[int]:
        """Open the listeners; the ports they have."""
        loop = asyncio.get_running_loop()
        for listener in listeners:
            self._servers.append(
                await loop.create_server(
                    self._web, listener.host, listener.port, ssl=listener.tls, backlog=1024, reuse_address=True
                )
            )
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    async def close(self, grace_s: float = 5) -> None:
        for server in self._servers:
            server.close()
        await self._web.shutdown(grace_s)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        call = Call(
            method=request.method,
            path=unquote(request.rel_url.raw_path),
            query=Query(request.rel_url.raw_query_string),
            headers=request.headers,
        )
        form: Form = PLAIN
        try:
            form = _form(call)
            call.body = await _read_body(request)
            answer = await self._serve(call, request)
            if isinstance(answer, WatchAnswer):
                return await watching.stream(request, call, answer, form)
        except errors.ApiError as error:
            answer = ValueAnswer(error.status, error.code)
        return await _respond(request, call, answer, form)

    async def _serve(self, call: Call, request: web.BaseRequest) -> Answer:
        try:
            return await self._pipeline.serve(call)
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


def _form(call: Call) -> Form:
    accept = call.headers.get("Accept", "")
    found = negotiation.negotiate(accept, True)
    if isinstance(found, Form):
        return found
    if found == "conversion":
        raise errors.not_acceptable(OBJECT_FORMS)
    offered = STREAM_FORMS if call.method == "GET" else OBJECT_FORMS
    raise errors.generic(406, f"406: Not Acceptable\n\nAvailable representations: {', '.join(offered)}")


async def _respond(request: web.BaseRequest, call: Call, answer: Answer, form: Form) -> web.StreamResponse:
    assert not isinstance(answer, WatchAnswer)
    rendered = rendering.render(answer, form, call)
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
