"""Who may query the DNS server of a node. It forwards queries, and must not do so for strangers on the network."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from sampan.api.types.core_v1 import Node

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_MAX_ADMITTED = 10_000


class KnownClients:
    """The clients of a DNS server: pods, nodes, and processes of its own node.

    They are known by loopback addresses, the addresses of the server, the client CIDRs of the configuration, and the
    addresses and pod CIDRs of Node objects.
    """

    def __init__(
        self, *, addresses: Sequence[str], client_cidrs: Sequence[str], nodes: Callable[[], Iterable[Node]]
    ) -> None:
        self._networks: list[Network] = [
            ipaddress.ip_network(text, strict=False) for text in ("127.0.0.0/8", "::1/128", *addresses, *client_cidrs)
        ]
        self._nodes = nodes
        self._admitted: set[str] = set()

    def admits(self, address: str) -> bool:
        if address in self._admitted:
            return True
        if not self._is_known(ipaddress.ip_address(address.partition("%")[0])):
            return False
        if len(self._admitted) >= _MAX_ADMITTED:
            self._admitted.clear()
        self._admitted.add(address)
        return True

    def _is_known(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        if any(address in network for network in self._networks):
            return True
        text = str(address)
        for node in self._nodes():
            if any(item.address == text for item in node.status.addresses if item.type.endswith("IP")):
                return True
            if any(address in ipaddress.ip_network(cidr, strict=False) for cidr in node.spec.podCIDRs):
                return True
        return False
