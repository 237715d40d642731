"""Allocation of cluster IPs. An address is allocated by creating the IPAddress object with its name."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator
from random import Random
from typing import TYPE_CHECKING

from sampan.api.types.core_v1 import Service
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.networking_v1 import IPAddress, IPAddressSpec, ParentReference, ServiceCIDR
from sampan.apiserver.registry.allocation import node_ports
from sampan.apiserver.registry.allocation.ranges import (
    Address,
    AllocationError,
    AllocatorFull,
    Network,
    ServiceRanges,
    family_of,
)
from sampan.apiserver.registry.deletion import DeleteOptions
from sampan.apiserver.registry.strategy import Context
from sampan.machinery import errors
from sampan.storage.cacher import ListQuery, ObjectSelection

if TYPE_CHECKING:
    from sampan.apiserver.registry.store import Store
    from sampan.apiserver.registry.strategy_services import Stores

GROUP = "networking.k8s.io"
DEFAULT_CIDR = "kubernetes"
"""The ServiceCIDR with the ranges of --service-cluster-ip-range."""
_FAMILY_LABEL = "ipaddress.kubernetes.io/ip-family"
MANAGER_LABEL = "ipaddress.kubernetes.io/managed-by"
MANAGER = "ipallocator.k8s.io"
_CACHED = ListQuery(ObjectSelection(), resource_version="0")


class AddressAllocator:
    def __init__(self, *, stores: Stores, ranges: ServiceRanges, random: Random) -> None:
        self._stores, self._ranges, self._random = stores, ranges, random

    @property
    def families(self) -> tuple[str, ...]:
        """Return the IP families of the cluster, the preferred one first."""
        return self._ranges.families

    async def take(self, ctx: Context, service: Service, address: str) -> None:
        """Allocate this address. Raise `AllocationError` if it is taken or outside the ranges."""
        cluster_ip = ipaddress.ip_address(address)
        if ctx.dry_run:
            return self._check_range(cluster_ip)
        async for network in self._networks():
            if _has(network, cluster_ip):
                if not await self._create(ctx, service, cluster_ip):
                    raise AllocationError("provided IP is already allocated")
                return
        raise AllocationError("the provided network does not match the current range")

    async def take_any(self, ctx: Context, service: Service, family: str) -> str:
        """Allocate any address of that family. Raise `AllocatorFull` if there is none left."""
        async for network in self._networks():
            if family_of(network) != family:
                continue
            if ctx.dry_run:
                return str(network.network_address)
            if address := await self._search(ctx, service, network):
                return address
        raise AllocatorFull

    async def _search(self, ctx: Context, service: Service, network: Network) -> str:
        cacher, make = self._addresses.cacher, type(network.network_address)
        for number in node_ports.generate_candidate_addresses(network, self._random):
            address = make(number)
            if cacher.peek("", str(address)) is None and await self._create(ctx, service, address):
                return str(address)
        return ""

    async def release(self, ctx: Context, address: str, *, uid: str | None = None) -> None:
        """Release an address. An address that is not allocated, or not by the object with that `uid`, is ignored."""
        name = str(ipaddress.ip_address(address))
        try:
            await self._addresses.delete(_make_server_context(ctx), name, DeleteOptions(uid=uid))
        except (errors.NotFound, errors.Conflict):
            return

    @property
    def _addresses(self) -> Store:
        return self._stores.open_store_of(GROUP, "v1", "IPAddress")

    async def _create(self, ctx: Context, service: Service, address: Address) -> bool:
        meta = service.metadata
        labels = {_FAMILY_LABEL: family_of(address), MANAGER_LABEL: MANAGER}
        parent = ParentReference(resource="services", namespace=meta.namespace, name=meta.name)
        ip_address = IPAddress(
            metadata=ObjectMeta(name=str(address), labels=labels), spec=IPAddressSpec(parentRef=parent)
        )
        try:
            await self._addresses.create(_make_server_context(ctx), ip_address)
        except errors.AlreadyExists:
            return False
        return True

    async def _networks(self) -> AsyncIterator[Network]:
        """Yield the networks to allocate from: those of ready ServiceCIDRs, and the server's own ranges until the
        default ServiceCIDR exists.
        """
        store = self._stores.open_store_of(GROUP, "v1", "ServiceCIDR")
        cidrs = [item.object(store.codec.decode) for item in (await store.cacher.list(_CACHED)).items]
        if not any(cidr.metadata.name == DEFAULT_CIDR for cidr in cidrs):
            for network in self._ranges.networks:
                yield network
        for cidr in sorted(cidrs, key=_default_first):
            if _is_ready(cidr):
                for text in cidr.spec.cidrs:
                    yield ipaddress.ip_network(text)

    def _check_range(self, address: Address) -> None:
        """Raise `AllocationError` if an address is outside the server's own ranges, for a dry run."""
        for network in self._ranges.networks:
            if network.version == address.version and not _has(network, address):
                valid = f"The range of valid IPs is {network}"
                raise AllocationError(f"the provided IP ({address}) is not in the valid range. {valid}")


def _has(network: Network, address: Address) -> bool:
    """Whether a service can get the address from the network."""
    first, last = node_ports.usable_range(network)
    return network.version == address.version and first <= int(address) <= last


def _default_first(cidr: ServiceCIDR) -> bool:
    return cidr.metadata.name != DEFAULT_CIDR


def _is_ready(cidr: ServiceCIDR) -> bool:
    """Whether addresses may be allocated from the ServiceCIDR. Without a Ready condition it counts as ready."""
    if cidr.metadata.deletionTimestamp is not None:
        return False
    return all(condition.status == "True" for condition in cidr.status.conditions if condition.type == "Ready")


def _make_server_context(ctx: Context) -> Context:
    """Return a context for writes of the server itself, outside the namespace of the request."""
    return Context(services=ctx.services, user=ctx.user, now=ctx.now)
