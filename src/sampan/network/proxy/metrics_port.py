"""The metrics port of kube-proxy: /metrics, /proxyMode, /configz and /healthz, without authentication."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from sampan.machinery.metrics import CONTENT_TYPE, Metrics
from sampan.machinery.network_namespace import NetworkNamespace
from sampan.network.http_port import bound_socket, serve_http

if TYPE_CHECKING:
    from aiohttp import web

GROUP = "kubeproxy.config.k8s.io"


@asynccontextmanager
async def metrics_port(
    metrics: Metrics,
    *,
    mode: str,
    configuration: Mapping[str, object],
    namespace: NetworkNamespace,
    address: str,
    port: int,
) -> AsyncIterator[None]:
    """Serve the port for the duration of the block. Raise OSError if it cannot be bound."""
    from aiohttp import web

    async def handle(request: web.BaseRequest) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text="405 method not allowed\n")
        if request.path == "/metrics":
            return web.Response(body=metrics.text().encode(), headers={"Content-Type": CONTENT_TYPE})
        if request.path == "/proxyMode":
            return web.Response(text=mode, headers={"X-Content-Type-Options": "nosniff"})
        if request.path == "/configz":
            return web.Response(body=msgspec.json.encode({GROUP: configuration}), content_type="application/json")
        if request.path == "/healthz":
            return web.Response(text="ok", headers={"X-Content-Type-Options": "nosniff"})
        return web.Response(status=404, text="404 page not found\n")

    async with serve_http(bound_socket(namespace, address, port), handle):
        yield
