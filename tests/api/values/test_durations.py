import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.values.durations import (
    HOUR,
    MINUTE,
    SECOND,
    DurationError,
    canonical_duration,
    format_duration,
    parse_duration,
)

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "duration_vectors.json").read_text())


@pytest.mark.parametrize(("text", "expected", "error"), VECTORS)
def test_parsing_is_the_same_as_on_the_real_server(text: str, expected: str | None, error: str | None) -> None:
    if error:
        with pytest.raises(DurationError) as raised:
            parse_duration(text)
        assert str(raised.value) == error
    else:
        assert canonical_duration(text) == expected


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5\u00b5s"),
        (2_000_000, "2ms"),
        (SECOND, "1s"),
        (90 * MINUTE, "1h30m0s"),
        (HOUR + 2 * MINUTE + 3 * SECOND + 400_000_000, "1h2m3.4s"),
        (-5 * MINUTE, "-5m0s"),
        (2**63 - 1, "2562047h47m16.854775807s"),
    ],
)
def test_format(nanoseconds: int, text: str) -> None:
    assert format_duration(nanoseconds) == text
    assert parse_duration(text) == nanoseconds


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_durations_round_trip(nanoseconds: int) -> None:
    assert abs(parse_duration(format_duration(nanoseconds)) - nanoseconds) == 0


def test_long_texts_are_parsed_or_rejected() -> None:
    assert parse_duration("0" * 100_000 + "1s") == SECOND
    assert parse_duration("1." + "9" * 100_000 + "s") == 2 * SECOND
    assert parse_duration("1ns" * 300_000) == 300_000
    with pytest.raises(DurationError, match="time: invalid duration"):
        parse_duration("1" * 5000 + "s")
