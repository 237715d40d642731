"""The kubelet's HTTP server: dispatches requests, converts errors to responses, serves health, stats and metrics."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec

from sampan.api.codec import json as json_codec
from sampan.api.types.core_v1 import Pod, PodList
from sampan.api.types.meta_v1 import ListMeta
from sampan.host.clock import Clock
from sampan.host.http import HttpRequest, HttpResponse, StreamResponse
from sampan.kubelet.server import pprof, streaming
from sampan.kubelet.server.auth import KubeletAuth
from sampan.kubelet.server.logs import container_log, node_log
from sampan.kubelet.server.view import ErrorResponse, KubeletView, ServerSettings
from sampan.kubelet.stats import cadvisor, metrics_text
from sampan.kubelet.stats.summary import summary
from sampan.machinery.telemetry.health import LOG, PING, RESET_TEXT, HealthCheck, HealthPath
from sampan.machinery.telemetry.metrics import CONTENT_TYPE
from sampan.runtimes.contract import RUNNING

log = logging.getLogger(__name__)

_DEBUGGING = ("run", "exec", "attach", "portForward", "containerLogs", "runningpods", "logs", "debug")
_GET_ONLY = ("pods", "stats", "spec")
_SLIS = "slis"


class KubeletServer:
    """Handles the requests of the kubelet's ports: logs, exec, attach, port-forward, stats and pods. Without `auth`
    every request is allowed. That is for callers in this process, which authorize requests themselves, and for the
    read-only port.
    """

    def __init__(
        self,
        *,
        view: KubeletView,
        clock: Clock,
        auth: KubeletAuth | None = None,
        settings: ServerSettings | None = None,
    ) -> None:
        self._view, self._clock, self._auth = view, clock, auth
        self._settings = settings or ServerSettings()

    async def handle(self, request: HttpRequest) -> StreamResponse | None:
        try:
            if self._auth is not None:
                await self._auth.check(request)
            return await self._dispatch(request)
        except ErrorResponse as refusal:
            return HttpResponse(status=refusal.code, text=refusal.text, headers=refusal.headers)
        except ConnectionError:
            log.debug("%s %s: the client closed the connection", request.method, request.path)
            return HttpResponse(status=500)

    async def log(
        self, namespace: str, pod: str, container: str, query: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the log of a container. Raise ErrorResponse before the first piece if there is no such log."""
        async for piece in container_log(self._view, self._clock, namespace, pod, container, query):
            yield piece

    async def summary(self) -> Mapping[str, Any]:
        return summary(await self._view.stats(), only_cpu_and_memory=True)

    # -- dispatch ----------------------------------------------------------------------------------------------------

    async def _dispatch(self, request: HttpRequest) -> StreamResponse | None:
        first, _, remainder = request.path.lstrip("/").partition("/")
        if first in _DEBUGGING:
            if not self._settings.has_debugging:
                raise ErrorResponse(405, "Debug endpoints are disabled.\n")
            return await self._dispatch_debugging(first, remainder, request)
        if request.method == "DELETE" and first == "metrics" and remainder == _SLIS:
            self._view.health_metrics.reset()
            return HttpResponse(text=RESET_TEXT)
        _check_method(request, "GET" if first in _GET_ONLY else "GET, HEAD")
        return await self._read(first, remainder.rstrip("/"), request)

    async def _read(self, first: str, remainder: str, request: HttpRequest) -> StreamResponse | None:
        if first == "pods" and not remainder:
            return pod_list(self._view.pods())
        if first == "healthz":
            return await serve_healthz(self._view, remainder, request)
        if first == "stats":
            return await serve_stats(self._view, remainder, request)
        if first == "spec" and not remainder:
            return await serve_spec(self._view)
        if first == "metrics":
            return await serve_metrics(self._view, remainder)
        if first == "configz" and not remainder:
            return as_json({"kubeletconfig": self._view.configuration()})
        raise ErrorResponse(404, "404 page not found\n")

    async def _dispatch_debugging(self, first: str, remainder: str, request: HttpRequest) -> StreamResponse | None:
        view, segments = self._view, remainder.split("/")
        if first == "exec" and len(segments) in (3, 4):
            return await streaming.handle_exec(view, request, segments)
        if first == "attach" and len(segments) in (3, 4):
            return await streaming.handle_attach(view, request, segments)
        if first == "portForward" and len(segments) in (2, 3):
            return await streaming.handle_port_forward(view, request, segments)
        if first == "run" and len(segments) in (3, 4) and request.method == "POST":
            return await streaming.handle_run(view, request, segments)
        _check_method(request, "GET")
        if first == "containerLogs":
            return await self._container_log(segments, request)
        if first == "runningpods":
            return pod_list([pod for pod in view.pods() if self._is_running(pod)])
        if first == "logs":
            if not self._settings.has_node_logs:
                raise ErrorResponse(405, "logs endpoint is disabled.\n")
            return await node_log(self._settings.node_logs, remainder, request)
        if first == "debug" and segments[0] == "pprof":
            if not self._settings.has_profiling:
                raise ErrorResponse(405, "profiling endpoint is disabled.\n")
            return await pprof.profile("/".join(segments[1:]), request)
        raise ErrorResponse(404, "404 page not found\n")

    def _is_running(self, pod: Pod) -> bool:
        return any(container.state == RUNNING for container in self._view.runtime.pod_report(pod).containers)

    async def _container_log(self, segments: list[str], request: HttpRequest) -> StreamResponse | None:
        missing = ("podNamespace", "podID", "container name")
        if len(segments) != 3 or not all(segments):
            position = next(
                (position for position in range(3) if position >= len(segments) or not segments[position]), 2
            )
            raise ErrorResponse(400, f'{{"message": "Missing {missing[position]}."}}')
        namespace, pod, container = segments
        pieces = self.log(namespace, pod, container, dict(reversed(list(request.query.items()))))
        first = await anext(pieces)
        response = StreamResponse(headers={"Content-Type": "text/plain"})
        response.start(request)
        try:
            if first:
                await response.write(first)
            async for piece in pieces:
                await response.write(piece)
            response.finish()
        finally:
            await pieces.aclose()
        return response


