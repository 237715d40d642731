"""Finished jobs are deleted when `ttlSecondsAfterFinished` has passed."""

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.batch_v1 import Job
from sampan.controllers.batch.ttl_after_finished import UnknownFinish, expires_in_s
from tests.controllers.batch.job_cluster import IN_DEFAULT, JOB, JobCluster, job_cluster
from tests.controllers.cluster import check_second_run_writes_nothing, names_of
from tests.controllers.ownership.pod_cluster import pod_cluster

TTL = "ttl-after-finished-controller"


def finished_job(ttl: int | None, when: str | None, kind: str = "Complete") -> Job:
    condition = {"type": kind, "status": "True", "lastTransitionTime": when}
    value = {"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [condition]}}
    return codec.from_value(value, Job)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (None, None),
        (finished_job(None, "1970-01-01T00:01:40Z"), None),
        (finished_job(10, "1970-01-01T00:01:40Z", "Suspended"), None),
        (finished_job(10, "1970-01-01T00:01:40Z"), 10.0),
        (finished_job(10, "1970-01-01T00:01:30Z", "Failed"), 0.0),
        (finished_job(0, "1970-01-01T00:00:00Z"), -100.0),
    ],
)
def test_remaining_ttl(job: Job | None, expected: float | None) -> None:
    assert expires_in_s(job, 100.0) == expected


def test_missing_finish_time_raises_unknown_finish() -> None:
    with pytest.raises(UnknownFinish):
        expires_in_s(finished_job(0, None), 100.0)


async def names(c: JobCluster) -> list[str]:
    jobs = (await c.cluster.client.for_kind(Job).list(IN_DEFAULT)).items
    return names_of([job for job in jobs if job.metadata.deletionTimestamp is None])


async def test_finished_jobs_are_deleted_after_their_ttl() -> None:
    async with job_cluster(JOB, TTL) as c:
        await c.create("soon", completions=0, parallelism=0, ttlSecondsAfterFinished=60)
        await c.create("never", completions=0, parallelism=0)
        await c.create("going", ttlSecondsAfterFinished=0)
        await c.pass_s(59)
        assert await names(c) == ["going", "never", "soon"]
        await c.pass_s(2)
        assert await names(c) == ["going", "never"]


async def test_the_second_run_writes_nothing() -> None:
    async with pod_cluster() as cluster:
        async with cluster.running(JOB, TTL):
            await JobCluster(cluster).create("later", completions=0, parallelism=0, ttlSecondsAfterFinished=900)
        await check_second_run_writes_nothing(cluster, JOB, TTL)


@pytest.mark.parametrize("jump_s", [-3600, 3600], ids=["back", "forward"])
async def test_ttl_expires_at_the_same_wall_clock_time_after_a_clock_jump(jump_s: int) -> None:
    async with job_cluster(JOB, TTL) as c:
        await c.create("done", completions=0, parallelism=0, ttlSecondsAfterFinished=7200)
        clock = c.cluster.clock
        await c.pass_s(1)
        due = clock.now() - 1 + 7200
        clock.set_wall_clock(clock.now() + jump_s)
        await c.pass_s(int(due - clock.now()) - 60)
        assert await names(c) == ["done"]
        await c.pass_s(65)
        assert await names(c) == []
