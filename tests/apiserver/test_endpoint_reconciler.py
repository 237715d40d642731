"""The endpoints of the service `kubernetes` list every API server that is alive, including those of Kubernetes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from sampan.api.codec import protobuf
from sampan.api.types.core_v1 import Endpoints
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.endpoint_reconciler import (
    EndpointReconciler,
    ServerLeases,
    SoleServer,
    StoredServerLeases,
    server_leases,
)
from sampan.apiserver.server import ApiServer
from sampan.host.clock import RealClock
from sampan.machinery.client import Client
from sampan.storage.etcd import EtcdBackend
from sampan.storage.memory import MemoryBackend
from tests.controllers.cluster import Cluster, cluster
from tests.storage.etcd_server import NO_ETCD, Member, find, running_member

LEASES = "/registry/masterleases/"


def run_in_cluster(scenario: Callable[[Cluster, ServerLeases], Awaitable[None]]) -> None:
    async def main() -> None:
        async with cluster() as cluster_:
            await scenario(cluster_, StoredServerLeases(backend=cluster_.server.registry.backend))

    asyncio.run(main())


def reconciler(cluster: Cluster, leases: ServerLeases, address: str, port: int = 443) -> EndpointReconciler:
    return EndpointReconciler(client=cluster.client, leases=leases, address=address, port=port)


async def read_published_addresses(client: Client) -> list[str]:
    """Return the addresses of the endpoints, after a comparison with the slice."""
    endpoints = await client.for_kind(Endpoints).get("kubernetes", "default")
    addresses = [address.ip for subset in endpoints.subsets for address in subset.addresses]
    endpoint_slice = await client.for_kind(EndpointSlice).get("kubernetes", "default")
    assert [endpoint.addresses for endpoint in endpoint_slice.endpoints or ()] == [[address] for address in addresses]
    return addresses


def test_every_server_is_listed_until_its_lease_expires() -> None:
    async def scenario(cluster: Cluster, leases: ServerLeases) -> None:
        first, second = (reconciler(cluster, leases, f"192.0.2.{number}") for number in (1, 2))
        await first.reconcile(with_ports=True)
        assert await read_published_addresses(cluster.client) == ["192.0.2.1"]
        await second.reconcile(with_ports=True)
        assert await read_published_addresses(cluster.client) == ["192.0.2.1", "192.0.2.2"]
        await cluster.clock.advance(10)
        await first.reconcile()
        assert await read_published_addresses(cluster.client) == ["192.0.2.1", "192.0.2.2"]
        await cluster.clock.advance(6)
        await first.reconcile()
        assert await read_published_addresses(cluster.client) == ["192.0.2.1"]

    run_in_cluster(scenario)


def test_stopped_server_is_removed_at_once_and_not_added_again() -> None:
    async def scenario(cluster: Cluster, leases: ServerLeases) -> None:
        first, second = (reconciler(cluster, leases, f"192.0.2.{number}") for number in (1, 2))
        await first.reconcile()
        await second.reconcile()
        await first.withdraw()
        assert await read_published_addresses(cluster.client) == ["192.0.2.2"]
        await first.reconcile()
        await second.reconcile()
        assert await read_published_addresses(cluster.client) == ["192.0.2.2"]
        await second.withdraw()
        assert await read_published_addresses(cluster.client) == []

    run_in_cluster(scenario)


def test_servers_with_leases_of_kube_apiserver_are_listed() -> None:
    async def scenario(cluster: Cluster, leases: ServerLeases) -> None:
        lease = {"kind": "Endpoints", "apiVersion": "v1", "metadata": {"generation": 7}}
        value = protobuf.encode({**lease, "subsets": [{"addresses": [{"ip": "192.0.2.9"}]}]})
        await cluster.server.registry.backend.put(f"{LEASES}192.0.2.9", value, ttl_s=15)
        await cluster.server.registry.backend.put(f"{LEASES}broken", b"k8s\0\xff", ttl_s=15)
        await reconciler(cluster, leases, "192.0.2.1").reconcile()
        assert await read_published_addresses(cluster.client) == ["192.0.2.1", "192.0.2.9"]

    run_in_cluster(scenario)


def test_endpoint_ports_are_reset_only_at_startup() -> None:
    async def scenario(cluster: Cluster, leases: ServerLeases) -> None:
        await reconciler(cluster, leases, "192.0.2.1", 6443).reconcile(with_ports=True)
        other = reconciler(cluster, leases, "192.0.2.2", 7443)
        for with_ports, port in ((False, 6443), (True, 7443)):
            await other.reconcile(with_ports=with_ports)
            endpoints = await cluster.client.for_kind(Endpoints).get("kubernetes", "default")
            assert [port.port for port in endpoints.subsets[0].ports] == [port]

    run_in_cluster(scenario)


def test_ipv6_address_is_published_in_an_ipv6_endpoint_slice() -> None:
    async def scenario(cluster: Cluster, leases: ServerLeases) -> None:
        await reconciler(cluster, leases, "192.0.2.1").reconcile()
        await reconciler(cluster, SoleServer(address="2001:db8::1"), "2001:db8::1").reconcile()
        assert await read_published_addresses(cluster.client) == ["2001:db8::1"]
        assert (await cluster.client.for_kind(EndpointSlice).get("kubernetes", "default")).addressType == "IPv6"

    run_in_cluster(scenario)


def test_the_only_server_of_a_store_writes_no_leases() -> None:
    async def scenario(cluster: Cluster, leases: ServerLeases) -> None:
        sole = reconciler(cluster, server_leases(MemoryBackend(clock=cluster.clock), "192.0.2.1"), "192.0.2.1")
        await sole.reconcile(with_ports=True)
        before = await cluster.revision()
        await sole.reconcile()
        assert await cluster.revision() == before
        assert await read_published_addresses(cluster.client) == ["192.0.2.1"]

    run_in_cluster(scenario)


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Member]:
    with running_member(tmp_path) as member:
        yield member


@pytest.mark.skipif(find("etcd") is None, reason=NO_ETCD)
def test_endpoints_list_two_servers_that_share_an_etcd(etcd: Member) -> None:
    async def main() -> None:
        clock = RealClock()

        def config(address: str) -> ServerConfig:
            return ServerConfig(advertise_address=address, any_insecure_port=True)

        async with asyncio.timeout(60), EtcdBackend(endpoints=[etcd.client_url]) as backend:
            async with ApiServer(config=config("192.0.2.1"), backend=backend, clock=clock) as first:
                client = Client(transport=first.loopback(), clock=clock, component="test")
                async with ApiServer(config=config("192.0.2.2"), backend=backend, clock=clock):
                    assert await read_published_addresses(client) == ["192.0.2.1", "192.0.2.2"]
                assert await read_published_addresses(client) == ["192.0.2.1"]
            page = await backend.range(LEASES)
            assert not page.entries

    asyncio.run(main())
