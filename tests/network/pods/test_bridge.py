"""The pod network on real links: connectivity, host ports, restarts, clean-up, and firewalls of other programs."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sampan.host.clock import VirtualClock
from sampan.host.linux.network_namespace import run_in_network
from sampan.network.pods import BridgeConfig, BridgeNetwork, frame_rules, sysctls, unsupported_reason
from sampan.network.pods.nft import run_nft
from sampan.runtimes.config import PortMapping
from sampan.runtimes.contract import RuntimeFailure
from tests.network.pods.lab import (
    NODE_IP,
    NODE_IP6,
    OUTSIDE_IP,
    OUTSIDE_IP6,
    SCTP,
    Lab,
    listening,
    needs_network,
    needs_sctp,
    observe_source,
)

pytestmark = needs_network

DUAL = ["10.77.0.0/24", "fd77::/64"]
UDP = socket.SOCK_DGRAM


@asynccontextmanager
async def network(lab: Lab, cidrs: Sequence[str] = DUAL, bridge: str = "tst0") -> AsyncIterator[BridgeNetwork]:
    network = BridgeNetwork(
        directory=lab.node.parent / f"{bridge}-records", config=BridgeConfig(bridge=bridge), clock=VirtualClock()
    )
    async with network:
        network.use_pod_cidrs(cidrs)
        yield network


def port(host: int, to: int = 80, protocol: str = "TCP", ip: str = "") -> PortMapping:
    return PortMapping(protocol=protocol, container_port=to, host_port=host, host_ip=ip)


def test_pods_reach_pods_the_node_and_external_addresses(lab: Lab) -> None:
    first, second = lab.add_namespace("one"), lab.add_namespace("two")

    async def main() -> None:
        async with network(lab) as net:
            ips = await net.attach("one", first, [])
            others = await net.attach("two", second, [])
            assert (ips, others) == (["10.77.0.2", "fd77::2"], ["10.77.0.3", "fd77::3"])
            with listening(second, 80) as server:
                for first_ip, second_ip in zip(ips, others, strict=True):
                    assert observe_source(server, first, (second_ip, 80)) == first_ip
                assert observe_source(server, lab.node, (others[0], 80)) == "10.77.0.1"
                assert observe_source(server, lab.node, (others[1], 80)) == "fd77::1"
            with listening(lab.node, 81) as server:
                for first_ip, node_ip in zip(ips, (NODE_IP, NODE_IP6), strict=True):
                    assert observe_source(server, first, (node_ip, 81)) == first_ip
            with listening(lab.outside, 82) as server:
                assert observe_source(server, first, (OUTSIDE_IP, 82)) == NODE_IP
                assert observe_source(server, first, (OUTSIDE_IP6, 82)) == NODE_IP6
            await net.remove_all()

    lab.run(main)


def test_pod_mtu_equals_that_of_the_default_route_link(lab: Lab) -> None:
    pod = lab.add_namespace("one")

    def mtu() -> int:
        from pyroute2 import IPRoute

        with IPRoute() as netlink:
            return int(netlink.link("get", index=socket.if_nametoindex("eth0"))[0].get("mtu"))

    async def main() -> None:
        async with network(lab) as net:
            await net.attach("one", pod, [])
            assert run_in_network(pod, mtu) == 1400
            await net.remove_all()

    lab.run(main)


def test_pod_traffic_inside_the_cluster_is_not_masqueraded(lab: Lab) -> None:
    """Two nodes of a cluster share a machine, each with its own bridge."""
    first, second = lab.add_namespace("one"), lab.add_namespace("two")

    async def main() -> None:
        directory = lab.node.parent
        configs = [BridgeConfig(bridge=name, cluster_cidrs=["10.76.0.0/15"]) for name in ("tst0", "tst1")]
        nets = [BridgeNetwork(directory=directory / c.bridge, config=c, clock=VirtualClock()) for c in configs]
        async with nets[0], nets[1]:
            nets[0].use_pod_cidrs(["10.76.0.0/24"])
            nets[1].use_pod_cidrs(["10.77.0.0/24"])
            [first_ip] = await nets[0].attach("one", first, [port(8080)])
            [second_ip] = await nets[1].attach("two", second, [port(8081)])
            with listening(second, 80) as server:
                assert observe_source(server, first, (second_ip, 80)) == first_ip
                assert observe_source(server, lab.outside, (NODE_IP, 8081)) == OUTSIDE_IP
            await nets[1].remove_all()
            with listening(first, 80) as server:
                assert observe_source(server, lab.outside, (NODE_IP, 8080)) == OUTSIDE_IP
            await nets[0].remove_all()

    lab.run(main)


def test_host_ports(lab: Lab) -> None:
    pod, other = lab.add_namespace("one"), lab.add_namespace("two")
    ports = [port(8080), port(8081, ip="127.0.0.1"), port(8082, ip=NODE_IP), port(8053, 53, "UDP")]

    async def main() -> None:
        async with network(lab) as net:
            await net.attach("one", pod, ports)
            neighbor, neighbor6 = await net.attach("two", other, [])
            with listening(pod, 80) as web, listening(pod, 53, UDP) as dns:
                assert observe_source(web, lab.outside, (NODE_IP, 8080)) == OUTSIDE_IP
                assert observe_source(web, lab.outside, (NODE_IP6, 8080)) == OUTSIDE_IP6
                assert observe_source(dns, lab.outside, (NODE_IP, 8053)) == OUTSIDE_IP
                assert observe_source(web, lab.node, (NODE_IP, 8080)) == NODE_IP
                assert observe_source(web, lab.node, (NODE_IP6, 8080)) == NODE_IP6
                assert observe_source(web, lab.node, ("127.0.0.1", 8080)) == "10.77.0.1"
                assert observe_source(web, lab.node, ("127.0.0.1", 8081)) == "10.77.0.1"
                assert observe_source(web, lab.node, (NODE_IP, 8082)) == NODE_IP
                assert observe_source(dns, lab.node, ("127.0.0.1", 8053)) == "10.77.0.1"
                assert observe_source(web, other, (NODE_IP, 8080)) == neighbor
                assert observe_source(web, other, (NODE_IP6, 8080)) == neighbor6
                assert (
                    observe_source(web, pod, (NODE_IP, 8080)) == "10.77.0.1"
                )  # the pod connects to itself through its host port
                assert observe_source(web, pod, (NODE_IP6, 8080)) == "fd77::1"
                for refused in ((NODE_IP, 8081), ("127.0.0.1", 8082)):
                    with pytest.raises(ConnectionRefusedError):
                        observe_source(web, lab.node, refused)
                await net.detach("one")
                with pytest.raises(ConnectionRefusedError):
                    observe_source(web, lab.outside, (NODE_IP, 8080))
            await net.remove_all()

    lab.run(main)


def test_single_stack_pod_cidrs(lab: Lab) -> None:
    pod = lab.add_namespace("one")

    async def main() -> None:
        for cidr, node, outside in (("10.77.0.0/24", NODE_IP, OUTSIDE_IP), ("fd77::/64", NODE_IP6, OUTSIDE_IP6)):
            async with network(lab, [cidr]) as net:
                assert len(await net.attach("one", pod, [port(8080)])) == 1
                with listening(pod, 80) as server:
                    assert observe_source(server, lab.outside, (node, 8080)) == outside
                with listening(lab.outside, 82) as server:
                    assert observe_source(server, pod, (outside, 82)) == node
                await net.remove_all()

    lab.run(main)


def test_udp_flow_moves_to_the_pod_that_takes_over_its_host_port(lab: Lab) -> None:
    """The client keeps its source port, so that all datagrams belong to one conntrack entry."""
    first, second = lab.add_namespace("one"), lab.add_namespace("two")

    def echo(client: socket.socket, server: socket.socket) -> bytes:
        client.sendto(b"?", (NODE_IP, 8053))
        try:
            _, source = server.recvfrom(10)
        except TimeoutError:
            return b"no datagram"
        server.sendto(b"hello", source)
        return client.recv(10)

    async def main() -> None:
        client = run_in_network(lab.outside, lambda: socket.socket(socket.AF_INET, UDP))
        async with network(lab) as net:
            await net.attach("two", second, [])
            with client, listening(lab.node, 8053, UDP) as old, listening(second, 53, UDP) as web:
                client.settimeout(60)
                assert echo(client, old) == b"hello"  # a socket of the node has the port
                await net.attach("one", first, [port(8053, 53, "UDP")])
                with listening(first, 53, UDP) as server:
                    assert echo(client, server) == b"hello"
                await net.detach("one")
                await net.attach("two", second, [port(8053, 53, "UDP")])
                assert echo(client, web) == b"hello"
            await net.remove_all()

    lab.run(main)


@needs_sctp
def test_sctp_host_ports(lab: Lab) -> None:
    pod = lab.add_namespace("one")

    async def main() -> None:
        async with network(lab) as net:
            await net.attach("one", pod, [port(8090, 90, "SCTP")])
            with listening(pod, 90, protocol=SCTP) as server:
                assert observe_source(server, lab.outside, (NODE_IP, 8090), SCTP) == OUTSIDE_IP
            await net.remove_all()

    lab.run(main)


def test_without_bridge_filtering_redirected_connections_are_masqueraded(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod, other = lab.add_namespace("one"), lab.add_namespace("two")
    monkeypatch.setattr(sysctls, "enable_bridge_netfilter", lambda: False)
    monkeypatch.setattr(frame_rules.FrameRules, "install", lambda self, router: False)

    def hide_bridged() -> None:
        for name in ("iptables", "ip6tables"):
            Path(f"/proc/sys/net/bridge/bridge-nf-call-{name}").write_text("0")

    async def main() -> None:
        run_in_network(lab.node, hide_bridged)
        async with network(lab) as net:
            await net.attach("one", pod, [port(8080)])
            await net.attach("two", other, [])
            with listening(pod, 80) as web:
                assert observe_source(web, other, (NODE_IP, 8080)) == "10.77.0.1"
                assert observe_source(web, pod, (NODE_IP6, 8080)) == "fd77::1"
            await net.remove_all()

    lab.run(main)


def test_pods_do_not_reach_the_nodes_loopback(lab: Lab) -> None:
    pod = lab.add_namespace("one")

    def misroute() -> None:
        from pyroute2 import IPRoute

        Path("/proc/sys/net/ipv4/conf/eth0/route_localnet").write_text("1")
        with IPRoute() as netlink:
            index = socket.if_nametoindex("eth0")
            netlink.addr("del", index=1, address="127.0.0.1", prefixlen=8)
            netlink.route("add", dst="127.0.0.0/8", gateway="10.77.0.1", oif=index)

    async def main() -> None:
        async with network(lab) as net:
            await net.attach("one", pod, [])
            with listening(lab.node, 83) as server:
                assert observe_source(server, lab.node, ("127.0.0.1", 83)) == "127.0.0.1"
                run_in_network(pod, misroute)
                with pytest.raises(TimeoutError):
                    observe_source(server, pod, ("127.0.0.1", 83), wait_s=0.3)
            await net.remove_all()

    lab.run(main)


# -- restarts and leftovers --------------------------------------------------------------------------------------------


def test_pod_networks_are_restored_after_kubelet_restart(lab: Lab) -> None:
    pods = {name: lab.add_namespace(name) for name in ("one", "two", "three")}
    ports = [port(8080)]

    async def run_until_killed() -> None:
        net = BridgeNetwork(
            directory=lab.node.parent / "records", config=BridgeConfig(bridge="tst0"), clock=VirtualClock()
        )
        await net.__aenter__()
        net.use_pod_cidrs(DUAL)
        for name in ("one", "two"):
            await net.attach(name, pods[name], ports if name == "one" else [])
        await net._run_in_thread(net._machine.close)
        net._thread.shutdown()
        net._mark.clear()

    async def run_after_restart() -> None:
        config = BridgeConfig(bridge="tst0")
        async with BridgeNetwork(directory=lab.node.parent / "records", config=config, clock=VirtualClock()) as net:
            assert net.list_pod_uids() == ["one"]
            assert net.addresses("one") == ["10.77.0.2", "fd77::2"]
            with listening(pods["one"], 80) as server:
                assert observe_source(server, lab.outside, (NODE_IP, 8080)) == OUTSIDE_IP
                with pytest.raises(RuntimeFailure, match="no podCIDR yet"):
                    await net.attach("three", pods["three"], [])
                net.use_pod_cidrs(DUAL)
                links = lab.links()
                assert await net.attach("one", pods["one"], ports) == ["10.77.0.2", "fd77::2"]
                assert lab.links() == links
                assert await net.attach("three", pods["three"], []) == ["10.77.0.4", "fd77::4"]
                assert observe_source(server, pods["three"], ("10.77.0.2", 80)) == "10.77.0.4"
            await net.detach("three")
            await net.detach("three")
            assert net.list_pod_uids() == ["one"]
            await net.remove_all()

    lab.run(run_until_killed)
    lab.end(pods["two"])
    lab.run(run_after_restart)


def test_remove_all_leaves_no_links_rules_or_records(lab: Lab) -> None:
    before = lab.links()
    pods = [lab.add_namespace(f"pod{i}") for i in range(6)]

    async def main() -> None:
        run_nft("add", "table", "inet", "others")
        async with network(lab) as net:
            await asyncio.gather(*(net.attach(f"pod{i}", pod, [port(8000 + i)]) for i, pod in enumerate(pods)))
            assert len(lab.links()) == len(before) + 7
            assert len({address for uid in net.list_pod_uids() for address in net.addresses(uid)}) == 12
            await asyncio.gather(*(net.detach(f"pod{i}") for i in range(3)))
            assert len(net.list_pod_uids()) == 3
            await net.remove_all()
            assert net.list_pod_uids() == []
        assert run_nft("list", "tables") == b"table inet others\n"

    lab.run(main)
    assert lab.links() == before
    assert not list((lab.node.parent / "tst0-records").iterdir())


def test_network_of_a_vanished_pod_is_removed_at_startup(lab: Lab) -> None:
    before = lab.links()
    pod = lab.add_namespace("one")

    async def attach_pod() -> None:
        async with network(lab) as net:
            await net.attach("one", pod, [port(8080)])

    async def check_network_is_removed() -> None:
        async with network(lab) as net:
            assert net.list_pod_uids() == []
            assert run_nft("list", "tables") == b""

    lab.run(attach_pod)
    assert lab.links() > before
    lab.end(pod)
    lab.run(check_network_is_removed)
    assert lab.links() == before


def test_new_sandbox_of_a_pod_keeps_its_addresses_and_replaces_its_host_ports(lab: Lab) -> None:
    old, new = lab.add_namespace("old"), lab.add_namespace("new")

    async def main() -> None:
        async with network(lab) as net:
            ips = await net.attach("one", old, [port(8080)])
            assert await net.attach("one", new, [port(8081)]) == ips
            with listening(new, 80) as server:
                assert observe_source(server, lab.outside, (NODE_IP, 8081)) == OUTSIDE_IP
                with pytest.raises(ConnectionRefusedError):
                    observe_source(server, lab.outside, (NODE_IP, 8080))
            await net.remove_all()

    lab.run(main)


def test_pods_of_the_old_and_the_new_pod_cidr_reach_each_other(lab: Lab) -> None:
    first, second = lab.add_namespace("one"), lab.add_namespace("two")

    async def main() -> None:
        async with network(lab, ["10.77.0.0/24"]) as net:
            [first_ip] = await net.attach("one", first, [])
            net.use_pod_cidrs(["10.78.0.0/24"])
            [second_ip] = await net.attach("two", second, [])
            assert second_ip == "10.78.0.2"
            with listening(second, 80) as server:
                assert observe_source(server, first, (second_ip, 80)) == first_ip
            await net.remove_all()

    lab.run(main)


def test_running_pod_keeps_its_network_when_a_second_attach_fails(lab: Lab) -> None:
    pod = lab.add_namespace("one")

    async def main() -> None:
        async with network(lab) as net:
            ips = await net.attach("one", pod, [])
            with pytest.raises(RuntimeFailure, match="network of pod one"):
                await net.attach("one", lab.node.parent / "nowhere", [])
        async with network(lab) as net:
            assert net.addresses("one") == ips
            with listening(pod, 80) as server:
                assert observe_source(server, lab.node, (ips[0], 80))
            await net.remove_all()

    lab.run(main)


# -- firewalls and other programs --------------------------------------------------------------------------------------

DOCKER = """
table ip filter {
  chain FORWARD { type filter hook forward priority 0; policy drop; }
}
table ip6 filter {
  chain FORWARD { type filter hook forward priority 0; policy drop; }
}
"""


def test_pod_traffic_passes_an_nftables_forward_policy_of_drop(lab: Lab) -> None:
    first, second = lab.add_namespace("one"), lab.add_namespace("two")

    async def main() -> None:
        run_nft("-f", "-", text=DOCKER)
        before = run_nft("list", "ruleset")
        async with network(lab) as net:
            ips = await net.attach("one", first, [port(8080)])
            await net.attach("two", second, [])
            with listening(first, 80) as server, listening(lab.outside, 82) as world:
                assert observe_source(server, lab.outside, (NODE_IP, 8080)) == OUTSIDE_IP
                for ip in ips:
                    assert observe_source(server, second, (ip, 80))
                assert observe_source(world, first, (OUTSIDE_IP6, 82)) == NODE_IP6
            await net.remove_all()
        assert run_nft("list", "ruleset") == before

    lab.run(main)


def iptables_legacy(*args: str) -> str:
    programs = (["iptables-legacy", *args], ["ip6tables-legacy", *args])
    return "".join(subprocess.run(argv, check=True, capture_output=True, text=True).stdout for argv in programs)


def has_iptables_legacy() -> bool:
    """Try it in a new network namespace, because listing the rules creates tables."""
    argv = ["unshare", "--net", "sh", "-c", "iptables-legacy -S && ip6tables-legacy -S"]
    return not unsupported_reason() and subprocess.run(argv, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_iptables_legacy(), reason="there is no iptables-legacy, or the kernel does not support it")
def test_pod_traffic_passes_an_iptables_legacy_forward_policy_of_drop(lab: Lab) -> None:
    first, second = lab.add_namespace("one"), lab.add_namespace("two")

    async def main() -> None:
        iptables_legacy("-P", "FORWARD", "DROP")
        before = iptables_legacy("-S")
        async with network(lab) as net:
            ips = await net.attach("one", first, [port(8080)])
            await net.attach("two", second, [])
            await net._run_in_thread(net._machine.check)
            assert iptables_legacy("-S").count("sampan: pods of tst0") == 4
            with listening(first, 80) as server:
                assert observe_source(server, lab.outside, (NODE_IP, 8080)) == OUTSIDE_IP
                for ip in ips:
                    assert observe_source(server, second, (ip, 80))
            await net.remove_all()
        assert iptables_legacy("-S") == before

    lab.run(main)


def test_deleted_rules_and_bridge_are_restored(lab: Lab) -> None:
    pod, clock = lab.add_namespace("one"), VirtualClock()

    async def main() -> None:
        config = BridgeConfig(bridge="tst0")
        async with BridgeNetwork(directory=lab.node.parent / "records", config=config, clock=clock) as net:
            net.use_pod_cidrs(DUAL)
            await net.attach("one", pod, [port(8080)])
            run_nft("flush", "ruleset")
            run_nft("-f", "-", text=DOCKER)
            with listening(pod, 80) as server:
                await net.attach(
                    "two", lab.add_namespace("two"), [port(8082)]
                )  # a failed change writes the whole table again
                assert b"8080" in run_nft("list", "ruleset")
                run_nft("flush", "ruleset")
                run_nft("-f", "-", text=DOCKER)
                await net._run_in_thread(net._machine.check)
                assert observe_source(server, lab.outside, (NODE_IP, 8080)) == OUTSIDE_IP
                run_in_network(lab.node, lambda: _delete_link("tst0"))
                await net._run_in_thread(net._machine.check)
                assert observe_source(server, lab.outside, (NODE_IP, 8080)) == OUTSIDE_IP
            await net.remove_all()

    lab.run(main)


def _delete_link(name: str) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        netlink.link("del", index=socket.if_nametoindex(name))


def test_failed_attach_reports_the_reason(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = lab.add_namespace("one"), lab.add_namespace("two")

    async def main() -> None:
        async with network(lab, ["192.0.2.128/25"]) as net:
            with pytest.raises(RuntimeFailure, match=r"podCIDR 192.0.2.128/25 overlaps with 192.0.2.0/24 of up0"):
                await net.attach("one", first, [])
            assert net.list_pod_uids() == []
        async with network(lab, ["10.77.0.0/29"]) as net:
            await net.attach("one", first, [port(8080)])
            with pytest.raises(RuntimeFailure, match=r"host port tcp . 8080 is in use by pod one"):
                await net.attach("two", second, [port(8080)])
            with pytest.raises(RuntimeFailure, match=r"network of pod three: .*No such file"):
                await net.attach("three", lab.node.parent / "nowhere", [])
            with pytest.raises(RuntimeFailure, match="at most one CIDR per IP family is allowed"):
                net.use_pod_cidrs(["10.0.0.0/24", "10.0.1.0/24"])
            assert net.list_pod_uids() == ["one"]
            links = lab.links()
            await _check_bridge_of_another_owner(lab, second)
            assert lab.links() == links
            await net.remove_all()
        monkeypatch.setattr(shutil, "which", lambda *args, **more: None)
        async with network(lab) as net:
            with pytest.raises(RuntimeFailure, match="install nftables"):
                await net.attach("one", first, [])

    lab.run(main)


async def _check_bridge_of_another_owner(lab: Lab, pod: Path) -> None:
    config = BridgeConfig(bridge="tst0")
    async with BridgeNetwork(directory=lab.node.parent / "another", config=config, clock=VirtualClock()) as net:
        net.use_pod_cidrs(["10.79.0.0/24"])
        with pytest.raises(RuntimeFailure, match=r"the link tst0 belongs to 'sampan .*-records'"):
            await net.attach("two", pod, [])
        await net.remove_all()
