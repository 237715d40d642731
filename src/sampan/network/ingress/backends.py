"""The endpoints of the backends of Ingresses: the ready endpoints of a service, used in turn."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from sampan.api.semantics.endpoint_slices import numbered_ports
from sampan.api.types.core_v1 import Service, ServicePort
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName
from sampan.network.ingress.routing_table import BackendServicePort

_SERVICE_NAME = "kubernetes.io/service-name"


class EndpointAddress(NamedTuple):
    ip: str
    port: int

    @property
    def authority(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


def by_service(endpoint_slice: Any) -> Iterable[Hashable]:
    """Index EndpointSlices by the service that they belong to."""
    name = endpoint_slice.metadata.labels.get(_SERVICE_NAME)
    return [NamespacedName(endpoint_slice.metadata.namespace, name)] if name else []


def ready_addresses(service: Service, port: str | int, slices: Iterable[EndpointSlice]) -> list[EndpointAddress]:
    """Return the addresses of the ready endpoints of a port of a service, without duplicates, in a stable order.

    For a dual-stack service they are addresses of its primary IP family.
    """
    service_port = _port_of(service, port)
    if service_port is None or service.spec.type == "ExternalName":
        return []
    families = service.spec.ipFamilies[:1] or ["IPv4", "IPv6"]
    addresses: set[EndpointAddress] = set()
    for endpoint_slice in (item for item in slices if item.addressType in families):
        numbers = [
            number
            for entry, number in numbered_ports(endpoint_slice)
            if (entry.name or "") == service_port.name and (entry.protocol or "TCP") == "TCP"
        ]
        for endpoint in endpoint_slice.endpoints or ():
            if endpoint.conditions.ready is not False and endpoint.addresses:
                addresses.update(EndpointAddress(endpoint.addresses[0], number) for number in numbers)
    return sorted(addresses)


def _port_of(service: Service, port: str | int) -> ServicePort | None:
    return next((entry for entry in service.spec.ports if port in (entry.name, entry.port) and port), None)


class BackendEndpoints:
    """Chooses the endpoints of backends. The addresses of a backend are cached until its service or EndpointSlices
    change."""

    def __init__(self, *, informers: InformerFactory) -> None:
        self._services, self._slices = informers.for_kind(Service), informers.for_kind(EndpointSlice)
        self._slices.lister.add_index(by_service)
        self._resolved: dict[NamespacedName, dict[str | int, list[EndpointAddress]]] = {}
        self._turns: dict[BackendServicePort, int] = {}
        self._services.subscribe(self._on_service)
        self._slices.subscribe(self._on_slice)

    async def wait_synced(self) -> None:
        await self._services.synced.wait()
        await self._slices.synced.wait()

    def candidates(self, backend: BackendServicePort, maximum: int) -> list[EndpointAddress]:
        """Return the endpoints of a backend in the order in which they should be tried, and advance the round-robin."""
        addresses = self._addresses(backend)
        if not addresses:
            self._turns.pop(backend, None)
            return []
        turn = self._turns.get(backend, 0) % len(addresses)
        self._turns[backend] = turn + 1
        return [addresses[(turn + offset) % len(addresses)] for offset in range(min(maximum, len(addresses)))]

    def _addresses(self, backend: BackendServicePort) -> list[EndpointAddress]:
        key = NamespacedName(backend.namespace, backend.service)
        service = self._services.lister.get_by_key(key)
        if service is None:
            return []
        ports = self._resolved.setdefault(key, {})
        if backend.port not in ports:
            ports[backend.port] = ready_addresses(service, backend.port, self._slices.lister.find(by_service, key))
        return ports[backend.port]

    def _on_service(self, old: Service | None, new: Service | None) -> None:
        service = new or old
        assert service is not None
        self._resolved.pop(NamespacedName(service.metadata.namespace, service.metadata.name), None)

    def _on_slice(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        for endpoint_slice in (old, new):
            for key in by_service(endpoint_slice) if endpoint_slice is not None else ():
                assert isinstance(key, NamespacedName)
                self._resolved.pop(key, None)
