"""A scheduler beside a whole API server in this process, on a virtual clock."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.core_v1 import Namespace, Node, Pod, ResourceRequirements, ServiceAccount, Taint
from sampan.api.types.events_v1 import Event
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.request.call import AUTHENTICATED, UserInfo
from sampan.machinery import errors
from sampan.machinery.client import Client, PatchType
from sampan.scheduler.config import SchedulerConfig
from sampan.scheduler.scheduler import Scheduler, make_scheduler
from sampan.testing import builders
from tests.controllers.cluster import Cluster, cluster

NAMESPACE = "default"


@dataclass
class RunningScheduler:
    cluster: Cluster
    scheduler: Scheduler

    async def node(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Taint] = (),
        **amounts: str,
    ) -> None:
        """Create a ready node, with other allocatable amounts if given."""
        nodes = self.cluster.client.for_kind(Node)
        await nodes.create(builders.node(name, labels={"kubernetes.io/hostname": name, **(labels or {})}))
        spec = {
            "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in taints] or None
        }
        await nodes.patch(name, {"spec": spec}, type=PatchType.MERGE)
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10", **amounts}
        await nodes.patch(name, {"status": {"allocatable": allocatable, "capacity": allocatable}}, subresource="status")

    def pod(self, name: str, *, cpu: str = "100m", priority: int = 0, labels: Mapping[str, str] | None = None) -> Pod:
        pod = builders.pod(name, namespace=NAMESPACE, labels=labels)
        assert pod.spec.containers
        pod.spec.containers[0].resources = ResourceRequirements(requests={"cpu": cpu})
        pod.spec.priority = priority or None
        pod.spec.terminationGracePeriodSeconds = 0
        return pod

    async def create(self, pod: Pod) -> Pod:
        return await self.cluster.client.for_kind(Pod).create(pod)

    async def settle(self) -> None:
        await self.cluster.clock.settle()

    async def get(self, name: str) -> Pod | None:
        try:
            return await self.cluster.client.for_kind(Pod).get(name, NAMESPACE)
        except errors.NotFound:
            return None

    async def find_nodes(self, *names: str) -> list[str]:
        """The nodes of these pods; "gone" for a pod that does not exist."""
        await self.settle()
        pods = [await self.get(name) for name in names]
        return [pod.spec.nodeName if pod is not None else "gone" for pod in pods]

    async def events(self, reason: str) -> list[Any]:
        page = await self.cluster.client.for_kind(Event).list()
        return [event for event in page.items if event.reason == reason]

    async def condition(self, name: str, kind: str = "PodScheduled") -> Any:
        pod = await self.get(name)
        assert pod is not None
        return next((condition for condition in pod.status.conditions if condition.type == kind), None)


@asynccontextmanager
async def running_scheduler(
    config: SchedulerConfig | None = None,
    runtime_config: Mapping[str, bool] | None = None,
    feature_gates: FeatureGates | None = None,
) -> AsyncIterator[RunningScheduler]:
    async with cluster(runtime_config, feature_gates) as served:
        client = served.client
        await client.for_kind(ServiceAccount).create(
            ServiceAccount(metadata=ObjectMeta(name="default", namespace=NAMESPACE))
        )
        user = UserInfo("system:kube-scheduler", groups=(AUTHENTICATED,))
        own = Client(transport=served.transport.as_user(user), clock=served.clock, component="kube-scheduler")
        scheduler = make_scheduler(client=own, clock=served.clock, config=config)
        forget = served.clock.on_idle(scheduler.activity.idle)
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(scheduler.run())
                await served.clock.settle()
                yield RunningScheduler(served, scheduler)
                task.cancel()
        finally:
            forget()


async def make_namespace(running: RunningScheduler, name: str) -> None:
    client = running.cluster.client
    await client.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name=name)))
    await client.for_kind(ServiceAccount).create(ServiceAccount(metadata=ObjectMeta(name="default", namespace=name)))
