"""Routes of the machine to load balancer addresses: each leads to a node of the bridge, whose kube-proxy translates the
address."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from sampan.api.types.core_v1 import Node, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.machinery.clock import Clock
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName
from sampan.network import netlink
from sampan.network.load_balancer.placement import gateways

log = logging.getLogger(__name__)

_SERVICE_NAME = "kubernetes.io/service-name"
_PAUSE_S = 0.1
_RETRY_S = 5.0


class LoadBalancerRoutes:
    """`run()` keeps the routes in step with services and nodes until it is cancelled. The routes vanish with the
    bridge."""

    def __init__(self, *, bridge: str, node_cidrs: Sequence[str], informers: InformerFactory, clock: Clock) -> None:
        self._bridge, self._node_cidrs, self._clock = bridge, node_cidrs, clock
        self._services, self._nodes = informers.of(Service), informers.of(Node)
        self._slices = informers.of(EndpointSlice)
        self._changed = asyncio.Event()
        self._applied: dict[str, str] | None = None
        """None until the first sync, which removes what an earlier process has left."""

    async def run(self) -> None:
        informers = (self._services, self._nodes, self._slices)
        stops: list[Callable[[], None]] = [informer.subscribe(self._on_change) for informer in informers]
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="load-balancer-routes")
        try:
            for informer in informers:
                await informer.synced.wait()
            while True:
                self._changed.clear()
                await self._sync(executor)
                await self._clock.sleep(_PAUSE_S)
                await self._changed.wait()
        finally:
            for stop in stops:
                stop()
            executor.shutdown(wait=False)

    def _on_change(self, old: object, new: object) -> None:
        self._changed.set()

    async def _sync(self, executor: ThreadPoolExecutor) -> None:
        desired = self._desired()
        if desired == self._applied:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(executor, route_addresses, self._bridge, desired)
        except OSError as error:
            log.warning("cannot route load balancer addresses to nodes: %s; retrying", error)
            self._applied = None
            self._changed.set()
            await self._clock.sleep(_RETRY_S)
            return
        for address, gateway in desired.items():
            if (self._applied or {}).get(address) != gateway:
                log.info("load balancer address %s leads to the node with address %s", address, gateway)
        self._applied = desired

    def _desired(self) -> dict[str, str]:
        services = [service for service in self._services.lister if service.status.loadBalancer.ingress]
        if not services:
            return {}
        slices: dict[NamespacedName, list[EndpointSlice]] = {}
        for slice in self._slices.lister:
            name = slice.metadata.labels.get(_SERVICE_NAME)
            if name:
                slices.setdefault(NamespacedName(slice.metadata.namespace, name), []).append(slice)
        return gateways(services, self._nodes.lister, slices, self._node_cidrs)


def route_addresses(bridge: str, desired: Mapping[str, str]) -> None:
    """Set the gateways of addresses on the machine. Blocks; raises OSError."""
    with netlink.opened() as link:
        index = socket.if_nametoindex(bridge)
        current = netlink.address_routes(link, index)
        for address in current.keys() - desired.keys():
            netlink.say(link, [netlink.no_address_route(address)])
        for address, gateway in desired.items():
            if current.get(address) != gateway:
                netlink.say(link, [netlink.address_route(index, address, gateway)])
