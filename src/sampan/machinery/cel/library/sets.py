"""Lists as sets: cel-go's `sets` extension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sampan.machinery.cel.checker.declarations import Library, Overload, function
from sampan.machinery.cel.checker.estimate import CallEstimate, CostEstimator, Operand, fixed_range
from sampan.machinery.cel.checker.types import BOOL, list_of, parameter
from sampan.machinery.cel.runtime import operators
from sampan.machinery.cel.runtime.meter import Frame, charge

T = parameter("T")


def _contains(frame: Frame, values: Sequence[Any], elements: Sequence[Any]) -> bool:
    return all(any(operators.equals(frame, value, other) for other in values) for value in elements)


def _equivalent(frame: Frame, values: Sequence[Any], others: Sequence[Any]) -> bool:
    return _contains(frame, values, others) and _contains(frame, others, values)


def _intersects(frame: Frame, values: Sequence[Any], others: Sequence[Any]) -> bool:
    return any(any(operators.equals(frame, value, other) for other in others) for value in values)


def _make_overloads(test: Callable[[Frame, Sequence[Any], Sequence[Any]], bool], factor: int) -> list[Overload]:
    """Return a function that is charged for comparing every element with every other."""

    def run(frame: Frame, values: Sequence[Any], others: Sequence[Any]) -> bool:
        charge(frame, len(values) * len(others) * factor + 1)
        return test(frame, values, others)

    def estimate(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
        pairs = operands[0].size.times(operands[1].size)
        return CallEstimate(pairs.scale(float(factor)).add(fixed_range(1)))

    return [function(list_of(T), list_of(T), result=BOOL, run=run, is_metered=True, estimate=estimate)]


LIBRARY = Library(
    {
        "sets.contains": _make_overloads(_contains, 1),
        "sets.equivalent": _make_overloads(_equivalent, 2),
        "sets.intersects": _make_overloads(_intersects, 1),
    }
)
