"""Conformance tests of sig-network for Service, as far as they concern endpoints and the object itself. The first
paragraph of a docstring is the official test name. Traffic is tested with kube-proxy."""

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Service
from sampan.machinery.client import Selection
from tests.e2e.conformance.network.service_cluster import NAMESPACE, ServiceCluster, run_scenario


def test_a_basic_endpoint_from_pods() -> None:
    """[sig-network] Services should serve a basic endpoint from pods [Conformance]"""

    async def scenario(c: ServiceCluster) -> None:
        await c.service("endpoint-test2", selector={"testid": "e"}, ports=[{"port": 80, "targetPort": 80}])
        assert await c.ports("endpoint-test2") == {}
        await c.pod("pod1", {"testid": "e"}, [{"containerPort": 80}])
        assert await c.ports("endpoint-test2") == {"pod1": [80]}
        await c.pod("pod2", {"testid": "e"}, [{"containerPort": 80}])
        assert await c.ports("endpoint-test2") == {"pod1": [80], "pod2": [80]}
        await c.end("pod1")
        assert await c.ports("endpoint-test2") == {"pod2": [80]}
        await c.end("pod2")
        assert await c.ports("endpoint-test2") == {}

    run_scenario(scenario)


def test_multiport_endpoints_from_pods() -> None:
    """[sig-network] Services should serve multiport endpoints from pods [Conformance]"""

    async def scenario(c: ServiceCluster) -> None:
        ports = [
            {"name": "portname1", "port": 80, "targetPort": "svc1"},
            {"name": "portname2", "port": 81, "targetPort": "svc2"},
        ]
        await c.service("multi-endpoint-test", selector={"foo": "bar"}, ports=ports)
        assert await c.ports("multi-endpoint-test") == {}
        await c.pod("pod1", {"foo": "bar"}, [{"name": "svc1", "containerPort": 100}])
        assert await c.ports("multi-endpoint-test") == {"pod1": [100]}
        await c.pod("pod2", {"foo": "bar"}, [{"name": "svc2", "containerPort": 101}])
        assert await c.ports("multi-endpoint-test") == {"pod1": [100], "pod2": [101]}
        await c.end("pod1")
        assert await c.ports("multi-endpoint-test") == {"pod2": [101]}
        await c.end("pod2")
        assert await c.ports("multi-endpoint-test") == {}

    run_scenario(scenario)


def test_same_port_and_different_protocols() -> None:
    """[sig-network] Services should serve endpoints on same port and different protocols [Conformance]"""

    async def scenario(c: ServiceCluster) -> None:
        tcp = {"name": "tcp-port", "port": 80, "protocol": "TCP"}
        udp = {"name": "udp-port", "port": 80, "protocol": "UDP"}
        await c.service("multiprotocol-test", selector={"a": "b"}, ports=[tcp, udp])
        await c.pod("pod1", {"a": "b"})

        async def protocols() -> list[str]:
            (endpoint_slice,) = await c.slices("multiprotocol-test")
            return sorted(port.protocol or "" for port in endpoint_slice.ports or ())

        assert await protocols() == ["TCP", "UDP"]
        for port, expected in ((tcp, ["TCP"]), (udp, ["UDP"])):
            service = await c.for_kind(Service).get("multiprotocol-test", NAMESPACE)
            changed = codec.from_value(codec.to_value(service), Service)
            changed.spec.ports = [entry for entry in changed.spec.ports if entry.name == port["name"]]
            if not changed.spec.ports:
                changed.spec.ports = codec.from_value({"spec": {"ports": [port]}}, Service).spec.ports
            await c.for_kind(Service).update(changed)
            assert await protocols() == expected

    run_scenario(scenario)


def test_delete_a_collection() -> None:
    """[sig-network] Services should delete a collection of services [Conformance]"""

    async def scenario(c: ServiceCluster) -> None:
        for name, label in (("e2e-svc-a", "true"), ("e2e-svc-b", "true"), ("e2e-svc-c", "")):
            labels = {"e2e-test-service": "delete"} if label else {}
            spec = {"ports": [{"name": "http", "port": 80}], "selector": {"a": "b"}}
            value = {"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}, "spec": spec}
            await c.for_kind(Service).create(codec.from_value(value, Service))
        await c.for_kind(Service).delete_collection(Selection(namespace=NAMESPACE, labels="e2e-test-service=delete"))
        await c.clock.advance(1)
        names = {
            service.metadata.name for service in (await c.for_kind(Service).list(Selection(namespace=NAMESPACE))).items
        }
        assert names == {"e2e-svc-c", "kubernetes"}
        assert await c.endpoints("e2e-svc-a") is None
        assert await c.endpoints("e2e-svc-c") is not None

    run_scenario(scenario)


def test_endpoints_latency() -> None:
    """[sig-network] Service endpoints latency should not be very high [Conformance]"""

    async def scenario(c: ServiceCluster) -> None:
        await c.pod("svc-latency", {"name": "svc-latency-rc"})
        for index in range(100):
            await c.service(f"latency-svc-{index}", selector={"name": "svc-latency-rc"}, ports=[{"port": 80}])
            endpoints = await c.endpoints(f"latency-svc-{index}")
            assert endpoints is not None, "the virtual clock has not advanced"
            assert len(endpoints.subsets[0].addresses) == 1

    run_scenario(scenario)
