"""The changes that the nodes of a cluster make to the machine, in the right order. For use by one thread."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface, ip_network
from pathlib import Path

from sampan.host.linux.network_namespace import (
    NetworkNamespace,
    check_new_network,
    create_network,
    is_network,
    remove_network,
    run_in_network,
)
from sampan.host.netlink.netlink_socket import NetlinkSocket
from sampan.host.netlink.routing import (
    LinkInfo,
    encode_address,
    encode_alias,
    encode_drop_rule,
    encode_link_creation,
    encode_link_deletion,
    encode_link_up,
    encode_route,
    encode_veth_creation,
    list_links,
    open_route_socket,
)
from sampan.network.bridge_marks import alias_for, is_alias_of
from sampan.network.nodes import addresses
from sampan.network.nodes.addresses import (
    NoNodeAddressLeft,
    bridge_of_nodes,
    named_namespace,
    namespace_file,
    strip_prefix_length,
    table_of_nodes,
)
from sampan.network.nodes.attachment import NodeAttachment
from sampan.network.nodes.routes import RouteTable
from sampan.network.pods import sysctls
from sampan.network.pods.config import hardware_for, is_link_of, link_for
from sampan.network.pods.firewall import ForwardRules
from sampan.network.pods.host_network import default_route_mtu
from sampan.network.pods.host_network import unsupported_reason as pods_unsupported_reason
from sampan.network.pods.links import index_of
from sampan.network.pods.nft import list_rules, nft_program, run_nft
from sampan.network.routes import default_route, unreachable_route
from sampan.runtimes.contract import RuntimeFailure

log = logging.getLogger(__name__)

NODE_LINK = "eth0"
_FAMILIES = {4: "ip", 6: "ip6"}
_DROP_RULE_PRIORITY = 83


class NodeNetworkError(Exception):
    """The machine refused a change of the nodes' network."""


def unsupported_reason() -> str:
    """Return why nodes of this machine cannot have network namespaces of their own, or an empty string if they can."""
    if reason := pods_unsupported_reason():
        return reason
    try:
        check_new_network()
    except OSError as error:
        return f"this process may not {error.strerror}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBridgeConfig:
    root: Path
    """The directory with the directories of the nodes, from which the names of the cluster's links are derived."""
    node_cidrs: Sequence[str]
    """The node CIDRs, at most one per IP family, the primary one first. The first addresses are the machine's."""
    cluster_cidrs: Sequence[str] = ()
    """The pod CIDRs of the cluster, to which traffic is not masqueraded."""
    load_balancer_cidrs: Sequence[str] = ()
    """The parts of the node CIDRs with the addresses of load balancers. A node drops packets to an address that its
    kube-proxy does not translate yet, so that clients send them again; otherwise the node would look for the address on
    the bridge, and clients would give up after its error."""
    mtu: int = 0
    """The MTU; 0 means that of the link of the default route."""


@dataclass(slots=True, kw_only=True)
class _AttachedNode:
    attachment: NodeAttachment
    netlink: NetlinkSocket
    routes: RouteTable


