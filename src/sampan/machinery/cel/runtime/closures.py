"""The closures that the compiler combines, one factory for each kind."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sampan.machinery.cel.checker.declarations import Overload
from sampan.machinery.cel.checker.types import DYN, Type
from sampan.machinery.cel.errors import CostLimitExceeded, EvaluationError
from sampan.machinery.cel.runtime.meter import Frame, charge
from sampan.machinery.cel.runtime.operators import has_field, lookup, overload_error
from sampan.machinery.cel.runtime.values import (
    NONE,
    Duration,
    OptionalValue,
    Timestamp,
    TypeValue,
    Uint,
    is_list,
    is_map,
    parse_duration,
    parse_timestamp,
    type_name,
)
from sampan.machinery.cel.syntax.ast import Comprehension, ListNode, Literal

Run = Callable[[Frame], Any]
"""A closure that evaluates a node of the syntax tree."""


def constant(value: Any, cost: int = 0) -> Run:
    if cost:

        def run(frame: Frame) -> Any:
            frame[0] += cost
            return value

        return run
    return lambda frame: value


def with_cost(run: Run, cost: int) -> Run:
    """Return the closure with a cost added, which may be negative."""

    def run_with_cost(frame: Frame) -> Any:
        frame[0] += cost
        return run(frame)

    return run_with_cost


def constant_list(node: ListNode) -> list[Any] | None:
    """Return the elements of a list of literals, which is built once and costs nothing, as in cel-go; None for other
    lists."""
    values: list[Any] = []
    for item in node.items:
        if isinstance(item, Literal):
            values.append(item.value)
        elif isinstance(item, ListNode) and (inner := constant_list(item)) is not None:
            values.append(inner)
        else:
            return None
    return None if node.optional else values


def variable_field(slot: int, name: str) -> Run:
    def run(frame: Frame) -> Any:
        frame[0] += 2
        try:
            return frame[slot][name]
        except (KeyError, TypeError, IndexError):
            raise EvaluationError(f"no such key: {name}") from None

    return run


def presence_test(operand: Run, name: str) -> Run:
    def run(frame: Frame) -> bool:
        value = operand(frame)
        if type(value) is dict:
            return name in value
        return has_field(value, name)

    return run


def optional_select(operand: Run, name: str) -> Run:
    def run(frame: Frame) -> OptionalValue:
        value = operand(frame)
        frame[0] += 1
        if isinstance(value, OptionalValue):
            if not value.has_value:
                return NONE
            value = value.value
        if not is_map(value):
            raise overload_error()
        return OptionalValue(value[name]) if name in value else NONE

    return run


def index(container: Run, position: Run) -> Run:
    def run(frame: Frame) -> Any:
        values, key = container(frame), position(frame)
        frame[0] += 1
        if type(key) is str and type(values) is dict:
            try:
                return values[key]
            except KeyError:
                raise EvaluationError(f"no such key: {key}") from None
        if isinstance(values, OptionalValue):
            return _optional_lookup(values, key)
        return lookup(values, key)

    return run


def optional_index(container: Run, position: Run) -> Run:
    def run(frame: Frame) -> OptionalValue:
        values, key = container(frame), position(frame)
        frame[0] += 1
        return _optional_lookup(values, key)

    return run


def _optional_lookup(values: Any, key: Any) -> OptionalValue:
    if isinstance(values, OptionalValue):
        if not values.has_value:
            return NONE
        values = values.value
    if not is_map(values) and not is_list(values):
        raise overload_error()
    try:
        return OptionalValue(lookup(values, key))
    except EvaluationError as error:
        if str(error).startswith(("no such key", "index out of bounds")):
            return NONE
        raise


def alternative(target: Run, other: Run, *, is_value: bool) -> Run:
    """Return `or` and `orValue`, whose argument is evaluated only if the optional has no value."""

    def run(frame: Frame) -> Any:
        optional = target(frame)
        if not isinstance(optional, OptionalValue):
            raise overload_error()
        if not optional.has_value:
            return other(frame)
        return optional.value if is_value else optional

    return run


def membership(element: Run, members: Sequence[Any]) -> Run:
    """Return `x in [literals]` as a set lookup. Bools are distinguished from numbers."""
    values = {(type(value) is bool, value) for value in members if not isinstance(value, list)}
    lists = [value for value in members if isinstance(value, list)]

    def run(frame: Frame) -> bool:
        value = element(frame)
        if lists and is_list(value):
            charge(frame, len(members))
            return value in lists
        try:
            return (type(value) is bool, value) in values
        except TypeError:
            return False

    return run


def unpack_optional(value: Any) -> list[Any]:
    if not isinstance(value, OptionalValue):
        raise overload_error()
    return [value.value] if value.has_value else []


def logical_pair(left: Run, right: Run, *, decisive: bool) -> Run:
    """Return `&&` or `||` of two operands: a decisive operand takes precedence over an error of the other."""
    indecisive = not decisive

    def run(frame: Frame) -> Any:
        try:
            value = left(frame)
        except EvaluationError as error:
            try:
                other = right(frame)
            except EvaluationError:
                raise error from None
            if other is decisive:
                return decisive
            raise
        if value is decisive:
            return decisive
        other = right(frame)
        if other is decisive:
            return decisive
        if value is not indecisive or other is not indecisive:
            raise overload_error()
        return indecisive

    return run


def static_call(overload: Overload, args: Sequence[Run]) -> Run:
    if overload.is_metered:
        return _metered_call(overload.run, args)
    if overload.cost is not None:
        return _costed_call(overload.run, overload.cost, args)
    run = overload.run
    if len(args) == 2:
        left, right = args

        def run_two(frame: Frame) -> Any:
            first, second = left(frame), right(frame)
            frame[0] += 1
            return run(first, second)

        return run_two
    if len(args) == 1:
        (only,) = args

        def run_one(frame: Frame) -> Any:
            value = only(frame)
            frame[0] += 1
            return run(value)

        return run_one

    def run_all(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        frame[0] += 1
        return run(*values)

    return run_all


def _metered_call(run: Callable[..., Any], args: Sequence[Run]) -> Run:
    if len(args) == 2:
        left, right = args
        return lambda frame: run(frame, left(frame), right(frame))
    return lambda frame: run(frame, *[arg(frame) for arg in args])


def _costed_call(run: Callable[..., Any], cost: Callable[..., int], args: Sequence[Run]) -> Run:
    if len(args) == 2:
        left, right = args

        def run_two(frame: Frame) -> Any:
            first, second = left(frame), right(frame)
            frame[0] += cost(first, second)
            if frame[0] > frame[1]:
                raise CostLimitExceeded
            return run(first, second)

        return run_two

    def run_all(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        charge(frame, cost(*values))
        return run(*values)

    return run_all


def dynamic_call(overloads: Sequence[Overload], args: Sequence[Run]) -> Run:
    """Return a call whose overload is chosen by the types of the values."""
    choices = [
        (tuple(_MATCHERS.get(parameter.kind, _matches_named(parameter)) for parameter in overload.parameters), overload)
        for overload in overloads
    ]

    def run(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        for matchers, overload in choices:
            if all(matcher(value) for matcher, value in zip(matchers, values, strict=True)):
                if overload.is_metered:
                    return overload.run(frame, *values)
                charge(frame, 1 if overload.cost is None else overload.cost(*values))
                return overload.run(*values)
        frame[0] += 1
        raise overload_error()

    return run


def needs_check(declared: Type, static: Type) -> bool:
    """Whether a value whose static type is `static` may have another type than `declared` at run time."""
    return (static.is_dyn or static.kind in ("wrapper", "null")) and declared.kind not in ("dyn", "any", "parameter")


_MATCHERS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "dyn": lambda value: True,
    "any": lambda value: True,
    "parameter": lambda value: True,
    "bool": lambda value: type(value) is bool,
    "int": lambda value: type(value) is int,
    "uint": lambda value: type(value) is Uint,
    "double": lambda value: type(value) is float,
    "string": lambda value: type(value) is str,
    "bytes": lambda value: type(value) is bytes,
    "null": lambda value: value is None,
    "timestamp": lambda value: type(value) is Timestamp,
    "duration": lambda value: type(value) is Duration,
    "type": lambda value: type(value) is TypeValue,
    "list": is_list,
    "map": is_map,
    "object": is_map,
}


def _matches_named(declared: Type) -> Callable[[Any], bool]:
    name = declared.name
    return lambda value: type_name(value) == name


# -- values of typed fields that JSON writes as strings


def _timestamp(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        return parse_timestamp(f"{value}T00:00:00Z" if len(value) == 10 else value)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _duration(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        return parse_duration(value)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _bytes(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise EvaluationError(f"invalid base64: {error}") from None


_CONVERSIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "timestamp": _timestamp,
    "duration": _duration,
    "bytes": _bytes,
}


def convert_result(run: Run, type_: Type | None) -> Run:
    """Return the closure, with strings converted to timestamps, durations and bytes where the schema declares those."""
    convert = _CONVERSIONS.get(type_.kind) if type_ is not None else None
    return run if convert is None else lambda frame: convert(run(frame))


def conversion_of_elements(node: Comprehension) -> Callable[[Run], Run] | None:
    type_ = node.range.type or DYN
    convert = _CONVERSIONS.get(type_.parameters[-1].kind) if type_.kind in ("list", "map") else None
    if convert is None:
        return None

    def wrap(run: Run) -> Run:
        def run_and_convert(frame: Frame) -> Any:
            values = run(frame)
            charge(frame, len(values))
            if is_map(values):
                return {key: convert(value) for key, value in values.items()}
            return [convert(value) for value in values]

        return run_and_convert

    return wrap
