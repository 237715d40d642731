"""Serves the ports of a real node's kubelet, and rotates container logs."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sampan.host.http import EdgeLimits, Handler, serve_http
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.kubelet.agent.kubelet import Kubelet
from sampan.kubelet.classic.cadvisor_port import CadvisorPort
from sampan.kubelet.logs.rotation import LogRotator, RotationPolicy
from sampan.kubelet.server.auth import KubeletAuth
from sampan.kubelet.server.node_views import AgentView
from sampan.kubelet.server.server import HealthPort, KubeletServer
from sampan.kubelet.server.view import ServerSettings
from sampan.machinery.http.delegation import DelegatedAuth
from sampan.machinery.pki.server_tls import server_context

_MAX_LINE = 1 << 20
"""Maximum length of a request line in bytes. For exec the line contains the command."""

_PROCESS_NAMESPACE = NetworkNamespace()

_LIMITS = EdgeLimits(line_bytes=_MAX_LINE, field_bytes=_MAX_LINE, head_bytes=2 * _MAX_LINE)


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
    address = (host, port) if namespace.path is None else await asyncio.to_thread(_bind_socket, namespace, host, port)
    async with serve_http(handler, address=address, tls=tls, limits=_LIMITS) as number:
        yield number


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
