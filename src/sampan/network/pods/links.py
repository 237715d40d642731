"""Links, addresses, routes and bandwidth limits through netlink. For use by one thread, with one socket for all pods.

As with the CNI plug-in `bandwidth`, a token bucket on the host end of the veth pair limits the traffic that the pod
receives. Traffic that the pod sends arrives at the host end, where it can only be redirected. It goes to an
intermediate device (ifb), which has another token bucket. A pod with CAP_NET_ADMIN can change neither.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path
from typing import Any

from sampan.host.linux.network_namespace import run_in_network
from sampan.network import netlink
from sampan.network.bridge_marks import alias_for, is_alias_of
from sampan.network.netlink import NetlinkMessage, attribute, link_body, number_attribute, text_attribute
from sampan.network.pods import sysctls
from sampan.network.pods.addresses import Network, gateway
from sampan.network.pods.config import hardware_for, is_link_of, network_failure
from sampan.network.pods.records import PodNetworkRecord

_NEW_LINK, _NEW_QDISC, _NEW_FILTER = 16, 36, 44
_CREATE, _REPLACE, _EXCLUSIVE = 0x400, 0x100, 0x200
_ROOT, _INGRESS, _INGRESS_HANDLE, _HANDLE = 0xFFFFFFFF, 0xFFFFFFF1, 0xFFFF0000, 0x10000
_UP = 1
_IFLA_LINKINFO, _INFO_KIND = 18, 1
_TCA_KIND, _TCA_OPTIONS = 1, 2
_TBF_PARAMETERS, _TBF_RATE64, _TBF_BURST = 1, 4, 6
_U32_SELECTOR, _U32_ACTIONS = 5, 7
_ACTION_KIND, _ACTION_OPTIONS, _MIRRED_PARAMETERS = 1, 2, 2
_STOLEN, _REDIRECT_TO_EGRESS = 4, 1
_ALL_PROTOCOLS = struct.unpack("=H", struct.pack("!H", 3))[0]
_MESSAGE = struct.Struct("=BxxxiIII")
"""struct tcmsg: family, index, handle, parent, info."""
_RATE = struct.Struct("=BBHhHI")
"""struct tc_ratespec: cell size, link layer, overhead, alignment, smallest packet, bytes per second."""
_LIMITS = struct.Struct("=III")
"""The end of struct tc_tbf_qopt: limit of the queue in bytes, depth of the bucket in ticks, packet size in ticks."""
_ETHERNET = 1
_BURST_S, _LATENCY_S = 0.05, 0.025
_SMALLEST_BURST = 3_200
"""A burst in bytes that has room for two packets, even if the rate is very low."""
POD_LINK = "eth0"
_DEFAULT_MTU = 1500
_LEAVING = 0x736D706E
"""The link group of links that are being deleted."""


def shaper_of(link: str) -> str:
    """Return the name of the intermediate device of a pod's link."""
    return link.replace("-", "~")


def encode_shaper_creation(name: str, *, mtu: int) -> NetlinkMessage:
    """Encode the creation of an intermediate device, which is brought up."""
    body = link_body(flags=_UP, name=name, mtu=mtu) + attribute(_IFLA_LINKINFO, text_attribute(_INFO_KIND, "ifb"))
    return NetlinkMessage(type=_NEW_LINK, body=body, flags=_CREATE | _EXCLUSIVE)


def encode_token_bucket(index: int, bits_per_s: int) -> NetlinkMessage:
    """Encode a token bucket that limits the traffic sent through a link. An existing token bucket is replaced."""
    rate = bits_per_s // 8
    burst = max(int(rate * _BURST_S), _SMALLEST_BURST)
    limit = min(int(rate * _LATENCY_S) + burst, 0xFFFFFFFF)
    parameters = _RATE.pack(0, _ETHERNET, 0, 0, 0, min(rate, 0xFFFFFFFF)) + bytes(_RATE.size)
    options = attribute(_TBF_PARAMETERS, parameters + _LIMITS.pack(limit, 0, 0))
    options += attribute(_TBF_RATE64, struct.pack("=Q", rate)) if rate > 0xFFFFFFFF else b""
    options += number_attribute(_TBF_BURST, min(burst, 0xFFFFFFFF))
    body = _MESSAGE.pack(0, index, _HANDLE, _ROOT, 0) + text_attribute(_TCA_KIND, "tbf")
    return NetlinkMessage(type=_NEW_QDISC, body=body + attribute(_TCA_OPTIONS, options), flags=_CREATE | _REPLACE)


