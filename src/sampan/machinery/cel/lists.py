"""Functions over lists and sets, and those that look for patterns in texts: `[3, 1].max()`, `"a1".find("[0-9]")`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import islice, pairwise
from typing import Any

from sampan.machinery.cel.expression import Function
from sampan.machinery.patterns import Pattern, PatternError, compile_pattern

_LONGEST_RANGE = 10_000
"""As often as the library goes round in one evaluation: nobody can use more."""


def _range(count: int) -> list[int]:
    if count > _LONGEST_RANGE:
        raise ValueError(f"cannot make a list of {count}")
    return list(range(count))


def _quick(*lists: Sequence[Any]) -> Sequence[Collection[Any]]:
    """As sets, in which much is soon found; lists and mappings cannot be in one."""
    try:
        return [frozenset(one) for one in lists]
    except TypeError:
        return lists


def _contains(values: Sequence[Any], wanted: Sequence[Any]) -> bool:
    among, each = _quick(values, wanted)
    return all(one in among for one in each)


def _intersects(values: Sequence[Any], others: Sequence[Any]) -> bool:
    among, each = _quick(values, others)
    return any(one in among for one in each)


def _is_sorted(values: Sequence[Any]) -> bool:
    return all(one <= other for one, other in pairwise(values))


def _flat(values: Sequence[Any], depth: int = 1) -> list[Any]:
    found: list[Any] = []
    for one in values:
        found += _flat(one, depth - 1) if depth and isinstance(one, list) else [one]
    return found


def _distinct(values: Sequence[Any]) -> list[Any]:
    with suppress(TypeError):
        return list(dict.fromkeys(values))
    found: list[Any] = []
    for one in values:
        if one not in found:
            found.append(one)
    return found


def _slice(values: Sequence[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(values):
        raise ValueError(f"cannot slice({start}, {end}) of a list of {len(values)}")
    return list(values[start:end])


def _find(text: str, pattern: str) -> str:
    return _pattern(pattern).find(text) or ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return list(islice(_pattern(pattern).find_all(text), None if limit < 0 else limit))


def _pattern(text: str) -> Pattern:
    try:
        return compile_pattern(text)
    except PatternError as error:
        raise ValueError(f"Illegal regex: {error}") from None


FUNCTIONS: Sequence[Function] = (
    Function("sets.contains", _contains, 2, gives="bool"),
    Function("sets.equivalent", lambda a, b: _contains(a, b) and _contains(b, a), 2, gives="bool"),
    Function("sets.intersects", _intersects, 2, gives="bool"),
    Function("isSorted", _is_sorted, 1, True, gives="bool"),
    Function("lists.range", _range),
    Function("flatten", _flat, 1, True),
    Function("flatten", _flat, 2, True),
    Function("distinct", _distinct, 1, True),
    Function("slice", _slice, 3, True),
    Function("sort", sorted, 1, True),
    Function("sum", sum, 1, True),
    Function("min", min, 1, True),
    Function("max", max, 1, True),
    Function("find", _find, 2, True, gives="string"),
    Function("findAll", _find_all, 2, True),
    Function("findAll", _find_all, 3, True),
)

__all__ = ["FUNCTIONS"]
