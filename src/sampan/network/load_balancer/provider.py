"""The cloud provider of `sampan up`, which the service-lb-controller calls. Its errors become events of the service."""

from __future__ import annotations

import errno
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from sampan.api.types.core_v1 import LoadBalancerIngress, LoadBalancerStatus, Node, PortStatus, Service, ServicePort
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.network.http_port import bind_socket
from sampan.network.load_balancer.addresses import (
    NoLoadBalancerAddress,
    addresses_in,
    choose_pool_addresses,
    choose_shared_addresses,
    ports_in,
)

_KINDS = {"TCP": socket.SOCK_STREAM, "UDP": socket.SOCK_DGRAM}


class LoadBalancerError(Exception):
    """A load balancer cannot be provided. The message is shown to users."""


class AddressRoutes(Protocol):
    async def ensure(self, service: Service) -> None:
        """Direct the addresses in the status of a service to a node, before the status is published."""


class NoRoutes:
    """`AddressRoutes` for the addresses of the machine itself, which need no routes."""

    async def ensure(self, service: Service) -> None:
        return


class EmbeddedLoadBalancers:
    """Gives addresses to services: from the node CIDRs if there are any, otherwise the addresses of the machine.

    Services share the addresses of the machine with its programs. The status therefore lists the ports that were
    checked, and kube-proxy uses no other ports: the owner of a service can change its ports, but not its status.
    """

    def __init__(
        self,
        *,
        services: Callable[[], Awaitable[Iterable[Service]]],
        node_cidrs: Sequence[str],
        machine_addresses: Sequence[str],
        routes: AddressRoutes,
    ) -> None:
        """Create the load balancers. `services` returns all services of the cluster. `routes` are the routes to
        addresses in the node CIDRs."""
        self._services, self._node_cidrs, self._machine_addresses = services, node_cidrs, machine_addresses
        self._routes = routes
        self._assigned: dict[NamespacedName, LoadBalancerStatus] = {}
        """The statuses that this process has assigned, as the objects that `services` returns may be older."""

    async def get(self, service: Service) -> LoadBalancerStatus | None:
        return self._assigned.get(key_of(service)) or (service.status.loadBalancer if addresses_in(service) else None)

    async def ensure(self, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        """Return the status with the addresses of a service, and make sure that there are routes to them.

        The routes exist before the addresses are published. A client that is faster than its route would wait in vain
        for an ARP reply. Raise LoadBalancerError if there is no address.
        """
        try:
            addresses = self._addresses_for(service, await self._services())
        except NoLoadBalancerAddress as error:
            raise LoadBalancerError(str(error)) from None
        ports = [] if self._node_cidrs else [PortStatus(port=p.port, protocol=p.protocol) for p in service.spec.ports]
        ingress = [LoadBalancerIngress(ip=address, ipMode="VIP", ports=ports) for address in addresses]
        status = self._assigned[key_of(service)] = LoadBalancerStatus(ingress=ingress)
        await self._routes.ensure(self._with_status(service))
        return status

    async def update(self, service: Service, nodes: Sequence[Node]) -> None:
        """Do nothing: the routes follow the nodes by themselves."""

    async def delete(self, service: Service) -> None:
        self._assigned.pop(key_of(service), None)

    def _addresses_for(self, service: Service, services: Iterable[Service]) -> list[str]:
        others = [self._with_status(other) for other in services if other.spec.type == "LoadBalancer"]
        if self._node_cidrs:
            return choose_pool_addresses(service, others, self._node_cidrs)
        addresses = choose_shared_addresses(service, others, self._machine_addresses)
        ports = ports_in(self._with_status(service)) if key_of(service) in self._assigned else set()
        _check_ports(
            [port for port in service.spec.ports if (port.protocol or "TCP", port.port) not in ports], addresses
        )
        return addresses

    def _with_status(self, service: Service) -> Service:
        status = self._assigned.get(key_of(service))
        if status is None:
            return service
        return msgspec.structs.replace(service, status=msgspec.structs.replace(service.status, loadBalancer=status))


def _check_ports(ports: Iterable[ServicePort], addresses: Sequence[str]) -> None:
    """Raise NoLoadBalancerAddress if a program of the machine listens on a port: its clients would reach the service
    instead."""
    for port in ports:
        kind = _KINDS.get(port.protocol or "TCP")
        for address in addresses if kind is not None else ():
            try:
                bind_socket(NetworkNamespace(), address, port.port, kind or socket.SOCK_STREAM).close()
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise NoLoadBalancerAddress(
                        f"port {port.port}/{port.protocol} of {address} is in use by a program of this machine"
                    ) from None


class EmbeddedProvider:
    """The part of a cloud provider that `sampan up` has: load balancers."""

    name = "sampan"
    instances: None = None
    routes: None = None

    def __init__(self, load_balancers: EmbeddedLoadBalancers) -> None:
        self.load_balancers = load_balancers
