"""The load balancers of the services of a cluster with real nodes in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from sampan.api.types.core_v1 import Service
from sampan.cluster.nodes.nodes_config import NodesConfig
from sampan.host.activity import Activity
from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.kubelet.agent.machine import find_machine_addresses
from sampan.kubelet.hollow_nodes import is_powered_on
from sampan.machinery.client import Client
from sampan.machinery.informer import InformerFactory
from sampan.network.load_balancer import EmbeddedLoadBalancers, EmbeddedProvider, LoadBalancerRoutes, NoRoutes
from sampan.network.nodes import bridge_of_nodes


class ClusterLoadBalancers:
    """The load balancers of a cluster. The controllers use `provider`; `run()` routes the addresses until it is
    cancelled."""

    def __init__(self, *, client: Client, nodes: NodesConfig, clock: Clock, activity: Activity) -> None:
        """`client` reads services, nodes and endpoint slices."""
        self._informers = InformerFactory(client=client, activity=activity)
        self._routes: LoadBalancerRoutes | None = None
        if nodes.node_cidrs and nodes.root is not None:
            self._routes = LoadBalancerRoutes(
                bridge=bridge_of_nodes(nodes.root),
                node_cidrs=nodes.node_cidrs,
                is_on=is_powered_on,
                informers=self._informers,
                clock=clock,
                namespace=NetworkNamespace(),
            )
        self.provider = EmbeddedProvider(
            EmbeddedLoadBalancers(
                services=self._list_services,
                node_cidrs=nodes.node_cidrs,
                machine_addresses=find_machine_addresses(),
                routes=self._routes or NoRoutes(),
            )
        )

    async def _list_services(self) -> Iterable[Service]:
        services = self._informers.for_kind(Service)
        await services.synced.wait()
        return services.lister

    async def run(self) -> None:
        async with self._informers:
            await (self._routes.run() if self._routes is not None else asyncio.Event().wait())
