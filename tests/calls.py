"""Counts of function calls: the cost of an operation as a number that does not depend on the load of the machine."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class CallCount:
    """The number of Python functions, coroutines and generators that were entered or resumed in this thread."""

    def __init__(self) -> None:
        self.calls = 0

    def record(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self.calls += 1


@contextmanager
def counted_calls() -> Iterator[CallCount]:
    """Count the calls of a block."""
    count, before = CallCount(), sys.getprofile()
    sys.setprofile(count.record)
    try:
        yield count
    finally:
        sys.setprofile(before)


def check_growth(calls: int, calls_of_quarter: int) -> None:
    """Check that four times the input costs no more than n log n would, with some margin."""
    assert calls < 6 * calls_of_quarter, f"{calls_of_quarter} calls, and {calls} for four times as much"
