"""Which of a schedule's times have come since a job was last started. Pure; moments are seconds since 1970."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from sampan.api.times import parse_time
from sampan.api.types.batch_v1 import CronJob

Next = Callable[[float], float | None]
"""The first time of a schedule after a moment; None if there is none for years."""

MANY = 100
"""From more missed times than this on a warning is due."""
MARGIN_S = 0.1
"""How long after its time a job is started: clocks differ a little."""
_WALKED = 100
_IMPOSSIBLE = "time difference between two schedules is less than 1 second"


class Missed(Enum):
    NONE, FEW, MANY = range(3)


class InvalidSchedule(ValueError):
    """A schedule that can be read but never comes, like the 31st of February."""


@dataclass(frozen=True, slots=True)
class Due:
    since: float
    """From when on times were looked for."""
    time: float | None
    """The last time that has come; None if none has."""
    missed: Missed


def due(cron: CronJob, now: float, next_after: Next, *, last: float | None = None, within_deadline: bool) -> Due:
    """`last`: when a job was last started, if the status does not say so yet. `within_deadline`: times that it is too
    late for do not count."""
    since = _since(cron, now, last, within_deadline)
    first = _found(next_after(since))
    if now < first:
        return Due(since, None, Missed.NONE)
    second = next_after(first)
    if second is not None and now < second:
        return Due(since, first, Missed.NONE)
    return _last_of_many(since, first, _found(second), now, next_after)


def wait_s(cron: CronJob, now: float, next_after: Next, *, last: float | None = None) -> float | None:
    """How long until the schedule's next time; None if there is none."""
    try:
        found = due(cron, now, next_after, last=last, within_deadline=False)
    except InvalidSchedule:
        start = now
    else:
        start = found.time if found.time is not None else found.since if found.missed is Missed.NONE else now
    following = next_after(start)
    return None if following is None else following + MARGIN_S - now


def _since(cron: CronJob, now: float, last: float | None, within_deadline: bool) -> float:
    known = cron.status.lastScheduleTime or cron.metadata.creationTimestamp
    since = last if last is not None else parse_time(known) if known else now
    deadline = cron.spec.startingDeadlineSeconds
    return max(since, now - deadline) if within_deadline and deadline is not None else since


def _last_of_many(since: float, first: float, second: float, now: float, next_after: Next) -> Due:
    """The times between are not walked through: the distance of the first two tells about how many there are. From one
    distance before the last of them on, the schedule itself is asked."""
    apart = int(second - first)
    if apart < 1:
        raise InvalidSchedule(_IMPOSSIBLE)
    count = int(now - first) // apart + 1
    found = _last_by(now, first + (count - 2) * apart, next_after)
    return Due(since, found, Missed.MANY if count > MANY else Missed.FEW)


def _last_by(now: float, start: float, next_after: Next) -> float | None:
    """The last time after `start` that has come. A schedule like every minute of the first half of the year can have
    hundreds of thousands of times within one distance: after the first few they are not walked through but bisected."""
    found, following = None, next_after(start)
    for _ in range(_WALKED):
        if following is None or following > now:
            return found
        found, following = following, next_after(following)
    low, high = found, now  # a time comes after `low` and by `now`; none comes after `high`
    while low is not None and high - low > 1:
        middle = (low + high) / 2
        following = next_after(middle)
        if following is not None and following <= now:
            low = found = following
        else:
            high = middle
    return found


def _found(moment: float | None) -> float:
    if moment is None:
        raise InvalidSchedule(_IMPOSSIBLE)
    return moment


__all__ = ["MANY", "MARGIN_S", "Due", "InvalidSchedule", "Missed", "Next", "due", "wait_s"]
