"""Predicates and values read from the specs of jobs and from their pods."""

from sampan.api.semantics.pods import FAILED, is_terminating
from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Pod

CONTROLLER = "kubernetes.io/job-controller"
"""The value of spec.managedBy that stands for this controller; an unset field means the same."""
TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of pods that are not counted yet."""
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
"""Pod annotations with the number of earlier failures of the pod's index."""
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
    """Whether a terminating pod is replaced only once it has reached a terminal phase."""
    return job.spec.podReplacementPolicy == "Failed" or job.spec.podFailurePolicy is not None


def completions_of(job: Job) -> int:
    """Return the completions of an indexed job, which always sets them."""
    return job.spec.completions or 0


def is_tracked(pod: Pod) -> bool:
    return TRACKING in pod.metadata.finalizers


def has_failed(pod: Pod, job: Job) -> bool:
    """Whether the pod counts as failed. A deleted pod may never reach the Failed phase, so that termination counts too,
    unless the job replaces only failed pods."""
    if pod.status.phase == FAILED:
        return True
    return is_terminating(pod) and not replaces_only_failed(job)


def failures_before(pod: Pod) -> int:
    """Return the earlier failures of the pod's index that count against the limit."""
    return _count(pod, FAILURES)


def ignored_before(pod: Pod) -> int:
    return _count(pod, IGNORED_FAILURES)


def all_failures_before(pod: Pod) -> int:
    return failures_before(pod) + ignored_before(pod)


def _count(pod: Pod, annotation: str) -> int:
    text = pod.metadata.annotations.get(annotation, "")
    digits = text.removeprefix("+")
    count = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else 0
    return count if count <= _MOST else 0
