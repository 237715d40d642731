"""Schedules of CronJobs: when they are due. Their syntax is in `cron_grammar`."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

_YEARS_AHEAD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """A calendar schedule."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """Days of the week; Sunday is 0."""
    any_day: bool
    """Whether day of month or day of week is a wildcard: then both must match, otherwise one of them."""
    zone: tzinfo | None = None
    """The time zone in the schedule itself."""

    def next_after(self, moment: float, zone: tzinfo = UTC) -> float | None:
        """Return the first time after `moment` (in seconds since the epoch) that is due; None if there is none within
        five years."""
        zone = self.zone or zone
        start = datetime.fromtimestamp(int(moment) // 60 * 60 + 60, zone)
        day, last = start.replace(hour=0, minute=0), start.year + _YEARS_AHEAD
        while day.year <= last:
            if self._is_due_on(day) and (due := self._first_on(day, start)) is not None:
                return due
            day = self._next_day(day)
        return None

    def _next_day(self, day: datetime) -> datetime:
        if day.month in self.months:
            return (day.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=day.tzinfo)
        year, month = divmod(day.year * 12 + day.month, 12)
        return datetime(year, month + 1, 1, tzinfo=day.tzinfo)

    def _is_due_on(self, day: datetime) -> bool:
        fits, fits_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (fits and fits_week if self.any_day else fits or fits_week)

    def _first_on(self, day: datetime, start: datetime) -> float | None:
        """Return the first due time on the day, or None. It follows elapsed time: an hour that the clock skips is not
        due, one that it repeats is due twice."""
        least = start.timestamp()
        moment = max(day.astimezone(UTC).timestamp(), least)
        while True:
            now = datetime.fromtimestamp(moment, day.tzinfo)
            if (now.year, now.month, now.day) != (day.year, day.month, day.day):
                return None
            if now.hour in self.hours:
                if now.minute in self.minutes:
                    return moment
                moment += 60
            else:
                moment += 3600 - now.minute * 60 - now.second


@dataclass(frozen=True, slots=True)
class Every:
    """A fixed interval (`@every`)."""

    seconds: int

    def next_after(self, moment: float, zone: tzinfo = UTC) -> float | None:
        return int(moment) + self.seconds


Schedule = Times | Every
