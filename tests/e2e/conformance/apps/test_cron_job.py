"""Conformance tests of sig-apps for CronJob. The first paragraph of a docstring is the official test name."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sampan.machinery import errors
from sampan.machinery.client import ADDED, DeleteParameters, PatchType, Selection
from tests.e2e.conformance.apps.batch import Batch, batch_cluster, cron_job

Scenario = Callable[[Batch], Awaitable[None]]
FOREGROUND = DeleteParameters(propagation="Foreground")


def run_scenario(scenario: Scenario) -> None:
    async def main() -> None:
        async with batch_cluster() as c:
            await scenario(c)

    asyncio.run(main())


def test_concurrent_jobs_with_policy_allow() -> None:
    """[sig-apps] CronJob should schedule multiple jobs concurrently"""

    async def scenario(c: Batch) -> None:
        await c.create(cron_job("concurrent", concurrencyPolicy="Allow"))
        await c.clock.advance(125)
        assert len((await c.cron_jobs.get("concurrent", "default")).status.active) == 2
        assert sum(job.status.active for job in await c.list_jobs()) == 2

    run_scenario(scenario)


def test_no_jobs_when_suspended() -> None:
    """[sig-apps] CronJob should not schedule jobs when suspended"""

    async def scenario(c: Batch) -> None:
        await c.create(cron_job("suspended", suspend=True))
        await c.clock.advance(300)
        assert await c.list_jobs() == []
        assert (await c.cron_jobs.get("suspended", "default")).status.active == []

    run_scenario(scenario)


def test_no_new_job_with_policy_forbid() -> None:
    """[sig-apps] CronJob should not schedule new jobs when ForbidConcurrent"""

    async def scenario(c: Batch) -> None:
        await c.create(cron_job("forbid", concurrencyPolicy="Forbid"))
        await c.clock.advance(200)
        (active,) = (await c.cron_jobs.get("forbid", "default")).status.active
        assert [job.metadata.name for job in await c.list_jobs()] == [active.name]
        await c.clock.advance(420)
        assert len((await c.cron_jobs.get("forbid", "default")).status.active) == 1
        assert len(await c.list_jobs()) == 2

    run_scenario(scenario)


def test_job_is_replaced_with_policy_replace() -> None:
    """[sig-apps] CronJob should replace jobs when ReplaceConcurrent"""

    async def scenario(c: Batch) -> None:
        await c.create(cron_job("replace", concurrencyPolicy="Replace"))
        await c.clock.advance(70)
        (first,) = (await c.cron_jobs.get("replace", "default")).status.active
        await c.clock.advance(65)
        (second,) = (await c.cron_jobs.get("replace", "default")).status.active
        assert first.name != second.name
        assert [job.metadata.name for job in await c.list_jobs()] == [second.name]
        await c.clock.advance(5)
        assert len(await c.list_pods()) == 1

    run_scenario(scenario)


def test_api_operations() -> None:
    """[sig-apps] CronJob should support CronJob API operations"""

    async def scenario(c: Batch) -> None:
        client, here = c.cron_jobs, Selection(namespace="default", labels="special-label=yes")
        for name in ("one", "two", "three"):
            new_cron_job = cron_job(name)
            new_cron_job.metadata.labels["special-label"] = "yes"
            await c.create(new_cron_job)
        got = await client.get("one", "default")
        assert len((await client.list(here)).items) == 3
        assert len((await client.list(Selection(labels="special-label=yes"))).items) == 3
        async with client.watch(here, resource_version="0") as events:
            async for batch in events:
                assert batch[0].type == ADDED
                break
        patch = {"metadata": {"annotations": {"patched": "true"}}}
        patched = await client.patch("one", patch, "default", type=PatchType.MERGE)
        assert patched.metadata.annotations["patched"] == "true"
        patched.metadata.annotations["updated"] = "true"
        updated = await client.update(patched)
        assert updated.metadata.annotations["updated"] == "true"
        status = {
            "metadata": {"annotations": {"patchedstatus": "true"}},
            "status": {"lastScheduleTime": "2025-12-31T00:00:00Z"},
        }
        patched_status = await client.patch("one", status, "default", type=PatchType.MERGE, subresource="status")
        assert patched_status.status.lastScheduleTime == "2025-12-31T00:00:00Z"
        assert patched_status.metadata.annotations["patchedstatus"] == "true"
        assert (await client.get_subresource("status", "one", "default")).metadata.uid == got.metadata.uid
        await client.delete("one", "default", options=FOREGROUND)
        await c.clock.advance(30)
        with pytest.raises(errors.NotFound):
            await client.get("one", "default")
        await client.delete_collection(here, options=FOREGROUND)
        await c.clock.advance(30)
        assert (await client.list(here)).items == []

    run_scenario(scenario)
