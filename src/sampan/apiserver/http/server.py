"""The HTTP server: listeners, and serving of requests through the pipeline."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from aiohttp import web

from sampan.apiserver.flowcontrol.fairness import Fairness
from sampan.apiserver.http import response_writer, websocket
from sampan.apiserver.http.acceptor import Acceptor, listen
from sampan.apiserver.http.connection import Connection, Connections
from sampan.apiserver.http.connection_limits import HttpLimits, room
from sampan.apiserver.http.http_request import BadTarget, Incoming, InFlight
from sampan.apiserver.http.watch_server import Watching
from sampan.apiserver.metrics import RequestMetrics
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.request.call import ANONYMOUS, Call, User
from sampan.apiserver.response.renderer import Rendered, Renderer
from sampan.apiserver.response.responses import Answer, StreamAnswer, WatchAnswer, translated
from sampan.machinery import errors
from sampan.machinery.descriptors import descriptor_limit
from sampan.machinery.metrics import Metrics
from sampan.machinery.multiplex.takeover import Taken

log = logging.getLogger(__name__)

_AUDIT_ID = "Audit-Id"
_VERSIONS = ((1, 1), (1, 0))
_TOO_LATE = "request did not complete within the allotted timeout"


@dataclass(frozen=True, slots=True)
class Listener:
    host: str
    port: int
    tls: ssl.SSLContext | None = None
    user: User | None = None
    """The user of all requests on this listener; None: requests are authenticated."""


class HttpServer:
    def __init__(
        self,
        *,
        pipeline: Pipeline,
        limits: HttpLimits | None = None,
        metrics: RequestMetrics | None = None,
        fairness: Fairness | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._limits = limits or HttpLimits()
        self._metrics = metrics or RequestMetrics(metrics=Metrics())
        self._renderer = Renderer(endpoints=pipeline.endpoints)
        self._in_flight = InFlight(limits=self._limits, metrics=self._metrics, fairness=fairness)
        self._watching = Watching(metrics=self._metrics, budget=pipeline.endpoints.registry.watch_budget)
        self._streams: set[asyncio.Task[Any]] = set()
        """The tasks of proxied, long-running streams."""
        self._room = room(self._limits, descriptor_limit())
        self._acceptors: list[tuple[Acceptor, asyncio.Task[None]]] = []
        self._connections: list[Connections] = []
        self.is_stopping = False
        """Whether the server is shutting down: requests in progress are finished, and readiness fails."""

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return sum(len(connections) for connections in self._connections)

    async def listen(self, listeners: Sequence[Listener]) -> list[int]:
        """Open the listeners and return their ports."""
        ports = []
        for listener in listeners:
            connections = Connections(partial(self._handle, listener.user), limits=self._limits)
            acceptor = Acceptor(
                listening=listen(listener.host, listener.port),
                make=connections,
                tls=listener.tls,
                room=self._room,
                limits=self._limits,
            )
            self._connections.append(connections)
            self._acceptors.append((acceptor, asyncio.create_task(acceptor.run())))
            ports.append(acceptor.port)
        return ports

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """Use another TLS context for new connections; existing connections are not affected."""
        for acceptor, _ in self._acceptors:
            acceptor.use_tls(tls)

    async def close(self, grace_s: float = 5) -> None:
        """Shut down: stop accepting, end the watches, let requests in progress finish and close the rest."""
        self.is_stopping = True
        for acceptor, task in self._acceptors:
            task.cancel()
            await asyncio.wait([task])
            acceptor.close()
        self._watching.end_all()
        for stream in list(self._streams):
            stream.cancel()
        await asyncio.gather(*(connections.close(grace_s) for connections in self._connections))

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _handle(self, user: User | None, request: web.BaseRequest) -> web.StreamResponse:
        if request.version not in _VERSIONS:
            return response_writer.wrong_version(request)
        incoming = Incoming(request, in_flight=self._in_flight, limits=self._limits)
        try:
            response = await self._answer(user, request, incoming)
        except BadTarget:
            return response_writer.plain(400, "400 Bad Request")
        except ConnectionError:
            log.debug("%s %s: the client closed the connection", request.method, request.path)
            return response_writer.plain(400, "")
        finally:
            incoming.leave()
        connection = request.protocol
        if isinstance(connection, Connection):
            if incoming.is_cut:
                await connection.linger()
            if incoming.is_cut or connection.is_last or self.is_stopping:
                response.force_close()
        return response

    async def _answer(self, user: User | None, request: web.BaseRequest, incoming: Incoming) -> web.StreamResponse:
        call, started = incoming.call(), time.perf_counter()
        try:
            async with asyncio.timeout(incoming.time_limit_s(call)) as limit:
                answer = await self._serve(request, call, user)
                if isinstance(answer, WatchAnswer):
                    limit.reschedule(None)
                    return await self._watch(request, call, answer)
                if isinstance(answer, StreamAnswer):
                    limit.reschedule(None)
                    return await self._stream(request, call, answer, started)
                rendered = _identified(await self._renderer.render(answer, call.form, call), call, incoming)
                response = await response_writer.respond(request, call, rendered)
        except errors.ApiError as error:
            rendered = _identified(await self._renderer.error(error, call), call, incoming)
            response = await response_writer.respond(request, call, rendered)
        except TimeoutError:
            rendered, response = await self._too_late(request, call)
        size = response.size if isinstance(response, response_writer.Sent) else response.body_length
        self._metrics.done(call, rendered.code, time.perf_counter() - started, size)
        return response

    async def _serve(self, request: web.BaseRequest, call: Call, user: User | None) -> Answer:
        try:
            if user is None:
                return await self._pipeline.serve(call)
            call.user = user
            return await self._pipeline.serve_as(call)
        except (errors.ApiError, ConnectionError, TimeoutError):
            raise
        except Exception as error:
            api_error = translated(error, call)
            if api_error is not None:
                raise api_error from error
            log.exception("%s %s", call.method, call.path)
            raise errors.internal_error("the request could not be carried out") from error
        finally:
            if call.user.name != ANONYMOUS and isinstance(request.protocol, Connection):
                request.protocol.place.prove()

    async def _watch(self, request: web.BaseRequest, call: Call, answer: WatchAnswer) -> web.StreamResponse:
        try:
            frames = self._renderer.frames(answer, call)
            if websocket.is_wanted(request):
                return await self._watching.serve_websocket(request, call, answer, frames)
            response = response_writer.opening(call)
            if call.trail is not None:
                response.headers[_AUDIT_ID] = call.trail.id
            await self._watching.serve(request, response, call, answer, frames)
            return response
        finally:
            if call.trail is not None:
                call.trail.complete()

    async def _stream(
        self, request: web.BaseRequest, call: Call, answer: StreamAnswer, started: float
    ) -> web.StreamResponse:
        """Serve a stream until it ends or the client disconnects."""
        connection, task = request.protocol, asyncio.current_task()
        if isinstance(connection, Connection) and task is not None:
            connection.on_lost = task.cancel  # type: ignore[assignment]
            self._streams.add(task)
        try:
            response = await answer.serve(request)
        except asyncio.CancelledError:
            is_lost = isinstance(connection, Connection) and connection.transport is None
            if task is None or not (is_lost or self.is_stopping):
                raise
            task.uncancel()
            raise ConnectionResetError("the client has gone, or the server goes") from None
        finally:
            if task is not None:
                self._streams.discard(task)
            if isinstance(connection, Connection):
                connection.on_lost = None
            if call.trail is not None:
                call.trail.complete()
        code, size = (response.code, 0) if isinstance(response, Taken) else (response.status, response.body_length)
        self._metrics.done(call, code, time.perf_counter() - started, size)
        return response

    async def _too_late(self, request: web.BaseRequest, call: Call) -> tuple[Rendered, web.StreamResponse]:
        """Report a timeout, or abort the connection if the response has been started."""
        rendered = await self._renderer.error(errors.timeout(_TOO_LATE), call)
        if request.writer.output_size > 0:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionError("the client did not take its answer in time")
        return rendered, await response_writer.respond(request, call, rendered)


def _identified(rendered: Rendered, call: Call, incoming: Incoming) -> Rendered:
    """Add the headers with the flow schema, the priority level and the audit ID."""
    if call.trail is None and incoming.flow is None:
        return rendered
    audit = {_AUDIT_ID: call.trail.id} if call.trail is not None else {}
    return replace(rendered, headers={**rendered.headers, **incoming.flow_headers(), **audit})
