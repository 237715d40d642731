"""Nodes with network namespaces of their own, with real packets. The machine is a namespace of the lab."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from pathlib import Path
from select import select

import pytest

from sampan.api.types.core_v1 import Node, NodeAddress, NodeSpec, NodeStatus
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.clock import VirtualClock
from sampan.host.linux.network_namespace import NetworkNamespace, is_network, run_in_network
from sampan.host.netlink.routing import open_route_socket
from sampan.network.load_balancer.routes import route_addresses
from sampan.network.nodes import NodeAttachment, NodeBridge, NodeBridgeConfig, bridge_of_nodes, remove_bridge
from sampan.network.nodes.addresses import host_addresses, ipv6_cidr, named_namespace, node_addresses
from sampan.network.nodes.host_bridge import NodeNetworkError
from sampan.network.pods import BridgeConfig, BridgeNetwork
from sampan.network.pods.nft import run_nft
from sampan.network.routes import POD_CIDR_PROTOCOL, gateways_through
from tests.network.pods.lab import OUTSIDE_IP, OUTSIDE_IP6, Lab, listening, needs_network, observe_source

pytestmark = needs_network

CIDRS = ["172.30.0.0/22", "fd00:77::/64"]
CLUSTER = ["10.77.0.0/16", "fd00:88::/48"]


def bridge(root: Path, cidrs: Sequence[str] = CIDRS) -> NodeBridge:
    config = NodeBridgeConfig(root=root, node_cidrs=cidrs, cluster_cidrs=CLUSTER)
    return NodeBridge(config=config, clock=VirtualClock())


def node(attachment: NodeAttachment, *cidrs: str) -> Node:
    addresses = [NodeAddress(type="InternalIP", address=address) for address in attachment.addresses]
    return Node(
        metadata=ObjectMeta(name=attachment.node),
        spec=NodeSpec(podCIDRs=list(cidrs)),
        status=NodeStatus(addresses=addresses),
    )


def pod_network(attachment: NodeAttachment, *cidrs: str) -> BridgeNetwork:
    network = BridgeNetwork(
        directory=attachment.directory / "network",
        config=BridgeConfig(bridge="tst0", cluster_cidrs=[*CLUSTER, *CIDRS]),
        clock=VirtualClock(),
        namespace=attachment.namespace,
    )
    network.use_pod_cidrs(cidrs)
    return network


def links_of(namespace: Path) -> set[str]:
    return {name for _, name in run_in_network(namespace, socket.if_nameindex)}


def test_nodes_reach_each_other_the_machine_and_external_hosts(lab: Lab, tmp_path: Path) -> None:
    async def main() -> None:
        async with bridge(tmp_path) as nodes:
            own_attachment, other_attachment = await nodes.attach("node-0"), await nodes.attach("node-1")
            assert own_attachment.addresses == ["172.30.0.2", "fd00:77::2"]
            assert other_attachment.addresses == ["172.30.0.3", "fd00:77::3"]
            assert own_attachment.host_addresses == ["172.30.0.1", "fd00:77::1"]
            first, second = (attachment.namespace.path or tmp_path for attachment in (own_attachment, other_attachment))
            assert links_of(first) == {"lo", "eth0"}
            for server, client, address, source in (
                (second, first, other_attachment.addresses, own_attachment.addresses),
                (first, lab.node, own_attachment.addresses, own_attachment.host_addresses),
                (lab.node, first, own_attachment.host_addresses, own_attachment.addresses),
                (lab.outside, first, [OUTSIDE_IP, OUTSIDE_IP6], ["192.0.2.1", "2001:db8::1"]),
            ):
                with listening(server, 8080) as listener:
                    sources = [observe_source(listener, client, (target, 8080)) for target in address]
                    assert sources == list(source)
            for attachment in (own_attachment, other_attachment):
                await nodes.detach(attachment.node)

    lab.run(main)
    assert lab.links() == {"lo", "up0"}


def test_pods_of_two_nodes_reach_each_other_without_nat(lab: Lab, tmp_path: Path) -> None:
    pods = [lab.add_namespace("pod-0"), lab.add_namespace("pod-1")]
    ranges = [("10.77.0.0/24", "fd00:88:0:0::/64"), ("10.77.1.0/24", "fd00:88:0:1::/64")]

    async def main() -> None:
        async with bridge(tmp_path) as nodes:
            attachments = [await nodes.attach("node-0"), await nodes.attach("node-1")]
            objects = [node(attachment, *cidrs) for attachment, cidrs in zip(attachments, ranges, strict=True)]
            await nodes.route(objects)
            networks = [pod_network(attachment, *cidrs) for attachment, cidrs in zip(attachments, ranges, strict=True)]
            async with networks[0], networks[1]:
                ips = [await network.attach(pod.name, pod, ()) for network, pod in zip(networks, pods, strict=True)]
                with listening(pods[1], 8080) as listener:
                    for version in (0, 1):
                        target = (ips[1][version], 8080)
                        assert observe_source(listener, pods[0], target) == ips[0][version]
                        assert observe_source(listener, lab.node, target) == attachments[0].host_addresses[version]
                        first = attachments[0].namespace.path or tmp_path
                        assert observe_source(listener, first, target) == attachments[0].addresses[version]
                with listening(lab.outside, 8080) as listener:
                    assert observe_source(listener, pods[0], (OUTSIDE_IP, 8080)) == "192.0.2.1"
                with listening(lab.node, 8080) as listener:  # the machine sees the addresses of pods
                    assert observe_source(listener, pods[0], ("172.30.0.1", 8080)) == ips[0][0]
                await nodes.route(objects[:1])
                with pytest.raises(OSError, match="No route to host"), listening(pods[1], 8080) as listener:
                    observe_source(listener, pods[0], (ips[1][0], 8080), wait_s=2)
            for attachment in attachments:
                await nodes.detach(attachment.node)

    lab.run(main)


def test_a_client_reaches_a_load_balancer_whose_rules_come_after_its_first_packet(lab: Lab, tmp_path: Path) -> None:
    """The node drops packets that it does not translate, so that the client sends them again when there are rules."""
    address = "172.30.3.254"
    rule = f"""table ip test {{
        chain prerouting {{
            type nat hook prerouting priority dstnat
            ip daddr {address} tcp dport 80 dnat to 172.30.0.2:8080
        }}
    }}"""

    def connect() -> socket.socket:
        route_addresses(bridge_of_nodes(tmp_path), {address: "172.30.0.2"})
        client = socket.socket()
        client.setblocking(False)
        assert client.connect_ex((address, 80)) == errno.EINPROGRESS
        return client

    async def main() -> None:
        config = NodeBridgeConfig(root=tmp_path, node_cidrs=CIDRS, load_balancer_cidrs=["172.30.2.0/23"])
        async with NodeBridge(config=config, clock=VirtualClock()) as nodes:
            node = await nodes.attach("node-0")
            namespace = node.namespace.path or tmp_path
            with listening(namespace, 8080), run_in_network(lab.node, connect) as client:
                assert select([], [client], [], 0.2)[1] == []
                run_in_network(namespace, lambda: run_nft("-f", "-", text=rule))
                assert select([], [client], [], 20)[1] == [client]
                assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            await nodes.detach("node-0")

    lab.run(main)


def test_node_address_is_kept_until_the_node_is_removed(lab: Lab, tmp_path: Path) -> None:
    async def attach_nodes(*names: str) -> list[str]:
        async with bridge(tmp_path) as nodes:
            attachments = [await nodes.attach(name) for name in names]
            for name in names:
                await nodes.detach(name)
            return [attachment.addresses[0] for attachment in attachments]

    assert lab.run(lambda: attach_nodes("a", "b")) == ["172.30.0.2", "172.30.0.3"]
    assert lab.run(lambda: attach_nodes("b", "c")) == ["172.30.0.3", "172.30.0.4"]
    (tmp_path / "a" / "node-address").unlink()
    assert lab.run(lambda: attach_nodes("d")) == ["172.30.0.2"]


def test_network_left_by_a_killed_process_is_reused_and_removed(lab: Lab, tmp_path: Path) -> None:
    async def leave() -> NodeAttachment:
        async with bridge(tmp_path) as nodes:
            return await nodes.attach("node-0")

    async def take_over() -> NodeAttachment:
        async with bridge(tmp_path) as nodes:
            await nodes.route([])
            return await nodes.attach("node-0")

    before = lab.run(leave)
    assert before.namespace.path is not None
    identity = before.namespace.path.stat().st_ino
    assert named_namespace(tmp_path, "node-0").stat().st_ino == identity
    after = lab.run(take_over)
    assert after == before
    assert before.namespace.path.stat().st_ino == identity
    assert bridge_of_nodes(tmp_path) in lab.links()
    run_in_network(lab.node, lambda: remove_bridge(tmp_path))
    assert lab.links() == {"lo", "up0"}
    assert not is_network(before.namespace.path)
    assert not named_namespace(tmp_path, "node-0").is_symlink()
    assert b"sampan" not in run_in_network(lab.node, lambda: run_nft("list", "tables"))


def test_node_bridges_of_two_clusters_are_independent(lab: Lab, tmp_path: Path) -> None:
    async def main() -> None:
        async with bridge(tmp_path / "b", ["172.30.4.0/22"]) as two:
            second = await two.attach("node-0")
            await two.route([node(second, "10.77.1.0/24")])
            async with bridge(tmp_path / "a") as own_bridge:
                first = await own_bridge.attach("node-0")
                await own_bridge.route([node(first, "10.77.0.0/24")])
                await own_bridge.route([])
                await own_bridge.detach("node-0")
            with open_route_socket() as netlink:
                index = socket.if_nametoindex(bridge_of_nodes(tmp_path / "b"))
                routes = gateways_through(netlink, index, POD_CIDR_PROTOCOL)
            assert routes == {"10.77.1.0/24": second.addresses[0]}
            assert second.namespace.path is not None
            with listening(second.namespace.path, 8080) as listener:
                assert observe_source(listener, lab.node, (second.addresses[0], 8080)) == "172.30.4.1"
            assert bridge_of_nodes(tmp_path / "a") not in lab.links()
            assert first.namespace.path is not None
            assert not is_network(first.namespace.path)
            await two.detach("node-0")

    lab.run(main)


def test_attach_fails_if_another_link_has_the_name_of_the_bridge(lab: Lab, tmp_path: Path) -> None:
    def occupy() -> None:
        from pyroute2 import IPRoute

        with IPRoute() as netlink:
            netlink.link("add", ifname=bridge_of_nodes(tmp_path), kind="veth", peer="tst1")

    run_in_network(lab.node, occupy)

    async def attach() -> None:
        async with bridge(tmp_path) as nodes:
            await nodes.attach("node-0")

    with pytest.raises(NodeNetworkError, match=r"the link .* belongs to 'veth'"):
        lab.run(attach)


def test_node_and_host_addresses_come_from_the_node_cidrs(tmp_path: Path) -> None:
    assert host_addresses(CIDRS) == ["172.30.0.1/22", "fd00:77::1/64"]
    assert node_addresses(tmp_path, "x", CIDRS) == ["172.30.0.2/22", "fd00:77::2/64"]
    assert node_addresses(tmp_path, "x", ["172.30.8.0/22"]) == ["172.30.8.2/22"]
    assert ipv6_cidr(tmp_path).startswith("fd")
    assert ipv6_cidr(tmp_path).endswith("::/64")
    assert NetworkNamespace().path is None
