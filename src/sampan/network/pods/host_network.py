"""The changes that a pod network makes to the machine, in the right order. For use by one thread."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from sampan.host.netlink.conntrack import ConntrackTable
from sampan.network.pods import rules, sysctls
from sampan.network.pods.addresses import Network, parse_cidrs
from sampan.network.pods.config import BridgeConfig, is_link_of, network_failure, table_for
from sampan.network.pods.firewall import ForwardRules
from sampan.network.pods.frame_rules import FrameRules
from sampan.network.pods.frame_table import SourceAddress, frame_table_for, source_addresses
from sampan.network.pods.links import PodLinks, index_of, shaper_of
from sampan.network.pods.nft import NftChange, RuleTransactions, list_rules, nft_program, run_nft
from sampan.network.pods.records import PodNetworkRecord
from sampan.network.pods.rules import SetElement

log = logging.getLogger(__name__)

_DEFAULT_MTU = 1500
_SIOCGIFMTU = 0x8921
_MTU_REQUEST = struct.Struct("16si12x")
_CAPABILITIES = {12: "CAP_NET_ADMIN", 21: "CAP_SYS_ADMIN"}
_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def unsupported_reason() -> str:
    """Return why this machine cannot have a pod network, or an empty string if it can."""
    if not os.path.exists("/proc/self/ns/net"):
        return "the pod network needs Linux"
    effective = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    capabilities = int(effective.split()[1], 16)
    if missing := [name for bit, name in _CAPABILITIES.items() if not capabilities >> bit & 1]:
        return f"the pod network needs root ({' and '.join(missing)})"
    if nft_program() is None:
        return (
            "the pod network needs the program nft, which is not installed: install nftables (apt-get install nftables)"
        )
    return ""


def default_route_mtu() -> int:
    """Return the MTU of the link of the default route, or that of Ethernet if there is none."""
    routes = (line.split() for line in _lines("/proc/thread-self/net/route")[1:])
    names = [columns[0] for columns in routes if columns[1] == columns[7] == "00000000"]
    ipv6_routes = (line.split() for line in _lines("/proc/thread-self/net/ipv6_route"))
    names += [columns[9] for columns in ipv6_routes if columns[1] == "00" and columns[9] != "lo"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as link:
        for name in names:
            return int(_MTU_REQUEST.unpack(fcntl.ioctl(link, _SIOCGIFMTU, _MTU_REQUEST.pack(name.encode(), 0)))[1])
    return _DEFAULT_MTU


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if os.path.exists(path) else []


class HostNetwork:
    """Applies the network to the machine. `networks`, `elements` and `sources` return the current pod CIDRs, elements
    of maps, and addresses to which pods are held."""

    def __init__(
        self,
        *,
        config: BridgeConfig,
        owner: Path,
        networks: Callable[[], Sequence[Network]],
        elements: Callable[[], Iterable[SetElement]],
        sources: Callable[[], Iterable[SourceAddress]],
        names_links: bool = False,
    ) -> None:
        self._config, self._owner, self._networks, self._elements = config, owner, networks, elements
        self._cluster = networks_of(config.cluster_cidrs)
        self._transactions = RuleTransactions(self._render_table)
        self._forward_rules = ForwardRules(config.bridge)
        self._frame_rules = FrameRules(config.bridge, sources, names_links=names_links)
        self._leaving: deque[str] = deque()
        self._links: PodLinks | None = None
        self._ready_for: Sequence[Network] = ()
        self._sees_bridged = True

    def close(self) -> None:
        self._frame_rules.close()
        if self._links is not None:
            self._links.close()
            self._links = None

    def has_leftovers(self) -> bool:
        bridge = self._config.bridge
        return any(name == bridge or is_link_of(bridge, name) for _, name in socket.if_nameindex())

    def add(self, text: str) -> NftChange:
        return self._transactions.add(text)

    # -- pods --------------------------------------------------------------------------------------------------------

    def connect(self, record: PodNetworkRecord, change: NftChange | None) -> None:
        """Connect a pod. It is held to its addresses before its link is up."""
        self.set_up()
        self._frame_rules.admit(source_addresses(record))
        self._open().connect(record)
        if change is not None:
            self._transactions.commit(change)
            self._forget_flows(record)

    def admit(self, sources: Iterable[SourceAddress]) -> None:
        """Hold links that others have connected to their addresses."""
        self._frame_rules.admit(sources)

    def withdraw(self, sources: Iterable[SourceAddress]) -> None:
        self._frame_rules.withdraw(sources)

    def schedule_deletion(self, link: str) -> None:
        """Schedule the deletion of a link with the next `disconnect`. May be called from any thread."""
        self._leaving.append(link)

    def disconnect(self, record: PodNetworkRecord, change: NftChange | None) -> None:
        if change is not None:
            self._transactions.commit(change)
            self._forget_flows(record)
        self._frame_rules.withdraw(source_addresses(record))
        links = {record.link}
        while self._leaving:
            links.add(self._leaving.popleft())
        if present := sorted(link for link in links if index_of(link) or index_of(shaper_of(link))):
            self._open().delete(*present)

    def _forget_flows(self, record: PodNetworkRecord) -> None:
        if ports := {port.host_port for port in record.ports if port.protocol == "udp"}:
            forget_udp(ports, self._open().local_addresses())

    # -- whole network -----------------------------------------------------------------------------------------------

    def set_up(self) -> None:
        """Create bridge, sysctls and rules, unless they are already set up for these networks."""
        networks = tuple(self._networks())
        if networks == self._ready_for:
            return
        if error := unsupported_reason():
            raise network_failure(error)
        sysctls.enable_host_forwarding({network.version for network in networks})
        has_bridge_filter = sysctls.enable_bridge_netfilter()
        self._open().ensure_bridge(networks, self._config.mtu)
        router = "" if has_bridge_filter else self._open().hardware_address()
        self._sees_bridged = self._frame_rules.install(router) or has_bridge_filter
        self._open().ensure_members()
        run_nft("-f", "-", text=self._render_table())
        self._forward_rules.ensure(list_rules("chains"))
        self._ready_for = networks

    def check(self) -> None:
        """Restore bridge and rules if other programs have removed them."""
        if not self._ready_for:
            return
        chains = list_rules("chains")
        tables = {entry["chain"]["table"] for entry in chains["nftables"] if "chain" in entry}
        bridge = self._config.bridge
        required = {table_for(bridge), *([frame_table_for(bridge)] if self._frame_rules.is_installed else [])}
        if not index_of(bridge) or not required <= tables:
            log.warning(
                "bridge or nftables rules of %s were removed by another program; creating them again",
                self._config.bridge,
            )
            self._ready_for = ()
            self.set_up()
        else:
            self._forward_rules.ensure(chains)

    def take_over(self, links: Sequence[str]) -> None:
        """Take over the network of a previous run with the links of existing pods, or remove it if there are none."""
        if links and not self._belongs_to_another_node():
            self._clear(links)
            self.set_up()
        else:
            self.remove_all()

    def _clear(self, links: Sequence[str]) -> None:
        """Delete all pod links of this bridge except these."""
        link_names = set(links)
        names = [name for _, name in socket.if_nameindex()]
        link_names |= {shaper_of(link) for link in link_names}
        bridge = self._config.bridge
        stale = [
            name
            for name in names
            if (is_link_of(bridge, name) or name.startswith(shaper_of(f"{bridge}-"))) and name not in link_names
        ]
        if stale:
            log.info("removed network links of deleted pods: %s", ", ".join(stale))
            self._open().delete(*stale)

    def remove_all(self) -> None:
        self._ready_for = ()
        if self._belongs_to_another_node():
            log.warning("bridge %s belongs to another node and is not removed", self._config.bridge)
            return
        self._clear(())
        if index_of(self._config.bridge):
            self._open().delete(self._config.bridge)
        if nft_program() is not None:
            run_nft("-f", "-", text=rules.removal(self._config.bridge))
            self._frame_rules.remove()
            self._forward_rules.remove()

    def _belongs_to_another_node(self) -> bool:
        return bool(index_of(self._config.bridge) and self._open().describe_other_owner())

    def _render_table(self) -> str:
        ruleset = rules.PodNetworkRules(
            bridge=self._config.bridge,
            pods=self._networks(),
            cluster=self._cluster,
            sees_bridged=self._sees_bridged,
        )
        return rules.table_text(ruleset, self._elements())

    def _open(self) -> PodLinks:
        if self._links is None:
            self._links = PodLinks(self._config.bridge, self._owner)
        return self._links


def networks_of(cidrs: Sequence[str]) -> list[Network]:
    """Return the networks of these CIDRs. Unlike the pod CIDRs of a node, there may be several per IP family."""
    return [network for cidr in cidrs for network in parse_cidrs([cidr])]


def forget_udp(ports: Collection[int], local: Collection[str]) -> None:
    """Delete the conntrack entries of flows to these ports on these addresses of the node.

    A client that keeps sending would otherwise always reach the destination of its first packet: a deleted pod, or the
    node itself if the pod did not have the host port yet.
    """
    for family in _FAMILIES:
        table = ConntrackTable(family)
        try:
            flows = table.udp_flows()
            table.delete(flow for flow in flows if flow.destination_port in ports and flow.destination in local)
        except OSError as error:
            listed = ", ".join(map(str, sorted(ports)))
            log.warning("cannot delete conntrack entries of UDP ports %s: %s", listed, error)