class HostBridge:
    """The bridge of a cluster on this machine, and the nodes that are attached to it."""

    def __init__(self, config: NodeBridgeConfig) -> None:
        self._config = config
        self._bridge = bridge_of_nodes(config.root)
        self._host_addresses = addresses.host_addresses(config.node_cidrs)
        self._versions = {ip_interface(address).version for address in self._host_addresses}
        self._forward_rules = ForwardRules(self._bridge)
        self._nodes: dict[str, _AttachedNode] = {}
        self._netlink: NetlinkSocket | None = None
        self._routes: RouteTable | None = None
        self._mtu = 0

    # -- nodes -------------------------------------------------------------------------------------------------------

    def attach(self, node: str) -> NodeAttachment:
        if (attached := self._nodes.get(node)) is not None:
            return attached.attachment
        with _errors(f"network of node {node}"):
            if self._routes is None:
                self._set_up()
            interfaces = addresses.node_addresses(self._config.root, node, self._config.node_cidrs)
            namespace = self._ensure_namespace(node)
            self._ensure_pair(node, namespace, interfaces[0])
            run_in_network(namespace, lambda: self._configure(interfaces))
            attachment = NodeAttachment(
                node=node,
                directory=self._config.root / node,
                namespace=NetworkNamespace(namespace),
                addresses=[strip_prefix_length(interface) for interface in interfaces],
                host_addresses=[strip_prefix_length(interface) for interface in self._host_addresses],
            )
            netlink = run_in_network(namespace, open_route_socket)
            index = run_in_network(namespace, lambda: index_of(NODE_LINK))
            self._nodes[node] = _AttachedNode(attachment=attachment, netlink=netlink, routes=RouteTable(netlink, index))
            return attachment

    def _ensure_namespace(self, node: str) -> Path:
        file, name = namespace_file(self._config.root / node), named_namespace(self._config.root, node)
        if not is_network(file):
            create_network(file)
        with contextlib.suppress(OSError):  # The link is only for people who use `ip netns`.
            name.parent.mkdir(parents=True, exist_ok=True)
            name.unlink(missing_ok=True)
            name.symlink_to(file)
        return file

    def _ensure_pair(self, node: str, namespace: Path, address: str) -> None:
        """Create the veth pair: one end on the bridge, the other as eth0 in the node's network namespace."""
        name = link_for(self._bridge, node)
        if index_of(name) and run_in_network(namespace, lambda: index_of(NODE_LINK)):
            return
        self._delete(name)
        file = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            pair = encode_veth_creation(
                name,
                bridge=index_of(self._bridge),
                mtu=self._mtu,
                peer=NODE_LINK,
                namespace=file,
                hardware=hardware_for(address),
            )
            self._open().send(pair)
        finally:
            os.close(file)

    def _configure(self, interfaces: Sequence[str]) -> None:
        """Configure eth0 and routing. Must run inside the network namespace of the node."""
        sysctls.configure_link(NODE_LINK, self._versions)
        sysctls.enable_forwarding(self._versions)
        index = index_of(NODE_LINK)
        messages = [encode_link_up(index)]
        for interface, gateway in zip(interfaces, self._host_addresses, strict=True):
            messages += [
                encode_address(index, interface),
                encode_route(default_route(index, strip_prefix_length(gateway))),
            ]
        messages += [
            encode_route(unreachable_route(cidr)) for cidr in self._config.cluster_cidrs if self._has_family(cidr)
        ]
        with open_route_socket() as netlink:
            netlink.send(*messages)
            for cidr in self._config.load_balancer_cidrs:
                with _present_rules():
                    netlink.send(encode_drop_rule(NODE_LINK, cidr, priority=_DROP_RULE_PRIORITY))

    def _has_family(self, cidr: str) -> bool:
        return ip_interface(cidr).version in self._versions

    def detach(self, node: str) -> None:
        if (attached := self._nodes.pop(node, None)) is not None:
            attached.netlink.close()
        with _errors(f"network of node {node}"):
            self._delete(link_for(self._bridge, node))
            _remove_namespace(self._config.root, node)

    # -- routes ------------------------------------------------------------------------------------------------------

    def route(self, routes: Mapping[str, Mapping[str, str]], distant: Sequence[str] = ()) -> None:
        """Route the pod CIDRs of the nodes, on the machine and in the namespace of each node. The nodes reach those of
        other machines (`distant`) through this machine."""
        if self._routes is None:
            return
        with _errors("routes to pod CIDRs"):
            self._routes.apply(_merge_routes(routes))
            for name, node in self._nodes.items():
                others = _merge_routes({other: gateways for other, gateways in routes.items() if other != name})
                node.routes.apply({**self._routes_through_machine(distant), **others})

    def _routes_through_machine(self, cidrs: Sequence[str]) -> dict[str, str]:
        gateways = {ip_interface(address).version: strip_prefix_length(address) for address in self._host_addresses}
        versions = {cidr: ip_interface(cidr).version for cidr in cidrs}
        return {cidr: gateways[version] for cidr, version in versions.items() if version in gateways}

    # -- the machine -------------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        """Create the bridge, sysctls and rules of the machine."""
        sysctls.enable_host_forwarding(self._versions)
        info = self._bridge_info()
        if info is not None and (info.kind != "bridge" or self._has_other_owner(info.alias)):
            raise NodeNetworkError(f"the link {self._bridge} belongs to {info.alias or info.kind!r}")
        if info is None:
            mtu = self._config.mtu or default_route_mtu()
            hardware = hardware_for(self._host_addresses[0])
            self._open().send(encode_link_creation(self._bridge, "bridge", mtu=mtu, hardware=hardware))
        index = index_of(self._bridge)
        self._mtu = info.mtu if info is not None else mtu
        sysctls.configure_link(self._bridge, self._versions)
        addresses = (encode_address(index, address) for address in self._host_addresses)
        self._open().send(encode_alias(index, alias_for(self._config.root)), encode_link_up(index), *addresses)
        run_nft("-f", "-", text=_table_text(self._bridge, self._config.node_cidrs, self._config.cluster_cidrs))
        self._forward_rules.ensure(list_rules("chains"))
        self._routes = RouteTable(self._open(), index)

    def check(self) -> None:
        """Restore the rules of the machine if another program has removed them."""
        if self._routes is None:
            return
        with _errors("rules of the nodes' bridge"):
            chains = list_rules("chains")
            tables = {entry["chain"]["table"] for entry in chains["nftables"] if "chain" in entry}
            if table_of_nodes(self._bridge) not in tables:
                log.warning("the nftables rules of %s were removed by another program; restoring them", self._bridge)
                text = _table_text(self._bridge, self._config.node_cidrs, self._config.cluster_cidrs)
                run_nft("-f", "-", text=text)
            self._forward_rules.ensure(chains)

    def close(self) -> None:
        """Release resources of this process, and remove the bridge unless nodes are still attached."""
        if self._routes is not None and not self._nodes:
            self._routes = None
            with _errors(f"bridge {self._bridge}"):
                remove_bridge(self._config.root)
        for node in self._nodes.values():
            node.netlink.close()
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None

    def _bridge_info(self) -> LinkInfo | None:
        return next((info for info in list_links(self._open()) if info.name == self._bridge), None)

    def _has_other_owner(self, alias: str) -> bool:
        return bool(alias) and not is_alias_of(alias, self._config.root)

    def _delete(self, link: str) -> None:
        if index := index_of(link):
            self._open().send(encode_link_deletion(index))

    def _open(self) -> NetlinkSocket:
        if self._netlink is None:
            self._netlink = open_route_socket()
        return self._netlink


