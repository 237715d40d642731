"""Jobs on hollow nodes while the controller is killed in the middle of its work and pods are deleted at random."""

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Pod
from sampan.controllers.batch.job.conditions import has_succeeded
from sampan.machinery import errors
from sampan.machinery.client import MODIFIED
from tests.controllers.batch.job_cluster import IN_DEFAULT, JOB, job
from tests.controllers.cluster import Cluster
from tests.controllers.ownership.pod_cluster import pod_cluster

SPECS: list[dict[str, Any]] = [
    {"completions": 6, "parallelism": 3},
    {"completions": 6, "parallelism": 3, "completionMode": "Indexed"},
    {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 50},
]


def numbered_job(number: int, spec: dict[str, Any]) -> Job:
    defaults = {"backoffLimit": 1000} if "backoffLimitPerIndex" not in spec else {}
    new_job = job(f"job-{number}", podReplacementPolicy="Failed", **defaults, **spec)
    new_job.spec.template.metadata.annotations["hollow.sampan.dev/run"] = "2s..6s"
    return new_job


class OutcomeRecorder:
    """Records the phase in which each pod ended."""

    def __init__(self, cluster: Cluster) -> None:
        self._pods, self.ended = cluster.client.for_kind(Pod), dict[str, tuple[str, str]]()

    async def watch(self) -> None:
        async with self._pods.watch(IN_DEFAULT) as events:
            async for batch in events:
                for event in batch:
                    pod: Any = event.object
                    if event.type == MODIFIED and pod.status.phase in ("Succeeded", "Failed"):
                        self.ended[pod.metadata.uid] = (pod.metadata.labels["job-name"], pod.status.phase)

    def count(self, phase: str) -> Counter[str]:
        return Counter(name for name, outcome in self.ended.values() if outcome == phase)


async def disturb(c: Cluster, random: Random) -> None:
    pods = (await c.client.for_kind(Pod).list(IN_DEFAULT)).items
    running = [pod for pod in pods if pod.status.phase == "Running"]
    if running:
        try:
            await c.client.for_kind(Pod).delete(random.choice(running).metadata.name, "default")
        except errors.NotFound:
            return


async def have_all_succeeded(c: Cluster) -> bool:
    return all(map(has_succeeded, (await c.client.for_kind(Job).list(IN_DEFAULT)).items))


async def play(c: Cluster, random: Random) -> None:
    for turn in range(400):
        async with c.running(JOB):
            await c.clock.advance(random.choice([0, 0.3, 2, 7]))
            if turn < 25:
                await disturb(c, random)
                for _ in range(random.randrange(40)):
                    await asyncio.sleep(0)  # then the controller is cancelled at an arbitrary await
            elif await have_all_succeeded(c):
                return
    raise AssertionError("the jobs do not finish")


@pytest.mark.parametrize("seed", range(4))
async def test_every_pod_is_counted_once(seed: int) -> None:
    random = Random(seed)
    async with pod_cluster() as c, c.nodes("n1", "n2"), c.running_binder(), asyncio.TaskGroup() as group:
        recorder = OutcomeRecorder(c)
        task = group.create_task(recorder.watch())
        for number, spec in enumerate(SPECS * 2):
            await c.client.for_kind(Job).create(numbered_job(number, spec))
        await play(c, random)
        for job in (await c.client.for_kind(Job).list(IN_DEFAULT)).items:
            name, status = job.metadata.name, job.status
            assert status.succeeded == recorder.count("Succeeded")[name] == job.spec.completions
            assert status.failed == recorder.count("Failed")[name]
        assert recorder.count("Failed"), "no running pod was deleted"
        assert all(not pod.metadata.finalizers for pod in (await c.client.for_kind(Pod).list(IN_DEFAULT)).items)
        task.cancel()
