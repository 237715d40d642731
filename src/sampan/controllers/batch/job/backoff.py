"""Backoff of replacement pods: 10 s, doubled with each failure since the last success, at most 10 min."""

from collections.abc import Sequence
from dataclasses import dataclass

from sampan.api.semantics.pods import sidecars_of
from sampan.api.times import parse_time
from sampan.api.types.core_v1 import Pod
from sampan.controllers.batch.job.facts import all_failures_before

FIRST_S, MOST_S = 10.0, 600.0
_SKEW_S = 60.0
"""Tolerated clock skew of nodes. A failure time further in the future stems from a clock that was since set back, and
is not waited for.
"""


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of a job since its last successful pod."""

    count: int = 0
    last: float | None = None

    def wait_s(self, now: float) -> float:
        """Return the seconds for which no pod may be created."""
        return _wait_s(self.count, self.last, now)


def after(known: Failures, succeeded: Sequence[Pod], failed: Sequence[Pod]) -> Failures:
    """Return the failures updated with the pods that have finished since."""
    times = sorted(finish_time(pod) for pod in failed)
    if not succeeded:
        return Failures(known.count + len(times), times[-1]) if times else known
    success = max(finish_time(pod) for pod in succeeded)
    later = [time for time in times if time > success]
    return Failures(len(later), later[-1]) if later else Failures()


def index_wait_s(last_failed: Pod | None, now: float) -> float:
    """Return the seconds for which no pod may be created for an index, from its last failed pod."""
    if last_failed is None:
        return 0.0
    return _wait_s(all_failures_before(last_failed) + 1, finish_time(last_failed), now)


def _wait_s(failures: int, last: float | None, now: float) -> float:
    if not failures or last is None or last - now > _SKEW_S:
        return 0.0
    pause_s = min(FIRST_S * 2.0 ** min(failures - 1, 32), MOST_S)
    return max(last + pause_s - now, 0.0)


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
