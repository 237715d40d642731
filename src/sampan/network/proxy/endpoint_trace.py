"""Records in the flight recorder when the address of a pod becomes part of the rules of a node."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from sampan.api.types.core_v1 import ObjectReference
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.machinery.informer import Informer
from sampan.machinery.telemetry.flight_recorder import PodAddressTrace
from sampan.network.proxy.services import service_of_slice
from sampan.network.proxy.tracker import ServiceChange


class EndpointTrace:
    """A ServiceObserver. The endpoints of the first sync are older than the proxy and are not recorded."""

    def __init__(self, *, trace: PodAddressTrace, slices: Informer[EndpointSlice]) -> None:
        self._trace, self._slices = trace, slices.lister
        self._slices.add_index(by_service)
        self._is_first = True

    async def on_changes(self, changes: Sequence[ServiceChange]) -> None:
        is_first, self._is_first = self._is_first, False
        for change in () if is_first else changes:
            if added := _addresses(change.current) - _addresses(change.previous):
                self._trace.record_pods(self._targets(change, added), f"service {change.service.name}")

    def _targets(self, change: ServiceChange, addresses: set[str]) -> Iterable[ObjectReference | None]:
        for endpoint_slice in self._slices.find(by_service, change.service):
            for endpoint in endpoint_slice.endpoints or ():
                if not addresses.isdisjoint(endpoint.addresses or ()):
                    yield endpoint.targetRef


def by_service(obj: Any) -> Iterable[Hashable]:
    service = service_of_slice(obj)
    return (service,) if service is not None else ()


def _addresses(states: Iterable[Any]) -> set[str]:
    return {endpoint.address for state in states for endpoint in state.categories.reachable}
