"""The load balancers of the services of a cluster with real nodes in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from sampan.api.types.core_v1 import Service
from sampan.cluster.nodes_config import NodesConfig
from sampan.kubelet.agent.machine import own_addresses
from sampan.machinery.activity import Activity
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.machinery.informer import InformerFactory
from sampan.network.load_balancer import EmbeddedLoadBalancers, EmbeddedProvider, LoadBalancerRoutes
from sampan.network.nodes import bridge_of_nodes


class ClusterLoadBalancers:
    """`provider` is for the controllers; `run()` routes the addresses until it is cancelled."""

    def __init__(self, *, client: Client, nodes: NodesConfig, clock: Clock, activity: Activity) -> None:
        """`client` reads services, nodes and endpoint slices."""
        self._nodes, self._clock = nodes, clock
        self._informers = InformerFactory(client=client, activity=activity)
        self.provider = EmbeddedProvider(
            EmbeddedLoadBalancers(
                services=self._list_services,
                node_cidrs=nodes.node_cidrs,
                machine_addresses=own_addresses(),
            )
        )

    async def _list_services(self) -> Iterable[Service]:
        services = self._informers.of(Service)
        await services.synced.wait()
        return services.lister

    async def run(self) -> None:
        async with self._informers:
            if not self._nodes.node_cidrs or self._nodes.root is None:
                await asyncio.Event().wait()
                return
            await LoadBalancerRoutes(
                bridge=bridge_of_nodes(self._nodes.root),
                node_cidrs=self._nodes.node_cidrs,
                informers=self._informers,
                clock=self._clock,
            ).run()
