"""The HTTP server: listeners, and serving of requests through the pipeline."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from aiohttp import web

from sampan.apiserver.flowcontrol.fairness import Fairness
from sampan.apiserver.http import response_writer, websocket
from sampan.apiserver.http.acceptor import Acceptor, listen
from sampan.apiserver.http.connection import HttpConnection, HttpConnections
from sampan.apiserver.http.connection_limits import HttpLimits, connection_limiter
from sampan.apiserver.http.delegated_request import DelegatedRequest
from sampan.apiserver.http.http_request import HttpRequest, InFlightLimiter, InvalidTarget
from sampan.apiserver.http.watch_server import WatchServer
from sampan.apiserver.metrics import RequestMetrics
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.registry.registry import StartTask
from sampan.apiserver.request.call import ANONYMOUS, Call, UserInfo
from sampan.apiserver.response.renderer import RenderedResponse, Renderer
from sampan.apiserver.response.responses import ApiResponse, StreamedResponse, WatchResponse, api_error_of
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.host.linux.process_resources import descriptor_limit
from sampan.machinery import errors
from sampan.machinery.multiplex.upgrade import TakenOverResponse
from sampan.machinery.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

_AUDIT_ID = "Audit-Id"
_VERSIONS = ((1, 1), (1, 0))
_TIMEOUT_MESSAGE = "request did not complete within the allotted timeout"


@dataclass(frozen=True, slots=True)
class Listener:
    host: str
    port: int
    tls: ssl.SSLContext | None = None
    user: UserInfo | None = None
    """The user of all requests on this listener; None: requests are authenticated."""
    network: NetworkNamespace = field(default_factory=NetworkNamespace)


class Site(Protocol):
    """Pages on the secure port that are no part of the Kubernetes API. A site authenticates its requests itself."""

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse: ...

    async def close(self) -> None:
        """End the open connections."""


class HttpServer:
    def __init__(
        self,
        *,
        pipeline: Pipeline,
        start_task: StartTask,
        limits: HttpLimits | None = None,
        metrics: RequestMetrics | None = None,
        fairness: Fairness | None = None,
    ) -> None:
        """`start_task` starts the accept loops in a task group that outlives this server; `close` cancels them."""
        self._pipeline, self._start_task = pipeline, start_task
        self._limits = limits or HttpLimits()
        self._metrics = metrics or RequestMetrics(metrics=Metrics())
        self.renderer = Renderer(endpoints=pipeline.endpoints)
        self.in_flight_limiter = InFlightLimiter(limits=self._limits, metrics=self._metrics, fairness=fairness)
        self._watch_server = WatchServer(metrics=self._metrics, budget=pipeline.endpoints.registry.watch_budget)
        self._streams: set[asyncio.Task[Any]] = set()
        """The tasks of proxied, long-running streams."""
        self._limiter = connection_limiter(self._limits, descriptor_limit())
        self.sites: dict[str, Site] = {}
        """Sites by the first element of their paths."""
        self._acceptors: list[tuple[Acceptor, asyncio.Task[None]]] = []
        self._connections: list[HttpConnections] = []
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
            connections = HttpConnections(partial(self._handle, listener.user), limits=self._limits)
            acceptor = Acceptor(
                listening=listen(listener.host, listener.port, listener.network),
                make=connections,
                tls=listener.tls,
                limiter=self._limiter,
                limits=self._limits,
            )
            self._connections.append(connections)
            self._acceptors.append((acceptor, self._start_task(acceptor.run())))
            ports.append(acceptor.port)
        return ports

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """Use another TLS context for new connections; existing connections are not affected."""
        for acceptor, _ in self._acceptors:
            acceptor.use_tls(tls)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of the secure port; None if there is none."""
        return next((acceptor.tls for acceptor, _ in self._acceptors if acceptor.tls is not None), None)

    async def close(self, grace_s: float = 5) -> None:
        """Shut down: stop accepting, end the watches, let requests in progress finish and close the rest."""
        self.is_stopping = True
        for acceptor, task in self._acceptors:
            task.cancel()
            await asyncio.wait([task])
            acceptor.close()
        self._watch_server.end_all()
        for site in self.sites.values():
            await site.close()
        for stream in list(self._streams):
            stream.cancel()
        await asyncio.gather(*(connections.close(grace_s) for connections in self._connections))

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _handle(self, user: UserInfo | None, request: web.BaseRequest) -> web.StreamResponse:
        if request.version not in _VERSIONS:
            return response_writer.respond_unsupported_version(request)
        if self.sites and user is None:
            site = self.sites.get(request.rel_url.raw_path[1:].partition("/")[0])
            if site is not None:
                return await site.serve(request)
        return await self._serve_api(user, request)

    async def serve_delegated(self, request: DelegatedRequest) -> web.StreamResponse:
        """Serve a request of a site for one of its users. A response that is returned but not sent yet is prepared as
        well."""
        response = await self._serve_api(None, request)
        if not isinstance(response, TakenOverResponse) and not response.prepared:
            request.prepare_response(response)
        return response

    async def _serve_api(self, user: UserInfo | None, request: web.BaseRequest) -> web.StreamResponse:
        http_request = HttpRequest(request, in_flight=self.in_flight_limiter, limits=self._limits)
        try:
            response = await self._respond(user, request, http_request)
        except InvalidTarget:
            return response_writer.text_response(400, "400 Bad Request")
        except ConnectionError:
            log.debug("%s %s: the client closed the connection", request.method, request.path)
            return response_writer.text_response(400, "")
        finally:
            http_request.leave()
        connection = request.protocol
        if isinstance(connection, HttpConnection):
            if http_request.is_body_incomplete:
                await connection.linger()
            if http_request.is_body_incomplete or connection.is_last or self.is_stopping:
                response.force_close()
        return response

    async def _respond(
        self, user: UserInfo | None, request: web.BaseRequest, http_request: HttpRequest
    ) -> web.StreamResponse:
        call, started = http_request.call(), time.perf_counter()
        try:
            async with asyncio.timeout(http_request.time_limit_s(call)) as limit:
                api_response = await self._serve(request, call, user)
                if isinstance(api_response, WatchResponse):
                    limit.reschedule(None)
                    return await self._watch(request, call, api_response)
                if isinstance(api_response, StreamedResponse):
                    limit.reschedule(None)
                    return await self._stream(request, call, api_response, started)
                rendered = _with_request_headers(
                    await self.renderer.render(api_response, call.output_format, call), call, http_request
                )
                response = await response_writer.respond(request, call, rendered)
        except errors.ApiError as error:
            rendered = _with_request_headers(await self.renderer.error(error, call), call, http_request)
            errors.release_frames(error)
            response = await response_writer.respond(request, call, rendered)
        except TimeoutError:
            rendered, response = await self._time_out(request, call)
        finally:
            call.body = b""
        size = response.size if isinstance(response, response_writer.SentResponse) else response.body_length
        self._metrics.record_request(call, rendered.code, time.perf_counter() - started, size)
        return response

    async def _serve(self, request: web.BaseRequest, call: Call, user: UserInfo | None) -> ApiResponse:
        try:
            if user is None:
                return await self._pipeline.serve(call)
            call.user = user
            return await self._pipeline.serve_as(call)
        except (errors.ApiError, ConnectionError, TimeoutError):
            raise
        except Exception as error:
            raise api_error_of(error, call) from error
        finally:
            if call.user.name != ANONYMOUS and isinstance(request.protocol, HttpConnection):
                request.protocol.slot.mark_authenticated()

    async def _watch(self, request: web.BaseRequest, call: Call, api_response: WatchResponse) -> web.StreamResponse:
        try:
            frames = self.renderer.frames(api_response, call)
            if websocket.is_upgrade(request):
                return await self._watch_server.serve_websocket(request, call, api_response, frames)
            response = response_writer.make_streamed_response(call)
            if call.audit is not None:
                response.headers[_AUDIT_ID] = call.audit.id
            await self._watch_server.serve(request, response, call, api_response, frames)
            return response
        finally:
            if call.audit is not None:
                call.audit.complete()

    async def _stream(
        self, request: web.BaseRequest, call: Call, api_response: StreamedResponse, started: float
    ) -> web.StreamResponse:
        """Serve a stream until it ends or the client disconnects."""
        connection, task = request.protocol, asyncio.current_task()
        if isinstance(connection, HttpConnection) and task is not None:
            connection.on_lost = task.cancel  # type: ignore[assignment]
            self._streams.add(task)
        try:
            response = await api_response.serve(request)
        except asyncio.CancelledError:
            is_lost = isinstance(connection, HttpConnection) and connection.transport is None
            if task is None or not (is_lost or self.is_stopping):
                raise
            task.uncancel()
            raise ConnectionResetError("the client closed the connection, or the server is stopping") from None
        finally:
            if task is not None:
                self._streams.discard(task)
            if isinstance(connection, HttpConnection):
                connection.on_lost = None
            if call.audit is not None:
                call.audit.complete()
        code, size = (
            (response.code, 0) if isinstance(response, TakenOverResponse) else (response.status, response.body_length)
        )
        self._metrics.record_request(call, code, time.perf_counter() - started, size)
        return response

    async def _time_out(self, request: web.BaseRequest, call: Call) -> tuple[RenderedResponse, web.StreamResponse]:
        """Report a timeout, or abort the connection if the response has been started."""
        rendered = await self.renderer.error(errors.timeout(_TIMEOUT_MESSAGE), call)
        self._metrics.record_termination(call, rendered.code)
        if request.writer.output_size > 0:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionError("the client did not read the response in time")
        return rendered, await response_writer.respond(request, call, rendered)


def _with_request_headers(rendered: RenderedResponse, call: Call, http_request: HttpRequest) -> RenderedResponse:
    """Add the headers with the flow schema, the priority level and the audit ID."""
    if call.audit is None and http_request.flow is None:
        return rendered
    audit = {_AUDIT_ID: call.audit.id} if call.audit is not None else {}
    return replace(rendered, headers={**rendered.headers, **http_request.flow_headers(), **audit})
