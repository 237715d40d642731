"""The stats and metrics endpoints."""

from __future__ import annotations

import msgspec
from aiohttp import web

from sampan.kubelet.server.view import KubeletView, Refusal
from sampan.kubelet.stats import cadvisor, texts
from sampan.kubelet.stats.summary import summary
from sampan.machinery.metrics import CONTENT_TYPE


async def stats(view: KubeletView, rest: str, request: web.BaseRequest) -> web.StreamResponse:
    figures = await view.figures()
    if rest == "summary":
        short = request.query.get("only_cpu_and_memory", "")
        return as_json(summary(figures, only_cpu_and_memory=short.lower() in ("1", "t", "true")))
    if rest in ("", "container"):
        containers = cadvisor.containers(figures)
        return as_json(containers["/"] if not rest else containers)
    raise Refusal(404, "404: Page Not Found")


async def spec(view: KubeletView) -> web.StreamResponse:
    return as_json(cadvisor.machine_info((await view.figures()).machine))


async def metrics(view: KubeletView, rest: str) -> web.StreamResponse:
    if rest == "":
        await view.figures()  # Some metrics are taken from the latest figures.
        return as_metrics(view.metrics_text())
    if rest == "probes":
        return as_metrics(view.probe_metrics_text())
    if rest == "resource":
        return as_metrics(texts.resource_text(await view.figures()))
    if rest == "cadvisor":
        return as_metrics(texts.cadvisor_text(await view.figures()))
    raise Refusal(404, "404: Page Not Found")


def as_json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def as_metrics(text: str) -> web.Response:
    return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})
