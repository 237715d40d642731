"""An API server with the job controller, on a virtual clock; the test is the kubelet of the pods."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sampan.api.codec import json as codec
from sampan.api.types.batch_v1 import Job, JobStatus
from sampan.api.types.core_v1 import Event, Pod
from sampan.api.values.times import format_time
from sampan.machinery.client import DeleteParameters, Selection
from tests.controllers.cluster import Cluster
from tests.controllers.ownership.pod_cluster import pod_cluster

JOB = "job-controller"
IN_DEFAULT = Selection(namespace="default")


def job(name: str = "work", **spec: Any) -> Job:
    restart = spec.pop("restart", "Never")
    template = {"spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "i"}]}}
    value = {"metadata": {"name": name, "namespace": "default"}, "spec": {"template": template, **spec}}
    return codec.from_value(value, Job)


@dataclass(slots=True)
class JobCluster:
    cluster: Cluster

    async def create(self, name: str = "work", **spec: Any) -> Job:
        created_job = await self.cluster.client.for_kind(Job).create(job(name, **spec))
        await self.pass_s(0)
        return created_job

    async def get(self, name: str = "work") -> Job:
        return await self.cluster.client.for_kind(Job).get(name, "default")

    async def status(self, name: str = "work") -> JobStatus:
        return (await self.get(name)).status

    async def patch(self, patch: dict[str, Any], name: str = "work") -> None:
        await self.cluster.client.for_kind(Job).patch(name, patch, "default")
        await self.pass_s(0)

    async def conditions(self, name: str = "work") -> list[tuple[str, str, str]]:
        return [
            (condition.type, condition.status, condition.reason) for condition in (await self.status(name)).conditions
        ]

    async def pods(self) -> Sequence[Pod]:
        """The pods without deletion timestamp, sorted by name."""
        pods = (await self.cluster.client.for_kind(Pod).list(IN_DEFAULT)).items
        return sorted((pod for pod in pods if not pod.metadata.deletionTimestamp), key=lambda pod: pod.metadata.name)

    async def active(self) -> list[Pod]:
        return [pod for pod in await self.pods() if pod.status.phase in ("Pending", "Running")]

    async def bind(self, pod: Pod, node: str = "n1") -> None:
        target = {"metadata": {"name": pod.metadata.name}, "target": {"kind": "Node", "name": node}}
        await self.cluster.client.for_kind(Pod).create_subresource("binding", pod.metadata.name, target, "default")

    async def run(self, pod: Pod) -> None:
        await self._set(pod, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})

    async def end(self, pod: Pod, code: int = 0, *conditions: dict[str, str]) -> None:
        ended = {"exitCode": code, "finishedAt": format_time(self.cluster.clock.now())}
        container = {"name": "c", "image": "i", "imageID": "i", "state": {"terminated": ended}}
        phase = "Failed" if code else "Succeeded"
        await self._set(pod, {"phase": phase, "containerStatuses": [container], "conditions": list(conditions)})

    async def remove(self, pod: Pod) -> None:
        """Delete the pod with grace period 0, as a kubelet does once its containers have stopped."""
        await self.cluster.client.for_kind(Pod).delete(
            pod.metadata.name, "default", options=DeleteParameters(grace_period_s=0)
        )
        await self.pass_s(0)

    async def pass_s(self, seconds: float) -> None:
        await self.cluster.clock.advance(seconds)

    async def events(self) -> list[tuple[str, str, str]]:
        events = (await self.cluster.client.for_kind(Event).list(IN_DEFAULT)).items
        return [(event.type, event.reason, event.message) for event in events]

    async def reasons(self) -> list[str]:
        return [reason for _, reason, _ in await self.events()]

    @asynccontextmanager
    async def history(self) -> AsyncIterator[list[tuple[int, str, str]]]:
        """The changes of jobs and pods: resource version, type of the event, kind. Sorted, they have the order of the
        store."""
        entries: list[tuple[int, str, str]] = []

        async def record(kind: type[Any]) -> None:
            async with self.cluster.client.for_kind(kind).watch(IN_DEFAULT) as events:
                async for batch in events:
                    entries.extend(
                        (int(event.object.metadata.resourceVersion), event.type, kind.__name__) for event in batch
                    )

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(record(kind)) for kind in (Job, Pod)]
            await self.pass_s(0)
            entries.clear()
            yield entries
            for task in tasks:
                task.cancel()

    async def _set(self, pod: Pod, status: dict[str, Any]) -> None:
        name = pod.metadata.name
        await self.cluster.client.for_kind(Pod).patch(name, {"status": status}, "default", subresource="status")
        await self.pass_s(0)


@asynccontextmanager
async def job_cluster(*controllers: str) -> AsyncIterator[JobCluster]:
    async with pod_cluster() as c, c.running(*(controllers or (JOB,))):
        yield JobCluster(c)
