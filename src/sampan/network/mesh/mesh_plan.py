"""The plan of how this machine reaches the pods of other machines: routes, VXLAN and WireGuard peers. Pure.

A machine is known by annotations on its Node objects: its addresses with prefix lengths, the backends that it offers,
and its WireGuard key. Several nodes may run on one machine, each with an address that only this machine can reach. For
each pair of machines both sides come to the same decision: plain routes if they share a subnet, otherwise a tunnel that
both offer.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_address, ip_interface, ip_network

from sampan.api.addresses import parse as parse_address
from sampan.api.semantics.nodes import internal_addresses, pod_cidrs
from sampan.api.types.core_v1 import Node
from sampan.machinery.hollow import is_hollow_node
from sampan.network.mesh.config import PREFERENCE, ROUTES, VXLAN, WIREGUARD

ADDRESSES = "network.sampan.dev/machine-addresses"
"""Annotation: the addresses of the machine of a node, with prefix lengths, comma-separated."""
OFFERED = "network.sampan.dev/pod-network"
"""Annotation: the backends that the machine offers, comma-separated."""
PUBLIC_KEY = "network.sampan.dev/wireguard-key"
ENDPOINT = "network.sampan.dev/wireguard-endpoint"
ANNOTATIONS = (ADDRESSES, OFFERED, PUBLIC_KEY, ENDPOINT)

_KEY_LENGTH = 32
_MAX_PORT = 65535

Interface = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshMachine:
    nodes: Sequence[str]
    interfaces: Sequence[Interface]
    """The addresses of the machine with the prefix lengths of their subnets, the primary one first."""
    destinations: Sequence[Network] = ()
    """The networks that are reached through the machine: the pod CIDRs of its nodes, and node addresses that only it
    can reach."""
    offered: Sequence[str] = (ROUTES,)
    public_key: str = ""
    endpoint: str = ""
    """HOST:PORT of WireGuard, if it is not the address of the machine."""

    def interface(self, version: int) -> Interface | None:
        return next((interface for interface in self.interfaces if interface.version == version), None)


@dataclass(frozen=True, slots=True, order=True)
class MeshRoute:
    destination: str
    backend: str
    gateway: str = ""
    """The next hop. In VXLAN it is the first address of the destination, which only stands for the other machine."""
    hardware: str = ""
    """The hardware address of the other end of VXLAN."""


@dataclass(frozen=True, slots=True, order=True)
class VxlanPeer:
    address: str
    hardware: str


@dataclass(frozen=True, slots=True, order=True)
class WireGuardPeer:
    public_key: str
    endpoint: str
    """ADDRESS:PORT, with IPv6 addresses in brackets."""
    allowed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshPlan:
    routes: frozenset[MeshRoute] = frozenset()
    vxlan_peers: frozenset[VxlanPeer] = frozenset()
    wireguard_peers: frozenset[WireGuardPeer] = frozenset()
    tunnel_addresses: tuple[str, ...] = ()
    """The addresses of this machine inside tunnels, from which it reaches pods elsewhere: the first of a pod CIDR of
    its own, which no pod has. Responses to them come back through the tunnel."""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """Why the pods of a machine cannot be reached, by the name of the first node of the machine."""


def read_machines(nodes: Iterable[Node], is_own: Callable[[Node], bool]) -> list[MeshMachine]:
    """Return the other machines with real nodes, those with the oldest nodes first. Nodes with the same machine
    addresses share a machine."""
    groups: dict[tuple[str, ...], list[Node]] = {}
    for node in sorted(nodes, key=lambda node: (node.metadata.creationTimestamp or "", node.metadata.name)):
        if not is_own(node) and not is_hollow_node(node):
            groups.setdefault(_machine_addresses(node), []).append(node)
    return [_machine(addresses, members) for addresses, members in groups.items() if addresses]


def _machine_addresses(node: Node) -> tuple[str, ...]:
    """Return the addresses in the annotation, or those of the node if another kind of kubelet runs it."""
    text = node.metadata.annotations.get(ADDRESSES, "")
    published = tuple(word for word in text.split(",") if _is_interface(word))
    return published or tuple(map(str, internal_addresses(node)))


def _machine(addresses: tuple[str, ...], nodes: Sequence[Node]) -> MeshMachine:
    interfaces = [ip_interface(address) for address in addresses]
    own = {str(interface.ip) for interface in interfaces}
    annotations: dict[str, str] = {}
    for node in nodes:
        annotations |= {key: value for key, value in node.metadata.annotations.items() if key in ANNOTATIONS}
    offered = [word for word in annotations.get(OFFERED, ROUTES).split(",") if word in PREFERENCE]
    return MeshMachine(
        nodes=[node.metadata.name for node in nodes],
        interfaces=interfaces,
        destinations=[destination for node in nodes for destination in _destinations(node, own)],
        offered=offered,
        public_key=_drop_invalid(annotations.get(PUBLIC_KEY, ""), is_public_key),
        endpoint=_drop_invalid(annotations.get(ENDPOINT, ""), _is_endpoint),
    )


def _destinations(node: Node, machine_addresses: set[str]) -> Iterator[Network]:
    yield from pod_cidrs(node)
    for address in internal_addresses(node):
        if str(address) not in machine_addresses:
            yield ip_network(address)


def annotations_of(machine: MeshMachine) -> dict[str, str | None]:
    """Return the annotations with which a machine is published on its nodes; None removes one."""
    return {
        ADDRESSES: ",".join(map(str, machine.interfaces)),
        OFFERED: ",".join(machine.offered),
        PUBLIC_KEY: machine.public_key or None,
        ENDPOINT: machine.endpoint or None,
    }


# -- decisions -------------------------------------------------------------------------------------------------------


def plan_mesh(own: MeshMachine, others: Sequence[MeshMachine], *, wireguard_port: int) -> MeshPlan:
    routes: set[MeshRoute] = set()
    vxlan: set[VxlanPeer] = set()
    wireguard: set[WireGuardPeer] = set()
    unreachable: dict[str, str] = {}
    for other in others:
        match choose_backend(own, other):
            case "routes":
                added, missing = _plan_plain_routes(own, other)
                routes |= added
                if missing:
                    unreachable[other.nodes[0]] = missing
            case "vxlan":
                peer = vxlan_peer(own, other)
                vxlan.add(peer)
                routes |= {_vxlan_route(destination, peer) for destination in other.destinations}
            case "wireguard":
                wireguard.add(_wireguard_peer(own, other, wireguard_port))
                routes |= {MeshRoute(str(destination), WIREGUARD) for destination in other.destinations}
            case _:
                unreachable[other.nodes[0]] = _explain_unreachable(own, other)
    return MeshPlan(
        routes=frozenset(routes),
        vxlan_peers=frozenset(vxlan),
        wireguard_peers=frozenset(wireguard),
        tunnel_addresses=_tunnel_addresses(own) if vxlan or wireguard else (),
        unreachable=unreachable,
    )


def _tunnel_addresses(own: MeshMachine) -> tuple[str, ...]:
    first = {network.version: network for network in reversed(own.destinations) if network.num_addresses > 1}
    return tuple(f"{first[version].network_address}/{first[version].max_prefixlen}" for version in sorted(first))


def choose_backend(own: MeshMachine, other: MeshMachine) -> str:
    """Return the backend between two machines; empty if there is none. The other machine comes to the same result."""
    common = [name for name in PREFERENCE if name in own.offered and name in other.offered]
    for name in common:
        if name == ROUTES and not _find_direct_gateways(own, other):
            continue
        if name == WIREGUARD and not (own.public_key and other.public_key):
            continue
        if name == VXLAN and not _common_versions(own, other):
            continue
        return name
    return ""


def _find_direct_gateways(own: MeshMachine, other: MeshMachine) -> dict[int, str]:
    """Return the address of the other machine in a subnet of this one, by IP version."""
    gateways: dict[int, str] = {}
    for near in own.interfaces:
        for far in other.interfaces:
            is_alone = far.network.prefixlen == far.max_prefixlen  # published without a subnet
            is_shared = far.ip in near.network and (is_alone or near.ip in far.network)
            if near.version == far.version and is_shared:
                gateways.setdefault(near.version, str(far.ip))
    return gateways


def _common_versions(own: MeshMachine, other: MeshMachine) -> list[int]:
    """Return the IP versions that both machines have.

    The version of the primary address of the alphabetically first machine comes first, so that both sides agree.
    """
    versions = [
        interface.version for interface in min(own, other, key=lambda machine: str(machine.interfaces[0])).interfaces
    ]
    return [version for version in dict.fromkeys(versions) if own.interface(version) and other.interface(version)]


def _plan_plain_routes(own: MeshMachine, other: MeshMachine) -> tuple[set[MeshRoute], str]:
    gateways = _find_direct_gateways(own, other)
    routes = {
        MeshRoute(str(destination), ROUTES, gateways[destination.version])
        for destination in other.destinations
        if destination.version in gateways
    }
    missing = sorted({destination.version for destination in other.destinations} - set(gateways))
    return routes, f"the machines share no IPv{missing[0]} subnet" if missing else ""


def vxlan_peer(own: MeshMachine, other: MeshMachine) -> VxlanPeer:
    interface = other.interface(_common_versions(own, other)[0])
    assert interface is not None
    return VxlanPeer(str(interface.ip), hardware_address(str(interface.ip)))


def _vxlan_route(destination: Network, peer: VxlanPeer) -> MeshRoute:
    return MeshRoute(str(destination), VXLAN, str(destination.network_address), peer.hardware)


def _wireguard_peer(own: MeshMachine, other: MeshMachine, port: int) -> WireGuardPeer:
    versions = _common_versions(own, other)
    interface = other.interface(versions[0]) if versions else other.interfaces[0]
    assert interface is not None
    host = f"[{interface.ip}]" if interface.version == 6 else str(interface.ip)
    machine = [str(ip_network(str(item.ip))) for item in other.interfaces]
    allowed = tuple(sorted({*map(str, other.destinations), *machine}))
    return WireGuardPeer(other.public_key, other.endpoint or f"{host}:{port}", allowed)


def _explain_unreachable(own: MeshMachine, other: MeshMachine) -> str:
    if not set(own.offered) & set(other.offered):
        return f"this machine offers {_join_names(own.offered)}, the other one {_join_names(other.offered)}"
    return "the machines share no subnet, and not both of them can create a tunnel (wireguard or vxlan)"


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"


# -- names -----------------------------------------------------------------------------------------------------------


def hardware_address(address: str) -> str:
    """Return the hardware address of the VXLAN link of the machine with this address, which others derive as well."""
    digest = hashlib.sha256(ip_address(address).packed).digest()
    octets = (digest[0] & 0xFC | 0x02, *digest[1:6])  # locally administered, unicast
    return ":".join(f"{octet:02x}" for octet in octets)


def vxlan_identifier(cluster: bytes) -> int:
    """Return the VXLAN network identifier of a cluster, a positive number of 24 bits."""
    return int.from_bytes(hashlib.sha256(cluster).digest()[:3], "big") or 1


def link_name(backend: str, identity: str) -> str:
    return f"smp{'wg' if backend == WIREGUARD else 'vx'}-{_mark(identity):06x}"


def route_metric(identity: str) -> int:
    """Return the metric of the routes of a cluster, which differs from that of other clusters on the machine."""
    return 20_000 + _mark(identity) % 10_000


def _mark(identity: str) -> int:
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:3], "big")


# -- texts that nodes publish ----------------------------------------------------------------------------------------


def _drop_invalid(text: str, is_valid: Callable[[str], bool]) -> str:
    return text if is_valid(text) else ""


def _is_interface(text: str) -> bool:
    if "%" in text:  # the scope of a link-local address may be any text
        return False
    try:
        ip_interface(text)
    except ValueError:
        return False
    return True


def is_public_key(text: str) -> bool:
    """Whether a text is a public key of WireGuard: 32 bytes as base64."""
    try:
        return len(base64.b64decode(text, validate=True)) == _KEY_LENGTH
    except ValueError:
        return False


def _is_endpoint(text: str) -> bool:
    """Whether a text is ADDRESS:PORT, with IPv6 addresses in brackets."""
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and len(port) <= len(str(_MAX_PORT)) and 0 < int(port) <= _MAX_PORT
    return is_port and parse_address(host.removeprefix("[").removesuffix("]")) is not None
