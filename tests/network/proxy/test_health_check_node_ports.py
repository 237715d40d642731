from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import ClientConnectionError, ClientSession

from sampan.api.types.core_v1 import Service
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.network.proxy.health import ServiceHealthChecks
from sampan.network.proxy.tracker import ServiceTracker
from tests.network.proxy.events import RecordedEvents
from tests.network.proxy.objects import NODE, OTHER_NODE, endpoint, endpoint_slice, port, service
from tests.ports import free_port


class Node:
    def __init__(self, addresses: Sequence[str] = ("0.0.0.0",)) -> None:
        self.tracker, self.events, self.is_healthy = ServiceTracker(node_name=NODE), RecordedEvents(), True
        self.checks = ServiceHealthChecks(
            node_name=NODE,
            namespace=NetworkNamespace(),
            is_proxy_healthy=lambda: self.is_healthy,
            events=self.events,
            addresses=addresses,
        )

    async def sync(self) -> None:
        await self.checks.on_changes(self.tracker.take_changes())


@asynccontextmanager
async def node_with(*services: Service, addresses: Sequence[str] = ("0.0.0.0",)) -> AsyncIterator[Node]:
    node = Node(addresses)
    for obj in services:
        node.tracker.on_service(None, obj)
    async with node.checks:
        await node.sync()
        yield node


def load_balanced(number: int, name: str = "web") -> Service:
    return service(
        name, port(node_port=30080), type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=number
    )


async def status_of(number: int, address: str = "127.0.0.1") -> int:
    async with ClientSession() as session:
        try:
            async with session.get(f"http://{address}:{number}/") as response:
                return response.status
        except ClientConnectionError:
            return 0


async def test_health_check_response_depends_on_local_endpoints() -> None:
    number = free_port()
    async with node_with(load_balanced(number)) as node:
        assert await status_of(number) == 503
        remote = endpoint_slice("web", endpoint("10.0.0.1", node=OTHER_NODE))
        node.tracker.on_slice(None, remote)
        await node.sync()
        assert await status_of(number) == 503
        local = endpoint_slice("web", endpoint("10.0.0.1", node=NODE), endpoint("10.0.0.2", node=NODE))
        node.tracker.on_slice(remote, local)
        await node.sync()
        async with ClientSession() as session, session.get(f"http://127.0.0.1:{number}/") as response:
            assert response.status == 200
            assert response.headers["X-Load-Balancing-Endpoint-Weight"] == "2"
            assert await response.text() == (
                '{\n\t"service": {\n\t\t"namespace": "default",\n\t\t"name": "web"\n\t},\n\t"localEndpoints": 2,\n'
                '\t"serviceProxyHealthy": true\n}'
            )
        node.is_healthy = False
        assert await status_of(number) == 503


async def test_ports_follow_the_services() -> None:
    first, second = free_port(), free_port()
    async with node_with(load_balanced(first)) as node:
        node.tracker.on_service(load_balanced(first), load_balanced(second))
        node.tracker.on_service(None, load_balanced(first, "other"))
        await node.sync()
        assert (await status_of(first), await status_of(second)) == (503, 503)
        node.tracker.on_service(load_balanced(second), None)
        node.tracker.on_service(None, service("plain"))
        await node.sync()
        assert (await status_of(first), await status_of(second)) == (503, 0)
        assert node.events.events == []
    assert await status_of(first) == 0


async def test_port_in_use_is_reported_by_an_event() -> None:
    number = free_port()
    async with node_with(load_balanced(number)), node_with(load_balanced(number, "other")) as node:
        await node.sync()
        assert [event[:3] for event in node.events.events] == [
            ("Warning", "FailedToStartServiceHealthcheck", "default/other")
        ]
        assert f'node here failed to start healthcheck "default/other" on port {number}' in node.events.events[0][3]


async def test_health_checks_listen_only_on_node_port_addresses() -> None:
    number = free_port()
    async with node_with(load_balanced(number), addresses=["127.0.0.2"]):
        assert (await status_of(number, "127.0.0.2"), await status_of(number)) == (503, 0)
