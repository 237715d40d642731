"""Schedules of cron jobs: syntax, errors and due times."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.values.cron import (
    CalendarSchedule,
    IntervalSchedule,
    ScheduleError,
    UnknownTimeZone,
    parse_schedule,
    time_zone,
)
from tests.input_cost import check_cost


def due(schedule: str, after: str, name: str = "Etc/UTC", times: int = 1) -> list[str]:
    """Return the next due times in a time zone, as local times."""
    zone, due_times = time_zone(name), []
    moment: float | None = datetime.fromisoformat(after).replace(tzinfo=zone).timestamp()
    for _ in range(times):
        assert moment is not None
        moment = parse_schedule(schedule).next_after(moment, zone)
        due_times.append(datetime.fromtimestamp(moment, zone).isoformat() if moment is not None else "never")
    return due_times


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:00", "2026-01-01T00:01:00"),
        ("* * * * *", "2026-01-01T00:00:59.5", "2026-01-01T00:01:00"),
        ("*/15 9-17 * * mon-fri", "2026-01-02T17:45:00", "2026-01-05T09:00:00"),
        ("0 0 13 * FRI", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("0 0 13 * *", "2026-01-14T00:00:00", "2026-02-13T00:00:00"),
        ("0 0 */2 * 1", "2026-01-01T00:00:00", "2026-01-03T00:00:00"),
        ("30 4 1,15 jun ?", "2026-06-01T04:30:00", "2026-06-15T04:30:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("5/20 * * * *", "2026-01-01T00:05:00", "2026-01-01T00:25:00"),
        ("@hourly", "2026-01-01T00:00:00", "2026-01-01T01:00:00"),
        ("@daily", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("@weekly", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ("@monthly", "2026-01-01T00:00:00", "2026-02-01T00:00:00"),
        ("@annually", "2026-01-01T00:00:00", "2027-01-01T00:00:00"),
        ("@every 1h30m", "2026-01-01T00:00:00", "2026-01-01T01:30:00"),
        ("@every 1ms", "2026-01-01T00:00:00", "2026-01-01T00:00:01"),
        ("TZ=Asia/Tokyo 0 9 * * *", "2026-01-01T01:00:00", "2026-01-02T00:00:00"),
    ],
)
def test_next_due_time(schedule: str, after: str, expected: str) -> None:
    assert due(schedule, after) == [f"{expected}+00:00"]


@pytest.mark.parametrize(
    "schedule", ["0 0 30 2 *", ", * * * *", "* , * * *", "* * , * *", "* * * , *", "* * * * ,", "59 23 31 4,6,9,11 *"]
)
def test_schedule_that_is_never_due_has_no_next_time_at_a_bounded_cost(schedule: str) -> None:
    assert due(schedule, "2026-01-01T00:00:00") == ["never"]
    check_cost(lambda: due(schedule, "2026-01-01T00:00:00"))


def test_skipped_local_hour_is_not_due_and_repeated_hour_is_due_twice() -> None:
    assert due("30 2 * * *", "2026-03-28T12:00:00", "Europe/Berlin") == ["2026-03-30T02:30:00+02:00"]
    assert due("30 2 * * *", "2026-10-24T12:00:00", "Europe/Berlin", 2) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:30:00+01:00",
    ]


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("", "empty spec string"),
        ("every day", "expected exactly 5 fields, found 2: [every day]"),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * 13 *", "end of range (13) above maximum (12): 13"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("* * * * moon", 'failed to parse int from moon: strconv.Atoi: parsing "moon": invalid syntax'),
        (
            f"{'9' * 19} * * * *",
            f'failed to parse int from {"9" * 19}: strconv.Atoi: parsing "{"9" * 19}": value out of…',
        ),
        ("@never", "unrecognized descriptor: @never"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        ("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
        ("CRON_TZ=Nowhere/Land * * * * *", "provided bad location Nowhere/Land: unknown time zone Nowhere/Land"),
    ],
)
def test_parse_errors(schedule: str, message: str) -> None:
    with pytest.raises(ScheduleError) as raised:
        parse_schedule(schedule)
    text = str(raised.value)
    assert text.startswith(message[:-1]) if message.endswith("…") else text == message


@given(st.text(max_size=20) | st.from_regex(r"[-0-9*/,?a-z@ ]{1,20}", fullmatch=True))
def test_arbitrary_text_is_parsed_or_rejected(text: str) -> None:
    try:
        schedule = parse_schedule(text)
    except ScheduleError:
        return
    assert isinstance(schedule, CalendarSchedule | IntervalSchedule)


FIELD = st.sampled_from(["*", "*/7", "3", "1-4", "2,5"])


@given(st.tuples(*[FIELD] * 5), st.integers(0, 2**31))
def test_next_due_time_is_the_first_matching_minute(fields: tuple[str, ...], after: int) -> None:
    schedule = parse_schedule(" ".join(fields))
    assert isinstance(schedule, CalendarSchedule)
    moment = schedule.next_after(after)
    assert moment is not None
    assert moment > after
    assert _matches(schedule, moment)
    minute = after - after % 60 + 60
    assert not any(_matches(schedule, earlier) for earlier in range(minute, min(int(moment), minute + 600), 60))


def _matches(times: CalendarSchedule, moment: float) -> bool:
    now = datetime.fromtimestamp(moment, UTC)
    day, weekday = now.day in times.days, now.isoweekday() % 7 in times.weekdays
    is_day = day and weekday if times.any_day else day or weekday
    return is_day and now.month in times.months and now.hour in times.hours and now.minute in times.minutes


@pytest.mark.parametrize("name", ["Europe/Berlin", "UTC", "Etc/GMT+5", "America/Argentina/Buenos_Aires"])
def test_known_time_zones(name: str) -> None:
    assert time_zone(name).key == name


@pytest.mark.parametrize(
    "name", ["", "europe/berlin", "Europe", "/UTC", "../UTC", ".", "-x", "a//b", "x" * 15, "Größe"]
)
def test_unknown_time_zones(name: str) -> None:
    with pytest.raises(UnknownTimeZone):
        time_zone(name)
