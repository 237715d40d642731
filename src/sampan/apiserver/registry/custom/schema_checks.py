"""Checks of values against schemas: their signature, the errors that they collect, and the equality of JSON values.

`value_checks` has the checks of single values, `combinations` those of anyOf, oneOf, allOf and not, `schema_validator`
those of lists and objects, and compiles them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sampan.api.field_errors import FieldError

Source = Mapping[str, Any]


class Errors(list[FieldError]):
    """The errors of one value, and how many alternatives of combinations may still be checked."""

    __slots__ = ("budget",)

    def __init__(self, budget: list[int]) -> None:
        super().__init__()
        self.budget = budget

    def spend(self) -> None:
        """Count one alternative. Only combinations can take longer than the size of an object allows for, because each
        value is checked against all of them."""
        self.budget[0] -= 1
        if self.budget[0] < 0:
            raise TooManyAlternatives


class TooManyAlternatives(Exception):
    """The value has to be checked against too many schemas."""


Check = Callable[[Any, Any, str, Errors], int]
"""Checks a value, given the value before (or `UNCORRELATED`) and its path, and adds errors. It returns how many schemas
the value was checked against, by which the best alternative of anyOf and oneOf is chosen."""
Part = Callable[[Any, str, Errors], None]
"""Checks one keyword of a value."""
UNCORRELATED: Final = object()
"""The old value of a part that did not exist before, or for which it is unknown which old part it was."""
NO_PATH: Final = "<nil>"
"""The path of an error that is about no field."""


def is_same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal, also in type: 1 is neither 1.0 nor true."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(is_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    return bool(left == right)


def invalid(path: str, value: Any, message: str) -> FieldError:
    return FieldError.invalid(path or NO_PATH, value, f"{path} in body {message}")


def general_error(message: str) -> FieldError:
    """Return an error that kube-apiserver reports without a field."""
    return FieldError.invalid(NO_PATH, "", message)
