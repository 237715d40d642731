"""Which addresses and node ports a service needs and no longer needs, and their allocation and release."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import Service
from sampan.apiserver.registry.allocation import AllocationError, AllocatorFull
from sampan.apiserver.registry.allocation.node_ports import PortBitmap
from sampan.apiserver.registry.kinds.services import families, service_types
from sampan.apiserver.registry.strategy import Context, FinishFunc
from sampan.machinery import errors
from sampan.storage.backend import StorageError


@dataclass(frozen=True, slots=True)
class AddressChanges:
    """The changes of a service's cluster IPs. `take` are the indexes in clusterIPs to allocate, `release` the addresses
    to release after a successful write."""

    take: tuple[int, ...] = ()
    release: tuple[str, ...] = ()


def plan_addresses(service: Service, old: Service | None) -> AddressChanges:
    indexes = range(len(service.spec.ipFamilies))
    if old is None or service_types.is_external_name(old):
        has_none = service_types.is_external_name(service) or service_types.is_headless(service)
        return AddressChanges() if has_none else AddressChanges(take=tuple(indexes))
    if families.is_undisturbed(service, old) or service_types.is_headless(old):
        return AddressChanges()
    if service_types.is_external_name(service):
        return AddressChanges(release=tuple(old.spec.clusterIPs))
    before = len(old.spec.ipFamilies)
    return AddressChanges(take=tuple(indexes[before:]), release=tuple(old.spec.clusterIPs[len(indexes) : before]))


@dataclass(slots=True)
class PortChanges:
    """The changes of a service's node ports. `node_ports` has the node port of each port, 0 for none; `health_check` is
    the health check node port."""

    node_ports: list[int]
    health_check: int
    allocated: list[int] = field(default_factory=list)
    release: list[int] = field(default_factory=list)


def needs_ports(service: Service, old: Service | None) -> bool:
    """Whether node ports must be allocated or released."""
    before = set(service_types.node_ports(old)) if old is not None and service_types.has_node_ports(old) else set()
    now = set(service_types.node_ports(service)) if service_types.has_node_ports(service) else set()
    is_asking = service_types.wants_node_ports(service) and any(not port.nodePort for port in service.spec.ports)
    is_checked = old is not None and service_types.needs_health_check(old)
    return before != now or is_asking or service_types.needs_health_check(service) != is_checked


def allocate_ports(service: Service, old: Service | None, bitmap: PortBitmap, random: Random) -> PortChanges:
    """Allocate from the bitmap what the service needs. Raise ApiError if that is impossible."""
    changes = PortChanges([port.nodePort for port in service.spec.ports], service.spec.healthCheckNodePort)
    allocation = _PortAllocation(service, changes, bitmap, random)
    if service_types.has_node_ports(service):
        allocation.allocate_for_create() if old is None else allocation.allocate_for_update(old)
    if old is not None and service_types.has_node_ports(old):
        unchanged_ports = set(changes.node_ports) if service_types.has_node_ports(service) else set()
        changes.release += [port for port in service_types.node_ports(old) if port not in unchanged_ports]
    allocation.reallocate_health_check_port(old)
    return changes


class _PortAllocation:
    def __init__(self, service: Service, changes: PortChanges, bitmap: PortBitmap, random: Random) -> None:
        self._service, self._changes, self._bitmap, self._random = service, changes, bitmap, random
        self._ports = service.spec.ports
        self._is_asking = service_types.wants_node_ports(service)

    def allocate_for_create(self) -> None:
        """Allocate for a new service. Ports with the same number but different protocols share a node port."""
        shared: dict[int, int] = {}
        named: dict[int, int] = {}
        for port in self._ports:
            if port.nodePort:
                named.setdefault(port.port, port.nodePort)
        for index, port in enumerate(self._ports):
            if not port.nodePort and not self._is_asking:
                continue
            if port.port not in shared:
                shared[port.port] = self._changes.node_ports[index] = self._take(index, named.get(port.port, 0))
            elif not port.nodePort:
                self._changes.node_ports[index] = shared[port.port]
            elif port.nodePort != shared[port.port]:
                self._take(index, port.nodePort)

    def allocate_for_update(self, old: Service) -> None:
        before = set(service_types.node_ports(old)) if service_types.has_node_ports(old) else set()
        held_ports: set[tuple[str, int]] = set()
        for index, port in enumerate(self._ports):
            node_port = port.nodePort
            if not node_port and not self._is_asking:
                continue
            if not node_port or (node_port not in before and node_port not in self._changes.allocated):
                self._changes.node_ports[index] = self._take(index, node_port)
            port_key = (port.protocol, self._changes.node_ports[index])
            if port_key in held_ports:
                raise errors.unexpected_error(f"duplicate nodePort: {{{port_key[0]} {port_key[1]}}}")
            held_ports.add(port_key)

    def _take(self, index: int, requested: int) -> int:
        try:
            port = self._bitmap.take(requested) if requested else self._bitmap.take_any(self._random)
        except AllocatorFull as error:
            raise errors.internal_error(f"failed to allocate a nodePort: {error}") from None
        except AllocationError as error:
            refused = FieldError.invalid(f"spec.ports[{index}].nodePort", requested, str(error))
            raise errors.invalid("Service", self._service.metadata.name, [refused]) from None
        self._changes.allocated.append(port)
        return port

    def reallocate_health_check_port(self, old: Service | None) -> None:
        was, now = (
            old is not None and service_types.needs_health_check(old),
            service_types.needs_health_check(self._service),
        )
        if was and not now and old is not None:
            self._changes.release.append(old.spec.healthCheckNodePort)
        elif now and not was:
            self._changes.health_check = self._take_health_check(self._changes.health_check)
            self._changes.allocated.append(self._changes.health_check)

    def _take_health_check(self, port: int) -> int:
        try:
            return self._bitmap.take(port) if port else self._bitmap.take_any(self._random)
        except AllocationError as error:
            which = f"requested HealthCheck NodePort {port}" if port else "a HealthCheck NodePort 0"
            raise errors.internal_error(f"failed to allocate {which}: {error}") from None


log = logging.getLogger(__name__)


async def allocate(ctx: Context, service: Service, old: Service | None) -> FinishFunc | None:
    if old is not None:
        service_types.keep_allocated_values(service, old)
    service_types.match_addresses(service, old)
    if field_errors := families.set_ip_families(service, old, ctx.services.addresses.families):
        raise errors.invalid("Service", service.metadata.name, field_errors)
    address_changes = plan_addresses(service, old)
    addresses = await _take_addresses(ctx, service, address_changes.take)
    try:
        ports = await _take_ports(ctx, service, old)
    except BaseException:
        await _release(ctx, addresses, ())
        raise
    if ctx.dry_run or not (addresses or address_changes.release or ports.allocated or ports.release):
        return None

    async def finish(is_done: bool) -> None:
        if is_done:
            await _release(ctx, address_changes.release, ports.release)
        else:
            await _release(ctx, addresses, ports.allocated)

    return finish


async def release_service(ctx: Context, service: Service) -> None:
    """Release the allocations of a service that was removed."""
    has_addresses = not service_types.is_external_name(service) and not service_types.is_headless(service)
    ports = set(service_types.node_ports(service))
    if service_types.needs_health_check(service) and service.spec.healthCheckNodePort:
        ports.add(service.spec.healthCheckNodePort)
    await _release(ctx, service.spec.clusterIPs if has_addresses else (), ports)


async def _take_addresses(ctx: Context, service: Service, places: Iterable[int]) -> list[str]:
    spec, addresses = service.spec, list[str]()
    try:
        for index in places:
            if index >= len(spec.clusterIPs):
                spec.clusterIPs.append("")
            spec.clusterIPs[index] = await _take_address(ctx, service, spec.ipFamilies[index], spec.clusterIPs[index])
            addresses.append(spec.clusterIPs[index])
    except BaseException:
        await _release(ctx, () if ctx.dry_run else addresses, ())
        raise
    if addresses:
        spec.clusterIP = spec.clusterIPs[0]
    return addresses


async def _take_address(ctx: Context, service: Service, family: str, requested: str) -> str:
    allocator = ctx.services.addresses
    try:
        if not requested:
            return await allocator.take_any(ctx, service, family)
        await allocator.take(ctx, service, requested)
        return requested
    except AllocatorFull as error:
        name = service.metadata.name
        raise errors.internal_error(f'failed to allocate a serviceIP for Service "{name}": {error}') from None
    except AllocationError as error:
        text = f"failed to allocate IP {requested}: {error}" if requested else f"failed to allocate IP: {error}"
        refused = FieldError.invalid("spec.clusterIPs", service.spec.clusterIPs, text)
        raise errors.invalid("Service", service.metadata.name, [refused]) from None


async def _take_ports(ctx: Context, service: Service, old: Service | None) -> PortChanges:
    if not needs_ports(service, old):
        return PortChanges([], 0)
    allocator = ctx.services.node_ports
    port_changes = await allocator.change(
        lambda bitmap: allocate_ports(service, old, bitmap, allocator.random), dry_run=ctx.dry_run
    )
    for port, node_port in zip(service.spec.ports, port_changes.node_ports, strict=True):
        port.nodePort = node_port
    service.spec.healthCheckNodePort = port_changes.health_check
    return port_changes


async def _release(ctx: Context, addresses: Iterable[str], ports: Iterable[int]) -> None:
    """Release allocations. The write itself is over, so errors are only logged: the repair loop releases leaks."""
    try:
        for address in addresses:
            await ctx.services.addresses.release(ctx, address)
        await ctx.services.node_ports.release(ports)
    except (StorageError, errors.ApiError) as failure:
        log.warning("cannot release cluster IPs or node ports of a service: %s", failure)
