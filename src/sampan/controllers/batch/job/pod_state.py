"""The pods of a job: predicates, completion indexes, and the backoff in which failed pods are replaced. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api.semantics.pods import FAILED, is_terminating, sidecars_of
from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Pod
from sampan.api.values.integers import parse_int64
from sampan.api.values.times import parse_time
from sampan.host.backoff import Backoff

CONTROLLER = "kubernetes.io/job-controller"
"""The value of spec.managedBy that stands for this controller; an unset field means the same."""
TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer of pods that are not counted yet."""
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
"""`FAILURES` and `IGNORED_FAILURES` are pod annotations with the number of earlier failures of the pod's index: those
that count against the limit, and those that a pod failure policy ignores."""
INDEXED, NON_INDEXED = "Indexed", "NonIndexed"
_MAX_INT32 = 2**31 - 1


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


def ignored_failures_before(pod: Pod) -> int:
    return _count(pod, IGNORED_FAILURES)


def all_failures_before(pod: Pod) -> int:
    return failures_before(pod) + ignored_failures_before(pod)


def _count(pod: Pod, annotation: str) -> int:
    text = pod.metadata.annotations.get(annotation, "")
    digits = text.removeprefix("+")
    count = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else 0
    return count if count <= _MAX_INT32 else 0


COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""The annotation and label of the pods of an indexed job."""


Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CompletionIndexes:
    spans: tuple[Span, ...] = ()
    """Pairs of first and last index, ascending, with a gap between neighbors."""

    @classmethod
    def from_indexes(cls, indexes: Iterable[int]) -> "CompletionIndexes":
        return cls(_merge_spans((index, index) for index in indexes))

    @classmethod
    def parse(cls, text: str, completions: int) -> "CompletionIndexes":
        """Return the indexes below `completions`; parts that cannot be parsed are ignored."""
        return cls(_merge_spans(_spans(text, completions)))

    def __or__(self, other: "CompletionIndexes") -> "CompletionIndexes":
        return CompletionIndexes(_merge_spans((*self.spans, *other.spans))) if other.spans else self

    def __contains__(self, index: int) -> bool:
        position = bisect_left(self.spans, index, key=lambda span: span[1])
        return position < len(self.spans) and self.spans[position][0] <= index

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.spans)

    def __str__(self) -> str:
        return ",".join(_text(first, last) for first, last in self.spans)

    def overlap(self, other: "CompletionIndexes") -> int:
        """Return the number of indexes in both sets."""
        return len(self) + len(other) - len(self | other)

    def iterate_missing(self, completions: int) -> Iterator[int]:
        """Yield the indexes below `completions` that are not in the set, in ascending order."""
        start = 0
        for first, last in self.spans:
            yield from range(start, min(first, completions))
            start = last + 1
        yield from range(start, completions)


def _merge_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    joined: list[Span] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def _spans(text: str, completions: int) -> Iterator[Span]:
    for part in filter(None, text.split(",")):
        ends = [parse_int64(end) for end in part.split("-")[:2]]
        first, last = ends[0], ends[-1]
        if first is None or last is None:
            continue
        last = min(last, completions - 1)
        if first >= completions:
            return
        yield first, last


def _text(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def completion_index(pod: Any) -> int | None:
    """Return the completion index of a pod, or None if it has none."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    index = parse_int64(text)
    return index if index is not None and index >= 0 else None


_BACKOFF = Backoff(10.0, 600.0)


_SKEW_S = 60.0
"""Tolerated clock skew of nodes. A failure time further in the future stems from a clock that was since set back, and
is not waited for.
"""


@dataclass(frozen=True, slots=True)
class JobFailures:
    """The failures of a job since its last successful pod."""

    count: int = 0
    last: float | None = None

    def wait_s(self, now: float) -> float:
        """Return the seconds for which no pod may be created."""
        return _wait_s(self.count, self.last, now)


def update_failures(previous: JobFailures, succeeded: Sequence[Pod], failed: Sequence[Pod]) -> JobFailures:
    """Return the failures updated with the pods that have finished since."""
    times = sorted(finish_time(pod) for pod in failed)
    if not succeeded:
        return JobFailures(previous.count + len(times), times[-1]) if times else previous
    success = max(finish_time(pod) for pod in succeeded)
    later = [time for time in times if time > success]
    return JobFailures(len(later), later[-1]) if later else JobFailures()


def index_wait_s(last_failed: Pod | None, now: float) -> float:
    """Return the seconds for which no pod may be created for an index, from its last failed pod."""
    if last_failed is None:
        return 0.0
    return _wait_s(all_failures_before(last_failed) + 1, finish_time(last_failed), now)


def _wait_s(failures: int, last: float | None, now: float) -> float:
    if not failures or last is None or last - now > _SKEW_S:
        return 0.0
    return max(last + _BACKOFF.delay_after(failures - 1) - now, 0.0)


def finish_time(pod: Pod) -> float:
    """Return the time at which the pod finished, from the best source that its status has."""
    if (ended := _containers_ended(pod)) is not None:
        return ended
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "False" and condition.lastTransitionTime:
            return parse_time(condition.lastTransitionTime)
    if pod.metadata.deletionTimestamp is not None:
        return parse_time(pod.metadata.deletionTimestamp) - (pod.metadata.deletionGracePeriodSeconds or 0)
    return parse_time(pod.metadata.creationTimestamp) if pod.metadata.creationTimestamp else 0.0


def _containers_ended(pod: Pod) -> float | None:
    """Return when the last container or sidecar terminated, or None unless all have terminated."""
    sidecars = {container.name for container in sidecars_of(pod.spec)}
    status = pod.status
    counted = [
        *status.containerStatuses,
        *(container for container in status.initContainerStatuses if container.name in sidecars),
    ]
    times = [container.state.terminated.finishedAt if container.state.terminated else None for container in counted]
    ended = [parse_time(time) for time in times if time]
    return max(ended) if ended and len(ended) == len(times) else None
