"""Jobs create no pod too many and count each pod once, however stale the caches of the controller are."""

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Pod
from tests.controllers.batch.job_cluster import IN_DEFAULT, JOB, JobCluster, job
from tests.controllers.cluster import Cluster
from tests.controllers.ownership.pod_cluster import pod_cluster
from tests.controllers.workloads.lag import Lag, lagging_controller

SEEDS = range(10)


class Kubelet:
    """Ends pods at random; about a third of them fail until `failures` pods have failed. With `deletes` pods fail
    because they are deleted, and leave when their finalizer is removed."""

    def __init__(self, cluster: Cluster, seed: int, *, failures: int, deletes: bool = False) -> None:
        self._jobs, self._random, self._failures = JobCluster(cluster), Random(seed), failures
        self._deletes = deletes
        self.known_pods: dict[str, Pod] = {}
        self.codes: Counter[int] = Counter()

    async def step(self) -> bool:
        pods = await self._jobs.active()
        self.known_pods |= {pod.metadata.uid: pod for pod in pods}
        if not pods:
            return False
        if self._random.random() < 0.4:
            code = int(self._failures > 0 and self._random.random() < 0.3)
            self._failures -= code
            self.codes[code] += 1
            pod = self._random.choice(pods)
            if code and self._deletes:
                await self._jobs.bind(pod)
                await self._jobs.cluster.client.for_kind(Pod).delete(pod.metadata.name, "default")
            await self._jobs.end(pod, code)
            if code and self._deletes:
                await self._jobs.remove(pod)
        return True


async def run_until_done(c: Cluster, lag: Lag, kubelet: Kubelet) -> None:
    jobs = c.client.for_kind(Job)
    for _ in range(5000):
        await c.clock.settle()
        moved = await kubelet.step()
        if not lag.step() and not moved:
            (job,) = (await jobs.list(IN_DEFAULT)).items
            if job.status.completionTime is not None:
                return
            await c.clock.advance(1)
    raise AssertionError("the job does not finish")


def run_with_stale_cache(seed: int, job: Job, *, failures: int, deletes: bool = False) -> tuple[Job, Kubelet]:
    async def main() -> tuple[Job, Kubelet]:
        async with pod_cluster() as c:
            kubelet = Kubelet(c, seed, failures=failures, deletes=deletes)
            async with lagging_controller(c, JOB, seed) as lag:
                await c.client.for_kind(Job).create(job)
                await run_until_done(c, lag, kubelet)
            return await c.client.for_kind(Job).get("work", "default"), kubelet

    return asyncio.run(main())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_creates_as_many_pods_as_it_needs(seed: int) -> None:
    done, kubelet = run_with_stale_cache(seed, job(completions=5, parallelism=3), failures=0)
    assert len(kubelet.known_pods) == 5
    assert (done.status.succeeded, done.status.failed) == (5, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_indexed_job_creates_one_pod_per_index(seed: int) -> None:
    done, kubelet = run_with_stale_cache(seed, job(completions=5, parallelism=3, completionMode="Indexed"), failures=0)
    assert sorted(pod.spec.hostname for pod in kubelet.known_pods.values()) == [f"work-{index}" for index in range(5)]
    assert (done.status.completedIndexes, done.status.succeeded, done.status.failed) == ("0-4", 5, 0)


@pytest.mark.parametrize("limit", [{"backoffLimit": 50}, {"backoffLimitPerIndex": 9, "completionMode": "Indexed"}])
@pytest.mark.parametrize("seed", SEEDS)
def test_failed_pods_are_counted_once(seed: int, limit: dict[str, Any]) -> None:
    done, kubelet = run_with_stale_cache(seed, job(completions=4, parallelism=2, **limit), failures=3)
    assert (done.status.succeeded, done.status.failed) == (4, kubelet.codes[1])
    assert len(kubelet.known_pods) == 4 + kubelet.codes[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_deleted_pods_are_counted_once(seed: int) -> None:
    spec: dict[str, Any] = {"completions": 4, "parallelism": 2, "backoffLimit": 50, "podReplacementPolicy": "Failed"}
    done, kubelet = run_with_stale_cache(seed, job(**spec), failures=3, deletes=True)
    assert (done.status.succeeded, done.status.failed) == (4, kubelet.codes[1])
