"""The scheduled times that have passed since a job was last started. Pure; times are seconds since the epoch."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from sampan.api.types.batch_v1 import CronJob
from sampan.api.values.times import parse_time

Next = Callable[[float], float | None]
"""Return the first scheduled time after a moment, or None if there is none within years."""

MISSED_WARNING_THRESHOLD = 100
"""If more scheduled times than this were missed, a warning is recorded."""
MARGIN_S = 0.1
"""Seconds after the scheduled time at which a job is started, to allow for clock skew."""
_WALKED = 100
_IMPOSSIBLE = "time difference between two schedules is less than 1 second"


class MissedSchedules(Enum):
    NONE, FEW, MANY = range(3)


class InvalidSchedule(ValueError):
    """The schedule parses but never occurs, like 31 February."""


@dataclass(frozen=True, slots=True)
class DueTime:
    since: float
    """The moment after which scheduled times were considered."""
    time: float | None
    """The most recent scheduled time that has passed; None if none has."""
    missed: MissedSchedules


def find_due_time(
    cron: CronJob, now: float, next_after: Next, *, last: float | None = None, within_deadline: bool
) -> DueTime:
    """Return the most recent scheduled time.

    `last` is the time for which a job was last started if the status does not show it yet. With `within_deadline`,
    times whose starting deadline has passed are left out.
    """
    since = _compute_earliest_time(cron, now, last, within_deadline)
    first = _require_time(next_after(since))
    if now < first:
        return DueTime(since, None, MissedSchedules.NONE)
    second = next_after(first)
    if second is not None and now < second:
        return DueTime(since, first, MissedSchedules.NONE)
    return _find_last_of_many(since, first, _require_time(second), now, next_after)


def wait_s(cron: CronJob, now: float, next_after: Next, *, last: float | None = None) -> float | None:
    """Return the seconds until the next scheduled time, or None if there is none."""
    try:
        due_time = find_due_time(cron, now, next_after, last=last, within_deadline=False)
    except InvalidSchedule:
        start = now
    else:
        start = (
            due_time.time
            if due_time.time is not None
            else due_time.since
            if due_time.missed is MissedSchedules.NONE
            else now
        )
    next_time = next_after(start)
    return None if next_time is None else next_time + MARGIN_S - now


def _compute_earliest_time(cron: CronJob, now: float, last: float | None, within_deadline: bool) -> float:
    recorded = cron.status.lastScheduleTime or cron.metadata.creationTimestamp
    since = last if last is not None else parse_time(recorded) if recorded else now
    deadline = cron.spec.startingDeadlineSeconds
    return max(since, now - deadline) if within_deadline and deadline is not None else since


def _find_last_of_many(since: float, first: float, second: float, now: float, next_after: Next) -> DueTime:
    """Return the most recent of several missed times without iterating over all of them.

    The interval between the first two times gives an estimate of their number. The schedule itself is evaluated only
    from one interval before the estimated last time.
    """
    apart = int(second - first)
    if apart < 1:
        raise InvalidSchedule(_IMPOSSIBLE)
    count = int(now - first) // apart + 1
    last = _find_last_time(now, first + (count - 2) * apart, next_after)
    return DueTime(since, last, MissedSchedules.MANY if count > MISSED_WARNING_THRESHOLD else MissedSchedules.FEW)


def _find_last_time(now: float, start: float, next_after: Next) -> float | None:
    """Return the last scheduled time after `start` and not after `now`.

    A schedule such as every minute of the first half of the year can have hundreds of thousands of times within one
    interval, so that after the first few the search continues by bisection.
    """
    last, next_time = None, next_after(start)
    for _ in range(_WALKED):
        if next_time is None or next_time > now:
            return last
        last, next_time = next_time, next_after(next_time)
    low, high = last, now  # Invariant: `low` is a scheduled time, and no scheduled time is in (high, now].
    while low is not None and high - low > 1:
        middle = (low + high) / 2
        next_time = next_after(middle)
        if next_time is not None and next_time <= now:
            low = last = next_time
        else:
            high = middle
    return last


def _require_time(moment: float | None) -> float:
    if moment is None:
        raise InvalidSchedule(_IMPOSSIBLE)
    return moment
