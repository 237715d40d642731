"""The endpoints and ports of EndpointSlices."""

from collections.abc import Iterable, Iterator
from typing import Final

from sampan.api.types.discovery_v1 import Endpoint, EndpointPort, EndpointSlice

SERVICE_NAME: Final = "kubernetes.io/service-name"
"""The label of an EndpointSlice that names its service."""
_MAX_PORT = 65535


def numbered_ports(endpoint_slice: EndpointSlice) -> Iterator[tuple[EndpointPort, int]]:
    """Yield the ports of a slice that have a number which packets can have, with that number. The API server
    accepts any number, as kube-apiserver does."""
    for port in endpoint_slice.ports or ():
        if port.port is not None and 0 < port.port <= _MAX_PORT:
            yield port, port.port


def ready_endpoints(endpoint_slice: EndpointSlice) -> Iterator[tuple[Endpoint, str]]:
    """Yield the endpoints of a slice that are ready, or of unknown readiness, with their address."""
    for endpoint in endpoint_slice.endpoints or ():
        if endpoint.conditions.ready is not False and endpoint.addresses:
            yield endpoint, endpoint.addresses[0]


def has_ready_endpoint(slices: Iterable[EndpointSlice], port_name: str) -> bool:
    """Whether one of the slices has a ready endpoint and a port with this name and a number."""
    return any(
        any((port.name or "") == port_name and port.port is not None for port in endpoint_slice.ports or ())
        and any(ready_endpoints(endpoint_slice))
        for endpoint_slice in slices
    )
