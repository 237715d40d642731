"""The repair of allocations of cluster IPs and node ports that differ from those in services."""

import asyncio
import logging

import pytest

from sampan.apiserver.registry.allocation import AllocationRepair
from sampan.apiserver.registry.strategy import Context
from sampan.host.clock import VirtualClock
from sampan.storage.memory import MemoryBackend
from tests.apiserver.registry.shared_store_servers import ADMIN, NAMESPACE, ApiServer, open_server

SERVICE = {"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
FIXED_SERVICE = {
    "metadata": {"name": "a"},
    "spec": {"type": "NodePort", "clusterIP": "10.96.0.9", "ports": [{"port": 80, "nodePort": 31000}]},
}
IP_ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"


async def list_allocations(server: ApiServer) -> tuple[set[str], set[int]]:
    _, listed = await server.send("GET", IP_ADDRESSES)
    ports = set(await server.services.node_ports.change(lambda bitmap: bitmap))
    return {item["metadata"]["name"] for item in listed["items"]}, ports


def make_repair(server: ApiServer) -> AllocationRepair:
    return AllocationRepair(services=server.services, clock=server.registry.clock)


def test_leaked_allocations_are_released_by_the_third_repair(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with open_server() as server:
            created = await server.make(f"{NAMESPACE}/services", SERVICE)
            expected = {created["spec"]["clusterIP"]}, {created["spec"]["ports"][0]["nodePort"]}
            await leak(server)
            repair = make_repair(server)
            for _ in range(2):
                await repair.repair()
                addresses, ports = await list_allocations(server)
                assert ("10.96.0.200" in addresses, 30009 in ports) == (True, True)
            await repair.repair()
            assert await list_allocations(server) == expected

    with caplog.at_level(logging.WARNING):
        asyncio.run(work())
    assert "releasing cluster IP 10.96.0.200" in caplog.text


async def leak(server: ApiServer) -> None:
    """Leave allocations without a service, as a server does that dies while it creates one."""
    labels = {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}
    parent = {"resource": "services", "namespace": "ns", "name": "gone"}
    address = {"metadata": {"name": "10.96.0.200", "labels": labels}, "spec": {"parentRef": parent}}
    await server.make(IP_ADDRESSES, address)
    await server.services.node_ports.change(lambda bitmap: bitmap.take(30009))


async def test_ip_addresses_of_other_parents_are_not_released() -> None:
    async with open_server() as server:
        parent = {"group": "example.com", "resource": "gateways", "name": "g"}
        await server.make(IP_ADDRESSES, {"metadata": {"name": "10.9.9.9"}, "spec": {"parentRef": parent}})
        repair = make_repair(server)
        for _ in range(5):
            await repair.repair()
        assert await list_allocations(server) == ({"10.9.9.9"}, set())


def test_missing_allocations_of_services_are_restored(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with open_server() as server:
            created = await server.make(f"{NAMESPACE}/services", SERVICE)
            expected = await list_allocations(server)
            ctx = Context(services=server.services, user=ADMIN, now="")
            await server.services.addresses.release(ctx, created["spec"]["clusterIP"])
            await server.services.node_ports.release(expected[1])
            assert await list_allocations(server) == (set(), set())
            await make_repair(server).repair()
            assert await list_allocations(server) == expected

    asyncio.run(work())
    assert "was not allocated" in caplog.text


async def test_repairs_keep_allocations_of_a_service_that_is_created_and_deleted_repeatedly() -> None:
    async with open_server() as server:
        repair = make_repair(server)
        for _ in range(2):
            await server.make(f"{NAMESPACE}/services", FIXED_SERVICE)
            for _ in range(4):
                await repair.repair()
                assert await list_allocations(server) == ({"10.96.0.9"}, {31000})
            await server.send("DELETE", f"{NAMESPACE}/services/a")
            assert await list_allocations(server) == (set(), set())
            await repair.repair()
            assert await list_allocations(server) == (set(), set())


async def test_unused_rounds_of_a_port_are_counted_from_zero_after_a_service_has_used_it() -> None:
    async with open_server() as server:
        repair = make_repair(server)
        await server.services.node_ports.change(lambda bitmap: bitmap.take(31000))
        for _ in range(2):
            await repair.repair()
        await server.services.node_ports.release({31000})
        await server.make(f"{NAMESPACE}/services", FIXED_SERVICE)
        await repair.repair()
        await server.send("DELETE", f"{NAMESPACE}/services/a")
        await server.services.node_ports.change(lambda bitmap: bitmap.take(31000))
        rounds = []
        for _ in range(3):
            await repair.repair()
            rounds.append((await list_allocations(server))[1])
        assert rounds == [{31000}, {31000}, set()]


async def test_repair_runs_periodically() -> None:
    clock = VirtualClock()
    async with MemoryBackend(clock=clock) as backend, open_server(clock=clock, backend=backend) as server:
        await leak(server)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(AllocationRepair(services=server.services, clock=clock).run())
            await clock.advance(1000)
            task.cancel()
        assert await list_allocations(server) == (set(), set())
        await server.registry.open_store_of("networking.k8s.io", "v1", "IPAddress").cacher.wait_ready()
