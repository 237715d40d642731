"""The order in which surplus pods are deleted."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from sampan.api.semantics.pods import PENDING, RUNNING, is_active, is_ready, ready_since, restart_counts
from sampan.api.types.core_v1 import Pod
from sampan.api.values.integers import parse_int64
from sampan.api.values.times import parse_time

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {PENDING: 0, "Unknown": 1, RUNNING: 2}
_INT32_BOUND = 2**31


@dataclass(frozen=True, slots=True)
class _DeletionRank:
    pod: Pod
    state: tuple[bool, int, bool]
    cost: int
    neighbors: int
    ready_since: float | None
    restarts: tuple[int, int]
    created: float | None


def deletion_cost(pod: Pod) -> int:
    """Return the pod-deletion-cost annotation, or 0 if it is invalid. A plus sign and leading zeros are invalid."""
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    number = parse_int64(text)
    if number is None or text[0] == "+" or (text[0] == "0" and text != "0"):
        return 0
    return number if -_INT32_BOUND <= number < _INT32_BOUND else 0


def deletion_order(pods: Iterable[Pod], *, related: Iterable[Pod] = (), now: float) -> list[Pod]:
    """Sort the pods by order of deletion.

    First are those that are unassigned, not running, not ready, have a lower deletion cost, share their node with more
    of the `related` pods, have been ready for a shorter time, have more restarts, or are younger. Times are compared on
    a logarithmic scale, and by UID if equal on it.
    """
    on_node = Counter(pod.spec.nodeName for pod in related if is_active(pod))
    ranks = [_rank(pod, deletion_cost(pod), on_node[pod.spec.nodeName]) for pod in pods]
    return _sort_by_rank(ranks, now)


def plain_order(pods: Iterable[Pod]) -> list[Pod]:
    """Sort the pods like `deletion_order`, but without cost, related pods and the logarithmic scale."""
    return _sort_by_rank([_rank(pod, 0, 0) for pod in pods], None)


def pods_to_delete(pods: Sequence[Pod], count: int, *, related: Iterable[Pod] = (), now: float) -> Sequence[Pod]:
    """Return the `count` pods to delete first."""
    return pods if count >= len(pods) else deletion_order(pods, related=related, now=now)[:count]


def _rank(pod: Pod, cost: int, neighbors: int) -> _DeletionRank:
    created = pod.metadata.creationTimestamp
    return _DeletionRank(
        pod=pod,
        state=(bool(pod.spec.nodeName), _PHASES.get(pod.status.phase, 0), is_ready(pod)),
        cost=cost,
        neighbors=neighbors,
        ready_since=ready_since(pod),
        restarts=restart_counts(pod),
        created=parse_time(created) if created else None,
    )


def _sort_by_rank(ranks: list[_DeletionRank], now: float | None) -> list[Pod]:
    def compare(first: _DeletionRank, second: _DeletionRank) -> int:
        return _compare_ranks(first, second, now)

    return [rank.pod for rank in sorted(ranks, key=cmp_to_key(compare))]


def _compare_ranks(first: _DeletionRank, second: _DeletionRank, now: float | None) -> int:
    if first.state != second.state:
        return -1 if first.state < second.state else 1
    if first.cost != second.cost:
        return first.cost - second.cost
    if first.neighbors != second.neighbors:
        return second.neighbors - first.neighbors
    is_ready = first.state[2]
    if is_ready and first.ready_since != second.ready_since:
        return _compare_times(first, second, first.ready_since, second.ready_since, now)
    if first.restarts != second.restarts:
        return -1 if first.restarts > second.restarts else 1
    if first.created != second.created:
        return _compare_times(first, second, first.created, second.created, now)
    return 0


def _compare_times(
    first: _DeletionRank, second: _DeletionRank, mine: float | None, theirs: float | None, now: float | None
) -> int:
    """Compare two times; the later one sorts first, and an unknown time counts as the latest."""
    if mine is None or theirs is None:
        return -1 if mine is None else 1
    if now is None:
        return -1 if mine > theirs else 1
    difference = _scale(now - mine) - _scale(now - theirs)
    if difference:
        return difference
    return -1 if first.pod.metadata.uid < second.pod.metadata.uid else 1


def _scale(age_s: float) -> int:
    """Return the binary logarithm of the age in nanoseconds, rounded down."""
    return int(math.log2(age_s * 1e9)) if age_s > 0 else -1
