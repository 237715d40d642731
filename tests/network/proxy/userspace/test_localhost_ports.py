"""Node ports on localhost, with real sockets in namespaces."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from sampan.api.types.core_v1 import Service
from sampan.host.clock import RealClock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.network.http_port import bind_socket
from sampan.network.proxy.tracker import ServiceTracker
from sampan.network.proxy.userspace.localhost_ports import REASON, LocalhostPorts, NodePortBackends
from tests.eventually import eventually
from tests.network.pods.lab import OUTSIDE_IP, OUTSIDE_IP6, Lab, listening, needs_network
from tests.network.proxy.conversation import reply, talk
from tests.network.proxy.events import RecordedEvents
from tests.network.proxy.objects import NODE, endpoint, endpoint_slice, port, service
from tests.ports import free_port

NUMBER = 30080


class ProxiedNode:
    def __init__(self, namespace: NetworkNamespace) -> None:
        self.tracker = ServiceTracker(node_name=NODE)
        self.ports = NodePortBackends(namespace=namespace, clock=RealClock())

    async def sync(self) -> None:
        await self.ports.on_changes(self.tracker.take_changes())


@asynccontextmanager
async def localhost(
    namespace: NetworkNamespace, *nodes: ProxiedNode
) -> AsyncIterator[tuple[LocalhostPorts, RecordedEvents]]:
    events = RecordedEvents()
    async with LocalhostPorts(namespace=namespace, events=events, place="this machine") as ports:
        for node in nodes:
            await node.sync()
            ports.add(node.ports)
        yield ports, events
    for node in nodes:
        node.ports.close()


def node_port_service(number: int = NUMBER, protocol: str = "TCP", name: str = "web") -> Service:
    return service(name, port(80, node_port=number, protocol=protocol), type="NodePort")


@needs_network
def test_node_ports_of_a_node_with_its_own_network_namespace(lab: Lab) -> None:
    """The endpoint is reachable only from the node; clients connect in another network namespace."""
    host, node_namespace = NetworkNamespace(lab.add_namespace("host")), NetworkNamespace(lab.node)

    async def main() -> None:
        node = ProxiedNode(node_namespace)
        for protocol in ("TCP", "UDP"):
            name = protocol.lower()
            node.tracker.on_service(None, node_port_service(protocol=protocol, name=name))
            slice = endpoint_slice(name, endpoint(OUTSIDE_IP), protocol=protocol)
            node.tracker.on_slice(None, slice)
        with listening(lab.outside, 8080) as stream, listening(lab.outside, 8080, socket.SOCK_DGRAM) as datagram:
            async with localhost(host, node), localhost(node_namespace, node):
                for namespace in (host, node_namespace):
                    for kind, server in ((socket.SOCK_STREAM, stream), (socket.SOCK_DGRAM, datagram)):
                        for address in ("127.0.0.1", "::1"):
                            received, _ = await asyncio.gather(
                                talk(namespace, address, NUMBER, kind), reply(server, address.encode())
                            )
                            assert received == address.encode()
        await asyncio.sleep(0)

    asyncio.run(main())


@needs_network
def test_ipv6_endpoints_serve_ipv4_clients_and_refusing_endpoints_are_skipped(lab: Lab) -> None:
    node_namespace = NetworkNamespace(lab.node)

    async def main() -> None:
        node = ProxiedNode(node_namespace)
        node.tracker.on_service(
            None, service("web", port(80, node_port=NUMBER), type="NodePort", ip=["10.96.0.10", "fd00::10"])
        )
        refusing, serving = endpoint("2001:db8::1"), endpoint(OUTSIDE_IP6)
        node.tracker.on_slice(None, endpoint_slice("web", refusing, serving))
        with listening(lab.outside, 8080) as server:
            async with localhost(node_namespace, node):
                for _ in range(3):
                    received, _ = await asyncio.gather(
                        talk(node_namespace, "127.0.0.1", NUMBER, socket.SOCK_STREAM), reply(server, b"six")
                    )
                    assert received == b"six"

    asyncio.run(main())


async def test_localhost_ports_follow_the_services() -> None:
    first, second = free_port(), free_port()
    here = NetworkNamespace()
    node = ProxiedNode(here)
    node.tracker.on_service(None, node_port_service(first))
    async with localhost(here, node) as (ports, events):
        assert await talk(here, "127.0.0.1", first, socket.SOCK_STREAM) == b"", "there is no endpoint"
        node.tracker.on_service(node_port_service(first), node_port_service(second))
        await node.sync()
        ports.sync()
        (await eventually(lambda: bind_socket(here, "127.0.0.1", first), ignore=(OSError,))).close()
        assert await talk(here, "127.0.0.1", second, socket.SOCK_STREAM) == b""
        assert events.events == []
        ports.remove(node.ports)
        (await eventually(lambda: bind_socket(here, "127.0.0.1", second), ignore=(OSError,))).close()


async def test_port_in_use_is_reported_once_and_opened_when_free() -> None:
    """A program of another cluster has the port. The other address of localhost works nevertheless."""
    number, here = free_port(), NetworkNamespace()
    node = ProxiedNode(here)
    node.tracker.on_service(None, node_port_service(number))
    occupied = bind_socket(here, "127.0.0.1", number)
    async with localhost(here, node) as (ports, events):
        ports.sync()
        assert [event[:3] for event in events.events] == [("Warning", REASON, "default/web")]
        assert f"node port {number}/TCP is not available on 127.0.0.1 of this machine" in events.events[0][3]
        occupied.close()
        ports.sync()
        assert await talk(here, "127.0.0.1", number, socket.SOCK_STREAM) == b""
        assert len(events.events) == 1


async def test_port_is_served_by_another_node_after_a_node_stops() -> None:
    number, here = free_port(), NetworkNamespace()
    nodes = [ProxiedNode(here), ProxiedNode(here)]
    with closing(bind_socket(here, "127.0.0.1", 0)) as server:
        for node in nodes:
            node.tracker.on_service(None, node_port_service(number))
            target = endpoint_slice("web", endpoint("127.0.0.1"), number=server.getsockname()[1])
            node.tracker.on_slice(None, target)
        async with localhost(here, *nodes) as (ports, _):
            ports.remove(nodes[0].ports)
            received, _ = await asyncio.gather(
                talk(here, "127.0.0.1", number, socket.SOCK_STREAM), reply(server, b"second")
            )
            assert received == b"second"
