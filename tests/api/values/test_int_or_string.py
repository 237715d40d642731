import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.values.int_or_string import (
    IntOrString,
    IntOrStringError,
    int_value,
    parse,
    percent_of,
    scale_int_or_percent,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("80", 80),
        ("-1", -1),
        ("+5", 5),
        ("007", 7),
        ("2147483647", 2147483647),
        ("2147483648", "2147483648"),
        ("http", "http"),
        ("25%", "25%"),
        ("", ""),
        ("1_000", "1_000"),
        ("٣", "٣"),
    ],
)
def test_parse(text: str, value: IntOrString) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [
        (3, 10, 3, 3),
        ("25%", 10, 3, 2),
        ("0%", 10, 0, 0),
        ("100%", 7, 7, 7),
        ("1%", 1, 1, 0),
        ("150%", 3, 5, 4),
        ("-25%", 10, -2, -3),
        ("50%", 0, 0, 0),
        ("+5%", 100, 5, 5),
    ],
)
def test_scaled(value: IntOrString, total: int, up: int, down: int) -> None:
    assert scale_int_or_percent(value, total, round_up=True) == up
    assert scale_int_or_percent(value, total, round_up=False) == down


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("abc", "invalid value for IntOrString: invalid type: string is not a percentage"),
        ("10", "invalid value for IntOrString: invalid type: string is not a percentage"),
        ("x%", 'invalid value for IntOrString: invalid value "x%": strconv.Atoi: parsing "x": invalid syntax'),
        ("%", 'invalid value for IntOrString: invalid value "%": strconv.Atoi: parsing "": invalid syntax'),
        ("1.5%", 'invalid value for IntOrString: invalid value "1.5%": strconv.Atoi: parsing "1.5": invalid syntax'),
        (
            "99999999999999999999%",
            'invalid value for IntOrString: invalid value "99999999999999999999%": strconv.Atoi: parsing '
            '"99999999999999999999": value out of range',
        ),
    ],
)
def test_invalid_percentages_are_rejected(value: str, message: str) -> None:
    with pytest.raises(IntOrStringError) as raised:
        scale_int_or_percent(value, 10, round_up=True)
    assert str(raised.value) == message


@given(st.integers(0, 200), st.integers(0, 5000))
def test_rounding_of_percentages(percent: int, total: int) -> None:
    assert scale_int_or_percent(f"{percent}%", total, round_up=True) == math.ceil(percent * total / 100)
    assert scale_int_or_percent(f"{percent}%", total, round_up=False) == math.floor(percent * total / 100)


def test_int_value_and_percent_of() -> None:
    assert int_value(8080) == 8080
    assert int_value("8080") == 8080
    assert int_value("http") == 0
    assert int_value("9" * 30) == 2**63 - 1
    assert percent_of("25%") == 25
    assert percent_of("25") is None
    assert percent_of(25) is None
    assert percent_of("x%") is None
