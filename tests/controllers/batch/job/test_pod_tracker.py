"""Each pod of a job is counted once, however often a sync is interrupted."""

from hypothesis import given
from hypothesis import strategies as st

from sampan.api.codec import json as codec
from sampan.api.types.batch_v1 import Job, JobStatus
from sampan.api.types.core_v1 import Pod
from sampan.controllers.batch.job.conditions import FAILURE_TARGET, condition
from sampan.controllers.batch.job.pod_tracker import (
    MAX_UNCOUNTED_PODS,
    count_recorded_pods,
    ensure_uncounted_pods,
    is_all_counted,
    record_pods_to_count,
)
from tests.controllers.batch.job.pods import NOW, indexed_job, job, pod, view

PHASES = st.sampled_from(["Running", "Succeeded", "Failed"])


def copy_status(status: JobStatus) -> JobStatus:
    return codec.from_value(codec.to_value(status), JobStatus)


class InterruptedSync:
    """A sync that may be interrupted before its last write, and whose finalizer removals may fail."""

    def __init__(self, job: Job, pods: list[Pod]) -> None:
        self.job, self.pods = job, pods

    def run(self, *, writes: int, released: list[bool]) -> None:
        held = [pod for pod in self.pods if pod.metadata.finalizers]
        view_ = view(self.job, *self.pods)
        status = copy_status(self.job.status)
        uids = {pod.metadata.uid for pod in held}
        count_recorded_pods(status, uids)
        counted = record_pods_to_count(view_, None, status)
        if writes == 0:
            return
        self.job.status = copy_status(status)
        gone = {pod.metadata.uid for pod, is_gone in zip(counted.release, released, strict=False) if is_gone}
        for own_pod in self.pods:
            if own_pod.metadata.uid in gone:
                own_pod.metadata.finalizers = []
        count_recorded_pods(status, uids - gone)
        if writes > 1:
            self.job.status = status


rounds = st.lists(st.tuples(st.integers(0, 2), st.lists(st.booleans(), min_size=8, max_size=8)), max_size=6)


@given(st.lists(PHASES, min_size=1, max_size=8), rounds)
def test_each_pod_is_counted_once(phases: list[str], interruptions: list[tuple[int, list[bool]]]) -> None:
    pods = [pod(f"p{number}", phase) for number, phase in enumerate(phases)]
    sync = InterruptedSync(job(), pods)
    for writes, released in [*interruptions, (2, [True] * 8), (2, [True] * 8)]:
        sync.run(writes=writes, released=released)
    status = sync.job.status
    assert (status.succeeded, status.failed) == (phases.count("Succeeded"), phases.count("Failed"))
    assert is_all_counted(status)
    assert [bool(pod_.metadata.finalizers) for pod_ in pods] == [phase == "Running" for phase in phases]


@given(st.lists(st.tuples(st.integers(0, 3), PHASES), min_size=1, max_size=8), rounds)
def test_each_succeeded_index_is_counted_once(
    finished_pods: list[tuple[int, str]], interruptions: list[tuple[int, list[bool]]]
) -> None:
    pods = [pod(f"p{number}", phase, index=index) for number, (index, phase) in enumerate(finished_pods)]
    sync = InterruptedSync(indexed_job(4), pods)
    for writes, released in [*interruptions, (2, [True] * 8), (2, [True] * 8)]:
        sync.run(writes=writes, released=released)
    status = sync.job.status
    assert status.succeeded == len({index for index, phase in finished_pods if phase == "Succeeded"})
    assert status.failed == sum(phase == "Failed" for _, phase in finished_pods)


def test_running_pods_of_a_failed_job_count_as_failed() -> None:
    job_ = job()
    counted = record_pods_to_count(view(job_, pod("a")), condition(FAILURE_TARGET, "r", "m", NOW), job_.status)
    assert [pod_.metadata.name for pod_ in counted.release] == ["a"]
    assert ensure_uncounted_pods(job_.status).failed == ["a"]


def test_uncounted_pods_per_sync_are_limited() -> None:
    job_ = job()
    pods = [pod(f"p{number}", "Succeeded") for number in range(MAX_UNCOUNTED_PODS + 5)]
    counted = record_pods_to_count(view(job_, *pods), None, job_.status)
    assert counted.is_full
    assert len(counted.release) == MAX_UNCOUNTED_PODS


def test_failed_pod_is_released_once_its_index_has_a_replacement() -> None:
    job = indexed_job(2, backoffLimitPerIndex=3)
    counted = record_pods_to_count(view(job, pod("a", "Failed", index=0)), None, job.status)
    assert counted.release == []
    counted = record_pods_to_count(view(job, pod("a", "Failed", index=0), pod("b", index=0)), None, job.status)
    assert [pod_.metadata.name for pod_ in counted.release] == ["a"]
