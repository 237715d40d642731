"""Declarations of functions: each overload has a signature, implementation, cost and estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sampan.machinery.cel.checker.types import Type
from sampan.machinery.cel.syntax.macros import Key, Macro

if TYPE_CHECKING:
    from sampan.machinery.cel.checker.estimate import CallEstimate, CostEstimator, Operand

Cost = Callable[..., int]
"""Returns the cost of a call, from its arguments; charged before the call."""


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function. The target of a method is its first parameter."""

    id: str
    parameters: tuple[Type, ...]
    result: Type
    run: Callable[..., Any]
    is_method: bool = False
    cost: Cost | None = None
    """Computes the cost of a call; None means a cost of 1."""
    estimate: Callable[[CostEstimator, Sequence[Operand]], CallEstimate] | None = None
    """Estimates the cost of a call and the size of its result; None means a cost of 1."""
    is_metered: bool = False
    """Whether `run` takes the frame as its first argument and charges the whole cost itself."""
    is_lenient: bool = False
    """Whether `run` checks the types of its arguments itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """The contribution of a library to the language: functions by name, macros, and type names."""

    functions: Mapping[str, Sequence[Overload]] = field(default_factory=dict)
    macros: Mapping[Key, Macro] = field(default_factory=dict)
    types: Sequence[Type] = ()

    def with_types(self, types: Sequence[Type]) -> Library:
        """Return the library with these types added."""
        return Library(self.functions, self.macros, (*self.types, *types))


def function(
    *parameters: Type,
    result: Type,
    run: Callable[..., Any],
    id: str = "",
    cost: Cost | None = None,
    estimate: Callable[[CostEstimator, Sequence[Operand]], CallEstimate] | None = None,
    is_metered: bool = False,
    is_lenient: bool = False,
) -> Overload:
    return Overload(id, parameters, result, run, False, cost, estimate, is_metered, is_lenient)


def method(
    *parameters: Type,
    result: Type,
    run: Callable[..., Any],
    id: str = "",
    cost: Cost | None = None,
    estimate: Callable[[CostEstimator, Sequence[Operand]], CallEstimate] | None = None,
    is_metered: bool = False,
    is_lenient: bool = False,
) -> Overload:
    return Overload(id, parameters, result, run, True, cost, estimate, is_metered, is_lenient)


def merge(libraries: Iterable[Library]) -> Library:
    functions: dict[str, list[Overload]] = {}
    macros: dict[Key, Macro] = {}
    types: list[Type] = []
    for library in libraries:
        for name, overloads in library.functions.items():
            functions.setdefault(name, []).extend(overloads)
        macros.update(library.macros)
        types.extend(library.types)
    return Library(functions, macros, types)
