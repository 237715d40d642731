"""service-cidr-controller, which protects a ServiceCIDR from deletion while IPAddresses depend on it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final

from sampan.api.semantics.conditions import find_condition
from sampan.api.types.meta_v1 import Condition
from sampan.api.types.networking_v1 import IPAddress, ServiceCIDR
from sampan.api.values import times
from sampan.controllers.nodes.cidr_sets import Network, network_of
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, PatchType, resource_of
from sampan.machinery.client.options import WriteParameters
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory

FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
MANAGED_BY: Final = "ipaddress.kubernetes.io/managed-by"
ALLOCATOR: Final = "ipallocator.k8s.io"
GRACE_S: Final = 10.0
"""Seconds for which allocators may not have observed the deletion of a ServiceCIDR and still allocate from it."""
READY: Final = Condition(type="Ready", status="True", message="Kubernetes Service CIDR is ready")
BLOCKED: Final = Condition(
    type="Ready",
    status="False",
    reason="Terminating",
    message="There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
)


def networks(service_cidr: ServiceCIDR) -> list[Network]:
    return [network_of(text) for text in service_cidr.spec.cidrs]


def has_parents(service_cidr: ServiceCIDR, others: Sequence[ServiceCIDR]) -> bool:
    """Whether each network of the ServiceCIDR is contained in another ServiceCIDR."""
    stay = [network for other in others for network in networks(other)]
    return all(any(_contains(other, network) for other in stay) for network in networks(service_cidr))


def is_needed(service_cidr: ServiceCIDR, others: Sequence[ServiceCIDR], addresses: Iterable[str]) -> bool:
    """Whether an allocated address would be left without a ServiceCIDR."""
    if has_parents(service_cidr, others):
        return False
    ours, stay = networks(service_cidr), [network for other in others for network in networks(other)]
    ips = [ip_address(text) for text in addresses]
    return any(any(ip in network for network in ours) and not any(ip in network for network in stay) for ip in ips)


def _contains(outer: Network, inner: Network) -> bool:
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]


class ServiceCidrController:
    name = "service-cidr-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, events: EventRecorder, clock: Clock) -> None:
        self._client, self._events, self._clock = client.for_kind(ServiceCIDR), events, clock
        self._cidrs, self._addresses = informers.for_kind(ServiceCIDR).lister, informers.for_kind(IPAddress).lister
        self.watches = (
            Watch(resource_of(ServiceCIDR), self._overlapping_cidr_keys),
            Watch(resource_of(IPAddress), self._containing_cidr_keys),
        )

    def _overlapping_cidr_keys(self, service_cidr: ServiceCIDR) -> Iterable[Hashable]:
        """Return all ServiceCIDRs that overlap this one: a deletion may block another, an addition may unblock one."""
        overlapping = [
            other.metadata.name
            for other in self._cidrs
            for network in networks(service_cidr)
            if any(
                network.version == other_network.version and network.overlaps(other_network)
                for other_network in networks(other)
            )
        ]
        return [service_cidr.metadata.name, *overlapping]

    def _containing_cidr_keys(self, ipaddress: IPAddress) -> Iterable[Hashable]:
        """Return the terminating ServiceCIDRs that contain the address. Only these wait for the removal of an
        address."""
        if ipaddress.metadata.labels.get(MANAGED_BY) != ALLOCATOR:
            return []
        ip = ip_address(ipaddress.metadata.name)
        terminating = [cidr for cidr in self._cidrs if cidr.metadata.deletionTimestamp]
        return [cidr.metadata.name for cidr in terminating if any(ip in network for network in networks(cidr))]

    async def reconcile(self, key: str) -> float | None:
        service_cidr = self._cidrs.get(key)
        if service_cidr is None:
            return None
        if service_cidr.metadata.deletionTimestamp:
            return await self._finalize(service_cidr, times.parse_time(service_cidr.metadata.deletionTimestamp))
        if FINALIZER not in service_cidr.metadata.finalizers:
            await self._patch(service_cidr, {"finalizers": [FINALIZER]})
        try:
            await self._set_condition(service_cidr, READY)
        except errors.ApiError:
            message = "The ServiceCIDR Status can not be set to Ready=True"
            self._events.event(service_cidr, WARNING, "KubernetesServiceCIDRError", message)
            raise
        return None

    async def _finalize(self, service_cidr: ServiceCIDR, since: float) -> float | None:
        if FINALIZER not in service_cidr.metadata.finalizers:
            return None
        others = [other for other in self._cidrs if other.metadata.name != service_cidr.metadata.name]
        ours = [
            address.metadata.name for address in self._addresses if address.metadata.labels.get(MANAGED_BY) == ALLOCATOR
        ]
        if is_needed(service_cidr, others, ours):
            await self._set_condition(service_cidr, BLOCKED)
            return None
        if (left_s := since + GRACE_S - self._clock.now()) > 0:
            return left_s
        await self._patch(service_cidr, {"$deleteFromPrimitiveList/finalizers": [FINALIZER]})
        return None

    async def _patch(self, service_cidr: ServiceCIDR, metadata: Mapping[str, Any]) -> None:
        try:
            await self._client.patch(service_cidr.metadata.name, {"metadata": metadata})
        except errors.NotFound:
            return

    async def _set_condition(self, service_cidr: ServiceCIDR, desired: Condition) -> None:
        now = find_condition(service_cidr.status.conditions, desired.type)
        if now is not None and (now.status, now.reason, now.message) == (
            desired.status,
            desired.reason,
            desired.message,
        ):
            return
        condition = {
            "type": desired.type,
            "status": desired.status,
            "reason": desired.reason,
            "message": desired.message,
            "lastTransitionTime": times.format_time(self._clock.now()),
        }
        value = {
            "apiVersion": service_cidr.apiVersion,
            "kind": service_cidr.kind,
            "metadata": {"name": service_cidr.metadata.name},
            "status": {"conditions": [condition]},
        }
        options = WriteParameters(field_manager="service-cidr-controller", force=True)
        name = service_cidr.metadata.name
        await self._client.patch(name, value, type=PatchType.APPLY, subresource="status", options=options)
