"""The nodes of a machine that have a network namespace each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from sampan.api.types.core_v1 import Node
from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.network.bridge_marks import BridgeMark
from sampan.network.nodes.addresses import bridge_of_nodes
from sampan.network.nodes.attachment import NodeAttachment
from sampan.network.nodes.host_bridge import HostBridge, NodeBridgeConfig, NodeNetworkError
from sampan.network.nodes.routes import distant_pod_cidrs, pod_routes

log = logging.getLogger(__name__)

T = TypeVar("T")

_CHECK_S = 60.0


class NodeBridge:
    """`NodeAttachments` for nodes on a bridge of the machine. A single thread makes all changes, in the order of the
    calls."""

    def __init__(self, *, config: NodeBridgeConfig, clock: Clock) -> None:
        self._config, self._clock = config, clock
        self._host = HostBridge(config)
        self._thread = NetworkNamespace().executor("node-network")
        self._mark = BridgeMark(bridge_of_nodes(config.root))

    async def __aenter__(self) -> NodeBridge:
        await self._run_in_thread(self._mark.set)
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            await self._run_in_thread(self._host.close)
        except NodeNetworkError as error:
            log.warning("cannot remove the network of the nodes: %s", error)
        self._mark.clear()
        self._thread.shutdown()

    async def attach(self, node: str) -> NodeAttachment:
        return await self._run_in_thread(self._host.attach, node)

    async def detach(self, node: str) -> None:
        try:
            await self._run_in_thread(self._host.detach, node)
        except NodeNetworkError as error:
            log.warning("cannot remove the network of node %s: %s", node, error)

    async def route(self, nodes: Iterable[Node]) -> None:
        present, node_cidrs = list(nodes), self._config.node_cidrs
        try:
            routes = pod_routes(present, node_cidrs, self._config.cluster_cidrs)
            distant = distant_pod_cidrs(present, node_cidrs)
            await self._run_in_thread(self._host.route, routes, distant)
        except NodeNetworkError as error:
            log.warning("cannot route the pod CIDRs of all nodes: %s", error)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_CHECK_S)
            try:
                await self._run_in_thread(self._host.check)
            except NodeNetworkError as error:
                log.warning("cannot repair the network of the nodes: %s", error)

    async def _run_in_thread(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)
