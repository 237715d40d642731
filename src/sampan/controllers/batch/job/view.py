"""A snapshot of a job and its pods. Pure."""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from sampan.api.semantics.pods import SUCCEEDED, is_active, is_ready, is_terminating
from sampan.api.types.batch_v1 import Job, UncountedTerminatedPods
from sampan.api.types.core_v1 import Pod
from sampan.controllers.batch.job.pod_state import (
    CompletionIndexes,
    JobFailures,
    all_failures_before,
    completion_index,
    completions_of,
    failures_before,
    finish_time,
    has_failed,
    has_limit_per_index,
    is_indexed,
    is_tracked,
    update_failures,
)
from sampan.controllers.batch.job.policies import FAIL_INDEX, match_failure_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    job: Job
    pods: Sequence[Pod]
    now: float
    tracked: Sequence[Pod]
    """Pods that are not counted yet: those with the tracking finalizer, unless its removal is already written."""
    active: Sequence[Pod]
    terminating: int
    ready: int
    succeeded: int
    """Succeeded pods, or indexes of an indexed job, including those about to be counted."""
    failed: int
    """Pods whose failure counts against the backoff limit."""
    failures: JobFailures
    counted_indexes: CompletionIndexes
    """Succeeded indexes that the status already contains."""
    succeeded_indexes: CompletionIndexes
    failed_indexes: CompletionIndexes | None
    """None unless the job sets backoffLimitPerIndex."""
    held: dict[int, Pod]
    """The last failed pod per index. It is kept until its replacement has taken over the failure count."""


def view_of(job: Job, pods: Sequence[Pod], *, released: Set[str], failures: JobFailures, now: float) -> JobView:
    """Return the view of a job.

    `released` are the UIDs of pods whose finalizer was removed although the cached pods may still show it; `failures`
    are the failures known before.
    """
    tracked = [pod for pod in pods if is_tracked(pod) and pod.metadata.uid not in released]
    valid = [pod for pod in tracked if has_valid_index(job, pod)]
    active = [pod for pod in pods if is_active(pod)]
    waiting = job.status.uncountedTerminatedPods or UncountedTerminatedPods()
    succeeded = _select_unlisted(valid, waiting.succeeded, lambda pod: pod.status.phase == SUCCEEDED)
    failed = _select_unlisted(valid, waiting.failed, lambda pod: has_failed(pod, job))
    counted_failed = sum(match_failure_policy(job.spec.podFailurePolicy, pod).is_counted for pod in failed)
    counted, done, lost = _indexes(job, pods)
    return JobView(
        job=job,
        pods=pods,
        now=now,
        tracked=tracked,
        active=active,
        terminating=sum(is_terminating(pod) for pod in pods),
        ready=sum(is_ready(pod) for pod in active),
        succeeded=len(done) if is_indexed(job) else job.status.succeeded + len(succeeded) + len(waiting.succeeded),
        failed=job.status.failed + counted_failed + len(waiting.failed),
        failures=update_failures(failures, succeeded, failed),
        counted_indexes=counted,
        succeeded_indexes=done,
        failed_indexes=lost,
        held={} if lost is None else _find_last_failed_pods(job, valid, done | lost | indexes_of(active)),
    )


def has_valid_index(job: Job, pod: Pod) -> bool:
    """Whether the pod has a valid completion index. Always true if the job is not indexed."""
    if not is_indexed(job):
        return True
    index = completion_index(pod)
    return index is not None and index < completions_of(job)


def indexes_of(pods: Sequence[Pod]) -> CompletionIndexes:
    return CompletionIndexes.from_indexes(index for pod in pods if (index := completion_index(pod)) is not None)


def _select_unlisted(pods: Sequence[Pod], listed_uids: Sequence[str], fits: Callable[[Pod], bool]) -> list[Pod]:
    """Return the pods for which `fits` returns true and whose UIDs are not in `listed_uids`."""
    uids = set(listed_uids)
    return [pod for pod in pods if pod.metadata.uid not in uids and fits(pod)]


def _indexes(job: Job, pods: Sequence[Pod]) -> tuple[CompletionIndexes, CompletionIndexes, CompletionIndexes | None]:
    """Return the indexes counted as succeeded, all succeeded indexes, and the failed indexes."""
    if not is_indexed(job):
        return CompletionIndexes(), CompletionIndexes(), None
    completions, status = completions_of(job), job.status
    valid = [pod for pod in pods if is_tracked(pod) and has_valid_index(job, pod)]
    counted = CompletionIndexes.parse(status.completedIndexes, completions)
    done = counted | indexes_of([pod for pod in valid if pod.status.phase == SUCCEEDED])
    if not has_limit_per_index(job):
        return counted, done, None
    lost = CompletionIndexes.parse(status.failedIndexes or "", completions)
    return counted, done, lost | indexes_of([pod for pod in valid if _fails_index(job, pod)])


def _fails_index(job: Job, pod: Pod) -> bool:
    if not has_failed(pod, job):
        return False
    match = match_failure_policy(job.spec.podFailurePolicy, pod)
    limit = job.spec.backoffLimitPerIndex or 0
    return match.action == FAIL_INDEX or (match.is_counted and failures_before(pod) >= limit)


def _find_last_failed_pods(job: Job, pods: Sequence[Pod], settled: CompletionIndexes) -> dict[int, Pod]:
    """Return the last failed pod of each index that has neither finished nor an active pod."""
    latest: dict[int, Pod] = {}
    for pod in pods:
        index = completion_index(pod)
        if index is None or index in settled or not has_failed(pod, job):
            continue
        last = latest.get(index)
        if last is None or _is_later(pod, last):
            latest[index] = pod
    return latest


def _is_later(pod: Pod, last: Pod) -> bool:
    return all_failures_before(pod) >= all_failures_before(last) and finish_time(pod) >= finish_time(last)
