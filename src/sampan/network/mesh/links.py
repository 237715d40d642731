"""The links and routes of the mesh, applied to the machine with netlink. For use by one thread.

Nothing is remembered: routes are recognized by their protocol number and metric, and links by their names. A new
process can therefore continue after another was killed, and everything can be removed without knowing what was added.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Iterable
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path
from typing import Any

from sampan.network.mesh.config import ROUTES, VXLAN, WIREGUARD, tunnel_mtu
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

log = logging.getLogger(__name__)

ROUTE_PROTOCOL = 84
"""The protocol number of routes between machines (`ip route show proto 84`)."""
_MAIN_TABLE = 254
_ONLINK = 4
_PERMANENT, _SELF = 0x80, 0x02
_VXLAN_PORT = 4789
_KEEPALIVE_S = 25
_LOOSE = "2"


class MeshError(Exception):
    """The network between machines cannot be set up; the message says what failed."""


class MeshLinks:
    def __init__(self, *, identity: str, cluster: bytes, wireguard_port: int) -> None:
        from pyroute2 import IPRoute

        self._metric, self._cluster, self._wireguard_port = route_metric(identity), cluster, wireguard_port
        self._names = {backend: link_name(backend, identity) for backend in (VXLAN, WIREGUARD)}
        self._netlink: Any = IPRoute()

    def close(self) -> None:
        self._netlink.close()

    def interfaces(self, addresses: Iterable[str]) -> list[Interface]:
        """Return the addresses that the machine has, with their prefix lengths."""
        lengths = {item.get("address"): int(item["prefixlen"]) for item in self._netlink.get_addr()}
        return [ip_interface(f"{address}/{lengths[address]}") for address in addresses if address in lengths]

    def underlay_mtu(self, address: str) -> int:
        return int(self._netlink.link("get", index=self._index_of(address))[0].get("mtu"))

    # -- changes -----------------------------------------------------------------------------------------------------

    def apply(self, plan: MeshPlan, local: Interface, private_key: str) -> None:
        """Make the machine agree with the plan. `local` is the address from which tunnels are sent."""
        from pyroute2 import NetlinkError

        try:
            if plan.vxlan_peers:
                self._ensure_vxlan(plan, local)
            if plan.wireguard_peers:
                self._ensure_wireguard(plan, local, private_key)
            self._ensure_routes(plan.routes)
            if not plan.vxlan_peers:
                self._delete_link(self._names[VXLAN])
            if not plan.wireguard_peers:
                self._delete_link(self._names[WIREGUARD])
        except (NetlinkError, OSError) as error:
            raise MeshError(f"cannot set up the network between machines: {error}") from error

    def remove_all(self) -> None:
        self._ensure_routes(())
        for name in self._names.values():
            self._delete_link(name)

    def _ensure_routes(self, desired: Iterable[MeshRoute]) -> None:
        present = self._present_routes()
        routes = {self._key(route): route for route in desired}
        for key, message in present.items():
            if key not in routes:
                self._delete_route(message)
        for key, route in routes.items():
            if key not in present:
                self._add_route(route)

    def _present_routes(self) -> dict[tuple[str, str, int], Any]:
        present = {}
        for family in (socket.AF_INET, socket.AF_INET6):
            for message in self._netlink.get_routes(family=family, table=_MAIN_TABLE, proto=ROUTE_PROTOCOL):
                if message.get("priority") == self._metric and message["proto"] == ROUTE_PROTOCOL:
                    destination = f"{message.get('dst')}/{message['dst_len']}"
                    gateway = str(message.get("gateway") or "")
                    present[destination, gateway, int(message.get("oif") or 0)] = message
        return present

    def _key(self, route: MeshRoute) -> tuple[str, str, int]:
        return str(ip_network(route.destination)), route.gateway, self._link_of(route)

    def _link_of(self, route: MeshRoute) -> int:
        if route.backend == ROUTES:
            return self._link_towards(route.gateway)
        return _index(self._names[route.backend])

    def _link_towards(self, gateway: str) -> int:
        for item in self._netlink.get_addr():
            network = ip_interface(f"{item.get('address')}/{item['prefixlen']}").network
            if network.version == ip_address(gateway).version and ip_address(gateway) in network:
                return int(item["index"])
        raise MeshError(f"no interface of this machine has an address in the subnet of {gateway}")

    def _add_route(self, route: MeshRoute) -> None:
        network, link = ip_network(route.destination), self._link_of(route)
        family = socket.AF_INET if network.version == 4 else socket.AF_INET6
        options: dict[str, Any] = (
            {"gateway": route.gateway} if route.gateway else {"scope": 253 if network.version == 4 else 0}
        )
        if route.hardware:
            options["flags"] = _ONLINK
            self._netlink.neigh(
                "replace", dst=route.gateway, lladdr=route.hardware, ifindex=link, state=_PERMANENT, family=family
            )
        self._netlink.route(
            "replace",
            family=family,
            dst=str(network),
            oif=link,
            priority=self._metric,
            proto=ROUTE_PROTOCOL,
            table=_MAIN_TABLE,
            **options,
        )
        log.info("added the route to %s by %s", network, route.gateway or route.backend)

    def _delete_route(self, message: Any) -> None:
        from pyroute2 import NetlinkError

        destination = f"{message.get('dst')}/{message['dst_len']}"
        with contextlib.suppress(NetlinkError):
            self._netlink.route(
                "del",
                family=message["family"],
                dst=destination,
                oif=message.get("oif"),
                priority=self._metric,
                proto=ROUTE_PROTOCOL,
                table=_MAIN_TABLE,
            )
        log.info("removed the route to %s", destination)

    # -- tunnels -----------------------------------------------------------------------------------------------------

    def _ensure_vxlan(self, plan: MeshPlan, local: Interface) -> None:
        name, identifier = self._names[VXLAN], vxlan_identifier(self._cluster)
        underlay = self._index_of(str(local.ip))
        mtu = tunnel_mtu(VXLAN, self.underlay_mtu(str(local.ip)), local.version)
        index = _index(name)
        if index and not self._is_vxlan_of(index, underlay, str(local.ip)):
            self._delete_link(name)
            index = 0
        if not index:
            family = "vxlan_local" if local.version == 4 else "vxlan_local6"
            self._netlink.link(
                "add",
                ifname=name,
                kind=VXLAN,
                vxlan_id=identifier,
                vxlan_link=underlay,
                vxlan_port=_VXLAN_PORT,
                vxlan_learning=False,
                address=hardware_address(str(local.ip)),
                mtu=mtu,
                **{family: str(local.ip)},
            )
            index = _index(name)
        _set_loose_reverse_path(name)
        self._netlink.link("set", index=index, mtu=mtu, state="up")
        self._ensure_addresses(index, plan.tunnel_addresses)
        self._ensure_forwarding(index, plan.vxlan_peers)

    def _is_vxlan_of(self, index: int, underlay: int, local: str) -> bool:
        data = self._netlink.link("get", index=index)[0].get(("linkinfo", "data"))
        present = data.get_attr("IFLA_VXLAN_LOCAL") or data.get_attr("IFLA_VXLAN_LOCAL6") if data is not None else None
        return bool(present == local and data.get_attr("IFLA_VXLAN_LINK") == underlay)

    def _ensure_forwarding(self, index: int, peers: Iterable[VxlanPeer]) -> None:
        """Make the forwarding table of the VXLAN link contain exactly the peers."""
        present = {
            (str(entry.get("dst")), str(entry.get("lladdr")))
            for entry in self._netlink.fdb("dump", ifindex=index)
            if entry.get("dst") and entry["ifindex"] == index
        }
        desired = {(peer.address, peer.hardware) for peer in peers}
        for address, hardware in present - desired:
            self._netlink.fdb("del", ifindex=index, lladdr=hardware, dst=address)
        for address, hardware in desired - present:
            self._netlink.fdb("append", ifindex=index, lladdr=hardware, dst=address)

    def _ensure_wireguard(self, plan: MeshPlan, local: Interface, private_key: str) -> None:
        from pyroute2 import WireGuard

        name = self._names[WIREGUARD]
        mtu = tunnel_mtu(WIREGUARD, self.underlay_mtu(str(local.ip)), local.version)
        if not _index(name):
            self._netlink.link("add", ifname=name, kind=WIREGUARD)
        _set_loose_reverse_path(name)
        with contextlib.closing(WireGuard()) as device:
            device.set(name, private_key=private_key, listen_port=self._wireguard_port)
            present = _wireguard_keys(device.info(name))
            for public_key in present - {peer.public_key for peer in plan.wireguard_peers}:
                device.set(name, peer={"public_key": public_key, "remove": True})
            for peer in plan.wireguard_peers:
                device.set(name, peer=wireguard_settings(peer.public_key, peer.endpoint, peer.allowed))
        self._netlink.link("set", index=_index(name), mtu=mtu, state="up")
        self._ensure_addresses(_index(name), plan.tunnel_addresses)

    def _ensure_addresses(self, index: int, desired: Iterable[str]) -> None:
        present = {
            f"{item.get('address')}/{item['prefixlen']}"
            for item in self._netlink.get_addr(index=index)
            if not str(item.get("address")).startswith("fe80:")
        }
        for address in present - set(desired):
            self._netlink.addr("del", index=index, address=address)
        for address in set(desired) - present:
            self._netlink.addr("add", index=index, address=address)

    def _delete_link(self, name: str) -> None:
        if index := _index(name):
            self._netlink.link("del", index=index)

    def _index_of(self, address: str) -> int:
        for item in self._netlink.get_addr():
            if item.get("address") == address:
                return int(item["index"])
        raise MeshError(f"no interface of this machine has the address {address}")


def has_leftovers(identity: str) -> bool:
    """Whether the network namespace of this thread has routes or links of the cluster.

    It is found out without a netlink socket, whose library takes a while to load.
    """
    names = {link_name(backend, identity) for backend in (VXLAN, WIREGUARD)}
    if any(name in names for _, name in socket.if_nameindex()):
        return True
    metric = route_metric(identity)
    return any(
        int(line.split()[column], base) == metric
        for file, column, base in (("route", 6, 10), ("ipv6_route", 5, 16))
        for line in _lines(Path("/proc/thread-self/net", file))
        if not line.startswith("Iface")
    )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def wireguard_settings(public_key: str, endpoint: str, allowed: Iterable[str]) -> dict[str, Any]:
    """Return the settings of a peer in the form of pyroute2. Pure."""
    host, _, port = endpoint.rpartition(":")
    return {
        "public_key": public_key,
        "endpoint_addr": host.strip("[]"),
        "endpoint_port": int(port),
        "persistent_keepalive": _KEEPALIVE_S,
        "allowed_ips": list(allowed),
        "replace_allowed_ips": True,
    }


def _wireguard_keys(messages: Iterable[Any]) -> set[str]:
    keys = set()
    for message in messages:
        for peer in message.get("WGDEVICE_A_PEERS") or ():
            key = peer.get("WGPEER_A_PUBLIC_KEY")
            keys.add(key.decode() if isinstance(key, bytes) else str(key))
    return keys


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
