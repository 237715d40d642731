"""System objects that users delete or change are restored, as by kube-apiserver."""

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
    pytest.param(Service, "kubernetes", "default", 10, id="service"),
    pytest.param(Endpoints, "kubernetes", "default", 10, id="endpoints"),
    pytest.param(EndpointSlice, "kubernetes", "default", 10, id="endpoint slice"),
    pytest.param(ServiceCIDR, "kubernetes", "", 10, id="service CIDR"),
    pytest.param(ConfigMap, TRACKING, "kube-system", 10, id="token tracking config map"),
    pytest.param(Namespace, "kube-node-lease", "", 60, id="system namespace"),
]


def run_with_system_objects(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        async with cluster() as running, asyncio.TaskGroup() as group:
            server = running.server
            system_objects = SystemObjects(
                pipeline=server.pipeline,
                cluster_ip_range="10.96.0.0/12",
                port=PORT,
                endpoints=EndpointReconciler(
                    client=running.client, leases=SoleServer(address="192.0.2.1"), address="192.0.2.1", port=PORT
                ),
            )
            await system_objects.ensure()
            task = group.create_task(system_objects.run(running.clock))
            await running.clock.settle()
            await scenario(running)
            task.cancel()

    asyncio.run(main())


async def exists(client: Client, type: type[Any], name: str, namespace: str) -> bool:
    try:
        await client.for_kind(type).get(name, namespace)
    except errors.NotFound:
        return False
    return True


@pytest.mark.parametrize(("type", "name", "namespace", "within_s"), DELETED)
def test_deleted_system_object_is_recreated(type: type[Any], name: str, namespace: str, within_s: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        client = cluster.client
        if type is Namespace:
            async with cluster.running("namespace-controller"):
                await client.for_kind(type).delete(name)
                await cluster.clock.settle()
        else:
            await client.for_kind(type).delete(name, namespace)
        assert not await exists(client, type, name, namespace)
        await cluster.clock.advance(within_s)
        assert await exists(client, type, name, namespace)

    run_with_system_objects(scenario)


def test_recreated_kubernetes_service_keeps_its_cluster_ip() -> None:
    async def scenario(cluster: Cluster) -> None:
        before = await cluster.client.for_kind(Service).get("kubernetes", "default")
        await cluster.client.for_kind(Service).delete("kubernetes", "default")
        await cluster.clock.advance(10)
        after = await cluster.client.for_kind(Service).get("kubernetes", "default")
        assert after.spec == before.spec
        assert after.metadata.uid != before.metadata.uid

    run_with_system_objects(scenario)


def test_nothing_is_written_while_all_system_objects_exist() -> None:
    async def scenario(cluster: Cluster) -> None:
        before = await cluster.revision()
        await cluster.clock.advance(600)
        assert await cluster.revision() == before

    run_with_system_objects(scenario)


def test_emptied_kubernetes_endpoints_are_restored() -> None:
    async def scenario(cluster: Cluster) -> None:
        endpoints = await cluster.client.for_kind(Endpoints).get("kubernetes", "default")
        value = {"metadata": {"name": "kubernetes", "namespace": "default"}, "subsets": []}
        value["metadata"]["resourceVersion"] = endpoints.metadata.resourceVersion  # type: ignore[index]
        await cluster.client.for_kind(Endpoints).update(codec.from_value(value, Endpoints))
        await cluster.clock.advance(10)
        restored = await cluster.client.for_kind(Endpoints).get("kubernetes", "default")
        assert restored.subsets == endpoints.subsets

    run_with_system_objects(scenario)


def test_running_server_recreates_the_kubernetes_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "INTERVAL_S", 0.01)

    async def wait_until_recreated(port: int) -> None:
        async with asyncio.timeout(30), Wire(port) as wire:
            assert (await wire.request("DELETE", SERVICE)).code == 200
            while (await wire.request("GET", SERVICE)).code != 200:
                pass

    with WholeCluster(insecure=True, controllers=()) as running:
        asyncio.run(wait_until_recreated(int(running.insecure_url.rpartition(":")[2])))
