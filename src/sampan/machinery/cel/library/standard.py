"""Operators and functions of the language itself (the standard definitions of cel-spec)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from sampan.machinery.cel.checker.declarations import Library, Overload, function, method
from sampan.machinery.cel.checker.estimate import (
    STRING_FACTOR,
    UNIT,
    CallEstimate,
    CostEstimator,
    Operand,
    Range,
    match_pattern,
    traverse,
)
from sampan.machinery.cel.checker.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    parameter,
    type_of,
)
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.library.regex import matches
from sampan.machinery.cel.runtime import operators
from sampan.machinery.cel.runtime.meter import Frame, charge
from sampan.machinery.cel.runtime.operators import overload_error
from sampan.machinery.cel.runtime.values import (
    INT_MAX,
    INT_MIN,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    type_name,
)

A, B = parameter("A"), parameter("B")
_NUMBERS: Final = (INT, UINT, DOUBLE)


# -- equality and order


def size_of(value: Any) -> int:
    """Return the size for costs: characters, bytes, elements, entries; 1 for everything else."""
    return len(value) if isinstance(value, str | bytes | list | tuple | dict) else 1


def _tenth(size: int) -> int:
    return (size + 9) // 10


def _equality(frame: Frame, left: Any, right: Any) -> bool:
    kind = type(left)
    if kind is str and type(right) is str:
        frame[0] += (min(len(left), len(right)) + 9) // 10
        return bool(left == right)
    frame[0] += 1 if kind in _SCALAR else _tenth(min(size_of(left), size_of(right)))
    return operators.equals(frame, left, right)


_SCALAR: Final = frozenset((int, bool, float, Uint, type(None), Timestamp, Duration))


def _inequality(frame: Frame, left: Any, right: Any) -> bool:
    return not _equality(frame, left, right)


def _estimate_comparison(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    maximum = min(operands[0].size.max, operands[1].size.max)
    return CallEstimate(Range(1 if maximum else 0, maximum).scale(STRING_FACTOR))


_UNIT_EQUALITY: Final = frozenset(
    (
        *("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"),
        *(f"kubernetes.authorization.{name}" for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck")),
        "kubernetes.authorization.Decision",
    )
)
"""The names of the types whose values are compared at a cost of 1."""
_MAX_FORMAT_NAME_LENGTH = 64


def _estimate_equality(estimator: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    left, right = operands
    if left.type.kind == "opaque" and left.type == right.type:
        if left.type.name in _UNIT_EQUALITY:
            return CallEstimate(UNIT)
        if left.type.name == "kubernetes.NamedFormat":
            return CallEstimate(Range(1, _MAX_FORMAT_NAME_LENGTH).scale(STRING_FACTOR))
        if left.type.name == "kubernetes.URL":
            longest = right.known_size.max if right.known_size is not None else 1
            return CallEstimate(Range(1, longest).scale(STRING_FACTOR))
    return _estimate_comparison(estimator, operands)


def _comparisons(test: Callable[[Any, Any], bool], name: str) -> list[Overload]:
    rows = [
        function(
            first,
            second,
            result=BOOL,
            run=test,
            id=f"{name}_{first}" if first is second else f"{name}_{first}_{second}",
        )
        for first in _NUMBERS
        for second in _NUMBERS
    ]
    rows += [
        function(
            kind,
            kind,
            result=BOOL,
            run=test,
            id=f"{name}_{kind}",
            cost=lambda left, right: _tenth(min(len(left), len(right))),
            estimate=_estimate_comparison,
        )
        for kind in (STRING, BYTES)
    ]
    return rows + [
        function(kind, kind, result=BOOL, run=test, id=f"{name}_{kind}") for kind in (BOOL, TIMESTAMP, DURATION)
    ]


# -- arithmetic


def _add_int(left: int, right: int) -> int:
    value = left + right
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def _estimate_sum(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    size = operands[0].size.add(operands[1].size)
    return CallEstimate(size.scale(STRING_FACTOR), size)


def _estimate_list_sum(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(UNIT, operands[0].size.add(operands[1].size))


def _arithmetic(run: Callable[..., Any], *kinds: tuple[Type, Type, Type]) -> list[Overload]:
    return [function(left, right, result=result, run=run) for left, right, result in kinds]


def _make_uniform_signatures(*kinds: Type) -> list[tuple[Type, Type, Type]]:
    return [(kind, kind, kind) for kind in kinds]


_ADDITIONS = [
    function(INT, INT, result=INT, run=_add_int, id="add_int64"),
    *(function(kind, kind, result=kind, run=operators.add, is_metered=True) for kind in (UINT, DOUBLE)),
    *(
        function(kind, kind, result=kind, run=operators.add, is_metered=True, estimate=_estimate_sum)
        for kind in (STRING, BYTES)
    ),
    function(
        list_of(A), list_of(A), result=list_of(A), run=operators.add, is_metered=True, estimate=_estimate_list_sum
    ),
    function(TIMESTAMP, DURATION, result=TIMESTAMP, run=operators.add, is_metered=True),
    function(DURATION, TIMESTAMP, result=TIMESTAMP, run=operators.add, is_metered=True),
    function(DURATION, DURATION, result=DURATION, run=operators.add, is_metered=True),
]


def _not(value: Any) -> bool:
    if type(value) is not bool:
        raise overload_error()
    return not value


# -- membership and size


def _is_in_list(frame: Frame, element: Any, values: Any) -> bool:
    charge(frame, len(values))
    return operators.contains(frame, element, values)


def _is_in_map(key: Any, values: Any) -> bool:
    return operators.has_key(values, key)


def _size(value: Any) -> int:
    return len(value)


_SIZES: Final = (STRING, BYTES, list_of(A), map_of(A, B))

# -- strings


def _contains_cost(text: str, part: str) -> int:
    return _tenth(len(text)) * _tenth(len(part))


def _estimate_contains(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    text, part = (operand.size.scale(STRING_FACTOR) for operand in operands)
    return CallEstimate(text.times(part))


def _part_cost(_: Any, part: Any) -> int:
    return _tenth(len(part))


LIBRARY = Library(
    {
        "_==_": [
            function(A, A, result=BOOL, run=_equality, is_metered=True, is_lenient=True, estimate=_estimate_equality)
        ],
        "_!=_": [
            function(
                A, A, result=BOOL, run=_inequality, is_metered=True, is_lenient=True, estimate=_estimate_comparison
            )
        ],
        "_<_": _comparisons(operator.lt, "less"),
        "_<=_": _comparisons(operator.le, "less_equals"),
        "_>_": _comparisons(operator.gt, "greater"),
        "_>=_": _comparisons(operator.ge, "greater_equals"),
        "_+_": _ADDITIONS,
        "_-_": _arithmetic(
            operators.subtract,
            *_make_uniform_signatures(INT, UINT, DOUBLE, DURATION),
            (TIMESTAMP, TIMESTAMP, DURATION),
            (TIMESTAMP, DURATION, TIMESTAMP),
        ),
        "_*_": _arithmetic(operators.multiply, *_make_uniform_signatures(*_NUMBERS)),
        "_/_": _arithmetic(operators.divide, *_make_uniform_signatures(*_NUMBERS)),
        "_%_": _arithmetic(operators.remainder, *_make_uniform_signatures(INT, UINT)),
        "-_": [function(kind, result=kind, run=operators.negate) for kind in (INT, DOUBLE)],
        "!_": [function(BOOL, result=BOOL, run=_not)],
        "_?_:_": [function(BOOL, A, A, result=A, run=lambda *_: None)],
        "@in": [
            function(
                A,
                list_of(A),
                result=BOOL,
                run=_is_in_list,
                is_metered=True,
                estimate=lambda _, operands: CallEstimate(operands[1].size),
            ),
            function(A, map_of(A, B), result=BOOL, run=_is_in_map),
        ],
        "_[_]": [
            function(list_of(A), INT, result=A, run=operators.lookup),
            function(map_of(A, B), A, result=B, run=operators.lookup),
            function(optional_of(list_of(A)), INT, result=optional_of(A), run=operators.lookup),
            function(optional_of(map_of(A, B)), A, result=optional_of(B), run=operators.lookup),
        ],
        "size": [
            *(function(kind, result=INT, run=_size) for kind in _SIZES),
            *(method(kind, result=INT, run=_size) for kind in _SIZES),
        ],
        "contains": [
            method(
                STRING,
                STRING,
                result=BOOL,
                run=lambda text, part: part in text,
                cost=_contains_cost,
                estimate=_estimate_contains,
            )
        ],
        "startsWith": [
            method(STRING, STRING, result=BOOL, run=str.startswith, cost=_part_cost, estimate=traverse(index=1))
        ],
        "endsWith": [
            method(STRING, STRING, result=BOOL, run=str.endswith, cost=_part_cost, estimate=traverse(index=1))
        ],
        "matches": [
            method(STRING, STRING, result=BOOL, run=matches, is_metered=True, estimate=match_pattern),
            function(STRING, STRING, result=BOOL, run=matches, is_metered=True, estimate=match_pattern),
        ],
        "type": [function(A, result=type_of(A), run=lambda value: TypeValue(type_name(value)))],
        "dyn": [function(A, result=DYN, run=lambda value: value)],
    },
)
