"""The service proxies of the real nodes: kube-proxy beside each kubelet.

A node with its own network namespace has its own tables. Nodes in the network namespace of the machine share it, and a
namespace can have only one proxy: the first node of the first cluster runs it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack

from sampan.api.addresses import join_host_port
from sampan.api.feature_gates import FeatureGates
from sampan.api.types.core_v1 import Node
from sampan.cluster.machine.host_locks import HostLocks
from sampan.cluster.machine.loopback_range import is_proxied_in_user_space, loopback_services
from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.host.netlink.nftables import TransactionFailed
from sampan.machinery.client import Client
from sampan.machinery.events import EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.loopback_services import LoopbackServices
from sampan.machinery.telemetry.build_info import export_build_info
from sampan.machinery.telemetry.feature_gates import export_feature_gates
from sampan.machinery.telemetry.flight_recorder import FlightRecorder
from sampan.machinery.telemetry.metrics import Metrics, export_process
from sampan.network.nodes import NodeAttachment
from sampan.network.proxy.kube_proxy_configuration import (
    NFTABLES,
    USERSPACE,
    KubeProxyConfiguration,
    NftablesConfiguration,
    with_defaults,
)
from sampan.network.proxy.nftables.table_sync import remove_tables
from sampan.network.proxy.node_proxy import COMPONENT, NodeChanged, NodeProxy, NodeProxyConfig
from sampan.network.proxy.userspace.localhost_ports import LocalhostPorts

log = logging.getLogger(__name__)

HOST_LOCK = "kube-proxy"
"""The name of the lock on the network namespace of the machine."""
HEALTH_PORT, METRICS_PORT = 10256, 10249
_LOCK_RETRY_S = 30.0
_MIN_SYNC_PERIOD = "100ms"
"""The minimum time between two syncs. It is shorter than the default of kube-proxy, as a sync takes a millisecond in a
cluster of this size."""


def remove_abandoned_rules() -> None:
    """Remove the rules that a killed process has left in the network namespace of the machine. The call blocks."""
    locks = HostLocks()
    try:
        if os.geteuid() == 0 and locks.acquire(HOST_LOCK):
            remove_tables(only_temporary=True)
    except (TransactionFailed, OSError) as error:
        log.warning("cannot remove the rules of an earlier kube-proxy: %s", error)
    finally:
        locks.close()


class NodeProxies:
    """The service proxies of the nodes of one cluster in this process. Inside of `async with` their node ports are
    reachable on localhost of the machine."""

    def __init__(
        self,
        *,
        client: Client,
        informers: InformerFactory,
        clock: Clock,
        cluster_cidrs: Sequence[str],
        locks: HostLocks,
        machine: NetworkNamespace,
        recorder: FlightRecorder | None = None,
        feature_gates: FeatureGates | None = None,
    ) -> None:
        """`client` and `informers` have the permissions of kube-proxy. Node ports are reachable on localhost of
        `machine`."""
        self._client, self._informers, self._clock, self._locks = client, informers, clock, locks
        self._cluster_cidrs, self._recorder = cluster_cidrs, recorder
        self._feature_gates = feature_gates or FeatureGates()
        self._host_turn = asyncio.Lock()
        """Held by the node that runs the proxy in the network namespace of the machine."""
        self._events = EventRecorder(client=client, clock=clock, component=COMPONENT)
        self._ports = LocalhostPorts(namespace=machine, events=self._events, place="the machine")
        self._listen_addresses: dict[str, list[tuple[str, int]]] = {}
        self._running = AsyncExitStack()

    async def __aenter__(self) -> NodeProxies:
        group = await self._running.enter_async_context(asyncio.TaskGroup())
        self._running.callback(group.create_task(self._events.run()).cancel)
        await self._running.enter_async_context(self._ports)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    @property
    def listen_addresses(self) -> list[tuple[str, int]]:
        """The addresses and ports of the health checks and metrics of the proxies."""
        return [address for addresses in self._listen_addresses.values() for address in addresses]

    async def run(self, attachment: NodeAttachment) -> None:
        """Run the proxy of a node until cancelled."""
        if attachment.namespace.path is not None:
            self._listen_addresses[attachment.node] = _listen_addresses(attachment)
            try:
                await self._run_proxy(attachment)
            finally:
                del self._listen_addresses[attachment.node]
            return
        if self._host_turn.locked():
            log.info("node %s runs no kube-proxy: another node in the network of the machine does", attachment.node)
        async with self._host_turn:
            if not is_proxied_in_user_space(attachment):
                await self._lock_host(attachment.node)
            await self._run_proxy(attachment)

    async def _run_proxy(self, attachment: NodeAttachment) -> None:
        """Run the proxy, and start it again whenever its node changes."""
        while True:
            try:
                await self._proxy_of(attachment).run()
            except NodeChanged as change:
                log.warning("starting kube-proxy again: %s", change)

    async def _lock_host(self, node: str) -> None:
        """Wait until no other cluster runs a proxy in the network namespace of the machine."""
        is_reported = False
        while not self._locks.acquire(HOST_LOCK):
            if not is_reported:
                log.warning(
                    "node %s: services have no proxy, because another Sampan cluster runs kube-proxy in the network of "
                    "this machine; this cluster takes over when the other has stopped. Nodes with the runtime oci have "
                    "networks of their own",
                    node,
                )
            is_reported = True
            await self._clock.sleep(_LOCK_RETRY_S)

    def _proxy_of(self, attachment: NodeAttachment) -> NodeProxy:
        is_on_host, is_in_user_space = attachment.namespace.path is None, is_proxied_in_user_space(attachment)
        configuration = with_defaults(
            KubeProxyConfiguration(
                hostnameOverride=attachment.node,
                clusterCIDR=",".join(self._cluster_cidrs),
                mode=USERSPACE if is_in_user_space else NFTABLES,
                nftables=NftablesConfiguration(minSyncPeriod=_MIN_SYNC_PERIOD),
            )
        )
        health, metrics = ("", "") if is_on_host else (join_host_port(*row) for row in _listen_addresses(attachment))
        configuration.healthzBindAddress, configuration.metricsBindAddress = health, metrics
        proxy_metrics = Metrics()
        export_process(proxy_metrics)
        export_build_info(proxy_metrics)
        self._client.metrics.export(proxy_metrics)
        export_feature_gates(proxy_metrics, self._feature_gates)
        return NodeProxy(
            config=NodeProxyConfig(
                node_name=attachment.node,
                namespace=attachment.namespace,
                configuration=configuration,
                feature_gates=self._feature_gates,
                loopback=loopback_services(self._locks) if is_in_user_space else LoopbackServices(),
                removes_rules=is_on_host,
            ),
            client=self._client,
            informers=self._informers,
            nodes=self._informers.for_kind(Node),
            clock=self._clock,
            metrics=proxy_metrics,
            machine_ports=self._ports,
            recorder=self._recorder,
        )


def _listen_addresses(attachment: NodeAttachment) -> list[tuple[str, int]]:
    """Return the addresses and ports of health checks and of metrics of a node with its own network namespace, which
    the machine and pods reach. Proxies in the network of the machine serve neither: their ports could be in use, and
    would be reachable from other machines."""
    return [(attachment.addresses[0], port) for port in (HEALTH_PORT, METRICS_PORT)]
