"""How finished pods are counted exactly once. Pure."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from sampan.api.semantics.pods import SUCCEEDED
from sampan.api.types.batch_v1 import JobCondition, JobStatus, UncountedTerminatedPods
from sampan.api.types.core_v1 import Pod
from sampan.controllers.batch.job.conditions import SUCCESS_MET
from sampan.controllers.batch.job.pod_state import (
    CompletionIndexes,
    completion_index,
    has_failed,
    has_limit_per_index,
    is_indexed,
)
from sampan.controllers.batch.job.policies import match_failure_policy
from sampan.controllers.batch.job.view import JobView, has_valid_index

MAX_UNCOUNTED_PODS = 500
"""The maximum number of UIDs in the status at a time, which keeps the object small."""


@dataclass(slots=True)
class CountedPods:
    release: list[Pod]
    """The pods whose finalizers are to be removed."""
    is_full: bool
    """Whether further pods are left for the next sync."""


def record_pods_to_count(view: JobView, finished: JobCondition | None, status: JobStatus) -> CountedPods:
    """Record in the status the pods to be counted. `finished` is the condition that decides the outcome, or None."""
    uncounted, new_indexes, batch = ensure_uncounted_pods(status), set[int](), CountedPods([], False)
    recorded_uids = {*uncounted.succeeded, *uncounted.failed}
    for pod in _sort_tracked_pods(view):
        if not _may_release(view, pod, finished):
            continue
        batch.release.append(pod)
        if pod.metadata.uid not in recorded_uids:
            _record_pod(view, pod, finished, uncounted, new_indexes)
        if len(new_indexes) + len(uncounted.succeeded) + len(uncounted.failed) >= MAX_UNCOUNTED_PODS:
            batch.is_full = True
            break
    if is_indexed(view.job):
        _record_indexes(view, new_indexes, status)
    return batch


def _record_pod(
    view: JobView,
    pod: Pod,
    finished: JobCondition | None,
    uncounted: UncountedTerminatedPods,
    new_indexes: set[int],
) -> None:
    """Add the pod to the list or the set in which it is to be counted."""
    index = completion_index(pod)
    if pod.status.phase != SUCCEEDED:
        if _counts_as_failed(view, pod, finished):
            uncounted.failed.append(pod.metadata.uid)
    elif not is_indexed(view.job):
        uncounted.succeeded.append(pod.metadata.uid)
    elif index is not None and has_valid_index(view.job, pod) and index not in view.counted_indexes:
        new_indexes.add(index)


def count_recorded_pods(status: JobStatus, uncounted_uids: Set[str]) -> bool:
    """Count the listed pods that are not in `uncounted_uids`. Return whether there were any."""
    names = ensure_uncounted_pods(status)
    succeeded = [uid for uid in names.succeeded if uid in uncounted_uids]
    failed = [uid for uid in names.failed if uid in uncounted_uids]
    counted = len(names.succeeded) - len(succeeded), len(names.failed) - len(failed)
    status.succeeded += counted[0]
    status.failed += counted[1]
    names.succeeded, names.failed = succeeded, failed
    return any(counted)


def ensure_uncounted_pods(status: JobStatus) -> UncountedTerminatedPods:
    if status.uncountedTerminatedPods is None:
        status.uncountedTerminatedPods = UncountedTerminatedPods()
    return status.uncountedTerminatedPods


def is_all_counted(status: JobStatus) -> bool:
    names = ensure_uncounted_pods(status)
    return not names.succeeded and not names.failed


def _may_release(view: JobView, pod: Pod, finished: JobCondition | None) -> bool:
    """Whether the pod's finalizer may be removed once the pod is listed."""
    job = view.job
    if job.metadata.deletionTimestamp is not None or finished is not None or pod.status.phase == SUCCEEDED:
        return True
    if not has_failed(pod, job):
        return False
    index = completion_index(pod) if has_limit_per_index(job) else None
    owned_pod = None if index is None else view.held.get(index)
    return owned_pod is None or owned_pod.metadata.uid != pod.metadata.uid


def _counts_as_failed(view: JobView, pod: Pod, finished: JobCondition | None) -> bool:
    """Whether the pod counts as failed. If the job fails, so does every pod that has not finished."""
    job = view.job
    if not has_failed(pod, job) and (finished is None or finished.type == SUCCESS_MET):
        return False
    return has_valid_index(job, pod) and match_failure_policy(job.spec.podFailurePolicy, pod).is_counted


def _record_indexes(view: JobView, new: set[int], status: JobStatus) -> None:
    done = view.succeeded_indexes | CompletionIndexes.from_indexes(new)
    status.succeeded, status.completedIndexes = len(done), str(done)
    status.failedIndexes = None if view.failed_indexes is None else str(view.failed_indexes)


def _sort_tracked_pods(view: JobView) -> Sequence[Pod]:
    if not is_indexed(view.job):
        return view.tracked
    return sorted(view.tracked, key=lambda pod: -1 if (index := completion_index(pod)) is None else index)
