"""Links, addresses, routes and bandwidth limits through netlink. For use by one thread, with one socket for all pods.

As with the CNI plugin `bandwidth`, a token bucket on the host end of the veth pair limits the traffic that the pod
receives. Traffic that the pod sends arrives at the host end, where it can only be redirected. It goes to an
intermediate device (ifb), which has another token bucket. A pod with CAP_NET_ADMIN can change neither.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator, Sequence
from ipaddress import ip_interface, ip_network
from pathlib import Path

from sampan.host.linux.network_namespace import run_in_network
from sampan.host.netlink.routing import (
    encode_address,
    encode_address_deletion,
    encode_alias,
    encode_bridge_membership,
    encode_group_assignment,
    encode_group_deletion,
    encode_hairpin_mode,
    encode_link_creation,
    encode_link_deletion,
    encode_link_up,
    encode_reserved_learning_off,
    encode_route,
    encode_veth_creation,
    get_link,
    list_addresses,
    list_routes,
    open_route_socket,
)
from sampan.host.netlink.traffic_control import encode_redirection, encode_shaper_creation, encode_token_bucket
from sampan.network.bridge_marks import alias_for, is_alias_of
from sampan.network.pods import sysctls
from sampan.network.pods.addresses import Network, gateway
from sampan.network.pods.config import hardware_for, is_link_of, network_failure
from sampan.network.pods.records import PodNetworkRecord
from sampan.network.routes import default_route

POD_LINK = "eth0"
_DEFAULT_MTU = 1500
_LEAVING = 0x736D706E
"""The link group of links that are being deleted."""


def shaper_of(link: str) -> str:
    """Return the name of the intermediate device of a pod's link."""
    return link.replace("-", "~")


