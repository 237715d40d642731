"""A whole cluster with two hollow nodes on a virtual clock, for the conformance tests of services."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Endpoints, Pod, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.host.clock import VirtualClock
from sampan.machinery.client import Selection
from sampan.machinery.errors import NotFound
from sampan.testing import Cluster

NAMESPACE = "default"


@dataclass(slots=True)
class ServiceCluster:
    cluster: Cluster
    clock: VirtualClock

    def for_kind(self, type: Any) -> Any:
        return self.cluster.client.for_kind(type)

    async def pod(self, name: str, labels: Mapping[str, str], ports: Sequence[Mapping[str, Any]] = ()) -> Pod:
        """Create a pod, and return it when it runs and is ready."""
        container = {"name": "c", "image": "i", "ports": list(ports)}
        value = {
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": dict(labels)},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
        }
        await self.for_kind(Pod).create(codec.from_value(value, Pod))
        await self.clock.advance(3)
        pod: Pod = await self.for_kind(Pod).get(name, NAMESPACE)
        assert pod.status.phase == "Running"
        assert pod.status.podIP
        return pod

    async def end(self, name: str) -> None:
        await self.for_kind(Pod).delete(name, NAMESPACE)
        await self.clock.advance(5)

    async def service(self, name: str, **spec: Any) -> Service:
        value = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
        service: Service = await self.for_kind(Service).create(codec.from_value(value, Service))
        await self.clock.settle()
        return service

    async def endpoints(self, name: str) -> Endpoints | None:
        await self.clock.settle()
        try:
            endpoints: Endpoints = await self.for_kind(Endpoints).get(name, NAMESPACE)
        except NotFound:
            return None
        return endpoints

    async def slices(self, name: str) -> list[EndpointSlice]:
        await self.clock.settle()
        chosen = Selection(namespace=NAMESPACE, labels=f"kubernetes.io/service-name={name}")
        return list((await self.for_kind(EndpointSlice).list(chosen)).items)

    async def ports(self, name: str) -> dict[str, list[int]]:
        """Return the ports of the endpoints by pod, and check that the EndpointSlices have the same ports."""
        ports_by_pod: dict[str, list[int]] = {}
        endpoints = await self.endpoints(name)
        for subset in endpoints.subsets if endpoints is not None else ():
            for address in subset.addresses:
                assert address.targetRef is not None
                ports_by_pod.setdefault(address.targetRef.name, []).extend(port.port for port in subset.ports)
        sliced: dict[str, list[int]] = {}
        for endpoint_slice in await self.slices(name):
            for endpoint in endpoint_slice.endpoints or ():
                assert endpoint.targetRef is not None
                sliced.setdefault(endpoint.targetRef.name, []).extend(
                    port.port or 0 for port in endpoint_slice.ports or ()
                )
        ports_by_pod, sliced = (
            {pod: sorted(ports) for pod, ports in mapping.items()} for mapping in (ports_by_pod, sliced)
        )
        assert ports_by_pod == sliced
        return ports_by_pod


def run_scenario(scenario: Callable[[ServiceCluster], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with Cluster(nodes=2, clock=clock) as cluster:
            await clock.advance(2)
            await scenario(ServiceCluster(cluster, clock))

    asyncio.run(main())
