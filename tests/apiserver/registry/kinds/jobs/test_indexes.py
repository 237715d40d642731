"""Overlap of the completed and the failed indexes in the status of a job."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.apiserver.registry.kinds.jobs import indexes
from tests.input_cost import check_cost

NUMBERS = st.integers(-3, 12)
PARTS = NUMBERS.map(str) | st.tuples(NUMBERS, NUMBERS).map(lambda pair: f"{pair[0]}-{pair[1]}") | st.just("x")
LISTS = st.lists(PARTS, max_size=6).map(",".join)


@pytest.mark.parametrize(
    ("completed", "failed", "first"),
    [
        ("1,3-5", "2,4-9", 4),
        ("1", "2", None),
        ("", "1", None),
        ("7-9,1-3", "8,2", 2),
        ("x,5", "5", 5),
        ("1-3", "3-4", 3),
    ],
)
def test_overlap_is_the_first_index_both_completed_and_failed(completed: str, failed: str, first: int | None) -> None:
    assert indexes.find_overlap(completed, failed, 10) == first


@given(LISTS, LISTS)
def test_overlap_is_the_first_index_that_two_intervals_share(completed: str, failed: str) -> None:
    both = product(indexes._parse_intervals(completed, 10), indexes._parse_intervals(failed, 10))
    shared = [max(left[0], right[0]) for left, right in both if left[0] <= right[1] and right[0] <= left[1]]
    assert indexes.find_overlap(completed, failed, 10) == min(shared, default=None)


def test_overlap_of_long_lists_is_cheap() -> None:
    even = ",".join(str(number) for number in range(0, 16_000, 2))
    odd = ",".join(str(number) for number in range(1, 16_000, 2))
    check_cost(lambda: indexes.find_overlap(even, odd, 20_000))
