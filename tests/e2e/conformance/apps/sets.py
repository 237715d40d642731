"""A whole cluster with hollow nodes on a virtual clock, for the conformance tests of stateful and daemon sets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.apps_v1 import ControllerRevision, DaemonSet, StatefulSet
from sampan.api.types.core_v1 import Pod
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from sampan.machinery.client import Client, PatchType, Selection
from sampan.testing import Cluster

NODES = ("node-0", "node-1", "node-2")
OLD, NEW = "example.com/httpd:2.4.38", "example.com/httpd:2.4.39"
GATE = "example.com/healthy"
LABELS = {"app": "set", "foo": "bar"}
ALL = Selection(namespace="default", labels="app=set")


def template(*, has_gate: bool = False, **spec: Any) -> dict[str, Any]:
    """Return a pod template; with `has_gate`, pods become ready only by `Sets.be_healthy`."""
    gates = [{"conditionType": GATE}] if has_gate else []
    pod_spec = {"containers": [{"name": "webserver", "image": OLD}], "readinessGates": gates, **spec}
    return {"metadata": {"labels": LABELS}, "spec": pod_spec}


def stateful_set(replicas: int, *, pods: dict[str, Any] | None = None, **spec: Any) -> StatefulSet:
    value = {
        "metadata": {"name": "ss", "namespace": "default", "labels": LABELS},
        "spec": {
            "replicas": replicas,
            "serviceName": "test",
            "selector": {"matchLabels": LABELS},
            "template": pods or template(),
            **spec,
        },
    }
    return codec.from_value(value, StatefulSet)


def daemon_set(*, pods: dict[str, Any] | None = None, **spec: Any) -> DaemonSet:
    value = {
        "metadata": {"name": "daemon-set", "namespace": "default", "labels": LABELS},
        "spec": {"selector": {"matchLabels": LABELS}, "template": pods or template(), **spec},
    }
    return codec.from_value(value, DaemonSet)


@dataclass(slots=True)
class Sets:
    cluster: Cluster
    clock: VirtualClock

    @property
    def client(self) -> Client:
        return self.cluster.client

    async def create(self, obj: Any, pass_s: float = 60) -> Any:
        created = await self.client.for_kind(type(obj)).create(obj)
        await self.clock.advance(pass_s)
        return created

    async def patch(self, kind: type[Any], spec: dict[str, Any], pass_s: float = 60) -> Any:
        patched = await self.client.for_kind(kind).patch(_NAMES[kind], {"spec": spec}, "default")
        await self.clock.advance(pass_s)
        return patched

    async def set_image(self, kind: type[Any], image: str, pass_s: float = 60) -> None:
        containers = [{"name": "webserver", "image": image}]
        await self.patch(kind, {"template": {"spec": {"containers": containers}}}, pass_s)

    async def get(self, kind: type[Any]) -> Any:
        return await self.client.for_kind(kind).get(_NAMES[kind], "default")

    async def pods(self) -> Sequence[Pod]:
        pods: Sequence[Pod] = (await self.client.for_kind(Pod).list(ALL)).items
        return sorted(pods, key=lambda pod: pod.metadata.name)

    async def images(self) -> dict[str, str]:
        return {pod.metadata.name: (pod.spec.containers or [])[0].image for pod in await self.pods()}

    async def nodes(self) -> list[str]:
        """Return the names of the nodes on which a pod runs."""
        return sorted(pod.spec.nodeName for pod in await self.pods() if pod.status.phase == "Running")

    async def delete_pod(self, name: str, pass_s: float = 60) -> None:
        await self.client.for_kind(Pod).delete(name, "default")
        await self.clock.advance(pass_s)

    async def revisions(self) -> list[ControllerRevision]:
        revisions = (await self.client.for_kind(ControllerRevision).list(ALL)).items
        return sorted(revisions, key=lambda revision: revision.revision)

    async def be_healthy(self, is_healthy: bool) -> None:
        """Set the readiness gate of all pods that have it."""
        condition = {"type": GATE, "status": str(is_healthy)}
        for pod in await self.pods():
            try:
                await self.client.for_kind(Pod).patch(
                    pod.metadata.name, {"status": {"conditions": [condition]}}, "default", subresource="status"
                )
            except errors.NotFound:
                continue
        await self.clock.advance(5)


_NAMES: dict[Any, str] = {StatefulSet: "ss", DaemonSet: "daemon-set"}


@asynccontextmanager
async def sets_cluster() -> AsyncIterator[Sets]:
    clock = VirtualClock()
    async with Cluster(nodes=len(NODES), clock=clock) as cluster:
        yield Sets(cluster, clock)


Scenario = Callable[[Sets], Awaitable[None]]


def run_scenario(scenario: Scenario) -> None:
    async def main() -> None:
        async with sets_cluster() as c:
            await scenario(c)

    asyncio.run(main())


async def check_status_endpoints(c: Sets, kind: type[Any]) -> None:
    """Read, update and patch the status of the set, and check that each change is stored."""
    client, name = c.client.for_kind(kind), _NAMES[kind]
    obj = await c.get(kind)
    value = codec.to_value(obj)
    value["status"]["conditions"] = [
        {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "Set from e2e test"}
    ]
    updated: Any = await client.update_status(codec.from_value(value, kind))
    assert [condition.type for condition in updated.status.conditions] == ["StatusUpdate"]
    assert [condition.type for condition in (await c.get(kind)).status.conditions] == ["StatusUpdate"]
    patch = {"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}}
    patched: Any = await client.patch(name, patch, "default", type=PatchType.MERGE, subresource="status")
    assert [condition.type for condition in patched.status.conditions] == ["StatusPatched"]
    assert [condition.type for condition in (await c.get(kind)).status.conditions] == ["StatusPatched"]
