"""Jobs from creation to completion or failure, with the test in the place of the kubelet."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Pod
from sampan.machinery import errors
from sampan.machinery.client import DELETED, DeleteParameters
from tests.controllers.batch.job_cluster import JOB, JobCluster, job_cluster
from tests.controllers.cluster import check_second_run_writes_nothing
from tests.controllers.ownership.pod_cluster import pod_cluster

Scenario = Callable[[JobCluster], Awaitable[None]]
TRACKING = "batch.kubernetes.io/job-tracking"


def play(scenario: Scenario, *controllers: str) -> None:
    async def main() -> None:
        async with job_cluster(*controllers) as c:
            await scenario(c)

    asyncio.run(main())


def test_job_runs_to_completion() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(completions=2, parallelism=1)
        (first,) = await c.pods()
        assert first.metadata.generateName == "work-"
        assert first.metadata.finalizers == [TRACKING]
        status = await c.status()
        assert (status.active, status.ready, status.terminating) == (1, 0, 0)
        assert status.startTime is not None
        await c.run(first)
        assert (await c.status()).ready == 1
        await c.end(first)
        second = (await c.active())[0]
        assert (await c.status()).succeeded == 1
        await c.end(second)
        status = await c.status()
        assert (status.active, status.succeeded, status.failed, status.ready) == (0, 2, 0, 0)
        assert status.completionTime is not None
        assert await c.conditions() == [
            ("SuccessCriteriaMet", "True", "CompletionsReached"),
            ("Complete", "True", "CompletionsReached"),
        ]
        assert all(not pod.metadata.finalizers for pod in await c.pods())
        assert [message for _, reason, message in await c.events() if reason == "SuccessfulCreate"] == [
            f"Created pod: {first.metadata.name}",
            f"Created pod: {second.metadata.name}",
        ]
        assert ("Normal", "Completed", "Job completed") in await c.events()

    play(scenario)


def test_failed_pod_is_replaced_with_exponential_back_off() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(backoffLimit=5)
        for wait_s in (10, 20, 40):
            (pod,) = await c.active()
            await c.end(pod, 1)
            await c.pass_s(wait_s - 1)
            assert await c.active() == []
            await c.pass_s(1.5)
            assert len(await c.active()) == 1
        assert (await c.status()).failed == 3

    play(scenario)


def test_job_fails_when_the_backoff_limit_is_exceeded() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(backoffLimit=1)
        for _ in range(2):
            (pod,) = await c.active()
            await c.end(pod, 1)
            await c.pass_s(11)
        status = await c.status()
        assert (status.active, status.failed) == (0, 2)
        assert await c.conditions() == [
            ("FailureTarget", "True", "BackoffLimitExceeded"),
            ("Failed", "True", "BackoffLimitExceeded"),
        ]
        message = "Job has reached the specified backoff limit"
        assert status.conditions[-1].message == message
        assert ("Warning", "BackoffLimitExceeded", message) in await c.events()

    play(scenario)


def test_active_deadline_fails_the_job_once_its_pods_are_gone() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(activeDeadlineSeconds=30)
        (pod,) = await c.pods()
        await c.bind(pod)
        await c.run(pod)
        await c.pass_s(29)
        assert await c.conditions() == []
        await c.pass_s(2)
        assert await c.conditions() == [("FailureTarget", "True", "DeadlineExceeded")]
        assert (await c.status()).terminating == 1
        await c.remove(pod)
        assert await c.conditions() == [
            ("FailureTarget", "True", "DeadlineExceeded"),
            ("Failed", "True", "DeadlineExceeded"),
        ]
        status = await c.status()
        assert (status.terminating, status.failed, status.active) == (0, 1, 0)

    play(scenario)


def test_work_queue_job_completes_when_no_pod_is_active_after_a_success() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(parallelism=3)
        first, second, third = await c.pods()
        await c.end(first)
        assert len(await c.active()) == 2
        await c.end(second)
        assert await c.conditions() == []
        await c.end(third)
        assert [kind for kind, _, _ in await c.conditions()] == ["SuccessCriteriaMet", "Complete"]
        assert (await c.status()).succeeded == 3

    play(scenario)


def test_pods_of_an_indexed_job_carry_their_completion_index() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(completions=3, parallelism=2, completionMode="Indexed")
        zero, first = await c.pods()
        assert zero.metadata.generateName == "work-0-"
        assert zero.metadata.annotations["batch.kubernetes.io/job-completion-index"] == "0"
        assert zero.metadata.labels["batch.kubernetes.io/job-completion-index"] == "0"
        assert zero.spec.hostname == "work-0"
        assert zero.spec.containers is not None
        (variable,) = zero.spec.containers[0].env
        assert variable.name == "JOB_COMPLETION_INDEX"
        await c.end(first)
        assert (await c.status()).completedIndexes == "1"
        await c.end(zero)
        second = (await c.active())[0]
        assert second.spec.hostname == "work-2"
        await c.end(second)
        status = await c.status()
        assert (status.completedIndexes, status.succeeded) == ("0-2", 3)
        assert ("Complete", "True", "CompletionsReached") in await c.conditions()

    play(scenario)


def test_backoff_limit_per_index_fails_each_index_separately() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
        zero, pod = await c.pods()
        assert zero.metadata.annotations["batch.kubernetes.io/job-index-failure-count"] == "0"
        await c.end(pod)
        await c.end(zero, 1)
        await c.pass_s(11)
        (replacement,) = await c.active()
        assert replacement.metadata.annotations["batch.kubernetes.io/job-index-failure-count"] == "1"
        await c.end(replacement, 1)
        status = await c.status()
        assert (status.failedIndexes, status.completedIndexes, status.failed) == ("0", "1", 2)
        assert await c.conditions() == [("FailureTarget", "True", "FailedIndexes"), ("Failed", "True", "FailedIndexes")]

    play(scenario)


def test_job_fails_when_max_failed_indexes_is_exceeded() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(
            completions=4, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=0, maxFailedIndexes=0
        )
        zero, _ = await c.pods()
        await c.end(zero, 1)
        status = await c.status()
        assert status.failedIndexes == "0"
        assert status.conditions[-1].reason == "MaxFailedIndexesExceeded"
        assert await c.active() == []

    play(scenario)


RULES = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}


def test_fail_job_rule_of_the_pod_failure_policy_fails_the_job() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(podFailurePolicy=RULES)
        (pod,) = await c.pods()
        await c.end(pod, 42)
        condition = (await c.status()).conditions[-1]
        assert (condition.type, condition.reason) == ("Failed", "PodFailurePolicy")
        name = f"default/{pod.metadata.name}"
        message = f"Container c for pod {name} failed with exit code 42 matching FailJob rule at index 0"
        assert condition.message == message

    play(scenario)


def test_failures_ignored_by_the_pod_failure_policy_are_not_counted() -> None:
    async def scenario(c: JobCluster) -> None:
        pattern = [{"type": "DisruptionTarget", "status": "True"}]
        await c.create(backoffLimit=0, podFailurePolicy={"rules": [{"action": "Ignore", "onPodConditions": pattern}]})
        (pod,) = await c.pods()
        await c.end(pod, 137, {"type": "DisruptionTarget", "status": "True"})
        await c.pass_s(11)
        assert (await c.status()).failed == 0
        (replacement,) = await c.active()
        await c.end(replacement)
        assert ("Complete", "True", "CompletionsReached") in await c.conditions()

    play(scenario)


def test_success_policy_completes_the_job_early() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(
            completions=3,
            parallelism=3,
            completionMode="Indexed",
            successPolicy={"rules": [{"succeededIndexes": "0", "succeededCount": 1}]},
        )
        zero = (await c.pods())[0]
        await c.end(zero)
        assert await c.conditions() == [
            ("SuccessCriteriaMet", "True", "SuccessPolicy"),
            ("Complete", "True", "SuccessPolicy"),
        ]
        status = await c.status()
        assert (status.completedIndexes, status.succeeded, status.failed, status.active) == ("0", 1, 0, 0)
        assert status.conditions[0].message == "Matched rules at index 0"

    play(scenario)


def test_suspended_job_deletes_its_pods_and_resumed_job_creates_new_pods() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(parallelism=2, completions=2)
        await c.patch({"spec": {"suspend": True}})
        status = await c.status()
        assert await c.pods() == []
        assert (status.active, status.failed, status.startTime) == (0, 0, None)
        assert await c.conditions() == [("Suspended", "True", "JobSuspended")]
        await c.pass_s(60)
        await c.patch({"spec": {"suspend": False}})
        assert len(await c.active()) == 2
        assert await c.conditions() == [("Suspended", "False", "JobResumed")]
        assert (await c.status()).startTime is not None
        assert [reason for reason in await c.reasons() if reason in ("Suspended", "Resumed")] == [
            "Suspended",
            "Resumed",
        ]

    play(scenario)


def test_node_selector_of_a_job_created_suspended_is_mutable() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(suspend=True)
        assert await c.pods() == []
        selector = {"spec": {"template": {"spec": {"nodeSelector": {"disk": "fast"}}}}}
        await c.patch(selector)
        await c.patch({"spec": {"suspend": False}})
        (pod,) = await c.pods()
        assert pod.spec.nodeSelector == {"disk": "fast"}

    play(scenario)


def test_node_selector_is_mutable_after_a_started_job_is_suspended() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(parallelism=2, completions=2)
        await c.patch({"spec": {"suspend": True}})
        assert (await c.status()).active == 0
        await c.patch({"spec": {"template": {"spec": {"nodeSelector": {"disk": "slow"}}}}})
        await c.patch({"spec": {"suspend": False}})
        assert [pod.spec.nodeSelector for pod in await c.active()] == [{"disk": "slow"}] * 2

    play(scenario)


@pytest.mark.parametrize(("policy", "replaced_at_once"), [("TerminatingOrFailed", True), ("Failed", False)])
def test_pod_replacement_policy_of_deleted_pods(policy: str, replaced_at_once: bool) -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(podReplacementPolicy=policy)
        (pod,) = await c.pods()
        await c.bind(pod)
        await c.run(pod)
        await c.cluster.client.for_kind(Pod).delete(pod.metadata.name, "default")
        await c.pass_s(11)
        assert len(await c.active()) == replaced_at_once
        assert (await c.status()).terminating == 1
        await c.end(pod, 143)
        await c.remove(pod)
        await c.pass_s(11)
        assert len(await c.active()) == 1
        assert (await c.status()).failed == 1

    play(scenario)


def test_lower_parallelism_deletes_pods_without_counting_failures() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(parallelism=3, completions=5)
        await c.patch({"spec": {"parallelism": 1}})
        assert len(await c.active()) == 1
        status = await c.status()
        assert (status.active, status.failed) == (1, 0)

    play(scenario)


def test_container_restarts_count_against_the_backoff_limit() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(restart="OnFailure", backoffLimit=2)
        (pod,) = await c.pods()
        container = {"name": "c", "image": "i", "imageID": "i", "restartCount": 2}
        await c._set(pod, {"phase": "Running", "containerStatuses": [container]})
        assert (await c.status()).conditions[-1].reason == "BackoffLimitExceeded"

    play(scenario)


def test_orphaned_pods_are_adopted_and_unmatched_pods_released() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(parallelism=2, completions=2)
        first, second = await c.pods()
        pods = c.cluster.client.for_kind(Pod)
        uid = (await c.get()).metadata.uid
        await pods.patch(
            first.metadata.name,
            {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": uid}]}},
            "default",
        )
        await c.pass_s(1)
        adopted = await pods.get(first.metadata.name, "default")
        assert [owner.uid for owner in adopted.metadata.ownerReferences] == [uid]
        assert adopted.metadata.finalizers == [TRACKING]
        changed = {"metadata": {"labels": dict.fromkeys(second.metadata.labels, "other")}}
        await pods.patch(second.metadata.name, changed, "default")
        await c.pass_s(1)
        released = await pods.get(second.metadata.name, "default")
        assert released.metadata.ownerReferences == []
        assert released.metadata.finalizers == []
        assert len(await c.active()) == 3

    play(scenario)


def test_pods_of_a_deleted_job_lose_the_tracking_finalizer() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(parallelism=2, completions=2)
        await c.cluster.client.for_kind(Job).delete(
            "work", "default", options=DeleteParameters(propagation="Background")
        )
        await c.pass_s(1)
        assert [pod.metadata.finalizers for pod in await c.pods()] == [[], []]

    play(scenario)


def test_orphaned_pods_lose_owner_reference_and_tracking_finalizer() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(parallelism=2, completions=2)
        await c.cluster.client.for_kind(Job).delete("work", "default", options=DeleteParameters(propagation="Orphan"))
        await c.pass_s(5)
        left = await c.pods()
        assert len(left) == 2
        assert [(pod.metadata.finalizers, pod.metadata.ownerReferences) for pod in left] == [([], [])] * 2

    play(scenario, JOB, "garbage-collector-controller")


def test_foreground_deletion_deletes_the_pods_before_the_job() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(parallelism=2, completions=2)
        async with c.history() as entries:
            await c.cluster.client.for_kind(Job).delete(
                "work", "default", options=DeleteParameters(propagation="Foreground")
            )
            await c.pass_s(5)
        assert await c.pods() == []
        with pytest.raises(errors.NotFound):
            await c.get()
        assert [kind for _, event_type, kind in sorted(entries) if event_type == DELETED] == ["Pod", "Pod", "Job"]

    play(scenario, JOB, "garbage-collector-controller")


def test_completions_of_an_indexed_job_can_be_raised_and_lowered() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(parallelism=2, completions=2, completionMode="Indexed")
        await c.end((await c.pods())[0])
        await c.patch({"spec": {"parallelism": 3, "completions": 3}})
        assert sorted(pod.spec.hostname for pod in await c.active()) == ["work-1", "work-2"]
        await c.patch({"spec": {"parallelism": 1, "completions": 1}})
        assert (await c.status()).completedIndexes == "0"
        assert ("Complete", "True", "CompletionsReached") in await c.conditions()
        assert await c.active() == []

    play(scenario)


def test_job_managed_by_another_controller_is_ignored() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(managedBy="example.com/other")
        assert await c.pods() == []
        assert (await c.status()).startTime is None

    play(scenario)


def test_job_with_60_pods_counts_each_pod_once_with_few_writes() -> None:
    async def scenario(c: JobCluster) -> None:
        await c.create(parallelism=60, completions=60)
        pods = await c.active()
        assert len(pods) == 60
        async with c.history() as entries:
            for pod in pods:
                await c.end(pod)
            await c.pass_s(3)
        job_writes = [revision for revision, _, kind in entries if kind == "Job"]
        assert len(job_writes) == 2, "one write names the ended pods, the next one counts them"
        status = await c.status()
        assert (status.succeeded, status.active) == (60, 0)
        assert ("Complete", "True", "CompletionsReached") in await c.conditions()

    play(scenario)


async def test_the_second_run_writes_nothing() -> None:
    async with pod_cluster() as c:
        async with c.running(JOB):
            jobs = JobCluster(c)
            await jobs.create("going")
            await jobs.create("done")
            done = next(pod for pod in await jobs.pods() if pod.metadata.name.startswith("done"))
            await jobs.end(done)
            await jobs.create("waiting", suspend=True)
        await check_second_run_writes_nothing(c, JOB)
