"""Integers with the syntax and range of Go."""

import pytest

from sampan.api.values.integers import is_integer, parse_int64, parse_port


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("007", 7),
        ("0" * 10_000 + "7", 7),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9223372036854775808", -(2**63)),
        ("9" * 10_000, None),
        ("", None),
        ("-", None),
        ("1_000", None),
        (" 1", None),
        ("1\n", None),
        ("²", None),
        ("٣", None),
        ("0x1", None),
    ],
)
def test_parse_int64(text: str, number: int | None) -> None:
    assert parse_int64(text) == number


def test_is_integer_does_not_limit_the_size() -> None:
    assert is_integer("9" * 10_000)
    assert not is_integer("9" * 10_000 + "x")


@pytest.mark.parametrize(("text", "port"), [("80", 80), ("0", None), ("65535", 65535), ("65536", None), ("+80", None)])
def test_parse_port(text: str, port: int | None) -> None:
    assert parse_port(text) == port
