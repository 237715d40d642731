"""Conformance tests of sig-network for EndpointSlice. The first paragraph of a docstring is the official test name."""

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Endpoints, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.machinery.client import PatchType
from tests.e2e.conformance.api import Api
from tests.e2e.conformance.network.service_cluster import NAMESPACE, ServiceCluster, run_scenario
from tests.e2e.conformance.operations import check_api_operations


def test_the_api_server_has_endpoints_and_slices() -> None:
    """[sig-network] API Server should have Endpoints and EndpointSlices pointing to API Server [Conformance]"""

    async def scenario(c: ServiceCluster) -> None:
        endpoints = await c.endpoints("kubernetes")
        assert endpoints is not None
        ips = {address.ip for subset in endpoints.subsets for address in subset.addresses}
        (endpoint_slice,) = await c.slices("kubernetes")
        assert {ip for endpoint in endpoint_slice.endpoints or () for ip in endpoint.addresses or ()} == ips
        assert ips
        assert [(port.name, port.protocol) for port in endpoint_slice.ports or ()] == [("https", "TCP")]

    run_scenario(scenario)


def test_slices_for_pods_that_match_a_service() -> None:
    """[sig-network] EndpointSlice should create Endpoints and EndpointSlices for Pods matching a Service
    [Conformance]"""

    async def scenario(c: ServiceCluster) -> None:
        pod = await c.pod("pod1", {"foo": "bar"}, [{"name": "example-name", "containerPort": 3000, "protocol": "TCP"}])
        await c.pod("pod2", {"foo": "bar"}, [{"name": "other-port", "containerPort": 3001, "protocol": "TCP"}])
        port = {"name": "example", "port": 80, "protocol": "TCP"}
        await c.service("int-port", selector={"foo": "bar"}, ports=[{**port, "targetPort": 3000}])
        named = [
            {**port, "targetPort": "example-name"},
            {**port, "name": "other", "port": 81, "targetPort": "other-port"},
        ]
        await c.service("named-port", selector={"foo": "bar"}, ports=named)
        assert await c.ports("int-port") == {"pod1": [3000], "pod2": [3000]}
        assert await c.ports("named-port") == {"pod1": [3000], "pod2": [3001]}
        assert len(await c.slices("int-port")) == 1
        assert len(await c.slices("named-port")) == 2, "pods with different ports are in different slices"
        (endpoint_slice,) = await c.slices("int-port")
        first = next(
            endpoint
            for endpoint in endpoint_slice.endpoints or ()
            if endpoint.targetRef and endpoint.targetRef.name == "pod1"
        )
        assert first.addresses == [pod.status.podIP]
        assert first.nodeName == pod.spec.nodeName
        assert first.conditions.ready is True
        assert first.targetRef is not None
        assert (first.targetRef.kind, first.targetRef.uid) == ("Pod", pod.metadata.uid)
        await c.for_kind(EndpointSlice).delete(endpoint_slice.metadata.name, NAMESPACE)
        await c.clock.advance(5)
        assert await c.ports("int-port") == {"pod1": [3000], "pod2": [3000]}, "the slice is recreated"

    run_scenario(scenario)


def test_slices_for_a_service_that_matches_no_pods() -> None:
    """[sig-network] EndpointSlice should create and delete EndpointSlices for a Service with a selector that matches no
    pods [Conformance]"""

    async def scenario(c: ServiceCluster) -> None:
        await c.service("empty", selector={"does-not-match-anything": "x"}, ports=[{"name": "example", "port": 80}])
        (endpoint_slice,) = await c.slices("empty")
        assert not endpoint_slice.endpoints
        await c.for_kind(Service).delete("empty", NAMESPACE)
        await c.clock.advance(5)
        assert await c.slices("empty") == []

    run_scenario(scenario)


def test_slice_api_operations(api: Api) -> None:
    """[sig-network] EndpointSlice should support creating EndpointSlice API operations [Conformance]"""
    endpoints = [{"addresses": ["1.2.3.4"]}]
    check_api_operations(api, "discovery.k8s.io", "endpointslices", addressType="IPv4", endpoints=endpoints)


def test_mirroring() -> None:
    """[sig-network] EndpointSliceMirroring should mirror a custom Endpoints resource through create update and delete
    [Conformance]"""

    async def scenario(c: ServiceCluster) -> None:
        await c.service("example-custom-endpoints", ports=[{"name": "example", "port": 80, "protocol": "TCP"}])
        endpoints, name = c.for_kind(Endpoints), "example-custom-endpoints"
        subset = {"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}
        value = {"metadata": {"name": name, "namespace": NAMESPACE}, "subsets": [subset]}
        await endpoints.create(codec.from_value(value, Endpoints))
        (endpoint_slice,) = await c.slices(name)
        assert [port.port for port in endpoint_slice.ports or ()] == [80]
        assert [endpoint.addresses for endpoint in endpoint_slice.endpoints or ()] == [["10.1.2.3"]]
        changed = {"subsets": [{"addresses": [{"ip": "10.2.3.4"}], "ports": [{"port": 9090}]}]}
        await endpoints.patch(name, changed, NAMESPACE, type=PatchType.MERGE)
        (endpoint_slice,) = await c.slices(name)
        assert [port.port for port in endpoint_slice.ports or ()] == [9090]
        assert [endpoint.addresses for endpoint in endpoint_slice.endpoints or ()] == [["10.2.3.4"]]
        await endpoints.delete(name, NAMESPACE)
        assert await c.slices(name) == []

    run_scenario(scenario)
