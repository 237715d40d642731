"""A whole cluster with two hollow nodes for the conformance descriptions of services, on a virtual clock."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Endpoints, Pod, Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.machinery.client import Selection
from sampan.machinery.clock import VirtualClock
from sampan.machinery.errors import NotFound
from sampan.testing import Cluster

NAMESPACE = "default"


@dataclass(slots=True)
class Scene:
    cluster: Cluster
    clock: VirtualClock

    def of(self, type: Any) -> Any:
        return self.cluster.client.of(type)

    async def pod(self, name: str, labels: Mapping[str, str], ports: Sequence[Mapping[str, Any]] = ()) -> Pod:
        """A pod that runs and is ready."""
        container = {"name": "c", "image": "i", "ports": list(ports)}
        value = {
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": dict(labels)},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
        }
        await self.of(Pod).create(codec.from_value(value, Pod))
        await self.clock.advance(3)
        found: Pod = await self.of(Pod).get(name, NAMESPACE)
        assert found.status.phase == "Running"
        assert found.status.podIP
        return found

    async def end(self, name: str) -> None:
        await self.of(Pod).delete(name, NAMESPACE)
        await self.clock.advance(5)

    async def service(self, name: str, **spec: Any) -> Service:
        value = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
        made: Service = await self.of(Service).create(codec.from_value(value, Service))
        await self.clock.settle()
        return made

    async def endpoints(self, name: str) -> Endpoints | None:
        await self.clock.settle()
        try:
            found: Endpoints = await self.of(Endpoints).get(name, NAMESPACE)
        except NotFound:
            return None
        return found

    async def slices(self, name: str) -> list[EndpointSlice]:
        await self.clock.settle()
        chosen = Selection(namespace=NAMESPACE, labels=f"kubernetes.io/service-name={name}")
        return list((await self.of(EndpointSlice).list(chosen)).items)

    async def ports(self, name: str) -> dict[str, list[int]]:
        """By pod, the ports that the endpoints show; the slices must show the same."""
        made: dict[str, list[int]] = {}
        found = await self.endpoints(name)
        for subset in found.subsets if found is not None else ():
            for address in subset.addresses:
                assert address.targetRef is not None
                made.setdefault(address.targetRef.name, []).extend(port.port for port in subset.ports)
        sliced: dict[str, list[int]] = {}
        for one in await self.slices(name):
            for endpoint in one.endpoints or ():
                assert endpoint.targetRef is not None
                sliced.setdefault(endpoint.targetRef.name, []).extend(port.port or 0 for port in one.ports or ())
        made, sliced = ({pod: sorted(ports) for pod, ports in each.items()} for each in (made, sliced))
        assert made == sliced
        return made


def play(scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with Cluster(nodes=2, clock=clock) as cluster:
            await clock.advance(2)
            await scenario(Scene(cluster, clock))

    asyncio.run(main())
