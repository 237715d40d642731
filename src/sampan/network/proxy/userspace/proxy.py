"""The userspace mode: services without packet rules, for machines without root or nftables.

Every service port has a listener on the loopback network (`LoopbackServices`), every node port one on the addresses of
the node, and external IPs and load balancer addresses have listeners if the machine has these addresses. Connections
are balanced in turn, with session affinity, traffic policies and source ranges as in the nftables mode. Endpoints see
the address of the node instead of that of the client. Cluster IPs themselves, SCTP and cluster IPs of IPv6 are not
reachable.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Iterator, Sequence
from enum import Enum
from ipaddress import ip_address
from typing import NamedTuple

from sampan.api.types.core_v1 import ObjectReference
from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.loopback_services import LoopbackServices
from sampan.machinery.object_key import NamespacedName
from sampan.network.proxy.services import IPV4, EndpointInfo, Network, ServicePortState
from sampan.network.proxy.tracker import ServiceChange
from sampan.network.proxy.userspace.endpoint_sockets import EndpointSockets
from sampan.network.relay_listeners import PROTOCOLS, RelayAddress, RelayListeners

log = logging.getLogger(__name__)

REASON = "ServicePortUnavailable"


class TrafficClass(Enum):
    """The way in which a client reaches a service port, on which the traffic policy depends."""

    CLUSTER_IP = "cluster IP"
    EXTERNAL = "external IP or node port"
    LOAD_BALANCER = "load balancer"


class _ServiceListener(NamedTuple):
    traffic: TrafficClass
    state: ServicePortState


class UserspaceProxy:
    """The listeners of a node. An observer of services; `async with` closes everything at the end."""

    def __init__(
        self,
        *,
        namespace: NetworkNamespace,
        clock: Clock,
        events: EventRecorder,
        loopback: LoopbackServices,
        node_port_addresses: Sequence[str] = ("0.0.0.0",),
    ) -> None:
        """Create the proxy. `node_port_addresses` are the addresses that accept connections to node ports."""
        self._events, self._loopback, self._node_port_addresses = events, loopback, node_port_addresses
        self._sockets = EndpointSockets(namespace=namespace, clock=clock)
        self._states: dict[NamespacedName, tuple[ServicePortState, ...]] = {}
        self._by_address: dict[RelayAddress, _ServiceListener] = {}
        self._listeners = RelayListeners(namespace=namespace, upstream=self._connect, on_failure=self._report)

    async def __aenter__(self) -> UserspaceProxy:
        await self._listeners.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._listeners.__aexit__(*exc)
        self._sockets.close()

    async def on_changes(self, changes: Sequence[ServiceChange]) -> None:
        for change in changes:
            self._remove(change)
        for change in sorted(changes, key=_creation_time):
            if change.current:
                self._states[change.service] = change.current
            for state in change.current:
                for address, traffic in self._addresses_of(state):
                    self._by_address.setdefault(address, _ServiceListener(traffic, state))
        self._listeners.sync(self._by_address)

    def _remove(self, change: ServiceChange) -> None:
        for state in self._states.pop(change.service, ()):
            for address, _ in self._addresses_of(state):
                listener = self._by_address.get(address)
                if listener is not None and listener.state is state:
                    del self._by_address[address]
            if state.info.name not in {current.info.name for current in change.current}:
                self._sockets.balancer.forget(state.info.name, state.info.family)

    def _addresses_of(self, state: ServicePortState) -> Iterator[tuple[RelayAddress, TrafficClass]]:
        info = state.info
        if info.protocol not in PROTOCOLS:
            return
        if info.family == IPV4:
            address, port = self._loopback.address_of(info.cluster_ip), self._loopback.port_of(info.port)
            yield RelayAddress(info.protocol, address, port), TrafficClass.CLUSTER_IP
        if info.node_port:
            for address in self._node_port_addresses:
                yield RelayAddress(info.protocol, address, info.node_port), TrafficClass.EXTERNAL
        for address in info.external_ips:
            yield RelayAddress(info.protocol, address, info.port), TrafficClass.EXTERNAL
        for address in info.load_balancer_ips:
            yield RelayAddress(info.protocol, address, info.port), TrafficClass.LOAD_BALANCER

    async def _connect(self, address: RelayAddress, client: str) -> socket.socket:
        listener = self._by_address.get(address)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"there is no service at {address}")
        client = client.removeprefix("::ffff:")
        return await self._sockets.connect(listener.state, usable_endpoints(*listener, client), client)

    def _report(self, address: RelayAddress, error: OSError) -> None:
        service = self._by_address[address].state.info.name.service
        message = f"{address} is not available on this node: {error.strerror}"
        log.warning("service %s: %s", service, message)
        reference = ObjectReference(kind="Service", namespace=service.namespace, name=service.name, apiVersion="v1")
        self._events.event(reference, WARNING, REASON, message)


def _creation_time(change: ServiceChange) -> str:
    """Return when a service was created: of two services that claim an address, the older one has it."""
    return change.current[0].info.created if change.current else ""


def usable_endpoints(traffic: TrafficClass, state: ServicePortState, client: str) -> Sequence[EndpointInfo]:
    """Return the endpoints for a connection of a client. External traffic of the node itself ignores the policy
    Local."""
    info, categories = state.info, state.categories
    source = ip_address(client)
    if traffic is TrafficClass.CLUSTER_IP:
        return categories.local if info.is_internal_policy_local else categories.cluster
    if source.is_loopback:
        return categories.cluster
    if traffic is TrafficClass.LOAD_BALANCER and not is_allowed(info.source_ranges, client):
        return ()
    return categories.local if info.is_external_policy_local else categories.cluster


def is_allowed(source_ranges: Sequence[Network], client: str) -> bool:
    """Whether the source ranges of a load balancer admit a client; without ranges, everybody is admitted."""
    source = ip_address(client)
    return not source_ranges or any(source in network for network in source_ranges)
