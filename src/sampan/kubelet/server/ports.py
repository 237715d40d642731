"""Serves the ports of a real node's kubelet and rotates container logs."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from sampan.kubelet.agent.kubelet import Kubelet
from sampan.kubelet.logs.rotation import LogKeeper, RotationPolicy
from sampan.kubelet.server.access import Access
from sampan.kubelet.server.agent_view import AgentView
from sampan.kubelet.server.cadvisor import CadvisorPort
from sampan.kubelet.server.health import HealthPort
from sampan.kubelet.server.listening import listening
from sampan.kubelet.server.server import KubeletServer
from sampan.kubelet.server.view import ServerSettings
from sampan.machinery.delegation import Delegation

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortsConfig:
    tls: ssl.SSLContext
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
    """Serve until cancelled. If a port is in use, that is logged and the node runs without it."""
    await kubelet.begun.wait()
    view, clock = AgentView(kubelet), kubelet.clock
    delegation = Delegation(client=kubelet.client, clock=clock)
    access = Access(node=view.node, delegation=delegation, allows_anonymous=config.allows_anonymous)
    main = KubeletServer(view=view, clock=clock, access=access, settings=config.settings)
    plain = KubeletServer(view=view, clock=clock, settings=ServerSettings(has_debugging=False))
    policy = RotationPolicy(
        max_bytes=kubelet.config.container_log_max_bytes, files=kubelet.config.container_log_max_files
    )
    keeper = LogKeeper(runtime=view.runtime, running=view.running, clock=clock, policy=policy)
    async with AsyncExitStack() as stack:
        for answer, address, port, tls in (
            (main.answer, config.address, config.port, config.tls),
            (plain.answer, config.address, config.read_only_port, None),
            (CadvisorPort(view=view).answer, config.address, config.cadvisor_port, None),
            (HealthPort(view=view).answer, config.health_address, config.health_port, None),
        ):
            if not port:
                continue
            try:
                await stack.enter_async_context(listening(answer, host=address, port=port, tls=tls))
            except OSError as error:
                log.error("node %s: cannot listen on port %d: %s", view.node, port, error.strerror or error)
        await keeper.run()
        await asyncio.Event().wait()  # Reached if log rotation is disabled: keep serving the ports.
