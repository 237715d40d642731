"""Which addresses and node ports a service needs, and no longer needs. `holdings` allocates them."""

from dataclasses import dataclass, field
from random import Random

from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import Service
from sampan.apiserver.registry.allocation import AllocationError, RangeFull
from sampan.apiserver.registry.allocation.port_bitmap import PortBitmap
from sampan.apiserver.registry.kinds.services import families, traits
from sampan.machinery import errors


@dataclass(frozen=True, slots=True)
class AddressNeeds:
    """`take` are the indexes in clusterIPs to allocate, `release` the addresses to release after a successful write."""

    take: tuple[int, ...] = ()
    release: tuple[str, ...] = ()


def of_addresses(service: Service, old: Service | None) -> AddressNeeds:
    indexes = range(len(service.spec.ipFamilies))
    if old is None or traits.is_external_name(old):
        has_none = traits.is_external_name(service) or traits.is_headless(service)
        return AddressNeeds() if has_none else AddressNeeds(take=tuple(indexes))
    if families.is_undisturbed(service, old) or traits.is_headless(old):
        return AddressNeeds()
    if traits.is_external_name(service):
        return AddressNeeds(release=tuple(old.spec.clusterIPs))
    before = len(old.spec.ipFamilies)
    return AddressNeeds(take=tuple(indexes[before:]), release=tuple(old.spec.clusterIPs[len(indexes) : before]))


@dataclass(slots=True)
class PortNeeds:
    """`node_ports` is the node port of each port, 0 for none; `health_check` is the health check node port."""

    node_ports: list[int]
    health_check: int
    allocated: list[int] = field(default_factory=list)
    release: list[int] = field(default_factory=list)


def needs_ports(service: Service, old: Service | None) -> bool:
    """Whether node ports must be allocated or released."""
    before = set(traits.node_ports(old)) if old is not None and traits.has_node_ports(old) else set()
    now = set(traits.node_ports(service)) if traits.has_node_ports(service) else set()
    is_asking = traits.wants_node_ports(service) and any(not port.nodePort for port in service.spec.ports)
    is_checked = old is not None and traits.needs_health_check(old)
    return before != now or is_asking or traits.needs_health_check(service) != is_checked


def of_ports(service: Service, old: Service | None, bitmap: PortBitmap, random: Random) -> PortNeeds:
    """Allocate from the bitmap what the service needs. Raise ApiError if that is impossible."""
    needs = PortNeeds([port.nodePort for port in service.spec.ports], service.spec.healthCheckNodePort)
    taking = _Taking(service, needs, bitmap, random)
    if traits.has_node_ports(service):
        taking.for_new() if old is None else taking.for_changed(old)
    if old is not None and traits.has_node_ports(old):
        kept = set(needs.node_ports) if traits.has_node_ports(service) else set()
        needs.release += [port for port in traits.node_ports(old) if port not in kept]
    taking.for_health_check(old)
    return needs


class _Taking:
    def __init__(self, service: Service, needs: PortNeeds, bitmap: PortBitmap, random: Random) -> None:
        self._service, self._needs, self._bitmap, self._random = service, needs, bitmap, random
        self._ports = service.spec.ports
        self._is_asking = traits.wants_node_ports(service)

    def for_new(self) -> None:
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
                shared[port.port] = self._needs.node_ports[index] = self._take(index, named.get(port.port, 0))
            elif not port.nodePort:
                self._needs.node_ports[index] = shared[port.port]
            elif port.nodePort != shared[port.port]:
                self._take(index, port.nodePort)

    def for_changed(self, old: Service) -> None:
        before = set(traits.node_ports(old)) if traits.has_node_ports(old) else set()
        held_ports: set[tuple[str, int]] = set()
        for index, port in enumerate(self._ports):
            node_port = port.nodePort
            if not node_port and not self._is_asking:
                continue
            if not node_port or (node_port not in before and node_port not in self._needs.allocated):
                self._needs.node_ports[index] = self._take(index, node_port)
            held = (port.protocol, self._needs.node_ports[index])
            if held in held_ports:
                raise errors.unexpected(f"duplicate nodePort: {{{held[0]} {held[1]}}}")
            held_ports.add(held)

    def _take(self, index: int, requested: int) -> int:
        try:
            port = self._bitmap.take(requested) if requested else self._bitmap.take_any(self._random)
        except RangeFull as error:
            raise errors.internal_error(f"failed to allocate a nodePort: {error}") from None
        except AllocationError as error:
            refused = FieldError.invalid(f"spec.ports[{index}].nodePort", requested, str(error))
            raise errors.invalid("Service", self._service.metadata.name, [refused]) from None
        self._needs.allocated.append(port)
        return port

    def for_health_check(self, old: Service | None) -> None:
        was, now = old is not None and traits.needs_health_check(old), traits.needs_health_check(self._service)
        if was and not now and old is not None:
            self._needs.release.append(old.spec.healthCheckNodePort)
        elif now and not was:
            self._needs.health_check = self._take_health_check(self._needs.health_check)
            self._needs.allocated.append(self._needs.health_check)

    def _take_health_check(self, port: int) -> int:
        try:
            return self._bitmap.take(port) if port else self._bitmap.take_any(self._random)
        except AllocationError as error:
            which = f"requested HealthCheck NodePort {port}" if port else "a HealthCheck NodePort 0"
            raise errors.internal_error(f"failed to allocate {which}: {error}") from None
