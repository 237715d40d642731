"""Optional values: `optional.of(x)`, `a.?b.orValue(c)`."""

from __future__ import annotations

from typing import Any

from sampan.machinery.cel.checker.declarations import Library, function, method
from sampan.machinery.cel.checker.types import BOOL, INT, list_of, map_of, optional_of, parameter
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.runtime.meter import Frame, charge, charge_work
from sampan.machinery.cel.runtime.values import NONE, Duration, OptionalValue, Timestamp
from sampan.machinery.cel.syntax import macros

V, K = parameter("V"), parameter("K")


def _is_zero(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, Duration | Timestamp):
        return value.nanoseconds == 0
    if isinstance(value, bool | int | float | str | bytes | list | tuple | dict):
        return not value
    return False


def _non_zero(value: Any) -> OptionalValue:
    return NONE if _is_zero(value) else OptionalValue(value)


def _value(optional: OptionalValue) -> Any:
    if not optional.has_value:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _unwrap(frame: Frame, values: list[Any]) -> list[Any]:
    charge(frame, 1)
    charge_work(frame, len(values))
    return [value.value for value in values if isinstance(value, OptionalValue) and value.has_value]


LIBRARY = Library(
    {
        "optional.of": [function(V, result=optional_of(V), run=OptionalValue)],
        "optional.ofNonZeroValue": [function(V, result=optional_of(V), run=_non_zero)],
        "optional.none": [function(result=optional_of(V), run=lambda: NONE)],
        "optional.unwrap": [function(list_of(optional_of(V)), result=list_of(V), run=_unwrap, is_metered=True)],
        "unwrapOpt": [method(list_of(optional_of(V)), result=list_of(V), run=_unwrap, is_metered=True)],
        "value": [method(optional_of(V), result=V, run=_value)],
        "hasValue": [method(optional_of(V), result=BOOL, run=lambda optional: optional.has_value)],
        "or": [
            method(
                optional_of(V),
                optional_of(V),
                result=optional_of(V),
                run=lambda optional, other: optional if optional.has_value else other,
            )
        ],
        "orValue": [
            method(
                optional_of(V),
                V,
                result=V,
                run=lambda optional, other: optional.value if optional.has_value else other,
            )
        ],
        "_[?_]": [
            function(list_of(V), INT, result=optional_of(V), run=lambda *_: NONE),
            function(map_of(K, V), K, result=optional_of(V), run=lambda *_: NONE),
            function(optional_of(list_of(V)), INT, result=optional_of(V), run=lambda *_: NONE),
            function(optional_of(map_of(K, V)), K, result=optional_of(V), run=lambda *_: NONE),
        ],
    },
    macros.OPTIONALS,
)