def encode_redirection(index: int, shaper: int) -> list[NetlinkMessage]:
    """Encode the redirection of traffic that arrives at a link to its intermediate device.

    The link must not have a redirection yet.
    """
    queue = _MESSAGE.pack(0, index, _INGRESS_HANDLE, _INGRESS, 0) + text_attribute(_TCA_KIND, "ingress")
    every_packet = struct.pack("=BBBxHHhhI", 1, 0, 1, 0, 0, 0, 0, 0) + bytes(16)
    mirred = struct.pack("=IIiiiiI", 0, 0, _STOLEN, 0, 0, _REDIRECT_TO_EGRESS, shaper)
    action = text_attribute(_ACTION_KIND, "mirred")
    action += attribute(_ACTION_OPTIONS, attribute(_MIRRED_PARAMETERS, mirred))
    options = attribute(_U32_SELECTOR, every_packet) + attribute(_U32_ACTIONS, attribute(1, action))
    body = _MESSAGE.pack(0, index, 0, _INGRESS_HANDLE, 1 << 16 | _ALL_PROTOCOLS) + text_attribute(_TCA_KIND, "u32")
    return [
        NetlinkMessage(type=_NEW_QDISC, body=queue, flags=_CREATE | _EXCLUSIVE),
        NetlinkMessage(type=_NEW_FILTER, body=body + attribute(_TCA_OPTIONS, options), flags=_CREATE | _EXCLUSIVE),
    ]


