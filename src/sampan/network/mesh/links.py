"""The links and routes of the mesh, applied to the machine with netlink. For use by one thread.

Nothing is remembered: routes are recognized by their protocol number and metric, and links by their names. A new
process can therefore continue after another was killed, and everything can be removed without knowing what was added.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from pathlib import Path

from sampan.host.netlink import constants as nl
from sampan.host.netlink.routing import (
    ForwardingEntry,
    RouteInfo,
    encode_address,
    encode_address_deletion,
    encode_forwarding,
    encode_forwarding_deletion,
    encode_link_creation,
    encode_link_deletion,
    encode_link_up,
    encode_neighbor,
    encode_route,
    encode_route_deletion,
    encode_vxlan_creation,
    get_link,
    list_addresses,
    list_forwarding,
    list_routes,
    open_route_socket,
    vxlan_underlay,
)
from sampan.host.netlink.wireguard import WireguardPeer, WireguardSocket
from sampan.network.mesh.config import ROUTES, VXLAN, VXLAN_PORT, WIREGUARD, tunnel_mtu
from sampan.network.mesh.mesh_plan import (
    Interface,
    MeshPlan,
    MeshRoute,
    VxlanPeer,
    hardware_address,
    link_name,
    route_metric,
    vxlan_identifier,
)
from sampan.network.mesh.tunnel_rules import TunnelRules
from sampan.network.nft import NftError
from sampan.network.routes import MESH_PROTOCOL

log = logging.getLogger(__name__)

_KEEPALIVE_S = 25
_LOOSE = "2"


class MeshError(Exception):
    """The network between machines cannot be set up; the message says what failed."""


class MeshLinks:
    def __init__(self, *, identity: str, cluster: bytes, wireguard_port: int) -> None:
        self._metric, self._cluster, self._wireguard_port = route_metric(identity), cluster, wireguard_port
        self._names = {backend: link_name(backend, identity) for backend in (VXLAN, WIREGUARD)}
        self._tunnel_rules = TunnelRules(self._names[VXLAN], vxlan_identifier(cluster))
        self._netlink = open_route_socket()

    def close(self) -> None:
        self._netlink.close()

    def interfaces(self, addresses: Iterable[str]) -> list[Interface]:
        """Return the addresses that the machine has, with their prefix lengths."""
        present = {str(address.interface.ip): address.interface for address in list_addresses(self._netlink)}
        return [present[address] for address in addresses if address in present]

    def underlay_mtu(self, address: str) -> int:
        return get_link(self._netlink, self._index_of(address)).mtu

    # -- changes -----------------------------------------------------------------------------------------------------

    def apply(self, plan: MeshPlan, local: Interface, private_key: str) -> None:
        """Make the machine agree with the plan. `local` is the address from which tunnels are sent."""
        try:
            if plan.vxlan_peers:
                self._tunnel_rules.ensure(peer.address for peer in plan.vxlan_peers)
                self._ensure_vxlan(plan, local)
            if plan.wireguard_peers:
                self._ensure_wireguard(plan, local, private_key)
            self._ensure_routes(plan.routes)
            if not plan.vxlan_peers:
                self._delete_vxlan()
            if not plan.wireguard_peers:
                self._delete_link(self._names[WIREGUARD])
        except (OSError, NftError) as error:
            raise MeshError(f"cannot set up the network between machines: {error}") from error

    def remove_all(self) -> None:
        self._ensure_routes(())
        self._delete_link(self._names[WIREGUARD])
        self._delete_vxlan()

    def _ensure_routes(self, desired: Iterable[MeshRoute]) -> None:
        present = self._present_routes()
        routes = {self._key(route): route for route in desired}
        for key, obsolete in present.items():
            if key not in routes:
                self._delete_route(obsolete)
        for key, route in routes.items():
            if key not in present:
                self._add_route(route)

    def _present_routes(self) -> dict[tuple[str, str, int], RouteInfo]:
        return {
            (route.destination, route.gateway, route.link): route
            for route in list_routes(self._netlink)
            if (route.protocol, route.metric) == (MESH_PROTOCOL, self._metric)
        }

    def _key(self, route: MeshRoute) -> tuple[str, str, int]:
        return str(ip_network(route.destination)), route.gateway, self._link_of(route)

    def _link_of(self, route: MeshRoute) -> int:
        if route.backend == ROUTES:
            return self._link_towards(route.gateway)
        return _index(self._names[route.backend])

    def _link_towards(self, gateway: str) -> int:
        for address in list_addresses(self._netlink):
            if ip_address(gateway) in address.interface.network:
                return address.index
        raise MeshError(f"no interface of this machine has an address in the subnet of {gateway}")

    def _add_route(self, route: MeshRoute) -> None:
        link = self._link_of(route)
        if route.hardware:
            self._netlink.send(encode_neighbor(link, route.gateway, route.hardware))
        has_address = route.gateway or ip_network(route.destination).version == 6
        added = RouteInfo(
            destination=str(ip_network(route.destination)),
            gateway=route.gateway,
            link=link,
            protocol=MESH_PROTOCOL,
            metric=self._metric,
            scope=nl.RT_SCOPE_UNIVERSE if has_address else nl.RT_SCOPE_LINK,
            is_onlink=bool(route.hardware),
        )
        self._netlink.send(encode_route(added))
        log.info("added the route to %s by %s", added.destination, route.gateway or route.backend)

    def _delete_route(self, route: RouteInfo) -> None:
        with contextlib.suppress(OSError):
            self._netlink.send(encode_route_deletion(route))
        log.info("removed the route to %s", route.destination)

    # -- tunnels -----------------------------------------------------------------------------------------------------

    def _ensure_vxlan(self, plan: MeshPlan, local: Interface) -> None:
        name, identifier = self._names[VXLAN], vxlan_identifier(self._cluster)
        underlay = self._index_of(str(local.ip))
        mtu = tunnel_mtu(VXLAN, self.underlay_mtu(str(local.ip)), local.version)
        index = _index(name)
        if index and vxlan_underlay(get_link(self._netlink, index)) != (underlay, str(local.ip)):
            self._delete_link(name)
            index = 0
        if not index:
            vxlan = encode_vxlan_creation(
                name,
                identifier=identifier,
                underlay=underlay,
                local=str(local.ip),
                port=VXLAN_PORT,
                mtu=mtu,
                hardware=hardware_address(str(local.ip)),
            )
            self._netlink.send(vxlan)
            index = _index(name)
        _set_loose_reverse_path(name)
        self._netlink.send(encode_link_up(index, mtu=mtu))
        self._ensure_addresses(index, plan.tunnel_addresses)
        self._ensure_forwarding(index, plan.vxlan_peers)

    def _ensure_forwarding(self, index: int, peers: Iterable[VxlanPeer]) -> None:
        """Make the forwarding table of the VXLAN link contain exactly the peers."""
        present = set(list_forwarding(self._netlink, index))
        desired = {ForwardingEntry(hardware=peer.hardware, address=peer.address) for peer in peers}
        self._netlink.send(*(encode_forwarding_deletion(index, entry) for entry in present - desired))
        self._netlink.send(*(encode_forwarding(index, entry) for entry in desired - present))

    def _ensure_wireguard(self, plan: MeshPlan, local: Interface, private_key: str) -> None:
        name = self._names[WIREGUARD]
        mtu = tunnel_mtu(WIREGUARD, self.underlay_mtu(str(local.ip)), local.version)
        if not _index(name):
            self._netlink.send(encode_link_creation(name, WIREGUARD))
        _set_loose_reverse_path(name)
        with contextlib.closing(WireguardSocket()) as wireguard:
            wireguard.set_device(name, private_key=private_key, listen_port=self._wireguard_port)
            for public_key in wireguard.public_keys(name) - {peer.public_key for peer in plan.wireguard_peers}:
                wireguard.remove_peer(name, public_key)
            for peer in plan.wireguard_peers:
                wireguard.set_peer(name, wireguard_settings(peer.public_key, peer.endpoint, peer.allowed))
        self._netlink.send(encode_link_up(_index(name), mtu=mtu))
        self._ensure_addresses(_index(name), plan.tunnel_addresses)

    def _ensure_addresses(self, index: int, desired: Iterable[str]) -> None:
        present = {
            str(address.interface)
            for address in list_addresses(self._netlink)
            if address.index == index and not address.interface.is_link_local
        }
        self._netlink.send(*(encode_address_deletion(index, address) for address in present - set(desired)))
        self._netlink.send(*(encode_address(index, address) for address in set(desired) - present))

    def _delete_vxlan(self) -> None:
        """Delete the link, and then the rules that guard it."""
        if _index(self._names[VXLAN]):
            self._delete_link(self._names[VXLAN])
            self._tunnel_rules.remove()

    def _delete_link(self, name: str) -> None:
        if index := _index(name):
            self._netlink.send(encode_link_deletion(index))

    def _index_of(self, address: str) -> int:
        for info in list_addresses(self._netlink):
            if str(info.interface.ip) == address:
                return info.index
        raise MeshError(f"no interface of this machine has the address {address}")


def has_leftovers(identity: str) -> bool:
    """Whether the network namespace of this thread has routes or links of the cluster."""
    names = {link_name(backend, identity) for backend in (VXLAN, WIREGUARD)}
    if any(name in names for _, name in socket.if_nameindex()):
        return True
    metric = route_metric(identity)
    with open_route_socket() as netlink:
        return any((route.protocol, route.metric) == (MESH_PROTOCOL, metric) for route in list_routes(netlink))


def wireguard_settings(public_key: str, endpoint: str, allowed: Iterable[str]) -> WireguardPeer:
    """Return the settings of a peer with the endpoint HOST:PORT. Pure."""
    host, _, port = endpoint.rpartition(":")
    return WireguardPeer(
        public_key=public_key,
        address=host.strip("[]"),
        port=int(port),
        allowed_ips=list(allowed),
        keepalive_s=_KEEPALIVE_S,
    )


def _set_loose_reverse_path(link: str) -> None:
    """Set reverse path filtering of a link to loose mode.

    The address of a machine is reached by its own link, but packets from it to pods come through the tunnel.
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/sys/net/ipv4/conf/{link}/rp_filter").write_text(_LOOSE)


def _index(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return 0
