"""What users delete of the system's own objects comes back, as in the real server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import ConfigMap, Endpoints, Namespace, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.api.types.networking_v1 import ServiceCIDR
from sampan.apiserver import bootstrap
from sampan.apiserver.bootstrap import SystemObjects
from sampan.apiserver.endpoint_reconciler import EndpointReconciler, SoleServer
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.testing import Cluster as WholeCluster
from tests.apiserver.http.wire import Wire
from tests.controllers.cluster import Cluster, cluster

TRACKING = "kube-apiserver-legacy-service-account-token-tracking"
PORT = 443
SERVICE = "/api/v1/namespaces/default/services/kubernetes"
DELETED = [
    pytest.param(Service, "kubernetes", "default", 10, id="the service"),
    pytest.param(Endpoints, "kubernetes", "default", 10, id="its endpoints"),
    pytest.param(EndpointSlice, "kubernetes", "default", 10, id="its endpoint slice"),
    pytest.param(ServiceCIDR, "kubernetes", "", 10, id="the range of services"),
    pytest.param(ConfigMap, TRACKING, "kube-system", 10, id="the token tracking"),
    pytest.param(Namespace, "kube-node-lease", "", 60, id="a system namespace"),
]


def play(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        async with cluster() as running, asyncio.TaskGroup() as group:
            server = running.server
            maintained = SystemObjects(
                pipeline=server.pipeline,
                cluster_ip_range="10.96.0.0/12",
                port=PORT,
                endpoints=EndpointReconciler(
                    client=running.client, leases=SoleServer(address="192.0.2.1"), address="192.0.2.1", port=PORT
                ),
            )
            await maintained.ensure()
            task = group.create_task(maintained.run(running.clock))
            await running.clock.settle()
            await scenario(running)
            task.cancel()

    asyncio.run(main())


async def exists(client: Client, type: type[Any], name: str, namespace: str) -> bool:
    try:
        await client.of(type).get(name, namespace)
    except errors.NotFound:
        return False
    return True


@pytest.mark.parametrize(("type", "name", "namespace", "within_s"), DELETED)
def test_what_is_deleted_comes_back(type: type[Any], name: str, namespace: str, within_s: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        client = cluster.client
        if type is Namespace:
            async with cluster.running("namespace-controller"):
                await client.of(type).delete(name)
                await cluster.clock.settle()
        else:
            await client.of(type).delete(name, namespace)
        assert not await exists(client, type, name, namespace)
        await cluster.clock.advance(within_s)
        assert await exists(client, type, name, namespace)

    play(scenario)


def test_the_service_has_its_address_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        before = await cluster.client.of(Service).get("kubernetes", "default")
        await cluster.client.of(Service).delete("kubernetes", "default")
        await cluster.clock.advance(10)
        after = await cluster.client.of(Service).get("kubernetes", "default")
        assert after.spec == before.spec
        assert after.metadata.uid != before.metadata.uid

    play(scenario)


def test_nothing_is_written_while_nothing_is_missing() -> None:
    async def scenario(cluster: Cluster) -> None:
        before = await cluster.revision()
        await cluster.clock.advance(600)
        assert await cluster.revision() == before

    play(scenario)


def test_endpoints_that_somebody_empties_are_filled_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        endpoints = await cluster.client.of(Endpoints).get("kubernetes", "default")
        value = {"metadata": {"name": "kubernetes", "namespace": "default"}, "subsets": []}
        value["metadata"]["resourceVersion"] = endpoints.metadata.resourceVersion  # type: ignore[index]
        await cluster.client.of(Endpoints).update(codec.from_value(value, Endpoints))
        await cluster.clock.advance(10)
        again = await cluster.client.of(Endpoints).get("kubernetes", "default")
        assert again.subsets == endpoints.subsets

    play(scenario)


def test_a_running_server_brings_the_service_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "INTERVAL_S", 0.01)

    async def come_back(port: int) -> None:
        async with asyncio.timeout(30), Wire(port) as wire:
            assert (await wire.ask("DELETE", SERVICE)).code == 200
            while (await wire.ask("GET", SERVICE)).code != 200:
                pass

    with WholeCluster(insecure=True, controllers=()) as running:
        asyncio.run(come_back(int(running.insecure_url.rpartition(":")[2])))
