"""Flag values of types that click does not have."""

from __future__ import annotations

import click
import pytest

from sampan.cli.flags.parsers import Int64


@pytest.mark.parametrize("number", [-(2**63), 0, 2**63 - 1])
def test_int64_accepts_64_bit_integers(number: int) -> None:
    assert Int64().convert(str(number), None, None) == number


@pytest.mark.parametrize("text", [str(2**63), str(-(2**63) - 1), "9" * 5000, "1.5", ""])
def test_int64_rejects_larger_and_non_integer_values(text: str) -> None:
    with pytest.raises(click.BadParameter, match="integer"):
        Int64().convert(text, None, None)