def remove_bridge(root: Path) -> None:
    """Remove all changes that the nodes in a directory have made to this machine: namespaces, links, routes and rules.

    Raise NodeNetworkError if the machine refuses a change.
    """
    bridge = bridge_of_nodes(root)
    if not index_of(bridge) and not any(is_network(namespace_file(directory)) for directory in _directories(root)):
        return
    with _errors(f"bridge {bridge}"):
        for directory in _directories(root):
            _remove_namespace(root, directory.name)
        with open_route_socket() as netlink:
            aliases = {info.alias for info in list_links(netlink) if info.name == bridge} - {""}
            if not all(is_alias_of(alias, root) for alias in aliases):
                log.warning("bridge %s belongs to another cluster and is not removed", bridge)
                return
            for index, name in socket.if_nameindex():
                if is_link_of(bridge, name) or name == bridge:
                    with contextlib.suppress(OSError):
                        netlink.send(encode_link_deletion(index))
        if nft_program() is not None:
            run_nft("-f", "-", text=_removal_text(bridge))
            ForwardRules(bridge).remove()


def _directories(root: Path) -> list[Path]:
    """Return the directories of the nodes."""
    return [path for path in root.iterdir() if path.is_dir()] if root.is_dir() else []


def _remove_namespace(root: Path, node: str) -> None:
    name = named_namespace(root, node)
    if name.is_symlink():
        name.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # The directory may have the namespaces of other nodes.
            name.parent.rmdir()
    remove_network(namespace_file(root / node))


def _merge_routes(routes: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {destination: gateway for gateways in routes.values() for destination, gateway in gateways.items()}


@contextlib.contextmanager
def _present_rules() -> Iterator[None]:
    """Ignore the errors that a rule exists already, or that the kernel does not support rules."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.EOPNOTSUPP):
            raise


@contextlib.contextmanager
def _errors(action: str) -> Iterator[None]:
    """Translate errors of the operating system to NodeNetworkError with the name of the operation."""
    try:
        yield
    except NoNodeAddressLeft as error:
        raise NodeNetworkError(f"{action}: {error}") from None
    except RuntimeFailure as error:
        raise NodeNetworkError(f"{action}: {error.message}") from error
    except OSError as error:
        raise NodeNetworkError(f"{action}: {error.strerror or errno.errorcode.get(error.errno or 0, error)}") from error


def _table_text(bridge: str, node_cidrs: Sequence[str], cluster_cidrs: Sequence[str]) -> str:
    """Return the text for `nft -f -` that replaces the nftables table of the machine.

    The table masquerades packets that nodes and their pods send to other machines.
    """
    table = table_of_nodes(bridge)
    lines = [f"add table inet {table}", f"delete table inet {table}", f"table inet {table} {{"]
    lines += ["  chain postrouting {", "    type nat hook postrouting priority 100; policy accept;"]
    for cidr in node_cidrs:
        version = ip_network(cidr).version
        ip = _FAMILIES[version]
        inside = sorted({cidr, *(other for other in cluster_cidrs if ip_network(other).version == version)})
        source, destinations = f"{ip} saddr {{ {', '.join(inside)} }}", f"{ip} daddr != {{ {', '.join(inside)} }}"
        lines.append(f'    oifname != "{bridge}" {source} {destinations} masquerade fully-random')
    return "\n".join([*lines, "  }", "}", ""])


def _removal_text(bridge: str) -> str:
    table = table_of_nodes(bridge)
    return f"add table inet {table}\ndelete table inet {table}\n"
