"""Allocation of a service's addresses and node ports before it is written, and their release."""

import logging
from collections.abc import Iterable

from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import Service
from sampan.apiserver.registry.allocation import AllocationError, RangeFull
from sampan.apiserver.registry.kinds.services import changes, families, needs, traits
from sampan.apiserver.registry.kinds.services.needs import PortNeeds
from sampan.apiserver.registry.strategy import Context, FinishFunc
from sampan.machinery import errors
from sampan.storage.backend import StorageError

log = logging.getLogger(__name__)


async def begin(ctx: Context, service: Service, old: Service | None) -> FinishFunc | None:
    if old is not None:
        changes.keep_given(service, old)
    changes.match_addresses(service, old)
    if field_errors := families.settle(service, old, ctx.registry.addresses.families):
        raise errors.invalid("Service", service.metadata.name, field_errors)
    address_needs = needs.of_addresses(service, old)
    addresses = await _take_addresses(ctx, service, address_needs.take)
    try:
        ports = await _take_ports(ctx, service, old)
    except BaseException:
        await _release(ctx, addresses, ())
        raise
    if ctx.dry_run or not (addresses or address_needs.release or ports.allocated or ports.release):
        return None

    async def finish(is_done: bool) -> None:
        if is_done:
            await _release(ctx, address_needs.release, ports.release)
        else:
            await _release(ctx, addresses, ports.allocated)

    return finish


async def give_back(ctx: Context, service: Service) -> None:
    """Release the allocations of a service that was removed."""
    has_addresses = not traits.is_external_name(service) and not traits.is_headless(service)
    ports = set(traits.node_ports(service))
    if traits.needs_health_check(service) and service.spec.healthCheckNodePort:
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
    allocator = ctx.registry.addresses
    try:
        if not requested:
            return await allocator.take_any(ctx, service, family)
        await allocator.take(ctx, service, requested)
        return requested
    except RangeFull as error:
        name = service.metadata.name
        raise errors.internal_error(f'failed to allocate a serviceIP for Service "{name}": {error}') from None
    except AllocationError as error:
        text = f"failed to allocate IP {requested}: {error}" if requested else f"failed to allocate IP: {error}"
        refused = FieldError.invalid("spec.clusterIPs", service.spec.clusterIPs, text)
        raise errors.invalid("Service", service.metadata.name, [refused]) from None


async def _take_ports(ctx: Context, service: Service, old: Service | None) -> PortNeeds:
    if not needs.needs_ports(service, old):
        return PortNeeds([], 0)
    allocator = ctx.registry.node_ports
    port_needs = await allocator.change(
        lambda bitmap: needs.of_ports(service, old, bitmap, allocator.random), dry_run=ctx.dry_run
    )
    for port, node_port in zip(service.spec.ports, port_needs.node_ports, strict=True):
        port.nodePort = node_port
    service.spec.healthCheckNodePort = port_needs.health_check
    return port_needs


async def _release(ctx: Context, addresses: Iterable[str], ports: Iterable[int]) -> None:
    """Release allocations. The write itself is over, so errors are only logged: the repair loop releases leaks."""
    try:
        for address in addresses:
            await ctx.registry.addresses.release(ctx, address)
        await ctx.registry.node_ports.release(ports)
    except (StorageError, errors.ApiError) as failure:
        log.warning("cannot release cluster IPs or node ports of a service: %s", failure)
