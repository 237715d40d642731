"""The port of cAdvisor: its API, its metrics, and a page for each container (`--cadvisor-port`)."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sampan.host.http import HttpRequest, HttpResponse, StreamResponse
from sampan.kubelet.server.server import as_json, as_metrics
from sampan.kubelet.server.view import KubeletView
from sampan.kubelet.stats import cadvisor, metrics_text

_VERSIONS = ("v1.0", "v1.1", "v1.2", "v1.3", "v2.0", "v2.1")
_MIB = 1 << 20
_STYLE = "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}td,th{padding:2px 12px;text-align:left}"


class CadvisorPort:
    def __init__(self, *, view: KubeletView) -> None:
        self._view = view

    async def handle(self, request: HttpRequest) -> StreamResponse | None:
        if request.method not in ("GET", "HEAD"):
            return HttpResponse(status=405, text="405: Method Not Allowed")
        first, _, remainder = request.path.lstrip("/").partition("/")
        if first == "":
            return HttpResponse(status=307, headers={"Location": "/containers/"})
        if first == "healthz":
            return HttpResponse(text="ok")
        if first == "metrics":
            return as_metrics(metrics_text.cadvisor_text(await self._view.stats()))
        if first == "containers":
            return await self._page(f"/{remainder.strip('/')}")
        if first == "api":
            return await self._api(remainder.strip("/"))
        return _respond_not_found()

    async def _api(self, remainder: str) -> StreamResponse | None:
        version, _, remainder = remainder.partition("/")
        kind, _, path = remainder.partition("/")
        if not version:
            return as_json({"versions": list(_VERSIONS)})
        if version not in _VERSIONS:
            return _respond_not_found()
        node_stats = await self._view.stats()
        if kind == "machine":
            return as_json(cadvisor.machine_info(node_stats.machine))
        if kind == "attributes":
            return as_json(cadvisor.attributes(node_stats.machine))
        if kind == "ps":
            return as_json(list(cadvisor.processes()))
        if kind in ("containers", "subcontainers", "stats", "spec", "summary"):
            return _respond_with_containers(kind, f"/{path}", cadvisor.containers(node_stats))
        return _respond_not_found()

    async def _page(self, path: str) -> StreamResponse | None:
        node_stats = await self._view.stats()
        containers = cadvisor.containers(node_stats)
        if path not in containers:
            return _respond_not_found()
        return HttpResponse(
            text=_page(path, containers[path], path == "/", node_stats.machine.cores), content_type="text/html"
        )


def _respond_with_containers(kind: str, path: str, containers: Mapping[str, dict[str, Any]]) -> StreamResponse | None:
    if path not in containers:
        return _respond_not_found()
    if kind == "containers":
        return as_json(containers[path])
    below = [info for name, info in containers.items() if name == path or name.startswith(f"{path.rstrip('/')}/")]
    if kind == "subcontainers":
        return as_json(below)
    key = "spec" if kind == "spec" else "stats"
    return as_json({path: containers[path][key]})


def _respond_not_found() -> HttpResponse:
    return HttpResponse(status=404, text="404 page not found\n")


def _page(path: str, info: Mapping[str, Any], is_root: bool, cores: int) -> str:
    stats, labels = info["stats"][0], info["spec"]["labels"]
    title = labels.get("io.kubernetes.container.name") or labels.get("io.kubernetes.pod.name") or path
    parts = [f"<!doctype html><title>{_safe(title)}</title><style>{_STYLE}</style><h1>{_safe(title)}</h1>"]
    parts.append(_rows("Usage", _usage(stats, cores)))
    parts.append(_rows("Labels", sorted(labels.items())))
    interfaces = (stats.get("network") or {}).get("interfaces", [])
    parts.append(
        _rows("Network", [(item["name"], f"{item['rx_bytes']} B in, {item['tx_bytes']} B out") for item in interfaces])
    )
    below = [
        f'<li><a href="/containers{_safe(item["name"])}">{_safe(item["name"])}</a>' for item in info["subcontainers"]
    ]
    if below:
        parts.append(f"<h2>Subcontainers</h2><ul>{''.join(below)}</ul>")
    if is_root:
        rows = [(str(item["pid"]), f"{item['rss'] // _MIB} MiB  {item['cmd'][:120]}") for item in cadvisor.processes()]
        parts.append(_rows("Processes", rows))
    return "\n".join(parts)


def _usage(stats: Mapping[str, Any], cores: int) -> Iterable[tuple[str, str]]:
    yield "CPU", f"{stats['cpu_inst']['usage']['total'] / 1e9:.3f} of {cores} cores"
    yield "Memory", f"{stats['memory']['working_set'] / _MIB:.1f} MiB"
    for disk in stats.get("filesystem", ()):
        yield f"Filesystem {disk['device']}", f"{disk['usage'] / _MIB:.1f} MiB"
    yield "Processes", str(stats["processes"]["process_count"])


def _rows(title: str, rows: Iterable[tuple[str, str]] | Sequence[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><th>{_safe(key)}<td>{_safe(value)}" for key, value in rows)
    return f"<h2>{title}</h2><table>{cells}</table>" if cells else ""


def _safe(text: str) -> str:
    return html.escape(text, quote=True)
