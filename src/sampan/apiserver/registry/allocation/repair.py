"""Reconciles the allocations of cluster IPs and node ports with what services use.

A server that crashes between an allocation and the write of the service, or between the removal of a service and the
release, leaks an allocation. Allocations that no service used in several rounds are released; what a service uses
without an allocation is allocated for it. The counterparts are the repair controllers in
`pkg/registry/core/service/ipallocator` and `portallocator`.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from sampan.api.types.core_v1 import Service
from sampan.api.types.networking_v1 import IPAddress
from sampan.api.values import times
from sampan.apiserver.registry.allocation.addresses import GROUP, MANAGER, MANAGER_LABEL
from sampan.apiserver.registry.allocation.node_ports import PortBitmap
from sampan.apiserver.registry.allocation.ranges import AllocationError
from sampan.apiserver.registry.strategy import Context
from sampan.apiserver.request.call import MASTERS, UserInfo
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.storage.backend import StorageError
from sampan.storage.cacher import ListQuery, ObjectSelection
from sampan.storage.cacher.errors import CacheError

if TYPE_CHECKING:
    from sampan.apiserver.registry.store import Store
    from sampan.apiserver.registry.strategy_services import StrategyServices

log = logging.getLogger(__name__)

K = TypeVar("K", int, str)

_USER = UserInfo("system:apiserver", groups=(MASTERS,))
_LIST_ALL_QUERY = ListQuery(ObjectSelection())


class AllocationRepair:
    """The repair loop. `rounds` is how often in a row an allocation must be seen unused before it is released.

    That time is longer than any write, so the allocations of a service that is being written are safe.
    """

    def __init__(self, *, services: StrategyServices, clock: Clock, interval_s: float = 180, rounds: int = 3) -> None:
        self._services, self._clock = services, clock
        self._interval_s, self._rounds = interval_s, rounds
        self._unheld_ports: dict[int, int] = {}
        self._unheld_addresses: dict[str, int] = {}
        """How often in a row each allocation was seen unused; addresses by the UID of their object."""

    async def run(self) -> None:
        while True:
            try:
                await self.repair()
            except (StorageError, CacheError, errors.ApiError) as failure:
                log.warning("cannot check the allocation of cluster IPs and node ports: %s", failure)
            await self._clock.sleep(self._interval_s)

    async def repair(self) -> None:
        """Run one round. Allocations are read before services, so that a service written in between is not missed."""
        addresses = await _objects(self._services.open_store_of(GROUP, "v1", "IPAddress"))
        bitmap = await self._services.node_ports.change(lambda current: current)
        services = await _objects(self._services.open_store_of("", "v1", "Service"))
        await self._repair_ports({port for service in services for port in _ports(service)}, set(bitmap))
        await self._repair_addresses(services, addresses)

    async def _repair_ports(self, allocated_ports: set[int], used_ports: set[int]) -> None:
        self._unheld_ports = _count_sightings(self._unheld_ports, used_ports - allocated_ports)
        unheld = [port for port, times_seen in self._unheld_ports.items() if times_seen >= self._rounds]
        if unheld or not allocated_ports <= used_ports:
            log.warning(
                "repaired node port allocation: released unused ports %s, allocated ports in use %s",
                unheld,
                sorted(allocated_ports - used_ports),
            )
            await self._services.node_ports.change(lambda bitmap: _replace(bitmap, allocated_ports, unheld))

    async def _repair_addresses(self, services: Iterable[Service], ip_addresses: Iterable[IPAddress]) -> None:
        holders = {address: service for service in services for address in _addresses(service)}
        by_name = {ip_address.metadata.name: ip_address for ip_address in ip_addresses}
        unheld = {
            ip_address.metadata.uid: ip_address
            for ip_address in by_name.values()
            if ip_address.metadata.labels.get(MANAGER_LABEL) == MANAGER and not _is_held(ip_address, holders)
        }
        self._unheld_addresses = _count_sightings(self._unheld_addresses, unheld)
        for uid, times_seen in self._unheld_addresses.items():
            if times_seen >= self._rounds:
                log.warning("releasing cluster IP %s, which no service uses", unheld[uid].metadata.name)
                await self._services.addresses.release(self._context(), unheld[uid].metadata.name, uid=uid)
        for address in holders.keys() - by_name.keys():
            await self._take(holders[address], address)

    async def _take(self, service: Service, address: str) -> None:
        log.warning("cluster IP %s of service %s was not allocated; allocating it", address, service.metadata.name)
        try:
            await self._services.addresses.take(self._context(), service, address)
        except AllocationError as failure:
            log.warning("cannot allocate cluster IP %s: %s", address, failure)

    def _context(self) -> Context:
        return Context(services=self._services, user=_USER, now=times.format_time(self._services.stores.clock.now()))


async def _objects(store: Store) -> list[Any]:
    """Return all objects in their current state, read-only."""
    return [item.object(store.codec.decode) for item in (await store.cacher.list(_LIST_ALL_QUERY)).items]


def _replace(bitmap: PortBitmap, allocated_ports: Iterable[int], unheld: Iterable[int]) -> None:
    bitmap.add(allocated_ports)
    bitmap.release(unheld)


def _count_sightings(before: Mapping[K, int], unheld: Iterable[K]) -> dict[K, int]:
    return {key: before.get(key, 0) + 1 for key in unheld}


def _ports(service: Service) -> Iterator[int]:
    for port in service.spec.ports:
        if port.nodePort:
            yield port.nodePort
    if service.spec.healthCheckNodePort:
        yield service.spec.healthCheckNodePort


def _addresses(service: Service) -> list[str]:
    if service.spec.clusterIP in ("", "None"):
        return []
    return [str(ipaddress.ip_address(text)) for text in service.spec.clusterIPs]


def _is_held(ip_address: IPAddress, holders: Mapping[str, Service]) -> bool:
    parent, holder = ip_address.spec.parentRef, holders.get(ip_address.metadata.name)
    if parent is None or holder is None:
        return False
    return (parent.namespace, parent.name) == (holder.metadata.namespace, holder.metadata.name)
