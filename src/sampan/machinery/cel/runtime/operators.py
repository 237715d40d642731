"""Equality, order and arithmetic of values, for operands whose types are only known at run time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.runtime.meter import Frame, charge, charge_size, charge_work
from sampan.machinery.cel.runtime.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Opaque,
    OptionalValue,
    Timestamp,
    TypeValue,
    Uint,
    UnorderedList,
    is_list,
    is_map,
)

NO_OVERLOAD: Final = "no such overload"
_NUMBERS: Final = frozenset((int, Uint, float))
_ORDERED: Final = frozenset((bool, str, bytes, Timestamp, Duration))
_SIMPLE: Final = frozenset((bool, int, Uint, float, str, bytes, type(None), Timestamp, Duration, TypeValue))


def overload_error() -> EvaluationError:
    return EvaluationError(NO_OVERLOAD)


# -- equality


def equals(frame: Frame, left: Any, right: Any) -> bool:
    """Whether two values are equal. Numbers of different types are compared numerically; other values of different
    types are not equal. The elements of lists and maps are charged as work as they are compared."""
    left_type, right_type = type(left), type(right)
    if left_type in _SIMPLE:
        if left_type is right_type:
            return bool(left == right)
        if left_type in _NUMBERS and right_type in _NUMBERS:
            return bool(left == right)
        return False
    if right_type in _SIMPLE:
        return False
    return _are_equal_structures(frame, left, right)


def _are_equal_structures(frame: Frame, left: Any, right: Any) -> bool:
    if type(left) is UnorderedList:
        return is_list(right) and len(left) == len(right) and _are_equal_entries(frame, left, right)
    if is_list(left):
        return is_list(right) and len(left) == len(right) and _are_equal_lists(frame, left, right)
    if is_map(left):
        if not is_map(right) or len(left) != len(right):
            return False
        for key, value in left.items():
            if key not in right or not _are_equal_elements(frame, value, right[key]):
                return False
        return True
    if isinstance(left, OptionalValue):
        if not isinstance(right, OptionalValue) or left.has_value != right.has_value:
            return False
        return not left.has_value or _are_equal_elements(frame, left.value, right.value)
    if isinstance(left, Opaque):
        return type(left) is type(right) and left == right
    return False


def _are_equal_entries(frame: Frame, left: UnorderedList, right: Sequence[Any]) -> bool:
    """Whether two lists of the same length have equal entries in any order."""
    charge_work(frame, (len(left) + 9) // 10)
    others = {left.identity(item): item for item in right}
    for item in left:
        identity = left.identity(item)
        if identity not in others or not _are_equal_elements(frame, item, others[identity]):
            return False
    return True


def _are_equal_lists(frame: Frame, left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether two lists of the same length are equal. Nested lists are charged here, without a call for each element:
    an expression of a few lines can build a list in which one inner list occurs a billion times."""
    for item, other in zip(left, right, strict=True):
        if type(item) is list and type(other) is list:
            charge_work(frame, 3 + len(item) // 10)
            if len(item) != len(other) or not _are_equal_lists(frame, item, other):
                return False
        elif not _are_equal_elements(frame, item, other):
            return False
    return True


def _are_equal_elements(frame: Frame, left: Any, right: Any) -> bool:
    """Like `equals`, with a charge for the work of nested lists and maps."""
    if type(left) not in _SIMPLE:
        charge_work(frame, 3 + (len(left) // 10 if is_list(left) or is_map(left) else 0))
    return equals(frame, left, right)


def contains(frame: Frame, element: Any, container: Any) -> bool:
    """Evaluate `element in list` or `key in map`."""
    if is_map(container):
        return has_key(container, element)
    if not is_list(container):
        raise overload_error()
    if type(element) is str:
        return element in container
    return any(equals(frame, element, other) for other in container)


class BoolKey:
    """A bool as the key of a map: True equals 1 in Python, but not in CEL. Maps of variables come from JSON and have
    strings as keys; maps that expressions build have one of the two objects of this class in place of a bool."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value

    def __repr__(self) -> str:
        return str(self.value).lower()


TRUE_KEY, FALSE_KEY = BoolKey(True), BoolKey(False)


def map_key(key: Any) -> Any:
    """Return a key as maps store it: a double that is a whole number becomes an integer. Raise EvaluationError for an
    unsupported type."""
    kind = type(key)
    if kind is str or kind is int or kind is Uint:
        return key
    if kind is bool:
        return TRUE_KEY if key else FALSE_KEY
    if kind is float:
        return int(key) if key.is_integer() else key
    raise EvaluationError(f"unsupported key type: {_name(key)}")


def key_value(key: Any) -> Any:
    """Return the CEL value of a key that `map_key` returned."""
    return key.value if type(key) is BoolKey else key


def has_key(values: Any, key: Any) -> bool:
    if type(key) is str:
        return key in values
    if type(key) in _SIMPLE and not isinstance(key, int | float):
        return False
    return map_key(key) in values


def lookup(values: Any, key: Any) -> Any:
    """Return `values[key]`. Raise EvaluationError if it does not exist."""
    kind = type(key)
    if isinstance(values, dict) or is_map(values):
        if kind is str:
            try:
                return values[key]
            except KeyError:
                raise EvaluationError(f"no such key: {key}") from None
        normalized = map_key(key)
        if normalized in values:
            return values[normalized]
        raise EvaluationError(f"no such key: {describe_key(key)}")
    if is_list(values):
        if kind is float and key.is_integer():
            key = int(key)
        elif kind is not int and kind is not Uint:
            raise EvaluationError(f"unsupported index type '{_name(key)}' in list")
        if 0 <= key < len(values):
            return values[key]
        raise EvaluationError(f"index out of bounds: {int(key)}")
    raise EvaluationError(f"no such key: {describe_key(key)}")


def _name(value: Any) -> str:
    from sampan.machinery.cel.runtime.values import type_name

    return type_name(value)


def describe_key(key: Any) -> str:
    return str(key).lower() if type(key) is bool else str(key)


def select(value: Any, name: str) -> Any:
    """Return `value.name` of a map or object. Raise EvaluationError."""
    if isinstance(value, dict) or is_map(value):
        try:
            return value[name]
        except KeyError:
            raise EvaluationError(f"no such key: {name}") from None
    if isinstance(value, OptionalValue):
        from sampan.machinery.cel.runtime.values import NONE

        if not value.has_value or not has_field(value.value, name):
            return NONE
        return OptionalValue(select(value.value, name))
    raise EvaluationError(f"no such key: {name}")


def has_field(value: Any, name: str) -> bool:
    if isinstance(value, dict) or is_map(value):
        return name in value
    if isinstance(value, OptionalValue):
        return value.has_value and has_field(value.value, name)
    return False


# -- order


def compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1. Raise EvaluationError for values that are not comparable."""
    left_type, right_type = type(left), type(right)
    if (left_type is right_type and left_type in _ORDERED) or (left_type in _NUMBERS and right_type in _NUMBERS):
        if left < right:
            return -1
        return 1 if left > right else 0
    raise overload_error()


# -- arithmetic


def check_int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def check_uint(value: int) -> Uint:
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def add(frame: Frame, left: Any, right: Any) -> Any:
    left_type, right_type = type(left), type(right)
    if left_type is right_type:
        if left_type is int:
            frame[0] += 1
            return check_int(left + right)
        if left_type is str or left_type is bytes:
            charge_size(frame, len(left) + len(right))
            return left + right
        if left_type is float:
            frame[0] += 1
            return left + right
        if left_type is Uint:
            frame[0] += 1
            return check_uint(int(left) + int(right))
        if left_type is Duration:
            frame[0] += 1
            return Duration(left.nanoseconds + right.nanoseconds)
    if is_list(left) and is_list(right):
        charge(frame, max(1, (len(left) + len(right)) // 10))
        return left.union(right) if left_type is UnorderedList else [*left, *right]
    frame[0] += 1
    if {left_type, right_type} == {Timestamp, Duration}:
        return Timestamp(left.nanoseconds + right.nanoseconds)
    raise overload_error()


def subtract(left: Any, right: Any) -> Any:
    left_type, right_type = type(left), type(right)
    if left_type is right_type:
        if left_type is int:
            return check_int(left - right)
        if left_type is float:
            return left - right
        if left_type is Uint:
            return check_uint(int(left) - int(right))
        if left_type is Duration or left_type is Timestamp:
            return Duration(left.nanoseconds - right.nanoseconds)
    if left_type is Timestamp and right_type is Duration:
        return Timestamp(left.nanoseconds - right.nanoseconds)
    raise overload_error()


def multiply(left: Any, right: Any) -> Any:
    left_type = type(left)
    if left_type is type(right):
        if left_type is int:
            return check_int(left * right)
        if left_type is float:
            return left * right
        if left_type is Uint:
            return check_uint(int(left) * int(right))
    raise overload_error()


def divide(left: Any, right: Any) -> Any:
    left_type = type(left)
    if left_type is type(right):
        if left_type is int:
            if right == 0:
                raise EvaluationError("division by zero")
            quotient = abs(left) // abs(right)
            return check_int(quotient if (left < 0) == (right < 0) else -quotient)
        if left_type is float:
            return _divide_doubles(left, right)
        if left_type is Uint:
            if right == 0:
                raise EvaluationError("division by zero")
            return Uint(int(left) // int(right))
    raise overload_error()


def _divide_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def remainder(left: Any, right: Any) -> Any:
    left_type = type(left)
    if left_type is type(right) and (left_type is int or left_type is Uint):
        if right == 0:
            raise EvaluationError("modulus by zero")
        if left_type is Uint:
            return Uint(int(left) % int(right))
        if left == INT_MIN and right == -1:
            raise EvaluationError("integer overflow")
        value = abs(left) % abs(right)
        return -value if left < 0 else value
    raise overload_error()


def negate(value: Any) -> Any:
    kind = type(value)
    if kind is int:
        return check_int(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return Duration(-value.nanoseconds)
    raise overload_error()


__all__ = [
    "NO_OVERLOAD",
    "BoolKey",
    "add",
    "check_int",
    "check_uint",
    "compare",
    "contains",
    "describe_key",
    "divide",
]
__all__ += [
    "equals",
    "has_field",
    "has_key",
    "key_value",
    "lookup",
    "map_key",
    "multiply",
    "negate",
    "overload_error",
]
__all__ += ["remainder", "select", "subtract"]
