"""A whole cluster with hollow nodes on a virtual clock, for the conformance tests of Deployments, ReplicaSets and
ReplicationControllers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.api.types.core_v1 import Pod, ReplicationController
from sampan.host.clock import VirtualClock
from sampan.machinery.client import Selection
from sampan.testing import Cluster

IMAGE, OTHER_IMAGE = "agnhost:2", "agnhost:1"


def template(labels: dict[str, str], image: str = IMAGE, **annotations: str) -> dict[str, Any]:
    """Return a template of pods that start and stop at once; annotations configure the hollow runtime."""
    prefixed = {f"hollow.sampan.dev/{key}": value for key, value in annotations.items()}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": image}]}
    return {"metadata": {"labels": labels, "annotations": prefixed}, "spec": spec}


def deployment(name: str, replicas: int, pods: dict[str, Any], **spec: Any) -> Deployment:
    return codec.from_value(_value(name, replicas, pods, spec), Deployment)


def replica_set(name: str, replicas: int, pods: dict[str, Any], **metadata: Any) -> ReplicaSet:
    value = _value(name, replicas, pods, {})
    return codec.from_value({**value, "metadata": {**value["metadata"], **metadata}}, ReplicaSet)


def replication_controller(name: str, replicas: int, pods: dict[str, Any], **metadata: Any) -> ReplicationController:
    meta = {"name": name, "namespace": "default", "labels": pods["metadata"]["labels"], **metadata}
    return codec.from_value({"metadata": meta, "spec": {"replicas": replicas, "template": pods}}, ReplicationController)


def _value(name: str, replicas: int, pods: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    labels = pods["metadata"]["labels"]
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pods, **spec},
    }


@dataclass(slots=True)
class ReplicaCluster:
    cluster: Cluster
    clock: VirtualClock

    def for_kind(self, type: type[Any]) -> Any:
        return self.cluster.client.for_kind(type)

    async def create(self, obj: Any, pass_s: float = 2) -> Any:
        created = await self.for_kind(type(obj)).create(obj, "default")
        await self.clock.advance(pass_s)
        return created

    async def get(self, type: type[Any], name: str) -> Any:
        await self.clock.settle()
        return await self.for_kind(type).get(name, "default")

    async def pods(self, labels: str = "") -> Sequence[Pod]:
        await self.clock.settle()
        pods: Sequence[Pod] = (await self.for_kind(Pod).list_all(Selection(namespace="default", labels=labels))).items
        return pods

    async def sets(self) -> dict[str, ReplicaSet]:
        await self.clock.settle()
        replica_sets = (await self.for_kind(ReplicaSet).list_all(Selection(namespace="default"))).items
        return {rs.metadata.name: rs for rs in replica_sets}


def run_scenario(scenario: Callable[[ReplicaCluster], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with Cluster(nodes=2, clock=clock) as cluster:
            await scenario(ReplicaCluster(cluster, clock))

    asyncio.run(main())


def is_running(pod: Pod) -> bool:
    return pod.status.phase == "Running" and any(
        condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions
    )


def condition(obj: Any, type: str) -> Any:
    return next((condition for condition in obj.status.conditions if condition.type == type), None)
