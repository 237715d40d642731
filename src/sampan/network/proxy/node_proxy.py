"""kube-proxy of one node: the proxy of the chosen mode, with everything around it. Its counterpart is
`cmd/kube-proxy/app`."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field

from sampan.api.feature_gates import FeatureGates
from sampan.api.semantics.nodes import internal_addresses
from sampan.api.types.core_v1 import Node, ObjectReference
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.host.clock import Clock
from sampan.host.exception_groups import leaf_exceptions
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.client import Client
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import Informer, InformerFactory
from sampan.machinery.loopback_services import LoopbackServices
from sampan.machinery.object_key import NamespacedName
from sampan.machinery.telemetry.flight_recorder import FlightRecorder, PodAddressTrace
from sampan.machinery.telemetry.metrics import Metrics
from sampan.network.proxy.conntrack import UdpFlowCleaner, apply_conntrack_sysctls, node_addresses
from sampan.network.proxy.endpoint_trace import EndpointTrace
from sampan.network.proxy.firewall import ServiceForwardRules, keep_forward_rules
from sampan.network.proxy.health import ProxyHealth, ServiceHealthChecks, health_port
from sampan.network.proxy.kube_proxy_configuration import (
    BRIDGE_INTERFACE,
    INTERFACE_NAME_PREFIX,
    IPTABLES,
    IPVS,
    USERSPACE,
    KubeProxyConfiguration,
    as_object,
    split_address,
)
from sampan.network.proxy.metrics import ProxyMetrics, metrics_port
from sampan.network.proxy.nftables.proxy import PROXIED, NftablesProxy
from sampan.network.proxy.proxy_config import ProxyConfig, node_facts, supported_families
from sampan.network.proxy.service_follower import ServiceFollower
from sampan.network.proxy.services import FAMILIES
from sampan.network.proxy.tracker import ServiceChange, ServiceObserver
from sampan.network.proxy.userspace.localhost_ports import LocalhostPorts, NodePortBackends
from sampan.network.proxy.userspace.proxy import UserspaceProxy

log = logging.getLogger(__name__)

COMPONENT = "kube-proxy"
_BIND_RETRY_S = 5.0
_NODE_TIMEOUT_S = 30.0
_ANY_ADDRESS = "0.0.0.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProxyConfig:
    node_name: str
    namespace: NetworkNamespace
    configuration: KubeProxyConfiguration
    """The configuration with its defaults."""
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    loopback: LoopbackServices = field(default_factory=LoopbackServices)
    """The loopback addresses of services in the userspace mode."""
    removes_rules: bool = False
    """Whether the rules are removed when the proxy stops. Otherwise a restart interrupts nothing."""


class NodeChanged(Exception):
    """The addresses of the node have changed, or the node was deleted, so that the proxy has to start again."""


class NodeProxy:
    """kube-proxy of one node. `run()` proxies until it is cancelled, and raises NodeChanged."""

    def __init__(
        self,
        *,
        config: NodeProxyConfig,
        client: Client,
        informers: InformerFactory,
        nodes: Informer[Node],
        clock: Clock,
        metrics: Metrics,
        machine_ports: LocalhostPorts | None = None,
        recorder: FlightRecorder | None = None,
    ) -> None:
        """Create the proxy. `nodes` has at least the node of the proxy.

        `machine_ports` makes node ports reachable by localhost of the machine, on behalf of all nodes of the process.
        Without it, a node that has no network namespace of its own listens on localhost itself.
        """
        self._config, self._configuration = config, config.configuration
        self._informers, self._nodes, self._clock, self._machine_ports = informers, nodes, clock, machine_ports
        self._metrics, self._recorder = metrics, recorder
        self._proxy_metrics = ProxyMetrics(metrics, clock=clock)
        self._health = ProxyHealth(
            node_name=config.node_name,
            clock=clock,
            timeout_s=2 * self._configuration.sync_period_s,
            metrics=self._proxy_metrics,
        )
        self._events = EventRecorder(client=client, clock=clock, component=COMPONENT, host=config.node_name)
        self.synced = asyncio.Event()
        """Set after the first sync of all services."""

    async def run(self) -> None:
        try:
            await self._run()
        except BaseExceptionGroup as group:
            change = next((error for error in leaf_exceptions(group) if isinstance(error, NodeChanged)), None)
            if change is None:
                raise
            raise change from None

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group, AsyncExitStack() as stack:
            group.create_task(self._check_node())
            group.create_task(self._events.run())
            group.create_task(self._keep_port("healthz", self._configuration.healthzBindAddress, self._health_port))
            group.create_task(self._keep_port("metrics", self._configuration.metricsBindAddress, self._metrics_port))
            addresses = await self._node_port_addresses()
            health_checks = ServiceHealthChecks(
                node_name=self._config.node_name,
                namespace=self._config.namespace,
                is_proxy_healthy=lambda: self._health.is_healthy,
                events=self._events,
                addresses=addresses,
            )
            observers: list[ServiceObserver] = [
                _FirstSyncObserver(self.synced),
                LimitReporter(self._events),
                await stack.enter_async_context(health_checks),
            ]
            observers += self._endpoint_traces()
            if self._configuration.mode == USERSPACE:
                await self._run_userspace(stack, observers, addresses)
            else:
                await self._run_nftables(group, stack, observers)

    # -- modes -------------------------------------------------------------------------------------------------------

    async def _run_nftables(
        self, group: asyncio.TaskGroup, stack: AsyncExitStack, observers: list[ServiceObserver]
    ) -> None:
        namespace, config = self._config.namespace, self._proxy_config()
        if self._configuration.mode in (IPTABLES, IPVS):
            log.warning("the proxy mode %s is served by nftables", self._configuration.mode)
        with namespace.executor("kube-proxy-sysctls") as executor:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(executor, apply_conntrack_sysctls, self._configuration.conntrack)
        rules = ServiceForwardRules(masquerade_mark=config.masquerade_mark, cluster_cidrs=config.cluster_cidrs)
        removes_rules = self._config.removes_rules
        group.create_task(keep_forward_rules(rules, namespace, self._clock, removes_rules=removes_rules))
        cleaner = UdpFlowCleaner(namespace=namespace, metrics=self._proxy_metrics)
        observers.append(await stack.enter_async_context(cleaner))
        if self._configuration.iptables.localhostNodePorts is not False:
            observers.append(await self._localhost_ports(stack))
        await NftablesProxy(
            node_name=self._config.node_name,
            namespace=namespace,
            informers=self._informers,
            nodes=self._nodes,
            clock=self._clock,
            config=config,
            metrics=self._proxy_metrics,
            health=self._health,
            events=self._events,
            observers=observers,
        ).run()

    async def _run_userspace(
        self, stack: AsyncExitStack, observers: list[ServiceObserver], addresses: Sequence[str]
    ) -> None:
        proxy = UserspaceProxy(
            namespace=self._config.namespace,
            clock=self._clock,
            events=self._events,
            loopback=self._config.loopback,
            node_port_addresses=addresses,
        )
        await ServiceFollower(
            node_name=self._config.node_name,
            informers=self._informers,
            nodes=self._nodes,
            observers=[await stack.enter_async_context(proxy), *observers],
            clock=self._clock,
            metrics=self._proxy_metrics,
            health=self._health,
            min_sync_period_s=self._configuration.min_sync_period_s,
        ).run()

    def _endpoint_traces(self) -> list[ServiceObserver]:
        if self._recorder is None:
            return []
        trace = PodAddressTrace(
            recorder=self._recorder, component=f"{COMPONENT}/{self._config.node_name}", action="add to proxy rules"
        )
        is_userspace = self._configuration.mode == USERSPACE
        slices = (
            self._informers.for_kind(EndpointSlice)
            if is_userspace
            else self._informers.for_kind(EndpointSlice, PROXIED)
        )
        return [EndpointTrace(trace=trace, slices=slices)]

    def _proxy_config(self) -> ProxyConfig:
        return proxy_config(self._configuration, removes_rules=self._config.removes_rules)

    async def _localhost_ports(self, stack: AsyncExitStack) -> ServiceObserver:
        """Listen on localhost of the node's namespace, and of the machine if it runs several nodes."""
        namespace = self._config.namespace
        backends = NodePortBackends(namespace=namespace, clock=self._clock)
        stack.callback(backends.close)
        listeners = [self._machine_ports] if self._machine_ports is not None else []
        if namespace.path is not None or not listeners:
            own = LocalhostPorts(namespace=namespace, events=self._events, place=f"node {self._config.node_name}")
            listeners.append(await stack.enter_async_context(own))
        for ports in listeners:
            ports.add(backends)
            stack.callback(ports.remove, backends)
        return _LocalhostObserver(backends, listeners)

    # -- addresses and ports -----------------------------------------------------------------------------------------

    async def _node_port_addresses(self) -> Sequence[str]:
        """Return the addresses that accept connections to node ports; the unspecified one stands for all of them."""
        node_ips = await self._node_ips()
        with self._config.namespace.executor("kube-proxy-addresses") as executor:
            local = await asyncio.get_running_loop().run_in_executor(executor, _local_addresses)
        addresses: list[str] = []
        for family in FAMILIES:
            ips = node_facts(self._proxy_config(), family, node_ips=node_ips, local_addresses=local).node_port_ips
            if ips is None:
                return [_ANY_ADDRESS]
            addresses += ips
        return addresses or [_ANY_ADDRESS]

    async def _node_ips(self) -> Sequence[str]:
        """Return the addresses of the Node object, or none if it does not appear in time."""
        deadline = self._clock.monotonic() + _NODE_TIMEOUT_S
        await self._nodes.synced.wait()
        while self._clock.monotonic() < deadline:
            node = self._nodes.lister.get(self._config.node_name)
            addresses = [str(address) for address in internal_addresses(node)] if node is not None else []
            if addresses:
                return addresses
            await self._clock.sleep(0.5)
        log.warning("node %s has no address; node ports accept connections on all addresses", self._config.node_name)
        return []

    async def _check_node(self) -> None:
        """Raise NodeChanged when the node is deleted, or has other addresses than at the start."""
        initial = await self._node_ips()
        name, changes = self._config.node_name, asyncio.Queue[str]()

        def on_node(old: Node | None, new: Node | None) -> None:
            node = new if new is not None else old
            if node is None or node.metadata.name != name:
                return
            addresses = [str(address) for address in internal_addresses(node)]
            if new is None:
                changes.put_nowait(f"node {name} was deleted")
            elif addresses and addresses != initial:
                changes.put_nowait(f"the addresses of node {name} changed from {initial} to {addresses}")

        unsubscribe = self._nodes.subscribe(on_node)
        try:
            raise NodeChanged(await changes.get())
        finally:
            unsubscribe()

    def _health_port(self, address: str, port: int) -> AbstractAsyncContextManager[None]:
        return health_port(self._health, self._config.namespace, address, port)

    def _metrics_port(self, address: str, port: int) -> AbstractAsyncContextManager[None]:
        return metrics_port(
            self._metrics,
            mode=self._configuration.mode,
            configuration=as_object(self._configuration),
            namespace=self._config.namespace,
            address=address,
            port=port,
        )

    async def _keep_port(
        self, name: str, address: str, serve: Callable[[str, int], AbstractAsyncContextManager[None]]
    ) -> None:
        """Serve a port until cancelled. A port that cannot be bound is tried again, unless that is a hard failure."""
        is_reported = False
        while address:
            try:
                async with serve(*split_address(address)):
                    await asyncio.Event().wait()
            except OSError as error:
                if self._configuration.bindAddressHardFail:
                    raise
                if not is_reported:
                    log.error("failed to start the %s server on %s: %s; retrying", name, address, error.strerror)
                is_reported = True
                await self._clock.sleep(_BIND_RETRY_S)