class PodLinks:
    def __init__(self, bridge: str, owner: Path) -> None:
        from pyroute2 import IPRoute

        self._bridge, self._owner = bridge, owner
        self._netlink: Any = IPRoute()
        self._plain = netlink.open_socket()
        self._index, self._mtu = 0, _DEFAULT_MTU

    def close(self) -> None:
        self._netlink.close()
        self._plain.close()

    def default_route_mtu(self) -> int:
        for family in (socket.AF_INET, socket.AF_INET6):
            for route in self._netlink.get_default_routes(family=family):
                if (index := route.get("oif")) is not None:
                    return int(self._netlink.link("get", index=index)[0].get("mtu"))
        return _DEFAULT_MTU

    # -- bridge ------------------------------------------------------------------------------------------------------

    def ensure_bridge(self, networks: Sequence[Network], mtu: int) -> None:
        with _error_text(f"bridge {self._bridge}"):
            self._check_overlaps(networks)
            self._index = index_of(self._bridge) or self._make_bridge(networks, mtu or self.default_route_mtu())
            if owner := self.describe_other_owner():
                raise network_failure(f"the link {self._bridge} {owner}: choose another bridge name for this node")
            self._mtu = int(self._netlink.link("get", index=self._index)[0].get("mtu"))
            sysctls.configure_bridge(self._bridge, {network.version for network in networks})
            netlink.send_messages(self._plain, [netlink.encode_reserved_learning_off(self._index)])
            self._netlink.link("set", index=self._index, state="up")
            self._ensure_gateways({gateway(network) for network in networks})

    def hardware_address(self) -> str:
        """Return the hardware address of the bridge."""
        return str(self._netlink.link("get", index=self._index)[0].get("address"))

    def ensure_members(self) -> None:
        """Reattach pod links to the bridge if it was recreated."""
        with _error_text(f"links of {self._bridge}"):
            for index, name in socket.if_nameindex():
                if is_link_of(self._bridge, name):
                    link = self._netlink.link("get", index=index)[0]
                    if link.get("master") != self._index:
                        self._netlink.link("set", index=index, master=self._index, state="up")
                        netlink.send_messages(self._plain, [netlink.encode_hairpin_mode(index)])

    def _make_bridge(self, networks: Sequence[Network], mtu: int) -> int:
        hardware = hardware_for(gateway(networks[0]))
        self._netlink.link("add", ifname=self._bridge, kind="bridge", address=hardware, mtu=mtu)
        index = index_of(self._bridge)
        self._netlink.link("set", index=index, ifalias=alias_for(self._owner))
        return index

    def describe_other_owner(self) -> str:
        """Return the owner of the existing link of that name, or an empty string if it is this node's bridge."""
        link = self._netlink.link("get", index=index_of(self._bridge))[0]
        kind, owner = link.get(("linkinfo", "kind")), link.get("ifalias")
        if owner is not None and not is_alias_of(owner, self._owner):
            return f"belongs to {owner!r}"
        return "" if kind == "bridge" else f"is a {kind or 'link'} that Sampan did not create"

    def _check_overlaps(self, networks: Sequence[Network]) -> None:
        own = index_of(self._bridge)
        for address in self._netlink.get_addr():
            if address["index"] == own:
                continue
            other = ip_interface(f"{address.get('address')}/{address['prefixlen']}").network
            for network in networks:
                if other == ip_network(network.network_address):
                    continue  # the address of this machine in tunnels to others, which no pod gets
                if network.version == other.version and network.overlaps(other):
                    name = socket.if_indextoname(address["index"])
                    raise network_failure(
                        f"podCIDR {network} overlaps with {other} of {name}: choose another range for pods"
                    )

    def _ensure_gateways(self, desired: set[str]) -> None:
        present = {
            f"{ip_address(entry.get('address'))}/{entry['prefixlen']}"
            for entry in self._netlink.get_addr(index=self._index)
            if not ip_address(entry.get("address")).is_link_local
        }
        for address in sorted(present - desired):
            interface = ip_interface(address)
            self._netlink.addr(
                "del", index=self._index, address=str(interface.ip), prefixlen=interface.network.prefixlen
            )
        netlink.send_messages(
            self._plain, [netlink.encode_address(self._index, address) for address in sorted(desired - present)]
        )

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
            netlink.send_messages(self._plain, [netlink.encode_hairpin_mode(index_of(record.link))])
            self._limit(record)
            run_in_network(namespace, lambda: _configure(record))

    def _limit(self, record: PodNetworkRecord) -> None:
        """Limit the bandwidth of a pod, before its end of the pair is up."""
        index = index_of(record.link)
        if record.ingress_bits_per_s:
            netlink.send_messages(self._plain, [encode_token_bucket(index, record.ingress_bits_per_s)])
        if record.egress_bits_per_s:
            name = shaper_of(record.link)
            if not (shaper := index_of(name)):
                netlink.send_messages(self._plain, [encode_shaper_creation(name, mtu=self._mtu)])
                shaper = index_of(name)
                netlink.send_messages(self._plain, encode_redirection(index, shaper))
            netlink.send_messages(self._plain, [encode_token_bucket(shaper, record.egress_bits_per_s)])

    def _make_pair(self, record: PodNetworkRecord, namespace: Path) -> None:
        file = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            pair = netlink.encode_veth_creation(
                record.link,
                bridge=self._index,
                mtu=self._mtu,
                peer=POD_LINK,
                namespace=file,
                hardware=hardware_for(record.addresses[0]),
            )
            netlink.send_messages(self._plain, [pair])
        finally:
            os.close(file)

    def delete(self, *links: str) -> None:
        """Delete those of the scheduled links that exist, with their intermediate devices.

        Several links are deleted as one group, because each deletion blocks for tens of milliseconds.
        """
        names = [name for link in links for name in (link, shaper_of(link))]
        while indexes := [index for name in dict.fromkeys(names) if (index := index_of(name))]:
            messages = [netlink.encode_link_deletion(indexes[0])]
            if len(indexes) > 1:
                messages = [
                    *(netlink.encode_group_assignment(index, _LEAVING) for index in indexes),
                    netlink.encode_group_deletion(_LEAVING),
                ]
            # The kernel deletes a link itself when the namespace of its peer has ended. Then the other links remain.
            with _error_text(f"links {', '.join(links)}", unless=errno.ENODEV):
                netlink.send_messages(self._plain, messages)
                return

    def local_addresses(self) -> set[str]:
        with _error_text("the node's addresses"):
            return {entry.get("address") for entry in self._netlink.get_addr()}


def _configure(record: PodNetworkRecord) -> None:
    """Configure eth0. Must run inside the pod's network namespace."""
    sysctls.configure_link(POD_LINK, {ip_interface(cidr).version for cidr in record.addresses})
    index = index_of(POD_LINK)
    messages = [netlink.encode_link_up(index)]
    for address in record.addresses:
        next_hop = gateway(ip_network(address, strict=False)).partition("/")[0]
        messages += [netlink.encode_address(index, address), netlink.encode_default_route(index, next_hop)]
    with netlink.open_socket() as link:
        netlink.send_messages(link, messages)


def index_of(link: str) -> int:
    """Return the interface index, or 0 if there is no such link."""
    try:
        return socket.if_nametoindex(link)
    except OSError:
        return 0


@contextlib.contextmanager
def _error_text(what: str, unless: int = 0) -> Iterator[None]:
    """Translate netlink and OS errors into failures that name the operation."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except NetlinkError as error:
        if error.code != unless:
            raise network_failure(f"{what}: {os.strerror(error.code)}") from error
    except OSError as error:
        if error.errno != unless:
            raise network_failure(f"{what}: {error}") from error
