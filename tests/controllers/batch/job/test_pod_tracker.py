"""However often the work is broken off, each pod is counted once."""

from hypothesis import given
from hypothesis import strategies as st

from sampan.api.codec import json as codec
from sampan.api.types.batch_v1 import Job, JobStatus
from sampan.api.types.core_v1 import Pod
from sampan.controllers.batch.job.conditions import FAILURE_TARGET, condition
from sampan.controllers.batch.job.pod_tracker import MOST_UNCOUNTED, is_settled, settle, take, uncounted_of
from tests.controllers.batch.job.pods import NOW, indexed, job, pod, view

PHASES = st.sampled_from(["Running", "Succeeded", "Failed"])


def copied(status: JobStatus) -> JobStatus:
    return codec.from_value(codec.to_value(status), JobStatus)


class Round:
    """A sync that may end before its last write, and whose releases may fail."""

    def __init__(self, job: Job, pods: list[Pod]) -> None:
        self.job, self.pods = job, pods

    def play(self, *, writes: int, released: list[bool]) -> None:
        held = [pod for pod in self.pods if pod.metadata.finalizers]
        view_ = view(self.job, *self.pods)
        status = copied(self.job.status)
        uids = {pod.metadata.uid for pod in held}
        settle(status, uids)
        counted = take(view_, None, status)
        if writes == 0:
            return
        self.job.status = copied(status)
        gone = {pod.metadata.uid for pod, is_gone in zip(counted.release, released, strict=False) if is_gone}
        for own_pod in self.pods:
            if own_pod.metadata.uid in gone:
                own_pod.metadata.finalizers = []
        settle(status, uids - gone)
        if writes > 1:
            self.job.status = status


rounds = st.lists(st.tuples(st.integers(0, 2), st.lists(st.booleans(), min_size=8, max_size=8)), max_size=6)


@given(st.lists(PHASES, min_size=1, max_size=8), rounds)
def test_each_pod_is_counted_once(phases: list[str], played: list[tuple[int, list[bool]]]) -> None:
    pods = [pod(f"p{number}", phase) for number, phase in enumerate(phases)]
    game = Round(job(), pods)
    for writes, released in [*played, (2, [True] * 8), (2, [True] * 8)]:
        game.play(writes=writes, released=released)
    status = game.job.status
    assert (status.succeeded, status.failed) == (phases.count("Succeeded"), phases.count("Failed"))
    assert is_settled(status)
    assert [bool(pod_.metadata.finalizers) for pod_ in pods] == [phase == "Running" for phase in phases]


@given(st.lists(st.tuples(st.integers(0, 3), PHASES), min_size=1, max_size=8), rounds)
def test_each_index_succeeds_once(finished_pods: list[tuple[int, str]], played: list[tuple[int, list[bool]]]) -> None:
    pods = [pod(f"p{number}", phase, index=index) for number, (index, phase) in enumerate(finished_pods)]
    game = Round(indexed(4), pods)
    for writes, released in [*played, (2, [True] * 8), (2, [True] * 8)]:
        game.play(writes=writes, released=released)
    status = game.job.status
    assert status.succeeded == len({index for index, phase in finished_pods if phase == "Succeeded"})
    assert status.failed == sum(phase == "Failed" for _, phase in finished_pods)


def test_when_a_job_fails_its_running_pods_have_failed_too() -> None:
    job_ = job()
    counted = take(view(job_, pod("a")), condition(FAILURE_TARGET, "r", "m", NOW), job_.status)
    assert [pod_.metadata.name for pod_ in counted.release] == ["a"]
    assert uncounted_of(job_.status).failed == ["a"]


def test_not_all_at_once() -> None:
    job_ = job()
    pods = [pod(f"p{number}", "Succeeded") for number in range(MOST_UNCOUNTED + 5)]
    counted = take(view(job_, *pods), None, job_.status)
    assert counted.is_full
    assert len(counted.release) == MOST_UNCOUNTED


def test_a_failed_pod_stays_until_its_index_has_another() -> None:
    job = indexed(2, backoffLimitPerIndex=3)
    counted = take(view(job, pod("a", "Failed", index=0)), None, job.status)
    assert counted.release == []
    counted = take(view(job, pod("a", "Failed", index=0), pod("b", index=0)), None, job.status)
    assert [pod_.metadata.name for pod_ in counted.release] == ["a"]
