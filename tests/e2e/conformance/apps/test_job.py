"""Conformance tests of sig-apps for Job. The first paragraph of a docstring is the official test name."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.machinery import errors
from sampan.machinery.client import DeleteParameters, PatchType, Selection
from tests.e2e.conformance.apps.batch import INDEX, Batch, bare, batch_cluster, job, template, write_stages

Scenario = Callable[[Batch], Awaitable[None]]


def run_scenario(scenario: Scenario, stages: Path | None = None) -> None:
    async def main() -> None:
        async with batch_cluster(stages) as c:
            await scenario(c)

    asyncio.run(main())


def test_run_to_completion_when_tasks_fail_and_are_restarted() -> None:
    """[sig-apps] Job should run a job to completion when tasks sometimes fail and are locally restarted"""

    async def scenario(c: Batch) -> None:
        await c.create(
            job(pods=template(restart="OnFailure", code="1,0"), parallelism=2, completions=4, backoffLimit=6)
        )
        await c.clock.advance(120)
        status = (await c.get()).status
        assert (status.succeeded, status.failed) == (4, 0)
        assert await c.conditions() == [
            ("SuccessCriteriaMet", "CompletionsReached"),
            ("Complete", "CompletionsReached"),
        ]

    run_scenario(scenario)


def test_adopt_matching_orphans_and_release_non_matching() -> None:
    """[sig-apps] Job should adopt matching orphans and release non-matching pods"""

    async def scenario(c: Batch) -> None:
        created = await c.create(job(pods=template(run="forever"), parallelism=2, completions=4))
        first, second = await c.list_pods()
        orphaned = {"metadata": {"ownerReferences": None}}
        await c.pods.patch(first.metadata.name, orphaned, "default", type=PatchType.MERGE)
        await c.clock.advance(5)
        adopted = await c.pods.get(first.metadata.name, "default")
        assert [(owner.uid, owner.controller) for owner in adopted.metadata.ownerReferences] == [
            (created.metadata.uid, True)
        ]
        stripped = {"metadata": {"labels": None}}
        await c.pods.patch(second.metadata.name, stripped, "default", type=PatchType.MERGE)
        await c.clock.advance(5)
        released = await c.pods.get(second.metadata.name, "default")
        assert released.metadata.ownerReferences == []
        assert (await c.get()).status.active == 2

    run_scenario(scenario)


def test_ignore_failures_by_the_disruption_target_condition() -> None:
    """[sig-apps] Job should allow to use a pod failure policy to ignore failure matching on DisruptionTarget
    condition"""

    async def scenario(c: Batch) -> None:
        rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        await c.create(
            job(
                pods=template(run="60s"),
                completionMode="Indexed",
                parallelism=2,
                completions=2,
                backoffLimit=0,
                podFailurePolicy={"rules": [rule]},
            ),
            pass_s=5,
        )
        for pod in await c.list_pods():
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.metadata.name}}
            await c.pods.create_subresource("eviction", pod.metadata.name, eviction, "default")
        await c.clock.advance(180)
        status = (await c.get()).status
        assert (status.succeeded, status.failed, status.completedIndexes) == (2, 0, "0,1")
        assert ("Complete", "CompletionsReached") in await c.conditions()

    run_scenario(scenario)


def test_fail_the_job_early_on_an_exit_code() -> None:
    """[sig-apps] Job should allow to use the pod failure policy on exit code to fail the job early"""

    async def scenario(c: Batch) -> None:
        rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
        await c.create(
            job(
                pods=template(code="42"),
                completionMode="Indexed",
                parallelism=2,
                completions=4,
                backoffLimit=999,
                podFailurePolicy={"rules": [rule]},
            )
        )
        await c.clock.advance(30)
        assert await c.conditions() == [("FailureTarget", "PodFailurePolicy"), ("Failed", "PodFailurePolicy")]
        assert len(await c.list_pods()) <= 2

    run_scenario(scenario)


def test_apply_changes_to_a_job_status() -> None:
    """[sig-apps] Job should apply changes to a job status"""

    async def scenario(c: Batch) -> None:
        await c.create(job(pods=template(run="forever"), parallelism=2, completions=4))
        now = "2026-01-01T00:00:30Z"
        condition = {"type": "CustomConditionType", "status": "True", "lastTransitionTime": now}
        patch = {"metadata": {"annotations": {"patchedstatus": "true"}}, "status": {"conditions": [condition]}}
        patched = await c.jobs.patch("foo", patch, "default", type=PatchType.MERGE, subresource="status")
        assert patched.metadata.annotations["patchedstatus"] == "true"
        await c.clock.advance(1)
        fresh = await c.get()
        updated = await c.jobs.update_status(fresh)
        assert [condition.type for condition in updated.status.conditions] == ["CustomConditionType"]
        read = await c.jobs.get_subresource("status", "foo", "default")
        assert read.metadata.uid == fresh.metadata.uid

    run_scenario(scenario)


def test_pods_of_an_indexed_job_have_an_index_and_hostname() -> None:
    """[sig-apps] Job should create pods for an Indexed job with completion indexes and specified hostname"""

    async def scenario(c: Batch) -> None:
        await c.create(job(completionMode="Indexed", parallelism=2, completions=4))
        await c.clock.advance(30)
        assert (await c.get()).status.completedIndexes == "0-3"
        pods = await c.list_pods()
        assert sorted(pod.metadata.annotations[INDEX] for pod in pods) == ["0", "1", "2", "3"]
        for pod in pods:
            index = pod.metadata.annotations[INDEX]
            assert pod.spec.hostname == f"foo-{index}"
            assert pod.metadata.name.startswith(f"foo-{index}-")
            assert pod.spec.containers is not None
            (variable,) = pod.spec.containers[0].env
            assert variable.name == "JOB_COMPLETION_INDEX"

    run_scenario(scenario)


def test_delete_a_job() -> None:
    """[sig-apps] Job should delete a job"""

    async def scenario(c: Batch) -> None:
        await c.create(job(pods=template(run="forever"), parallelism=2, completions=4))
        assert (await c.get()).status.active == 2
        await c.jobs.delete("foo", "default", options=DeleteParameters(propagation="Background"))
        await c.clock.advance(60)
        with pytest.raises(errors.NotFound):
            await c.get()
        assert await c.list_pods() == []

    run_scenario(scenario)


def stages(path: Path) -> Path:
    """Write a stage file by which pods with odd indexes fail and pods with even indexes succeed."""
    return write_stages(path, {f"{INDEX} in (1,3,5)": ("1s", 1), f"{INDEX} in (0,2,4)": ("1s", 0)})


def test_execute_all_indexes_despite_some_failing(tmp_path: Path) -> None:
    """[sig-apps] Job should execute all indexes despite some failing when using backoffLimitPerIndex"""

    async def scenario(c: Batch) -> None:
        await c.create(job(pods=bare(), completionMode="Indexed", parallelism=2, completions=4, backoffLimitPerIndex=1))
        await c.clock.advance(120)
        status = (await c.get()).status
        assert (status.failedIndexes, status.completedIndexes) == ("1,3", "0,2")
        assert (status.failed, status.succeeded) == (4, 2)
        assert await c.conditions() == [("FailureTarget", "FailedIndexes"), ("Failed", "FailedIndexes")]

    run_scenario(scenario, stages(tmp_path))


def test_mark_indexes_as_failed_by_the_policy(tmp_path: Path) -> None:
    """[sig-apps] Job should mark indexes as failed when the FailIndex action is matched in podFailurePolicy"""

    async def scenario(c: Batch) -> None:
        rule = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}}
        await c.create(
            job(
                pods=bare(),
                completionMode="Indexed",
                parallelism=2,
                completions=2,
                backoffLimitPerIndex=1,
                podFailurePolicy={"rules": [rule]},
            )
        )
        await c.clock.advance(60)
        status = (await c.get()).status
        assert (status.failedIndexes, status.completedIndexes, status.failed) == ("1", "0", 1)
        assert ("Failed", "FailedIndexes") in await c.conditions()

    run_scenario(scenario, stages(tmp_path))


def test_terminate_when_too_many_indexes_fail(tmp_path: Path) -> None:
    """[sig-apps] Job should terminate job execution when the number of failed indexes exceeds maxFailedIndexes"""

    async def scenario(c: Batch) -> None:
        await c.create(
            job(
                pods=bare(),
                completionMode="Indexed",
                parallelism=10,
                completions=10,
                backoffLimitPerIndex=0,
                maxFailedIndexes=2,
            )
        )
        await c.clock.advance(60)
        status = (await c.get()).status
        assert status.failedIndexes == "1,3,5"
        assert status.active == 0
        assert await c.conditions() == [
            ("FailureTarget", "MaxFailedIndexesExceeded"),
            ("Failed", "MaxFailedIndexesExceeded"),
        ]

    run_scenario(scenario, stages(tmp_path))


def test_manage_the_lifecycle_of_a_job() -> None:
    """[sig-apps] Job should manage the lifecycle of a job"""

    async def scenario(c: Batch) -> None:
        await c.create(job(suspend=True, parallelism=2, completions=4))
        assert await c.list_pods() == []
        patch = {"metadata": {"labels": {"e2e-foo": "patched"}}}
        assert (await c.jobs.patch("foo", patch, "default")).metadata.labels["e2e-foo"] == "patched"
        await c.clock.advance(1)
        updated = await c.jobs.patch(
            "foo", {"metadata": {"annotations": {"updated": "true"}}, "spec": {"suspend": False}}, "default"
        )
        assert updated.metadata.annotations["updated"] == "true"
        await c.clock.advance(30)
        assert ("Complete", "CompletionsReached") in await c.conditions()
        chosen = Selection(labels="e2e-foo=patched")
        assert len((await c.jobs.list(chosen)).items) == 1
        here = Selection(namespace="default", labels="e2e-foo=patched")
        await c.jobs.delete_collection(here, options=DeleteParameters(propagation="Background"))
        await c.clock.advance(30)
        assert (await c.jobs.list(chosen)).items == []

    run_scenario(scenario)


def test_success_policy_when_all_indexes_succeeded() -> None:
    """[sig-apps] Job with successPolicy should succeeded when all indexes succeeded"""

    async def scenario(c: Batch) -> None:
        rule = {"succeededIndexes": "0-1"}
        await c.create(job(completionMode="Indexed", parallelism=2, completions=2, successPolicy={"rules": [rule]}))
        await c.clock.advance(30)
        assert await c.conditions() == [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]
        assert (await c.get()).status.completedIndexes == "0,1"

    run_scenario(scenario)


@pytest.mark.parametrize(
    "rule",
    [{"succeededCount": 1}, {"succeededIndexes": "0"}],
    ids=[
        "[sig-apps] Job with successPolicy succeededCount rule should succeeded even when some indexes remain pending",
        "[sig-apps] Job with successPolicy succeededIndexes rule should succeeded even when some indexes remain pending",  # noqa: E501
    ],
)
def test_success_policy_with_pending_indexes(rule: dict[str, object], tmp_path: Path) -> None:
    async def scenario(c: Batch) -> None:
        await c.create(
            job(
                pods=bare(),
                completionMode="Indexed",
                parallelism=5,
                completions=5,
                successPolicy={"rules": [rule]},
            )
        )
        await c.clock.advance(60)
        assert await c.conditions() == [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]
        status = (await c.get()).status
        assert (status.completedIndexes, status.succeeded, status.active) == ("0", 1, 0)
        running = [pod for pod in await c.list_pods() if _is_running(pod)]
        assert running == []

    behaviors = {f"{INDEX}!=0": ("forever", 0), f"{INDEX}=0": ("1s", 0)}
    run_scenario(scenario, write_stages(tmp_path, behaviors))


def _is_running(pod: Pod) -> bool:
    return pod.status.phase not in ("Succeeded", "Failed")
