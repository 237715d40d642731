"""Which scheduled time of a cron job is due."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.values.times import format_time, parse_time
from sampan.controllers.batch.cronjob.decision import parse_cron_schedule
from sampan.controllers.batch.cronjob.due import InvalidSchedule, MissedSchedules, find_due_time, wait_s
from tests.controllers.batch.cronjob.cron_jobs import START, cron

HOUR = 3600.0


@pytest.mark.parametrize(
    ("schedule", "passed_s", "expected", "missed"),
    [
        ("0 * * * *", 59 * 60, None, MissedSchedules.NONE),
        ("0 * * * *", HOUR, HOUR, MissedSchedules.NONE),
        ("0 * * * *", 1.5 * HOUR, HOUR, MissedSchedules.NONE),
        ("0 * * * *", 2 * HOUR, 2 * HOUR, MissedSchedules.FEW),
        ("0 * * * *", 100.5 * HOUR, 100 * HOUR, MissedSchedules.FEW),
        ("0 * * * *", 101.5 * HOUR, 101 * HOUR, MissedSchedules.MANY),
        ("30 6-16/4 * * 1-5", 15 * HOUR, 14.5 * HOUR, MissedSchedules.FEW),
        ("30 6-16/4 * * 1-5", 30 * HOUR, None, MissedSchedules.FEW),
        ("@every 7m", 30 * 60, 28 * 60, MissedSchedules.FEW),
    ],
)
def test_last_due_time_and_missed_times(
    schedule: str, passed_s: float, expected: float | None, missed: MissedSchedules
) -> None:
    spec = cron(schedule)
    result = find_due_time(spec, START + passed_s, parse_cron_schedule(spec), within_deadline=True)
    assert result.missed is missed
    assert result.time == (None if expected is None else START + expected)


@given(st.sampled_from(["*/7 * * * *", "0 0 * * *", "15 3 1,15 * *", "0 9-17 * * 1-5"]), st.integers(0, 40 * 86400))
def test_due_time_matches_brute_force(schedule: str, passed_s: int) -> None:
    """As in Kubernetes, a time that is older than the interval between the first two times may be skipped. That happens
    only if the schedule has uneven intervals."""
    spec, now = cron(schedule), START + passed_s
    next_after = parse_cron_schedule(spec)
    first = next_after(START)
    assert first is not None
    second = next_after(first)
    assert second is not None
    expected, next_time = None, next_after(START)
    while next_time is not None and next_time <= now:
        expected, next_time = next_time, next_after(next_time)
    result = find_due_time(spec, now, next_after, within_deadline=True).time
    if expected is not None and now - expected >= second - first:
        assert result in (expected, None)
    else:
        assert result == expected


def test_starting_deadline_excludes_older_times() -> None:
    spec = cron("0 * * * *", startingDeadlineSeconds=600)
    now = START + 5.5 * HOUR
    assert find_due_time(spec, now, parse_cron_schedule(spec), within_deadline=True).time is None
    assert find_due_time(spec, now, parse_cron_schedule(spec), within_deadline=False).time == START + 5 * HOUR


@pytest.mark.parametrize(
    ("last", "passed_s", "expected"), [(None, 0, 600.1), (None, 599, 1.1), (600, 600, 600.1), (600, 5000, 400.1)]
)
def test_wait_until_next_scheduled_time(last: int | None, passed_s: float, expected: float) -> None:
    status = {} if last is None else {"lastScheduleTime": format_time(START + last)}
    spec = cron(status=status)
    assert wait_s(spec, START + passed_s, parse_cron_schedule(spec)) == pytest.approx(expected)


def test_schedule_without_any_time_is_invalid() -> None:
    spec = cron("59 23 31 2 *")
    with pytest.raises(InvalidSchedule, match="less than 1 second"):
        find_due_time(spec, START, parse_cron_schedule(spec), within_deadline=True)
    assert wait_s(spec, START, parse_cron_schedule(spec)) is None


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("2026-03-07T12:00:00Z", ["2026-03-09T06:30:00Z", "2026-03-10T06:30:00Z"]),
        ("2026-10-31T12:00:00Z", ["2026-11-01T07:30:00Z", "2026-11-02T07:30:00Z"]),
    ],
    ids=["skipped hour", "day of 25 hours"],
)
def test_daily_schedule_across_daylight_saving_changes(start: str, expected: list[str]) -> None:
    next_after = parse_cron_schedule(cron("30 2 * * *", timeZone="America/New_York"))
    moment, times = parse_time(start), []
    for _ in expected:
        next_time = next_after(moment)
        assert next_time is not None
        moment = next_time
        times.append(format_time(moment))
    assert times == expected


def test_hour_repeated_by_daylight_saving_is_due_twice() -> None:
    next_after = parse_cron_schedule(cron("30 1 * * *", timeZone="America/New_York"))
    first = next_after(parse_time("2026-10-31T12:00:00Z"))
    assert first == parse_time("2026-11-01T05:30:00Z")
    assert next_after(first) == first + HOUR


def test_half_a_year_of_missed_minutes_is_not_enumerated() -> None:
    """The schedule is due every minute from January to June and was last started at the end of June: the first two
    missed times are half a year apart, and 260,000 more times follow."""
    spec = cron("* * * 1-6 *")
    schedule, calls = parse_cron_schedule(spec), 0

    def count_call(moment: float) -> float | None:
        nonlocal calls
        calls += 1
        return schedule(moment)

    last, now = parse_time("2025-06-30T23:58:00Z"), parse_time("2026-06-30T23:58:30Z")
    result = find_due_time(spec, now, count_call, last=last, within_deadline=False)
    assert result.time == parse_time("2026-06-30T23:58:00Z")
    assert calls < 200