def _check_method(request: HttpRequest, methods: str) -> None:
    """Raise ErrorResponse unless the method of the request is one of the methods, separated by commas."""
    if request.method not in methods.split(", "):
        raise ErrorResponse(405, "405: Method Not Allowed", headers={"Allow": methods})


def pod_list(pods: Any) -> HttpResponse:
    body = json_codec.encode(PodList(metadata=ListMeta(), items=list(pods)))
    return HttpResponse(body=body, content_type="application/json")


async def serve_stats(view: KubeletView, remainder: str, request: HttpRequest) -> StreamResponse | None:
    node_stats = await view.stats()
    if remainder == "summary":
        short = request.query.get("only_cpu_and_memory", "")
        return as_json(summary(node_stats, only_cpu_and_memory=short.lower() in ("1", "t", "true")))
    if remainder in ("", "container"):
        containers = cadvisor.containers(node_stats)
        return as_json(containers["/"] if not remainder else containers)
    raise ErrorResponse(404, "404: Page Not Found")


async def serve_spec(view: KubeletView) -> StreamResponse | None:
    return as_json(cadvisor.machine_info((await view.stats()).machine))


async def serve_metrics(view: KubeletView, remainder: str) -> StreamResponse | None:
    if remainder == "":
        await view.stats()  # Some metrics are taken from the latest stats.
        return as_metrics(view.metrics_text())
    if remainder == _SLIS:
        return as_metrics(view.health_metrics.text())
    if remainder == "probes":
        return as_metrics(view.probe_metrics_text())
    if remainder == "resource":
        return as_metrics(metrics_text.resource_text(await view.stats()))
    if remainder == "cadvisor":
        return as_metrics(metrics_text.cadvisor_text(await view.stats()))
    raise ErrorResponse(404, "404: Page Not Found")


def as_json(value: object) -> HttpResponse:
    return HttpResponse(body=msgspec.json.encode(value), content_type="application/json")


def as_metrics(text: str) -> HttpResponse:
    return HttpResponse(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})


async def serve_healthz(view: KubeletView, check: str, request: HttpRequest) -> HttpResponse:
    """Run the named health check, or all checks if the name is empty."""
    path = HealthPath("healthz", lambda: (PING, LOG, _sync_loop_check(view)), metrics=view.health_metrics)
    excluded = set(request.query.getall("exclude", ()))
    response = await path.run(check, excluded=excluded, is_verbose="verbose" in request.query)
    if response is None:
        raise ErrorResponse(404, "404 page not found\n")
    return HttpResponse(status=response.code, text=response.text)


def _sync_loop_check(view: KubeletView) -> HealthCheck:
    async def probe() -> None:
        if problem := view.sync_loop_error():
            raise RuntimeError(problem)

    return HealthCheck("syncloop", probe, is_transient=True)


class HealthPort:
    """The healthz port 10248: plain HTTP without authentication, and nothing but /healthz."""

    def __init__(self, *, view: KubeletView) -> None:
        self._view = view

    async def handle(self, request: HttpRequest) -> StreamResponse | None:
        first, _, check = request.path.strip("/").partition("/")
        try:
            if first != "healthz" or request.method not in ("GET", "HEAD"):
                raise ErrorResponse(404, "404 page not found\n")
            return await serve_healthz(self._view, check, request)
        except ErrorResponse as refusal:
            return HttpResponse(status=refusal.code, text=refusal.text)
