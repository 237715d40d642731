"""Lists of completion indexes, such as `1,3-5`: counted, checked and compared."""

import re
from contextlib import suppress

from sampan.api.go_compat import gotext

_is_number = re.compile(r"[+-]?[0-9]{1,4000}", re.ASCII).fullmatch


class IndexesError(ValueError):
    """Raised for an invalid list, with the message of kube-apiserver."""


def count_indexes(text: str, completions: int) -> int:
    """Return the number of indexes in the list. Raise IndexesError if it is invalid or an index >= `completions`."""
    total, last = 0, -1
    for part in text.split(",") if text else ():
        first, end = _parse_interval(part, completions)
        if total and last >= first:
            raise IndexesError(f"non-increasing order, previous: {last}, current: {first}")
        total += end - first + 1
        last = end
    return total


def find_overlap(completed: str, failed: str, completions: int) -> int | None:
    """Return the first index that is in both lists, None if there is none. Invalid parts are ignored."""
    left, right = _parse_intervals(completed, completions), _parse_intervals(failed, completions)
    position = other = 0
    while position < len(left) and other < len(right):
        start = max(left[position][0], right[other][0])
        if start <= min(left[position][1], right[other][1]):
            return start
        if left[position][1] < right[other][1]:
            position += 1
        else:
            other += 1
    return None


def _parse_intervals(text: str, completions: int) -> list[tuple[int, int]]:
    """Return the valid intervals of a list in ascending order; those that overlap are joined."""
    intervals = []
    for part in text.split(",") if text else ():
        with suppress(IndexesError):
            intervals.append(_parse_interval(part, completions))
    joined: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return joined


def _parse_interval(text: str, completions: int) -> tuple[int, int]:
    ends = text.split("-")
    if len(ends) > 2:
        rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
        raise IndexesError(f"the fragment {gotext.quote(text)} {rule}")
    numbers = [_parse_index(end, completions) for end in ends]
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise IndexesError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


def _parse_index(text: str, completions: int) -> int:
    if not _is_number(text) or abs(int(text)) >= 2**63:
        raise IndexesError(f"cannot convert string to integer for index: {gotext.quote(text)}")
    if (number := int(text)) >= completions:
        raise IndexesError(f"too large index: {gotext.quote(text)}")
    return number
