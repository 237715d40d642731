"""Quantities and versions in expressions: `quantity("1Gi").isGreaterThan(…)`, `semver("1.2.3").compareTo(…)`.

To the expression they are mappings with one key, which says what they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sampan.api import quantity
from sampan.machinery.cel.expression import Function

QUANTITY, VERSION = "quantity", "semver"
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)

Meant = dict[str, str]


def quantity_value(text: str) -> Meant:
    return {QUANTITY: text}


def version_value(text: str) -> Meant:
    return {VERSION: text}


@lru_cache(maxsize=1024)
def _parsed(kind: str, text: str) -> Any:
    if kind == QUANTITY:
        return quantity.parse(text)
    found = _SEMVER.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no semantic version")
    core, before = tuple(int(part) for part in found.groups()[:3]), found.group(4)
    return core, before is None, tuple(_part(part) for part in (before or "").split("."))


def _part(text: str) -> tuple[bool, int, str]:
    """Numbers go before words."""
    return (False, int(text), "") if text.isdigit() else (True, 0, text)


def _of(value: Any) -> Any:
    ((kind, text),) = value.items()
    return _parsed(kind, text)


def _compare(one: Any, other: Any) -> int:
    if one.keys() != other.keys():
        raise ValueError("a quantity and a version cannot be compared")
    first, second = _of(one), _of(other)
    return int(first > second) - int(first < second)


def _is(kind: str, text: str) -> bool:
    try:
        _parsed(kind, text)
    except ValueError:
        return False
    return True


def _made(kind: str, text: str) -> Meant:
    _parsed(kind, text)
    return {kind: text}


FUNCTIONS: Sequence[Function] = (
    Function("quantity", lambda text: _made(QUANTITY, text)),
    Function("isQuantity", lambda text: _is(QUANTITY, text)),
    Function("semver", lambda text: _made(VERSION, text)),
    Function("isSemver", lambda text: _is(VERSION, text)),
    Function("compareTo", _compare, 2, True),
    Function("isGreaterThan", lambda one, other: _compare(one, other) > 0, 2, True),
    Function("isLessThan", lambda one, other: _compare(one, other) < 0, 2, True),
    Function("asInteger", lambda one: _of(one).value(), 1, True),
    Function("isInteger", lambda one: _of(one).value() * 1000 == _of(one).milli_value(), 1, True),
    Function("sign", lambda one: _compare(one, {QUANTITY: "0"}), 1, True),
    Function("major", lambda one: _of(one)[0][0], 1, True),
    Function("minor", lambda one: _of(one)[0][1], 1, True),
    Function("patch", lambda one: _of(one)[0][2], 1, True),
)

__all__ = ["FUNCTIONS", "quantity_value", "version_value"]
