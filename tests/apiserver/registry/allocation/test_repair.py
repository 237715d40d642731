"""What is taken is brought in line with what services hold."""

import asyncio
import logging

import pytest

from sampan.apiserver.registry.allocation import AllocationRepair
from sampan.apiserver.registry.strategy import Context
from sampan.machinery.clock import VirtualClock
from sampan.storage.memory import MemoryBackend
from tests.apiserver.registry.shared_store_servers import ADMIN, NAMESPACE, ApiServer, one_server

SERVICE = {"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
IP_ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"


async def allocated(server: ApiServer) -> tuple[set[str], set[int]]:
    _, listed = await server.ask("GET", IP_ADDRESSES)
    ports = set(await server.registry.node_ports.change(lambda bitmap: bitmap))
    return {item["metadata"]["name"] for item in listed["items"]}, ports


def repairing(server: ApiServer) -> AllocationRepair:
    return AllocationRepair(registry=server.registry, clock=server.registry.clock)


def test_what_no_service_holds_is_given_back_after_three_rounds(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with one_server() as server:
            created = await server.make(f"{NAMESPACE}/services", SERVICE)
            held = {created["spec"]["clusterIP"]}, {created["spec"]["ports"][0]["nodePort"]}
            await leak(server)
            repair = repairing(server)
            for _ in range(2):
                await repair.repair()
                addresses, ports = await allocated(server)
                assert ("10.96.200.1" in addresses, 31999 in ports) == (True, True)
            await repair.repair()
            assert await allocated(server) == held

    with caplog.at_level(logging.WARNING):
        asyncio.run(work())
    assert "releasing cluster IP 10.96.200.1" in caplog.text


async def leak(server: ApiServer) -> None:
    """As a server does that dies while it creates a service."""
    labels = {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}
    parent = {"resource": "services", "namespace": "ns", "name": "gone"}
    address = {"metadata": {"name": "10.96.200.1", "labels": labels}, "spec": {"parentRef": parent}}
    await server.make(IP_ADDRESSES, address)
    await server.registry.node_ports.change(lambda bitmap: bitmap.take(31999))


async def test_addresses_of_others_are_left_alone() -> None:
    async with one_server() as server:
        parent = {"group": "example.com", "resource": "gateways", "name": "g"}
        await server.make(IP_ADDRESSES, {"metadata": {"name": "10.9.9.9"}, "spec": {"parentRef": parent}})
        repair = repairing(server)
        for _ in range(5):
            await repair.repair()
        assert await allocated(server) == ({"10.9.9.9"}, set())


def test_what_a_service_holds_is_taken_for_it(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with one_server() as server:
            created = await server.make(f"{NAMESPACE}/services", SERVICE)
            held = await allocated(server)
            ctx = Context(registry=server.registry, user=ADMIN, now="")
            await server.registry.addresses.release(ctx, created["spec"]["clusterIP"])
            await server.registry.node_ports.release(held[1])
            assert await allocated(server) == (set(), set())
            await repairing(server).repair()
            assert await allocated(server) == held

    asyncio.run(work())
    assert "was not allocated" in caplog.text


async def test_a_service_that_comes_and_goes_is_no_leak() -> None:
    async with one_server() as server:
        repair = repairing(server)
        for _ in range(4):
            await server.make(f"{NAMESPACE}/services", SERVICE)
            await repair.repair()
            await server.ask("DELETE", f"{NAMESPACE}/services/a")
            await repair.repair()
        assert await allocated(server) == (set(), set())


async def test_it_runs_in_rounds() -> None:
    clock = VirtualClock()
    async with MemoryBackend(clock=clock) as backend, one_server(clock=clock, backend=backend) as server:
        await leak(server)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(AllocationRepair(registry=server.registry, clock=clock).run())
            await clock.advance(1000)
            task.cancel()
        assert await allocated(server) == (set(), set())
        await server.registry.open_store_of("networking.k8s.io", "v1", "IPAddress").cacher.wait_ready()
