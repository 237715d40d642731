"""Functions of lists: Kubernetes' `isSorted`, `sum`, `min`, `max`, `indexOf` and `lastIndexOf`, and cel-go's `lists`
extension, version 3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from sampan.machinery.cel.checker.declarations import Library, Overload, function, method
from sampan.machinery.cel.checker.estimate import (
    MAX_COST,
    STRING_FACTOR,
    UNIT,
    CallEstimate,
    CostEstimator,
    Operand,
    Range,
    fixed_range,
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
    optional_of,
    parameter,
)
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.runtime import operators
from sampan.machinery.cel.runtime.meter import Frame, charge, charge_work
from sampan.machinery.cel.runtime.values import NONE, OptionalValue, is_list, is_map, type_name
from sampan.machinery.cel.syntax import macros
from sampan.machinery.cel.syntax.ast import Literal

T = parameter("T")
_COMPARABLE: Final = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_SUMMABLE: Final = (INT, UINT, DOUBLE, DURATION)
_TEXTS: Final = (str, bytes)
_ALLOCATION = 11
"""The cost of a call that allocates a list."""


def charge_traversal(frame: Frame, value: Any) -> None:
    """Charge for traversing a value: 1 for each scalar and for each list inside of a list, a tenth for each character,
    and a tenth for each element that costs nothing else."""
    charge(frame, _traversal_cost(value, {}))


def _traversal_cost(value: Any, costs: dict[int, int]) -> int:
    """Return the cost of a traversal. `costs` has the costs of lists and maps by identity: an expression of a few lines
    can build a list in which one inner list occurs a billion times."""
    if isinstance(value, _TEXTS):
        return len(value) // 10
    if is_list(value):
        parts = [value]
    elif is_map(value):
        parts = [value, value.values()]
    else:
        return 1
    cost = costs.get(id(value))
    if cost is None:
        cost = costs[id(value)] = sum(_elements_cost(part, costs) for part in parts)
    return cost


def _elements_cost(values: Iterable[Any], costs: dict[int, int]) -> int:
    total = free = 0
    for element in values:
        if isinstance(element, _TEXTS):
            cost = len(element) // 10
            free += not cost
            total += cost
        else:
            total += 1 + (_traversal_cost(element, costs) if is_list(element) or is_map(element) else 0)
    return total + free // 10


def _is_sorted(frame: Frame, values: Sequence[Any]) -> bool:
    charge_traversal(frame, values)
    return all(operators.compare(previous, current) <= 0 for previous, current in pairwise(values))


def _extreme(name: str, sign: int) -> Callable[[Frame, Sequence[Any]], Any]:
    def run(frame: Frame, values: Sequence[Any]) -> Any:
        charge_traversal(frame, values)
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        best = values[0]
        for value in values[1:]:
            if operators.compare(value, best) == sign:
                best = value
        return best

    return run


def _index_of(frame: Frame, values: Sequence[Any], element: Any) -> int:
    charge_traversal(frame, values)
    return next((index for index, value in enumerate(values) if operators.equals(frame, value, element)), -1)


def _last_index_of(frame: Frame, values: Sequence[Any], element: Any) -> int:
    charge_traversal(frame, values)
    last = len(values) - 1
    return next(
        (last - index for index, value in enumerate(reversed(values)) if operators.equals(frame, value, element)), -1
    )


def _range(frame: Frame, count: int) -> list[int]:
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    charge(frame, count + _ALLOCATION)
    return list(range(count))


def _slice(frame: Frame, values: Sequence[Any], start: int, end: int) -> list[Any]:
    shown = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{shown}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{shown}, start index must be less than or equal to end index")
    if end > len(values):
        raise EvaluationError(f"{shown}, list is length {len(values)}")
    charge(frame, end - start + _ALLOCATION)
    return list(values[start:end])


def _reverse(frame: Frame, values: Sequence[Any]) -> list[Any]:
    charge(frame, len(values) + _ALLOCATION)
    return list(reversed(values))


def _flatten(frame: Frame, values: Sequence[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    charge(frame, len(values) * max(1, min(depth, 100)) + _ALLOCATION)
    elements: list[Any] = []
    _flatten_into(frame, elements, values, depth)
    return elements


def _flatten_into(frame: Frame, flat: list[Any], values: Sequence[Any], depth: int) -> None:
    for value in values:
        if depth and is_list(value):
            charge_work(frame, 1 + len(value) // 10)
            _flatten_into(frame, flat, value, depth - 1)
        else:
            flat.append(value)


def _charge_self_comparison(frame: Frame, values: Sequence[Any]) -> None:
    """Charge for comparing every element with every other, as cel-go charges for sorting and for finding duplicates."""
    pairs = 2 * len(values) ** 2
    if values and isinstance(values[0], str | bytes):
        pairs += pairs // 20
    charge(frame, pairs + _ALLOCATION)


def _distinct(frame: Frame, values: Sequence[Any]) -> list[Any]:
    _charge_self_comparison(frame, values)
    distinct: list[Any] = []
    for value in values:
        if not any(operators.equals(frame, value, other) for other in distinct):
            distinct.append(value)
    return distinct


def _sort(frame: Frame, values: Sequence[Any]) -> list[Any]:
    return sort_by_keys(frame, values, values)


def sort_by_keys(frame: Frame, keys: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    _charge_self_comparison(frame, keys)
    kinds = {type_name(key) for key in keys}
    if len(kinds) > 1:
        raise EvaluationError("list elements must have the same type")
    if keys and not kinds <= _COMPARABLE_NAMES:
        raise EvaluationError("list elements must be comparable")
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return [values[index] for index in order]


_COMPARABLE_NAMES: Final = frozenset(
    ("int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp", "string", "bytes")
)

# -- estimates


def _estimate_traversal(estimator: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    """Return an estimate of 1 for each element of a list, and of a traversal of each element that is a string."""
    values = operands[0]
    size = estimator.element_size(values)
    if size is None:
        return CallEstimate(values.size.scale(STRING_FACTOR))
    is_text = values.type.parameters[0].kind in ("string", "bytes")
    return CallEstimate(values.size.times(UNIT.add(size.scale(STRING_FACTOR)) if is_text else UNIT))


def _estimate_allocation(size: Range, factor: float = 1.0) -> CallEstimate:
    return CallEstimate(size.scale(factor).add(fixed_range(_ALLOCATION)), size)


def _number(operand: Operand, otherwise: int) -> int:
    node = operand.node
    if isinstance(node, Literal) and type(node.value) is int:
        return max(node.value, 0)
    return otherwise


def _estimate_slice(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    start, end = _number(operands[1], 0), _number(operands[2], operands[0].size.max)
    return _estimate_allocation(fixed_range((end - start) % (MAX_COST + 1)))


def _estimate_range(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    return _estimate_allocation(fixed_range(_number(operands[0], MAX_COST)))


def _estimate_copy(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    return _estimate_allocation(operands[0].size)


def _estimate_flatten(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    depth = _number(operands[1], MAX_COST) if len(operands) > 1 else 1
    return _estimate_allocation(operands[0].size, float(depth))


def _estimate_pairs(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    size = operands[0].size
    return _estimate_allocation(size.times(size), 2.0)


def _estimate_text_pairs(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    size = operands[0].size
    return _estimate_allocation(size.times(size), 2.1)


def _traversals(run: Callable[..., Any], *, result: Type | None = None) -> list[Overload]:
    return [
        method(
            list_of(kind),
            result=result or kind,
            run=run,
            is_metered=True,
            is_lenient=True,
            estimate=_estimate_traversal,
        )
        for kind in _COMPARABLE
    ]


def _sum(frame: Frame, values: Sequence[Any]) -> Any:
    """Return the sum of a list whose element type is only known at run time."""
    if not values:
        return 0
    charge_traversal(frame, values)
    total = values[0]
    for value in values[1:]:
        total = operators.add(frame, total, value)
        frame[0] -= 1
    return total


LIBRARY = Library(
    {
        "isSorted": _traversals(_is_sorted, result=BOOL),
        "sum": [
            method(list_of(kind), result=kind, run=_sum, is_metered=True, is_lenient=True, estimate=_estimate_traversal)
            for kind in _SUMMABLE
        ],
        "min": _traversals(_extreme("min", -1)),
        "max": _traversals(_extreme("max", 1)),
        "indexOf": [method(list_of(T), T, result=INT, run=_index_of, is_metered=True, estimate=_estimate_traversal)],
        "lastIndexOf": [
            method(list_of(T), T, result=INT, run=_last_index_of, is_metered=True, estimate=_estimate_traversal)
        ],
        "lists.range": [function(INT, result=list_of(INT), run=_range, is_metered=True, estimate=_estimate_range)],
        "slice": [
            method(list_of(T), INT, INT, result=list_of(T), run=_slice, is_metered=True, estimate=_estimate_slice)
        ],
        "reverse": [method(list_of(T), result=list_of(T), run=_reverse, is_metered=True, estimate=_estimate_copy)],
        "flatten": [
            method(list_of(list_of(T)), result=list_of(T), run=_flatten, is_metered=True, estimate=_estimate_flatten),
            method(list_of(DYN), INT, result=list_of(DYN), run=_flatten, is_metered=True, estimate=_estimate_flatten),
        ],
        "distinct": [method(list_of(T), result=list_of(T), run=_distinct, is_metered=True, estimate=_estimate_pairs)],
        "sort": [
            method(
                list_of(kind),
                result=list_of(kind),
                run=_sort,
                is_metered=True,
                is_lenient=True,
                estimate=_estimate_text_pairs if kind in (STRING, BYTES) else _estimate_pairs,
            )
            for kind in _COMPARABLE
        ],
        "first": [
            method(list_of(T), result=optional_of(T), run=lambda values: OptionalValue(values[0]) if values else NONE)
        ],
        "last": [
            method(list_of(T), result=optional_of(T), run=lambda values: OptionalValue(values[-1]) if values else NONE)
        ],
    },
    macros.SORT_BY,
)
