"""Ranges of addresses and ports."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sampan.network.policy.ranges import Range, block_ranges, merge, range_text, subtract

_RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)).map(lambda pair: (pair[0], pair[0] + pair[1])))


def _numbers(ranges: list[Range]) -> list[int]:
    return [number for first, last in ranges for number in range(first, last + 1)]


@given(_RANGES)
def test_merge_keeps_the_numbers(ranges: list[Range]) -> None:
    merged = merge(ranges)
    assert _numbers(merged) == sorted(set(_numbers(ranges)))
    assert all(lower[1] + 1 < other[0] for lower, other in itertools.pairwise(merged))


@given(st.tuples(st.integers(0, 20), st.integers(20, 40)), _RANGES)
def test_subtract_removes_the_holes(whole: Range, holes: list[Range]) -> None:
    assert _numbers(subtract(whole, holes)) == sorted(set(_numbers([whole])) - set(_numbers(holes)))


def test_except_applies_only_to_its_own_ip_block() -> None:
    ranges = block_ranges([("10.0.0.0/30", ["10.0.0.1/32"]), ("10.0.0.1/32", []), ("fd00::/126", ["fd00::2/127"])])
    texts = {version: [range_text(version, item) for item in items] for version, items in ranges.items()}
    assert texts == {4: ["10.0.0.0-10.0.0.3"], 6: ["fd00::-fd00::1"]}


def test_ip_block_excepted_completely_has_no_ranges() -> None:
    assert block_ranges([("0.0.0.0/0", ["0.0.0.0/1", "128.0.0.0/1"])]) == {}
