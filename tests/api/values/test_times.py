import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.values import times
from sampan.api.values.times import (
    Moment,
    TimeError,
    canonical_micro_time,
    canonical_time,
    format_micro_time,
    format_time,
    parse_moment,
    parse_time,
)

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "time_vectors.json").read_text())
READERS = {"time": canonical_time, "micro": canonical_micro_time}


@pytest.mark.parametrize(("kind", "text", "expected", "error"), VECTORS)
def test_parsing_is_the_same_as_on_the_real_server(
    kind: str, text: str, expected: str | None, error: str | None
) -> None:
    read = READERS[kind]
    if error:
        with pytest.raises(TimeError) as raised:
            read(text)
        assert str(raised.value) == error
    elif expected is None:  # the zero time
        assert read(text).startswith("0001-01-01T00:00:00")
    else:
        assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-15T09:14:03Z", "2026-11-15T09:14:03Z"),
        ("2026-11-15T09:14:03.999999999Z", "2026-11-15T09:14:03Z"),
        ("2026-11-15T09:14:03+02:00", "2026-11-15T07:14:03Z"),
        ("2024-02-29T23:30:00-01:00", "2024-03-01T00:30:00Z"),
        ("0000-01-01T00:00:00+01:00", "-0001-12-31T23:00:00Z"),
        ("9999-12-31T23:59:59-01:00", "10000-01-01T00:59:59Z"),
    ],
)
def test_canonical_times(text: str, expected: str) -> None:
    assert canonical_time(text) == expected


@pytest.mark.parametrize("text", ["2023-02-29T00:00:00Z", "2026-02-30T00:00:00Z", "2026-04-31T00:00:00Z"])
def test_nonexistent_days_are_rejected(text: str) -> None:
    with pytest.raises(TimeError, match=f'^parsing time "{text}": day out of range$'):
        canonical_time(text)


@pytest.mark.parametrize("digits", ["", ".1", ".12345", ".1234567"])
def test_micro_times_require_six_digits(digits: str) -> None:
    with pytest.raises(TimeError):
        canonical_micro_time(f"2026-11-15T09:14:03{digits}Z")


def test_format() -> None:
    assert format_time(0) == "1970-01-01T00:00:00Z"
    assert format_time(1_767_225_600.9) == "2026-01-01T00:00:00Z"
    assert format_time(-0.5) == "1969-12-31T23:59:59Z"
    assert format_micro_time(1_767_225_600.123456) == "2026-01-01T00:00:00.123456Z"
    assert format_micro_time(0.9999999) == "1970-01-01T00:00:01.000000Z"


def test_parse() -> None:
    assert parse_time("1970-01-01T00:00:01.5Z") == 1.5
    assert parse_time("1970-01-01T01:00:00+01:00") == 0.0
    assert parse_moment("1970-01-01T00:00:00.000000001Z") == Moment(0, 1)


@given(st.integers(-62_135_596_800, 253_402_300_799))
def test_seconds_round_trip(second: int) -> None:
    text = format_time(second)
    assert parse_moment(text) == Moment(second, 0)
    assert canonical_time(text) == text


@given(st.integers(0, 4_000_000_000_000_000))
def test_microseconds_round_trip(micros: int) -> None:
    text = format_micro_time(micros / 1e6)
    moment = parse_moment(text)
    assert abs(moment.second * 1_000_000 + moment.nanosecond // 1000 - micros) <= 1
    assert canonical_micro_time(text) == text


@given(st.integers(0, 253_402_300_799), st.integers(-23, 23), st.integers(0, 59))
def test_utc_offset_is_subtracted(second: int, hours: int, minutes: int) -> None:
    sign = "-" if hours < 0 else "+"
    text = f"{format_time(second)[:-1]}{sign}{abs(hours):02d}:{minutes:02d}"
    offset = (abs(hours) * 3600 + minutes * 60) * (-1 if hours < 0 else 1)
    assert parse_moment(text).second == second - offset


@given(st.text(max_size=30))
def test_arbitrary_text_is_parsed_or_rejected(text: str) -> None:
    for read in READERS.values():
        with suppress(TimeError):
            assert read(text).endswith("Z")


def test_long_texts_are_not_cached() -> None:
    size = times._moments.bytes
    assert canonical_time(f"2026-11-15T09:14:03.{'1' * 10_000}Z") == "2026-11-15T09:14:03Z"
    assert times._moments.bytes == size
