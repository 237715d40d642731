"""The userspace mode with real sockets on loopback addresses, without privileges."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from sampan.api.types.core_v1 import Service
from sampan.host.clock import RealClock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.loopback_services import LoopbackServices
from sampan.network import relay_listeners
from sampan.network.http_port import bind_socket
from sampan.network.proxy.services import ProxyTopology, ServicePortState
from sampan.network.proxy.tracker import ServiceTracker, resolve
from sampan.network.proxy.userspace.proxy import REASON, TrafficClass, UserspaceProxy, usable_endpoints
from tests.eventually import eventually
from tests.network.proxy.events import RecordedEvents
from tests.network.proxy.objects import NODE, OTHER_NODE, endpoint, endpoint_slice, port, service
from tests.ports import free_port

SHIFT = 77
"""A shift of loopback addresses that no other test or cluster uses."""
VIP = f"127.{96 + SHIFT}.0.10"


class Machine:
    def __init__(self) -> None:
        self.tracker, self.events = ServiceTracker(node_name=NODE), RecordedEvents()
        self.proxy = UserspaceProxy(
            namespace=NetworkNamespace(),
            clock=RealClock(),
            events=self.events,
            loopback=LoopbackServices(shift=SHIFT),
            node_port_addresses=["0.0.0.0"],
        )

    async def sync(self) -> None:
        await self.proxy.on_changes(self.tracker.take_changes())


@asynccontextmanager
async def machine_with(*objects: Service) -> AsyncIterator[Machine]:
    machine = Machine()
    for obj in objects:
        machine.tracker.on_service(None, obj)
    async with machine.proxy:
        await machine.sync()
        yield machine


@asynccontextmanager
async def servers(count: int, port: int) -> AsyncIterator[list[str]]:
    """Run servers on different addresses, each of which sends its address to clients."""
    addresses = [f"127.{SHIFT}.1.{number}" for number in range(1, count + 1)]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(writer.get_extra_info("sockname")[0].encode())
        writer.close()

    async with AsyncExitStack() as stack:
        for address in addresses:
            await stack.enter_async_context(await asyncio.start_server(serve, address, port))
        yield addresses


async def ask(address: str, number: int) -> str:
    """Return the response of a server; empty if the connection is refused or reset."""
    try:
        reader, writer = await asyncio.open_connection(address, number)
        try:
            return (await reader.read()).decode()
        finally:
            writer.close()
    except ConnectionError:
        return ""


async def test_connections_are_balanced_round_robin() -> None:
    number = free_port()
    async with servers(3, number) as addresses, machine_with(service("web", port(80))) as machine:
        assert await ask(VIP, 10080) == "", "there is no endpoint yet"
        slice = endpoint_slice("web", *map(endpoint, addresses), number=number)
        machine.tracker.on_slice(None, slice)
        await machine.sync()
        assert [await ask(VIP, 10080) for _ in range(6)] == addresses * 2
        machine.tracker.on_slice(slice, endpoint_slice("web", endpoint(addresses[1]), number=number))
        await machine.sync()
        assert [await ask(VIP, 10080) for _ in range(2)] == addresses[1:2] * 2


async def test_an_endpoint_that_refuses_is_skipped() -> None:
    number = free_port()
    async with servers(1, number) as addresses, machine_with(service("web", port(8080))) as machine:
        refusing = endpoint(f"127.{SHIFT}.2.1")
        machine.tracker.on_slice(None, endpoint_slice("web", refusing, endpoint(addresses[0]), number=number))
        await machine.sync()
        assert [await ask(VIP, 8080) for _ in range(4)] == addresses * 4


async def test_session_affinity() -> None:
    number = free_port()
    async with servers(3, number) as addresses, machine_with(service("web", port(8080), affinity_s=60)) as machine:
        machine.tracker.on_slice(None, endpoint_slice("web", *map(endpoint, addresses), number=number))
        await machine.sync()
        assert len({await ask(VIP, 8080) for _ in range(5)}) == 1


async def test_node_port_is_served_until_the_service_is_deleted() -> None:
    number, node_port = free_port(), free_port()
    obj = service("web", port(8080, node_port=node_port), type="NodePort")
    async with servers(1, number) as addresses, machine_with(obj) as machine:
        machine.tracker.on_slice(None, endpoint_slice("web", endpoint(addresses[0]), number=number))
        await machine.sync()
        assert [await ask(address, node_port) for address in ("127.0.0.1", "::1", VIP)] == addresses * 3
        machine.tracker.on_service(obj, None)
        await machine.sync()

        async def is_closed() -> bool:
            return (await ask("127.0.0.1", node_port), await ask(VIP, 8080)) == ("", "")

        await eventually(is_closed)


async def test_udp_service() -> None:
    loop = asyncio.get_running_loop()
    server = bind_socket(NetworkNamespace(), "127.0.0.1", 0, socket.SOCK_DGRAM)
    async with machine_with(service("dns", port(53, protocol="UDP"))) as machine:
        target = endpoint_slice("dns", endpoint("127.0.0.1"), number=server.getsockname()[1], protocol="UDP")
        machine.tracker.on_slice(None, target)
        await machine.sync()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client, server:
            client.setblocking(False)
            await loop.sock_connect(client, (VIP, 10053))
            await loop.sock_sendall(client, b"?")
            async with asyncio.timeout(10):
                _, sender = await loop.sock_recvfrom(server, 10)
                await loop.sock_sendto(server, b"!", sender)
                assert await loop.sock_recv(client, 10) == b"!"


async def test_a_port_in_use_becomes_an_event() -> None:
    with bind_socket(NetworkNamespace(), VIP, 8080):
        async with machine_with(service("web", port(8080))) as machine:
            assert [event[:3] for event in machine.events.events] == [("Warning", REASON, "default/web")]
            assert f"{VIP}:8080/TCP is not available on this node" in machine.events.events[0][3]


def state_of(**spec: object) -> ServicePortState:
    obj = service("web", port(80, node_port=30080), **spec)  # type: ignore[arg-type]
    slices = [endpoint_slice("web", endpoint("10.0.0.1", node=NODE), endpoint("10.0.0.2", node=OTHER_NODE))]
    return resolve(obj, slices, ("IPv4",), ProxyTopology(node_name=NODE)).ports[0]


LOCAL, OUTSIDE = "127.0.0.1", "192.0.2.9"


@pytest.mark.parametrize(
    ("spec", "traffic", "client", "numbers"),
    [
        ({}, TrafficClass.CLUSTER_IP, LOCAL, [1, 2]),
        ({"internalTrafficPolicy": "Local"}, TrafficClass.CLUSTER_IP, LOCAL, [1]),
        ({"type": "NodePort"}, TrafficClass.EXTERNAL, OUTSIDE, [1, 2]),
        ({"type": "NodePort", "externalTrafficPolicy": "Local"}, TrafficClass.EXTERNAL, OUTSIDE, [1]),
        ({"type": "NodePort", "externalTrafficPolicy": "Local"}, TrafficClass.EXTERNAL, LOCAL, [1, 2]),
        ({"loadBalancerSourceRanges": ["192.0.2.0/24"]}, TrafficClass.LOAD_BALANCER, OUTSIDE, [1, 2]),
        ({"loadBalancerSourceRanges": ["10.0.0.0/8"]}, TrafficClass.LOAD_BALANCER, OUTSIDE, []),
        ({"loadBalancerSourceRanges": ["10.0.0.0/8"]}, TrafficClass.EXTERNAL, OUTSIDE, [1, 2]),
    ],
)
def test_traffic_policies_and_source_ranges(
    spec: dict[str, object], traffic: TrafficClass, client: str, numbers: Sequence[int]
) -> None:
    load_balancer_spec = {"type": "LoadBalancer", **spec}
    endpoints = usable_endpoints(traffic, state_of(**load_balancer_spec), client)
    assert [int(endpoint.address[-1]) for endpoint in endpoints] == list(numbers)


async def test_number_of_open_ports_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_listeners, "RELAYED_PORTS", 5)
    ports = [port(18_000 + number, name=f"p{number}") for number in range(8)]
    async with machine_with(service("many-ports", *ports)) as machine:
        assert len(machine.proxy._listeners._relays) == 5
        ((_, reason, _, message),) = [event[:4] for event in machine.events.events]
        assert reason == REASON
        assert message.endswith("5 open ports of services, the most; further ones are not opened")
