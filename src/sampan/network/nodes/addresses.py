"""The names and addresses of the nodes of a machine. Names are derived from the directory of the cluster's nodes, so
that leftovers are recognized by them; an address is kept in a file in the directory of its node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path

from sampan.host.durable_files import write_durably

_FILE = "node-address"
_FIRST = 2
"""The first address of a node CIDR is that of the machine; the nodes have the following ones."""
_NAMED_NAMESPACES = Path("/run/netns")
"""The directory of the namespaces that `ip netns` shows."""


class NoNodeAddressLeft(Exception):
    """All addresses of the node CIDR are in use."""


def ipv6_cidr(root: Path) -> str:
    """Return a unique local IPv6 network (RFC 4193) for the nodes of the cluster whose nodes are in `root`."""
    digits = hashlib.sha256(str(root).encode()).digest()[:7]
    return str(IPv6Network((b"\xfd" + digits + bytes(8), 64)))


def host_addresses(cidrs: Sequence[str]) -> list[str]:
    """Return the addresses of the machine on the bridge, with prefix lengths."""
    return _interfaces(cidrs, 1)


def node_addresses(root: Path, node: str, cidrs: Sequence[str]) -> list[str]:
    """Return the addresses of a node, one from each node CIDR, with prefix lengths. A new node gets free ones, and its
    directory is created."""
    number = read_node_number(root, node, cidrs[0])
    if number is None:
        others = {path.name for path in root.iterdir() if path.is_dir()} if root.exists() else set()
        used = {
            remaining_number
            for other in others
            if (remaining_number := read_node_number(root, other, cidrs[0])) is not None
        }
        number = _free_number(cidrs[0], used)
        (root / node).mkdir(parents=True, exist_ok=True)
        write_durably(root / node / _FILE, f"{_address_at(cidrs[0], number)}\n".encode(), mode=0o644)
    return _interfaces(cidrs, number)


def read_node_number(root: Path, node: str, cidr: str) -> int | None:
    """Return the position of a node's address in the node CIDR, or None if it has no address there."""
    try:
        address = ip_address((root / node / _FILE).read_text().strip())
    except (OSError, ValueError):
        return None
    network = _network(cidr)
    return int(address) - int(network.network_address) if address in network else None


def _free_number(cidr: str, used: Collection[int]) -> int:
    for number in range(_FIRST, min(_network(cidr).num_addresses - 1, len(used) + _FIRST + 1)):
        if number not in used:
            return number
    raise NoNodeAddressLeft(f"all addresses of the node CIDR {cidr} are in use")


def _interfaces(cidrs: Sequence[str], number: int) -> list[str]:
    return [f"{_address_at(cidr, number)}/{_network(cidr).prefixlen}" for cidr in cidrs]


def _address_at(cidr: str, number: int) -> str:
    return str(_network(cidr).network_address + number)


def _network(cidr: str) -> IPv4Network | IPv6Network:
    return IPv6Network(cidr) if ":" in cidr else IPv4Network(cidr)


def strip_prefix_length(interface: str) -> str:
    """Return an address without its prefix length."""
    return interface.partition("/")[0]


def cluster_mark(root: Path) -> str:
    """Return eight hexadecimal digits that stand for the cluster whose nodes are in `root`."""
    return hashlib.blake2b(str(root).encode(), digest_size=4).hexdigest()


def bridge_of_nodes(root: Path) -> str:
    """Return the name of the bridge to which the nodes of a cluster are attached."""
    return f"sn{cluster_mark(root)[:6]}"


def table_of_nodes(bridge: str) -> str:
    return f"sampan-nodes-{bridge}"


def namespace_file(directory: Path) -> Path:
    """Return the file at which the network namespace of a node is mounted, in the node's directory."""
    return directory / "netns"


def named_namespace(root: Path, node: str) -> Path:
    """Return the symbolic link through which `ip netns exec` finds the namespace of a node."""
    return _NAMED_NAMESPACES / f"sampan-{cluster_mark(root)}-{node}"
