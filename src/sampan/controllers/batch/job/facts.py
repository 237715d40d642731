"""What a job's spec and its pods say, in the words of the job controller."""

from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Pod
from sampan.controllers.ownership.pod_facts import FAILED, is_terminating

CONTROLLER = "kubernetes.io/job-controller"
"""Who manages a job that names nobody else."""
TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of pods that are not counted yet."""
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
"""Annotations of a pod: how often its index failed before it."""
INDEXED, NON_INDEXED = "Indexed", "NonIndexed"
_MOST = 2**31 - 1


def is_ours(job: Job) -> bool:
    return job.spec.managedBy in (None, CONTROLLER)


def is_indexed(job: Job) -> bool:
    return job.spec.completionMode == INDEXED


def is_suspended(job: Job) -> bool:
    return bool(job.spec.suspend)


def has_limit_per_index(job: Job) -> bool:
    return job.spec.backoffLimitPerIndex is not None


def replaces_only_failed(job: Job) -> bool:
    """A pod that is being deleted is replaced when it has ended, not before."""
    return job.spec.podReplacementPolicy == "Failed" or job.spec.podFailurePolicy is not None


def completions_of(job: Job) -> int:
    """Of an indexed job, which always has a number."""
    return job.spec.completions or 0


def is_tracked(pod: Pod) -> bool:
    return TRACKING in pod.metadata.finalizers


def has_failed(pod: Pod, job: Job) -> bool:
    """Whether the pod counts as failed: a deleted one may never get to say so itself."""
    if pod.status.phase == FAILED:
        return True
    return is_terminating(pod) and not replaces_only_failed(job)


def failures_before(pod: Pod) -> int:
    """Of the pod's index, those that count."""
    return _count(pod, FAILURES)


def ignored_before(pod: Pod) -> int:
    return _count(pod, IGNORED_FAILURES)


def all_failures_before(pod: Pod) -> int:
    return failures_before(pod) + ignored_before(pod)


def _count(pod: Pod, annotation: str) -> int:
    text = pod.metadata.annotations.get(annotation, "")
    digits = text.removeprefix("+")
    found = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else 0
    return found if found <= _MOST else 0
