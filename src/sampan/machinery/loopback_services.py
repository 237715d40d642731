"""The addresses at which services are reachable on a machine without packet rules: those of the loopback network
127.0.0.0/8.

A cluster IP cannot be given to a machine without privileges, but every address of the loopback network exists on Linux.
The service proxy listens there, and the environment variables of containers name these addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from sampan.api.types.core_v1 import Service

_LOWEST_PORT = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
_PRIVILEGED_OFFSET = 10_000
_ZERO_OCTET_REPLACEMENT = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopbackServices:
    """Translates cluster IPs and ports to those on the loopback network.

    The address has the last three numbers of the cluster IP: 10.96.0.10 becomes 127.96.0.10, and a cluster IP of the
    loopback network stays. Ports that need privileges are moved by 10,000: 80 becomes 10080.
    """

    lowest_port: int = 1024
    """The lowest port that this process may bind."""
    shift: int = 0
    """Added to the second number of the address, so that several clusters of a machine have different addresses."""

    def address_of(self, cluster_ip: str) -> str:
        """Return the address for a cluster IP; empty for IPv6, which has a single loopback address."""
        first, _, remainder = cluster_ip.partition(".")
        if not remainder or first == "127":
            return cluster_ip if first == "127" else ""
        second, _, remainder = remainder.partition(".")
        number = (int(second) + self.shift) % 256
        return f"127.{number or _ZERO_OCTET_REPLACEMENT}.{remainder}"

    def port_of(self, port: int) -> int:
        return port if port >= self.lowest_port else port + _PRIVILEGED_OFFSET

    def translate(self, service: Service) -> Service:
        """Return the service with the address and ports at which it is reachable. Services without an IPv4 address stay
        as they are."""
        spec = service.spec
        addresses = [self.address_of(address) for address in spec.clusterIPs or [spec.clusterIP]]
        address = next((address for address in addresses if address), "")
        if not address:
            return service
        ports = [msgspec.structs.replace(port, port=self.port_of(port.port)) for port in spec.ports]
        translated = msgspec.structs.replace(spec, clusterIP=address, clusterIPs=[address], ports=ports)
        return msgspec.structs.replace(service, spec=translated)


def lowest_unprivileged_port(*, is_privileged: bool) -> int:
    """Return the lowest port that this process may bind."""
    if is_privileged:
        return 0
    try:
        return int(_LOWEST_PORT.read_text())
    except (OSError, ValueError):
        return 1024
