"""Cron jobs on a virtual clock."""

import time
from typing import Any

from sampan.api.types.batch_v1 import CronJob, Job
from sampan.machinery.client import DeleteParameters
from sampan.machinery.copies import copy_of
from tests.controllers.batch.cronjob.cron_jobs import START, cron
from tests.controllers.batch.job_cluster import IN_DEFAULT, JOB, JobCluster, job_cluster
from tests.controllers.cluster import check_second_run_writes_nothing, names_of
from tests.controllers.ownership.pod_cluster import pod_cluster
from tests.input_cost import is_cpu_time_within

CRON = "cronjob-controller"
RUNNING = {"completions": 1, "parallelism": 1}


def name_at(passed_s: float) -> str:
    return f"tick-{int(START + passed_s) // 60}"


async def create(c: JobCluster, schedule: str = "*/10 * * * *", **spec: Any) -> None:
    cron_job = cron(schedule, **spec)
    cron_job.metadata.uid, cron_job.metadata.creationTimestamp = "", None
    await c.cluster.client.for_kind(CronJob).create(cron_job)
    await c.pass_s(0)


async def get(c: JobCluster) -> CronJob:
    return await c.cluster.client.for_kind(CronJob).get("tick", "default")


async def jobs(c: JobCluster) -> list[str]:
    return names_of((await c.cluster.client.for_kind(Job).list(IN_DEFAULT)).items)


async def test_jobs_are_created_on_schedule_and_deleted_beyond_the_history_limit() -> None:
    async with job_cluster(CRON, JOB) as c:
        await create(c)
        await c.pass_s(599)
        assert await jobs(c) == []
        await c.pass_s(2)
        assert await jobs(c) == [name_at(600)]
        await c.pass_s(1800)
        assert await jobs(c) == [name_at(1200), name_at(1800), name_at(2400)]
        status = (await get(c)).status
        assert status.active == []
        assert status.lastScheduleTime == "2026-01-01T00:40:00Z"
        assert status.lastSuccessfulTime == "2026-01-01T00:40:00Z"
        events = await c.events()
        for reason, message in (
            ("SuccessfulCreate", f"Created job {name_at(600)}"),
            ("SawCompletedJob", f"Saw completed job: {name_at(600)}, condition: Complete"),
            ("SuccessfulDelete", f"Deleted job {name_at(600)}"),
        ):
            assert ("Normal", reason, message) in events


async def test_scheduling_31_days_of_jobs_takes_less_than_20_cpu_seconds() -> None:
    async with job_cluster(CRON, JOB) as c:
        await create(c, "0 */6 * * *", successfulJobsHistoryLimit=1000)
        cpu_start = time.process_time()
        await c.pass_s(31 * 86400 + 1)
        assert is_cpu_time_within(time.process_time() - cpu_start, 20)
        assert len(await jobs(c)) == 4 * 31
        assert (await get(c)).status.lastScheduleTime == "2026-02-01T00:00:00Z"


async def test_allow_policy_runs_jobs_concurrently() -> None:
    async with job_cluster(CRON) as c:
        await create(c, job=RUNNING)
        await c.pass_s(1201)
        assert [active.name for active in (await get(c)).status.active] == [name_at(600), name_at(1200)]


async def test_forbid_policy_skips_a_job_while_another_is_active() -> None:
    async with job_cluster(CRON) as c:
        await create(c, job=RUNNING, concurrencyPolicy="Forbid")
        await c.pass_s(1201)
        assert await jobs(c) == [name_at(600)]
        assert "JobAlreadyActive" in await c.reasons()


async def test_replace_policy_deletes_the_active_job() -> None:
    async with job_cluster(CRON) as c:
        await create(c, job=RUNNING, concurrencyPolicy="Replace")
        await c.pass_s(1201)
        assert await jobs(c) == [name_at(1200)]
        assert [active.name for active in (await get(c)).status.active] == [name_at(1200)]


async def test_resumed_cron_job_starts_only_the_last_missed_job() -> None:
    async with job_cluster(CRON, JOB) as c:
        await create(c, suspend=True)
        await c.pass_s(3700)
        assert await jobs(c) == []
        await c.cluster.client.for_kind(CronJob).patch("tick", {"spec": {"suspend": False}}, "default")
        await c.pass_s(1)
        assert await jobs(c) == [name_at(3600)]


async def test_changed_schedule_starts_no_job_for_past_times() -> None:
    async with job_cluster(CRON, JOB) as c:
        await create(c, "0 0 * * *")
        await c.pass_s(90)
        await c.cluster.client.for_kind(CronJob).patch("tick", {"spec": {"schedule": "* * * * *"}}, "default")
        await c.pass_s(1)
        assert await jobs(c) == []
        await c.pass_s(30)
        assert await jobs(c) == [name_at(120)]


async def test_unexpected_and_missing_jobs_are_reported() -> None:
    async with job_cluster(CRON) as c:
        await create(c, job=RUNNING)
        await c.pass_s(601)
        job = await c.get(name_at(600))
        job.metadata.name, job.metadata.uid, job.metadata.resourceVersion = "by-hand", "", ""
        job.spec.selector, job.spec.template.metadata.labels = None, {}
        await c.cluster.client.for_kind(Job).create(job)
        await c.pass_s(0)
        message = "Saw a job that the controller did not create or forgot: by-hand"
        assert ("Warning", "UnexpectedJob", message) in await c.events()
        options = DeleteParameters(propagation="Background")
        await c.cluster.client.for_kind(Job).delete(name_at(600), "default", options=options)
        await c.pass_s(0)
        assert (await get(c)).status.active == []
        assert ("Normal", "MissingJob", f"Active job went missing: {name_at(600)}") in await c.events()


async def test_jobs_of_an_earlier_cron_job_of_the_name_do_not_count() -> None:
    async with job_cluster(CRON) as c:
        await create(c, job=RUNNING)
        await c.pass_s(601)
        job = copy_of(await c.get(name_at(600)))
        job.metadata.name, job.metadata.uid, job.metadata.resourceVersion = "earlier", "", ""
        job.metadata.ownerReferences[0].uid = "earlier"
        job.spec.selector, job.spec.template.metadata.labels = None, {}
        await c.cluster.client.for_kind(Job).create(job)
        await c.pass_s(1)
        assert "UnexpectedJob" not in {reason for _, reason, _ in await c.events()}


async def test_the_second_run_writes_nothing() -> None:
    async with pod_cluster() as cluster:
        async with cluster.running(CRON, JOB):
            c = JobCluster(cluster)
            await create(c)
            await c.pass_s(1201)
        await check_second_run_writes_nothing(cluster, CRON, JOB)
