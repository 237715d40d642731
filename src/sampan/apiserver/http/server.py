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

from sampan.apiserver.flowcontrol.fairness import Fairness
from sampan.apiserver.http import response_writer, websocket
from sampan.apiserver.http.acceptor import Acceptor, ApiConnection, listen
from sampan.apiserver.http.connection_limits import HttpLimits, connection_limiter
from sampan.apiserver.http.http_request import HttpCallTransport, InFlightLimiter, InvalidTarget
from sampan.apiserver.http.watch_server import WatchServer
from sampan.apiserver.metrics import RequestMetrics
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.registry.registry import StartTask
from sampan.apiserver.request.call import ANONYMOUS, Call, UserInfo
from sampan.apiserver.response.renderer import RenderedResponse, Renderer
from sampan.apiserver.response.responses import ApiResponse, StreamedResponse, WatchResponse, api_error_of
from sampan.host.http import HttpConnections, HttpRequest, StreamResponse
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.host.linux.process_resources import descriptor_limit
from sampan.machinery import errors
from sampan.machinery.pki.server_tls import PeerCertificate
from sampan.machinery.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

_AUDIT_ID = "Audit-Id"
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

    async def serve(self, request: HttpRequest) -> StreamResponse | None: ...

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
        compresses_watch_lists: bool = False,
    ) -> None:
        """`start_task` starts the accept loops in a task group that outlives this server; `close` cancels them."""
        self._pipeline, self._start_task = pipeline, start_task
        self._limits = limits or HttpLimits()
        self._metrics = metrics or RequestMetrics(metrics=Metrics())
        self.renderer = Renderer(endpoints=pipeline.endpoints)
        self.in_flight_limiter = InFlightLimiter(limits=self._limits, metrics=self._metrics, fairness=fairness)
        self._watch_server = WatchServer(
            metrics=self._metrics,
            budget=pipeline.endpoints.registry.watch_budget,
            compresses_lists=compresses_watch_lists,
        )
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
            handler = partial(self._handle if listener.user is None else self._serve_api, listener.user)
            connections = HttpConnections(handler, limits=self._limits, cancels_handlers=False)
            acceptor = Acceptor(
                listening=listen(listener.host, listener.port, listener.network),
                make=partial(ApiConnection, connections),
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

    async def _handle(self, user: UserInfo | None, request: HttpRequest) -> StreamResponse | None:
        if self.sites:
            site = self.sites.get(request.raw_path[1:].partition("/")[0])
            if site is not None:
                return await site.serve(request)
        return await self._serve_api(user, request)

    async def serve_delegated(self, request: HttpRequest, certificate: PeerCertificate | None) -> None:
        """Serve a request of a site for one of its users, who is authenticated by the certificate, if there is one, or
        by the headers of the request."""
        response = await self._serve_api(None, request, certificate)
        if response is not None:
            response.send(request)

    async def _serve_api(
        self, user: UserInfo | None, request: HttpRequest, certificate: PeerCertificate | None = None
    ) -> StreamResponse | None:
        http_request = HttpCallTransport(
            request, in_flight=self.in_flight_limiter, limits=self._limits, certificate=certificate
        )
        try:
            await self._respond(user, request, http_request)
            return None
        except InvalidTarget:
            return response_writer.text_response(400, "400 Bad Request")
        finally:
            http_request.leave()

    async def _respond(self, user: UserInfo | None, request: HttpRequest, http_request: HttpCallTransport) -> None:
        call, started, connection = http_request.call(), time.perf_counter(), request.connection
        try:
            connection.limit_request(http_request.time_limit_s(call))
            api_response = await self._serve(request, call, user)
            if isinstance(api_response, WatchResponse):
                connection.limit_request(None)
                await self._watch(request, call, api_response)
                return
            if isinstance(api_response, StreamedResponse):
                connection.limit_request(None)
                await self._stream(request, call, api_response, started)
                return
            rendered = _with_request_headers(
                await self.renderer.render(api_response, call.output_format, call), call, http_request
            )
            await _send(request, call, rendered)
        except errors.ApiError as error:
            rendered = _with_request_headers(await self.renderer.error(error, call), call, http_request)
            errors.release_frames(error)
            await _send(request, call, rendered)
        except TimeoutError:
            rendered = await self._time_out(request, call)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not connection.has_timed_out:
                raise
            task.uncancel()
            rendered = await self._time_out(request, call)
        finally:
            connection.limit_request(None)
            call.body = b""
        duration_s = time.perf_counter() - started
        self._metrics.record_request(call, rendered.code, duration_s, connection.response_bytes)

    async def _serve(self, request: HttpRequest, call: Call, user: UserInfo | None) -> ApiResponse:
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
            if call.user.name != ANONYMOUS and isinstance(request.connection, ApiConnection):
                request.connection.slot.mark_authenticated()

    async def _watch(self, request: HttpRequest, call: Call, api_response: WatchResponse) -> None:
        try:
            frames = self.renderer.frames(api_response, call)
            if websocket.is_upgrade(request):
                await self._watch_server.serve_websocket(request, call, api_response, frames)
                return
            response = response_writer.make_streamed_response(call)
            if call.audit is not None:
                response.headers[_AUDIT_ID] = call.audit.id
            await self._watch_server.serve(request, response, call, api_response, frames)
        finally:
            if call.audit is not None:
                call.audit.complete()

    async def _stream(self, request: HttpRequest, call: Call, api_response: StreamedResponse, started: float) -> None:
        """Serve a stream until it ends or the client disconnects."""
        connection, task = request.connection, asyncio.current_task()
        assert task is not None
        connection.on_lost = task.cancel
        self._streams.add(task)
        try:
            response = await api_response.serve(request)
            if response is not None:
                response.send(request)
        except asyncio.CancelledError:
            if not (connection.transport is None or self.is_stopping):
                raise
            task.uncancel()
            raise ConnectionResetError("the client closed the connection, or the server is stopping") from None
        finally:
            self._streams.discard(task)
            connection.on_lost = None
            if call.audit is not None:
                call.audit.complete()
        duration_s = time.perf_counter() - started
        self._metrics.record_request(call, connection.response_status, duration_s, connection.response_bytes)

    async def _time_out(self, request: HttpRequest, call: Call) -> RenderedResponse:
        """Report a timeout, or abort the connection if the response has been started."""
        rendered = await self.renderer.error(errors.timeout(_TIMEOUT_MESSAGE), call)
        self._metrics.record_termination(call, rendered.code)
        if request.connection.response_status:
            request.abort()
            raise ConnectionError("the client did not read the response in time")
        await _send(request, call, rendered)
        return rendered


async def _send(request: HttpRequest, call: Call, rendered: RenderedResponse) -> None:
    if not response_writer.send(request, call, rendered):
        await response_writer.stream(request, call, rendered)
    if request.connection.is_congested:
        await request.connection.drain()


def _with_request_headers(rendered: RenderedResponse, call: Call, http_request: HttpCallTransport) -> RenderedResponse:
    """Add the headers with the flow schema, the priority level and the audit ID."""
    if call.audit is None and http_request.flow is None:
        return rendered
    audit = {_AUDIT_ID: call.audit.id} if call.audit is not None else {}
    return replace(rendered, headers={**rendered.headers, **http_request.flow_headers(), **audit})
