"""The /healthz, /stats, /spec and /metrics endpoints, and the healthz port."""

from __future__ import annotations

import msgspec
from aiohttp import web

from sampan.kubelet.server.view import ErrorResponse, KubeletView
from sampan.kubelet.stats import cadvisor, metrics_text
from sampan.kubelet.stats.summary import summary
from sampan.machinery.metrics import CONTENT_TYPE


async def stats(view: KubeletView, rest: str, request: web.BaseRequest) -> web.StreamResponse:
    node_stats = await view.stats()
    if rest == "summary":
        short = request.query.get("only_cpu_and_memory", "")
        return as_json(summary(node_stats, only_cpu_and_memory=short.lower() in ("1", "t", "true")))
    if rest in ("", "container"):
        containers = cadvisor.containers(node_stats)
        return as_json(containers["/"] if not rest else containers)
    raise ErrorResponse(404, "404: Page Not Found")


async def spec(view: KubeletView) -> web.StreamResponse:
    return as_json(cadvisor.machine_info((await view.stats()).machine))


async def metrics(view: KubeletView, rest: str) -> web.StreamResponse:
    if rest == "":
        await view.stats()  # Some metrics are taken from the latest stats.
        return as_metrics(view.metrics_text())
    if rest == "probes":
        return as_metrics(view.probe_metrics_text())
    if rest == "resource":
        return as_metrics(metrics_text.resource_text(await view.stats()))
    if rest == "cadvisor":
        return as_metrics(metrics_text.cadvisor_text(await view.stats()))
    raise ErrorResponse(404, "404: Page Not Found")


def as_json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def as_metrics(text: str) -> web.Response:
    return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})


_SYNC_LOOP = "syncloop"
_CHECKS = ("ping", "log", _SYNC_LOOP)


def healthz(view: KubeletView, check: str, request: web.BaseRequest) -> web.Response:
    """Run the named check, or all checks if the name is empty."""
    if check and check not in _CHECKS:
        raise ErrorResponse(404, "404 page not found\n")
    problem = view.sync_loop_error() if check in ("", _SYNC_LOOP) else ""
    status = 500 if problem else 200
    if check:
        return web.Response(status=status, text=f"internal server error: {problem}\n" if problem else "ok")
    if not problem and "verbose" not in request.query:
        return web.Response(text="ok")
    last = f"[-]{_SYNC_LOOP} failed: reason withheld" if problem else f"[+]{_SYNC_LOOP} ok"
    end = "healthz check failed" if problem else "healthz check passed"
    return web.Response(status=status, text=f"[+]ping ok\n[+]log ok\n{last}\n{end}\n")


class HealthPort:
    """The healthz port 10248: plain HTTP without authentication, and nothing but /healthz."""

    def __init__(self, *, view: KubeletView) -> None:
        self._view = view

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        first, _, check = request.path.strip("/").partition("/")
        try:
            if first != "healthz" or request.method not in ("GET", "HEAD"):
                raise ErrorResponse(404, "404 page not found\n")
            return healthz(self._view, check, request)
        except ErrorResponse as refusal:
            return web.Response(status=refusal.code, text=refusal.text)