class PodLinks:
    def __init__(self, bridge: str, owner: Path) -> None:
        self._bridge, self._owner = bridge, owner
        self._netlink = open_route_socket()
        self._index, self._mtu = 0, _DEFAULT_MTU

    def close(self) -> None:
        self._netlink.close()

    def default_route_mtu(self) -> int:
        for family in (socket.AF_INET, socket.AF_INET6):
            for route in list_routes(self._netlink, family):
                if route.destination.endswith("/0") and route.link:
                    return get_link(self._netlink, route.link).mtu
        return _DEFAULT_MTU

    # -- bridge ------------------------------------------------------------------------------------------------------

    def ensure_bridge(self, networks: Sequence[Network], mtu: int) -> None:
        with _error_text(f"bridge {self._bridge}"):
            self._check_overlaps(networks)
            self._index = index_of(self._bridge) or self._make_bridge(networks, mtu or self.default_route_mtu())
            if owner := self.describe_other_owner():
                raise network_failure(f"the link {self._bridge} {owner}: choose another bridge name for this node")
            self._mtu = get_link(self._netlink, self._index).mtu
            sysctls.configure_bridge(self._bridge, {network.version for network in networks})
            self._netlink.send(encode_reserved_learning_off(self._index), encode_link_up(self._index))
            self._ensure_gateways({gateway(network) for network in networks})

    def hardware_address(self) -> str:
        """Return the hardware address of the bridge."""
        return get_link(self._netlink, self._index).hardware

    def ensure_members(self) -> None:
        """Reattach pod links to the bridge if it was recreated."""
        with _error_text(f"links of {self._bridge}"):
            for index, name in socket.if_nameindex():
                if is_link_of(self._bridge, name) and get_link(self._netlink, index).master != self._index:
                    self._netlink.send(encode_bridge_membership(index, self._index), encode_hairpin_mode(index))

    def _make_bridge(self, networks: Sequence[Network], mtu: int) -> int:
        hardware = hardware_for(gateway(networks[0]))
        self._netlink.send(encode_link_creation(self._bridge, "bridge", mtu=mtu, hardware=hardware))
        index = index_of(self._bridge)
        self._netlink.send(encode_alias(index, alias_for(self._owner)))
        return index

    def describe_other_owner(self) -> str:
        """Return the owner of the existing link of that name, or an empty string if it is this node's bridge."""
        link = get_link(self._netlink, index_of(self._bridge))
        if link.alias and not is_alias_of(link.alias, self._owner):
            return f"belongs to {link.alias!r}"
        return "" if link.kind == "bridge" else f"is a {link.kind or 'link'} that Sampan did not create"

    def _check_overlaps(self, networks: Sequence[Network]) -> None:
        own = index_of(self._bridge)
        for address in list_addresses(self._netlink):
            if address.index == own:
                continue
            other = address.interface.network
            for network in networks:
                if other == ip_network(network.network_address):
                    continue  # the address of this machine in tunnels to others, which no pod gets
                if network.version == other.version and network.overlaps(other):
                    name = socket.if_indextoname(address.index)
                    raise network_failure(
                        f"podCIDR {network} overlaps with {other} of {name}: choose another range for pods"
                    )

    def _ensure_gateways(self, desired: set[str]) -> None:
        present = {
            str(address.interface)
            for address in list_addresses(self._netlink)
            if address.index == self._index and not address.interface.is_link_local
        }
        self._netlink.send(*(encode_address_deletion(self._index, address) for address in sorted(present - desired)))
        self._netlink.send(*(encode_address(self._index, address) for address in sorted(desired - present)))

    # -- pods --------------------------------------------------------------------------------------------------------

    def connect(self, record: PodNetworkRecord) -> None:
        """Create the veth pair: one end on the bridge, the other as eth0 in the pod's network namespace.

        An existing or incomplete pair is completed.
        """
        namespace = Path(record.namespace)
        with _error_text(f"network of pod {record.uid}"):
            if not (index_of(record.link) and run_in_network(namespace, lambda: index_of(POD_LINK))):
                self.delete(record.link)
                self._make_pair(record, namespace)
            self._netlink.send(encode_hairpin_mode(index_of(record.link)))
            self._limit(record)
            run_in_network(namespace, lambda: _configure(record))

    def _limit(self, record: PodNetworkRecord) -> None:
        """Limit the bandwidth of a pod, before its end of the pair is up."""
        index = index_of(record.link)
        if record.ingress_bits_per_s:
            self._netlink.send(encode_token_bucket(index, record.ingress_bits_per_s))
        if record.egress_bits_per_s:
            name = shaper_of(record.link)
            if not (shaper := index_of(name)):
                self._netlink.send(encode_shaper_creation(name, mtu=self._mtu))
                shaper = index_of(name)
                self._netlink.send(*encode_redirection(index, shaper))
            self._netlink.send(encode_token_bucket(shaper, record.egress_bits_per_s))

    def _make_pair(self, record: PodNetworkRecord, namespace: Path) -> None:
        file = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            pair = encode_veth_creation(
                record.link,
                bridge=self._index,
                mtu=self._mtu,
                peer=POD_LINK,
                namespace=file,
                hardware=hardware_for(record.addresses[0]),
            )
            self._netlink.send(pair)
        finally:
            os.close(file)

    def delete(self, *links: str) -> None:
        """Delete those of the scheduled links that exist, with their intermediate devices.

        Several links are deleted as one group, because each deletion blocks for tens of milliseconds.
        """
        names = [name for link in links for name in (link, shaper_of(link))]
        while indexes := [index for name in dict.fromkeys(names) if (index := index_of(name))]:
            messages = [encode_link_deletion(indexes[0])]
            if len(indexes) > 1:
                messages = [
                    *(encode_group_assignment(index, _LEAVING) for index in indexes),
                    encode_group_deletion(_LEAVING),
                ]
            # The kernel deletes a link itself when the namespace of its peer has ended. Then the other links remain.
            with _error_text(f"links {', '.join(links)}", unless=errno.ENODEV):
                self._netlink.send(*messages)
                return

    def local_addresses(self) -> set[str]:
        with _error_text("the node's addresses"):
            return {str(address.interface.ip) for address in list_addresses(self._netlink)}


def _configure(record: PodNetworkRecord) -> None:
    """Configure eth0. Must run inside the pod's network namespace."""
    sysctls.configure_link(POD_LINK, {ip_interface(cidr).version for cidr in record.addresses})
    index = index_of(POD_LINK)
    messages = [encode_link_up(index)]
    for address in record.addresses:
        next_hop = gateway(ip_network(address, strict=False)).partition("/")[0]
        messages += [encode_address(index, address), encode_route(default_route(index, next_hop))]
    with open_route_socket() as netlink:
        netlink.send(*messages)


def index_of(link: str) -> int:
    """Return the interface index, or 0 if there is no such link."""
    try:
        return socket.if_nametoindex(link)
    except OSError:
        return 0


@contextlib.contextmanager
def _error_text(action: str, unless: int = 0) -> Iterator[None]:
    """Translate netlink and OS errors into failures that name the operation."""
    try:
        yield
    except OSError as error:
        if error.errno != unless:
            raise network_failure(f"{action}: {error}") from error
