"""The ports of EndpointSlices. The API server accepts any number there, as kube-apiserver does."""

from collections.abc import Iterator

from sampan.api.types.discovery_v1 import EndpointPort, EndpointSlice

_MAX_PORT = 65535


def numbered_ports(endpoint_slice: EndpointSlice) -> Iterator[tuple[EndpointPort, int]]:
    """Yield the ports of a slice that have a number which packets can have, with that number."""
    for port in endpoint_slice.ports or ():
        if port.port is not None and 0 < port.port <= _MAX_PORT:
            yield port, port.port
