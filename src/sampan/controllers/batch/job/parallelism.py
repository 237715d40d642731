"""Which pods of a job to create and delete. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from sampan.api.semantics.pods import is_terminating
from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Pod
from sampan.controllers.batch.job.pod_state import (
    CompletionIndexes,
    completion_index,
    completions_of,
    has_limit_per_index,
    index_wait_s,
    is_indexed,
    is_suspended,
    replaces_only_failed,
)
from sampan.controllers.batch.job.view import JobView, has_valid_index, indexes_of
from sampan.controllers.ownership.deletion_order import plain_order
from sampan.controllers.ownership.pods import BURST

MAX_PODS_PER_SYNC = BURST


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """Pods to create or pods to delete, never both."""

    remove: Sequence[Pod] = ()
    create: Sequence[int | None] = ()
    """The completion index of each pod; None if the job is not indexed."""
    wait_s: float | None = None
    """Seconds of backoff until missing pods may be created."""


def pods_wanted(view: JobView) -> PodPlan:
    job, active = view.job, len(view.active)
    if is_suspended(job):
        return PodPlan(remove=_pods_to_delete(job, view.active, active))
    desired = _active_wanted(view)
    remove = _pods_to_delete(job, view.active, max(active - desired, 0))[:MAX_PODS_PER_SYNC]
    if remove:
        return PodPlan(remove=remove)
    waited_for = view.terminating if replaces_only_failed(job) else 0
    missing = min(desired - waited_for - active, MAX_PODS_PER_SYNC)
    return _creations(view, missing) if missing > 0 else PodPlan()


def _active_wanted(view: JobView) -> int:
    spec = view.job.spec
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None:
        return len(view.active) if view.succeeded > 0 else parallelism
    return max(min(spec.completions - view.succeeded, parallelism), 0)


def _creations(view: JobView, count: int) -> PodPlan:
    job = view.job
    if has_limit_per_index(job):
        return _independent_creations(view, _next_indexes(view, count))
    wait_s = view.failures.wait_s(view.now)
    if wait_s > 0:
        return PodPlan(wait_s=wait_s)
    return PodPlan(create=_next_indexes(view, count) if is_indexed(job) else [None] * count)


def _independent_creations(view: JobView, indexes: Sequence[int]) -> PodPlan:
    """Plan creations with a backoff per index. If all must wait, the shortest wait determines the next sync."""
    waits = {index: index_wait_s(view.held.get(index), view.now) for index in indexes}
    ready = [index for index, wait_s in waits.items() if wait_s <= 0]
    if ready:
        return PodPlan(create=ready)
    return PodPlan(wait_s=min(waits.values(), default=None))


def _next_indexes(view: JobView, count: int) -> list[int]:
    """Return the first indexes that have neither finished nor an active pod."""
    unavailable = view.succeeded_indexes | indexes_of(view.active) | (view.failed_indexes or CompletionIndexes())
    if replaces_only_failed(view.job):
        unavailable |= indexes_of([pod for pod in view.pods if is_terminating(pod)])
    return list(islice(unavailable.iterate_missing(completions_of(view.job)), count))


def _pods_to_delete(job: Job, pods: Sequence[Pod], count: int) -> list[Pod]:
    """Return at least `count` pods to delete, including pods with an invalid or duplicate completion index."""
    extra = _surplus_indexed_pods(job, pods) if is_indexed(job) else []
    remaining = count - len(extra)
    if remaining <= 0:
        return extra
    uids = {pod.metadata.uid for pod in extra}
    return extra + plain_order(pod for pod in pods if pod.metadata.uid not in uids)[:remaining]


def _surplus_indexed_pods(job: Job, pods: Sequence[Pod]) -> list[Pod]:
    superfluous: list[Pod] = []
    by_index: dict[int, list[Pod]] = {}
    for pod in pods:
        index = completion_index(pod)
        if index is None or not has_valid_index(job, pod):
            superfluous.append(pod)
        else:
            by_index.setdefault(index, []).append(pod)
    for same in by_index.values():
        if len(same) > 1:
            superfluous += plain_order(same)[:-1]
    return superfluous
