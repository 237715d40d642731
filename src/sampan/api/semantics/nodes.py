"""The addresses in Node objects.

A kubelet writes the addresses of its own Node, so that they can be any text. Texts that are not addresses are left
out."""

from collections.abc import Iterator, Sequence

from sampan.api import addresses
from sampan.api.addresses import Address, Network
from sampan.api.types.core_v1 import Node


def internal_addresses(node: Node) -> list[Address]:
    """Return the internal IP addresses of a node, each once, in the order of its status."""
    return _addresses_of(node, ("InternalIP",))


def ip_addresses(node: Node) -> list[Address]:
    """Return the internal and external IP addresses of a node, each once, in the order of its status."""
    return _addresses_of(node, ("InternalIP", "ExternalIP"))


def _addresses_of(node: Node, types: Sequence[str]) -> list[Address]:
    texts = (entry.address for entry in node.status.addresses if entry.type in types)
    return list(dict.fromkeys(address for address in map(addresses.parse, texts) if address is not None))


def pod_cidrs(node: Node) -> Iterator[Network]:
    """Yield the pod CIDRs of a node."""
    for text in node.spec.podCIDRs or [node.spec.podCIDR]:
        network = addresses.parse_network(text)
        if network is not None:
            yield network
