"""Which pods a job creates and deletes, and how long a replacement waits."""

from typing import Any

import pytest

from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Pod
from sampan.controllers.batch.job.parallelism import pods_wanted
from tests.controllers.batch.job.pods import indexed_job, job, pod, view


def names(pods: Any) -> list[str]:
    return [pod.metadata.name for pod in pods]


@pytest.mark.parametrize(
    ("job", "pods", "create"),
    [
        (job(completions=5, parallelism=3), [], [None, None, None]),
        (job(completions=5, parallelism=3), [pod("a"), pod("b", "Succeeded")], [None, None]),
        (job(completions=5, parallelism=3, status={"succeeded": 4}), [], [None]),
        (job(parallelism=2), [pod("a", "Succeeded")], []),
        (job(parallelism=2), [pod("a")], [None]),
        (job(), [pod("a", is_deleted=True)], []),
        (job(podReplacementPolicy="Failed"), [pod("a", is_deleted=True)], []),
        (job(), [pod("a", "Failed")], []),
        (job(), [pod("a", "Failed", ended_s=11)], [None]),
        (job(suspend=True), [], []),
        (indexed_job(4, parallelism=2), [pod("a", index=1)], [0]),
        (indexed_job(4, status={"completedIndexes": "0,2"}), [], [1, 3]),
        (indexed_job(3, backoffLimitPerIndex=1), [pod("a", "Failed", index=0), pod("b", index=1)], [2]),
        (indexed_job(2, backoffLimitPerIndex=1), [pod("a", "Failed", index=0, ended_s=11), pod("b", index=1)], [0]),
        (indexed_job(2, backoffLimitPerIndex=0), [pod("a", "Failed", index=0), pod("b", index=1)], []),
    ],
)
def test_pods_to_create(job: Job, pods: list[Pod], create: list[int | None]) -> None:
    plan = pods_wanted(view(job, *pods))
    assert list(plan.create) == create
    assert plan.remove in ((), [])


def test_replacement_pod_waits_for_the_remaining_back_off() -> None:
    assert pods_wanted(view(job(), pod("a", "Failed", ended_s=4))).wait_s == 6
    held = pods_wanted(view(indexed_job(1, backoffLimitPerIndex=5), pod("a", "Failed", index=0, failures=1, ended_s=4)))
    assert held.wait_s == 16


@pytest.mark.parametrize(
    ("job", "pods", "remove"),
    [
        (job(parallelism=1, completions=5), [pod("a", ready=True), pod("b", "Pending")], ["b"]),
        (job(suspend=True, parallelism=2), [pod("a", ready=True), pod("b", "Pending")], ["b", "a"]),
        (indexed_job(2), [pod("a", index=0, ready=True), pod("b", index=0), pod("c", index=1)], ["b"]),
        (indexed_job(2), [pod("a", index=7), pod("b"), pod("c", index=1)], ["a", "b"]),
    ],
)
def test_pods_to_delete(job: Job, pods: list[Pod], remove: list[str]) -> None:
    plan = pods_wanted(view(job, *pods))
    assert names(plan.remove) == remove
    assert list(plan.create) == []
