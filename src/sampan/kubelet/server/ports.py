"""Serves the ports of a real node's kubelet, including the classic port of cAdvisor, and rotates container logs."""

from __future__ import annotations

import asyncio
import html
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.kubelet.agent.kubelet import Kubelet
from sampan.kubelet.logs.rotation import LogRotator, RotationPolicy
from sampan.kubelet.server.auth import KubeletAuth
from sampan.kubelet.server.node_views import AgentView
from sampan.kubelet.server.server import HealthPort, KubeletServer, as_json, as_metrics
from sampan.kubelet.server.view import KubeletView, ServerSettings
from sampan.kubelet.stats import cadvisor, metrics_text
from sampan.machinery.http.delegation import DelegatedAuth
from sampan.machinery.pki.server_tls import server_context

_VERSIONS = ("v1.0", "v1.1", "v1.2", "v1.3", "v2.0", "v2.1")
_MIB = 1 << 20
_STYLE = "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}td,th{padding:2px 12px;text-align:left}"
_MAX_LINE = 1 << 20
"""Maximum length of a request line in bytes. For exec the line contains the command."""

_PROCESS_NAMESPACE = NetworkNamespace()

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class CadvisorPort:
    def __init__(self, *, view: KubeletView) -> None:
        self._view = view

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text="405: Method Not Allowed")
        first, _, rest = request.path.lstrip("/").partition("/")
        if first == "":
            return web.Response(status=307, headers={"Location": "/containers/"})
        if first == "healthz":
            return web.Response(text="ok")
        if first == "metrics":
            return as_metrics(metrics_text.cadvisor_text(await self._view.stats()))
        if first == "containers":
            return await self._page(f"/{rest.strip('/')}")
        if first == "api":
            return await self._api(rest.strip("/"))
        return _respond_not_found()

    async def _api(self, rest: str) -> web.StreamResponse:
        version, _, rest = rest.partition("/")
        kind, _, path = rest.partition("/")
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

    async def _page(self, path: str) -> web.StreamResponse:
        node_stats = await self._view.stats()
        containers = cadvisor.containers(node_stats)
        if path not in containers:
            return _respond_not_found()
        return web.Response(
            text=_page(path, containers[path], path == "/", node_stats.machine.cores), content_type="text/html"
        )


def _respond_with_containers(kind: str, path: str, containers: Mapping[str, dict[str, Any]]) -> web.StreamResponse:
    if path not in containers:
        return _respond_not_found()
    if kind == "containers":
        return as_json(containers[path])
    below = [info for name, info in containers.items() if name == path or name.startswith(f"{path.rstrip('/')}/")]
    if kind == "subcontainers":
        return as_json(below)
    key = "spec" if kind == "spec" else "stats"
    return as_json({path: containers[path][key]})


def _respond_not_found() -> web.Response:
    return web.Response(status=404, text="404 page not found\n")


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


@asynccontextmanager
async def listen(
    handler: Handler,
    *,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    namespace: NetworkNamespace = _PROCESS_NAMESPACE,
) -> AsyncIterator[int]:
    """Serve on a port within the context. Yield the actual port number."""
    server = web.Server(
        handler,
        access_log=None,
        keepalive_timeout=75,
        handler_cancellation=True,
        max_line_size=_MAX_LINE,
        max_field_size=_MAX_LINE,
    )
    runner = web.ServerRunner(server, shutdown_timeout=1)
    await runner.setup()
    try:
        if namespace.path is None:
            site: web.BaseSite = web.TCPSite(runner, host, port, ssl_context=tls)
        else:
            site = web.SockSite(runner, await asyncio.to_thread(_bind_socket, namespace, host, port), ssl_context=tls)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _bind_socket(namespace: NetworkNamespace, host: str, port: int) -> socket.socket:
    """Return a socket in the network namespace that is bound to the address."""
    bound = namespace.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def tls_context(certificate: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    """Return the TLS context of the server. Client certificates are optional and must be signed by `client_ca`."""
    context = server_context()
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortsConfig:
    tls: ssl.SSLContext
    namespace: NetworkNamespace = _PROCESS_NAMESPACE
    """The network namespace of the node, in which the ports are opened."""
    address: str = "0.0.0.0"
    port: int = 10250
    """Main port with TLS and authentication; 0 to disable."""
    read_only_port: int = 0
    """Port for plain HTTP without authentication and without debugging handlers; 0 to disable."""
    cadvisor_port: int = 0
    """Port of cAdvisor's API for plain HTTP without authentication; 0 to disable."""
    health_address: str = "127.0.0.1"
    health_port: int = 0
    """Port for plain HTTP with /healthz only; 0 to disable."""
    allows_anonymous: bool = False
    settings: ServerSettings = field(default_factory=ServerSettings)


async def serve_kubelet(kubelet: Kubelet, config: PortsConfig) -> None:
    """Serve the ports until cancelled. If a port is in use, an error is logged and the node runs without the port."""
    await kubelet.started.wait()
    view, clock = AgentView(kubelet), kubelet.clock
    delegation = DelegatedAuth(client=kubelet.client, clock=clock)
    auth = KubeletAuth(node=view.node, delegation=delegation, allows_anonymous=config.allows_anonymous)
    main = KubeletServer(view=view, clock=clock, auth=auth, settings=config.settings)
    plain = KubeletServer(view=view, clock=clock, settings=ServerSettings(has_debugging=False))
    policy = RotationPolicy(
        max_bytes=kubelet.config.container_log_max_bytes, files=kubelet.config.container_log_max_files
    )
    rotator = LogRotator(runtime=view.runtime, running=view.iter_running_containers, clock=clock, policy=policy)
    async with AsyncExitStack() as stack:
        for handler, address, port, tls in (
            (main.handle, config.address, config.port, config.tls),
            (plain.handle, config.address, config.read_only_port, None),
            (CadvisorPort(view=view).handle, config.address, config.cadvisor_port, None),
            (HealthPort(view=view).handle, config.health_address, config.health_port, None),
        ):
            if not port:
                continue
            try:
                await stack.enter_async_context(
                    listen(handler, host=address, port=port, tls=tls, namespace=config.namespace)
                )
            except OSError as error:
                log.error("node %s: cannot listen on port %d: %s", view.node, port, error.strerror or error)
        await rotator.run()
        await asyncio.Event().wait()  # Reached if log rotation is disabled: keep serving the ports.
