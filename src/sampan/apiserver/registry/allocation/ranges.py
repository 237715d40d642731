"""The ranges of cluster IPs and node ports, and the errors of their allocators."""

import ipaddress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network


class AllocationError(Exception):
    """Raised when a value cannot be allocated. The message is for the client."""


class AllocatorFull(AllocationError):
    def __init__(self) -> None:
        super().__init__("range is full")


Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

_WIDEST_IPV6 = 64
_LAST_PORT = 65535


def family_of(value: Address | Network) -> str:
    return "IPv4" if value.version == 4 else "IPv6"


def _default_networks() -> tuple[Network, ...]:
    return (IPv4Network("10.96.0.0/16"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRanges:
    """The ranges of services. `networks` has at most one network per IP family; the first is the default family."""

    networks: tuple[Network, ...] = field(default_factory=_default_networks)
    node_ports: range = range(30000, 32768)
    seed: int | None = None
    """The start of the random numbers by which addresses and ports are allocated; None for unpredictable ones."""

    @classmethod
    def parse(
        cls, cluster_ip_range: str, node_ports: tuple[int, int] = (30000, 32767), *, seed: int | None = None
    ) -> "ServiceRanges":
        """Return the ranges from --service-cluster-ip-range and the ends of --service-node-port-range.

        Raise ValueError if they are invalid.
        """
        networks = tuple(_network(text.strip()) for text in cluster_ip_range.split(","))
        if len(networks) > 2 or len({network.version for network in networks}) < len(networks):
            raise ValueError(f"service range {cluster_ip_range!r} has more than one network of an address family")
        first, last = node_ports
        if not 0 < first <= last <= _LAST_PORT:
            raise ValueError(f"{first}-{last} is no range of ports")
        return cls(networks=networks, node_ports=range(first, last + 1), seed=seed)

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(family_of(network) for network in self.networks)


def _network(text: str) -> Network:
    network = ipaddress.ip_network(text)
    if network.version == 6 and network.prefixlen < _WIDEST_IPV6:
        raise ValueError(f"service range {text!r} is too large: an IPv6 prefix has at least {_WIDEST_IPV6} bits")
    if network.num_addresses < 4:
        raise ValueError(f"service range {text!r} is too small")
    return network
