"""The addresses of load balancers. Pure.

Nodes with network namespaces of their own are on a bridge; each load balancer gets one of the last addresses of its
CIDRs, because nodes get the first ones. Nodes in the network of the machine share its address, so that a port belongs
to one service only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address, ip_network

from sampan.api.types.core_v1 import Service
from sampan.machinery.object_key import key_of

_MAX_ADDRESSES = 4096
_NODE_SHARE_DIVISOR = 2
"""The divisor of a node CIDR: half of it is for nodes."""


class NoLoadBalancerAddress(Exception):
    """There is no address for a load balancer."""


def addresses_in(service: Service) -> list[str]:
    """Return the load balancer addresses in the status of a service."""
    return [ingress.ip for ingress in service.status.loadBalancer.ingress if ingress.ip]


def ports_in(service: Service) -> set[tuple[str, int]]:
    """Return the protocols and ports for which the load balancer of a service was provided.

    They may differ from the ports in the spec, which the owner of the service can change at any time. If the status
    lists no ports, they are those of the spec.
    """
    recorded = {(port.protocol, port.port) for ingress in service.status.loadBalancer.ingress for port in ingress.ports}
    return recorded or {(port.protocol or "TCP", port.port) for port in service.spec.ports}


def pool_of(cidr: str) -> Iterator[str]:
    """Yield the addresses of a node CIDR that load balancers may have, beginning with the last one."""
    network = ip_network(cidr)
    count = min(network.num_addresses // _NODE_SHARE_DIVISOR, _MAX_ADDRESSES)
    for number in range(2, count + 1):
        yield str(network[-number])


def pool_cidr(cidr: str) -> str:
    """Return the CIDR with the addresses of load balancers, which is the end of a node CIDR."""
    network = ip_network(cidr)
    count = min(network.num_addresses // _NODE_SHARE_DIVISOR, _MAX_ADDRESSES)
    return f"{network[-count]}/{network.max_prefixlen - count.bit_length() + 1}"


def is_in_pool(address: str, cidr: str) -> bool:
    network, candidate = ip_network(cidr), ip_address(address)
    if candidate not in network:
        return False
    distance = int(network[-1]) - int(candidate)
    return 1 <= distance < min(network.num_addresses // _NODE_SHARE_DIVISOR, _MAX_ADDRESSES)


def choose_pool_addresses(service: Service, others: Iterable[Service], cidrs: Sequence[str]) -> list[str]:
    """Return an unshared address for each IP family of a service.

    The service keeps the addresses that it has. The first one may be requested by `loadBalancerIP`. Raise
    NoLoadBalancerAddress if there is none.
    """
    used = {address for other in others if key_of(other) != key_of(service) for address in addresses_in(other)}
    families = service.spec.ipFamilies or ["IPv4"]
    chosen = [cidr for family in families for cidr in cidrs if (":" in cidr) == (family == "IPv6")]
    if not chosen:
        raise NoLoadBalancerAddress(f"the nodes have no addresses of {' or '.join(families)}")
    return [_choose_pool_address(service, cidr, used) for cidr in chosen]


def _choose_pool_address(service: Service, cidr: str, used: set[str]) -> str:
    requested = service.spec.loadBalancerIP
    if requested and (":" in requested) == (":" in cidr):
        if not is_in_pool(requested, cidr):
            first, last = (list(pool_of(cidr))[index] for index in (-1, 0))
            raise NoLoadBalancerAddress(f"loadBalancerIP {requested} is not between {first} and {last}")
        if requested in used:
            raise NoLoadBalancerAddress(f"loadBalancerIP {requested} belongs to another service")
        return requested
    pool_addresses = [address for address in addresses_in(service) if is_in_pool(address, cidr) and address not in used]
    address = next(iter(pool_addresses), None) or next(
        (address for address in pool_of(cidr) if address not in used), None
    )
    if address is None:
        raise NoLoadBalancerAddress(f"all addresses of {cidr} are in use")
    return address


def choose_shared_addresses(service: Service, others: Iterable[Service], addresses: Sequence[str]) -> list[str]:
    """Return the addresses of the machine in the IP families of a service. Raise NoLoadBalancerAddress if another
    service has one of its ports."""
    ports = {(port.protocol or "TCP", port.port) for port in service.spec.ports}
    for other in others:
        if key_of(other) == key_of(service) or not addresses_in(other):
            continue
        for protocol, port in sorted(ports & ports_in(other)):
            raise NoLoadBalancerAddress(f"port {port}/{protocol} of the machine belongs to the service {key_of(other)}")
    families = service.spec.ipFamilies or ["IPv4"]
    chosen = [next((a for a in addresses if (":" in a) == (family == "IPv6")), "") for family in families]
    if not any(chosen):
        raise NoLoadBalancerAddress(f"the machine has no address of {' or '.join(families)}")
    return [address for address in chosen if address]
