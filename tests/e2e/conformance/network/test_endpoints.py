"""Conformance tests of sig-network for Endpoints. The first paragraph of a docstring is the official test name."""

import asyncio

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Endpoints, Service
from sampan.machinery.client import DELETED, PatchType, Selection
from tests.e2e.conformance.network.service_cluster import NAMESPACE, ServiceCluster, run_scenario


def test_endpoints_lifecycle() -> None:
    """[sig-network] Endpoints should test the lifecycle of an Endpoint [Conformance]"""

    async def scenario(c: ServiceCluster) -> None:
        endpoints = c.for_kind(Endpoints)
        value = {
            "metadata": {"name": "testservice", "namespace": NAMESPACE, "labels": {"test-endpoint-static": "true"}},
            "subsets": [
                {"addresses": [{"ip": "10.0.0.24"}], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}
            ],
        }
        created = await endpoints.create(codec.from_value(value, Endpoints))
        await c.clock.advance(60)
        chosen = Selection(labels="test-endpoint-static=true")
        assert [endpoint.metadata.name for endpoint in (await endpoints.list(chosen)).items] == ["testservice"]
        label = {"metadata": {"labels": {"test-service": "updated"}}}
        updated = await endpoints.patch("testservice", label, NAMESPACE, type=PatchType.MERGE)
        assert updated.metadata.labels["test-service"] == "updated"
        ports = [{"name": "http-test", "port": 8080}]
        patch = {
            "metadata": {"labels": {"test-service": "patched"}},
            "subsets": [{"addresses": [{"ip": "10.0.0.25"}], "ports": ports}],
        }
        await endpoints.patch("testservice", patch, NAMESPACE)
        stored = await endpoints.get("testservice", NAMESPACE)
        (subset,) = stored.subsets
        assert (subset.addresses[0].ip, subset.ports[0].port) == ("10.0.0.25", 8080)
        assert stored.metadata.labels["test-service"] == "patched"
        async with (
            asyncio.timeout(60),
            endpoints.watch(chosen, resource_version=created.metadata.resourceVersion) as news,
        ):
            await endpoints.delete_collection(Selection(namespace=NAMESPACE, labels="test-endpoint-static=true"))
            async for batch in news:
                if any(event.type == DELETED for event in batch):
                    break

    run_scenario(scenario)


def test_endpoints_for_pods_that_match_a_service() -> None:
    """[sig-network] EndpointsController should create Endpoints for Pods matching a Service [Conformance]"""

    async def scenario(c: ServiceCluster) -> None:
        await c.pod("pod1", {"foo": "bar"}, [{"name": "example-name", "containerPort": 3000, "protocol": "TCP"}])
        await c.pod("pod2", {"foo": "bar"}, [{"name": "other-port", "containerPort": 3001, "protocol": "TCP"}])
        first = {"name": "example", "port": 80, "targetPort": 3000}
        await c.service("numbers", selector={"foo": "bar"}, ports=[first])
        await c.service("names", selector={"foo": "bar"}, ports=[{**first, "targetPort": "example-name"}])
        assert await c.ports("numbers") == {"pod1": [3000], "pod2": [3000]}
        names = await c.endpoints("names")
        assert names is not None
        (subset,) = names.subsets
        assert [address.targetRef and address.targetRef.name for address in subset.addresses] == ["pod1"]
        await c.for_kind(Service).delete("numbers", NAMESPACE)
        assert await c.endpoints("numbers") is None

    run_scenario(scenario)


def test_endpoints_for_a_service_that_matches_no_pods() -> None:
    """[sig-network] EndpointsController should create and delete Endpoints for a Service with a selector that matches
    no pods [Conformance]"""

    async def scenario(c: ServiceCluster) -> None:
        await c.service(
            "empty", selector={"does-not-match-anything": "endpoints-test"}, ports=[{"name": "x", "port": 80}]
        )
        endpoints = await c.endpoints("empty")
        assert endpoints is not None
        assert endpoints.subsets == []
        await c.for_kind(Service).delete("empty", NAMESPACE)
        assert await c.endpoints("empty") is None

    run_scenario(scenario)