def proxy_config(configuration: KubeProxyConfiguration, *, removes_rules: bool = False) -> ProxyConfig:
    """Return the settings of the packet rules."""
    interfaces = {
        BRIDGE_INTERFACE: configuration.detectLocal.bridgeInterface,
        INTERFACE_NAME_PREFIX: configuration.detectLocal.interfaceNamePrefix,
    }
    return ProxyConfig(
        families=supported_families(),
        masquerade_bit=configuration.masquerade_bit,
        masquerade_all=configuration.masquerades_all,
        detect_local_mode=configuration.detectLocalMode,
        cluster_cidrs=configuration.cluster_cidrs,
        local_interface=interfaces.get(configuration.detectLocalMode, ""),
        node_port_addresses=configuration.nodePortAddresses or (),
        sync_period_s=configuration.sync_period_s,
        min_sync_period_s=configuration.min_sync_period_s,
        removes_rules=removes_rules,
    )


def _local_addresses() -> list[str]:
    return [address for family in (socket.AF_INET, socket.AF_INET6) for address in node_addresses(family)]


class _LocalhostObserver:
    """Updates the node ports of a node, and then the listeners on localhost. A `ServiceObserver`."""

    def __init__(self, backends: NodePortBackends, listeners: Sequence[LocalhostPorts]) -> None:
        self._backends, self._listeners = backends, listeners

    async def on_changes(self, changes: Sequence[ServiceChange]) -> None:
        await self._backends.on_changes(changes)
        for ports in self._listeners:
            ports.sync()


LIMIT_REASON = "ServiceTooLarge"
"""The reason of the event about a service that exceeds the number of rules that a node allows."""


class LimitReporter:
    """Reports services that exceed the limits of the node, as events and in the log, once for each problem."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events
        self._reported: dict[NamespacedName, tuple[str, ...]] = {}

    async def on_changes(self, changes: Sequence[ServiceChange]) -> None:
        for change in changes:
            reported = self._reported.pop(change.service, ())
            if change.problems:
                self._reported[change.service] = change.problems
            for problem in change.problems:
                if problem not in reported:
                    self._report(change.service, problem)

    def _report(self, service: NamespacedName, problem: str) -> None:
        log.warning("service %s: %s", service, problem)
        reference = ObjectReference(apiVersion="v1", kind="Service", namespace=service.namespace, name=service.name)
        self._events.event(reference, WARNING, LIMIT_REASON, problem)


class _FirstSyncObserver:
    """Sets an asyncio event after the first sync. A `ServiceObserver`."""

    def __init__(self, synced: asyncio.Event) -> None:
        self._synced = synced

    async def on_changes(self, changes: Sequence[ServiceChange]) -> None:
        self._synced.set()
