"""The compiler: every node of a checked tree becomes a closure over its children's closures.

A closure takes the frame of the evaluation and returns the value. It adds to the cost in the frame as it goes; the
limit is checked wherever a cost depends on sizes or a loop goes round, and once at the end, because everything else
costs no more than the expression is long.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sampan.machinery.cel.checker.declarations import Overload
from sampan.machinery.cel.checker.types import DYN, Type
from sampan.machinery.cel.errors import CostLimitExceeded, EvaluationError
from sampan.machinery.cel.runtime import comprehensions
from sampan.machinery.cel.runtime.meter import FIRST_SLOT, Frame, charge
from sampan.machinery.cel.runtime.operators import has_field, lookup, map_key, no_overload, select
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
from sampan.machinery.cel.syntax.ast import (
    Bind,
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    Logical,
    MapNode,
    Node,
    OptionalMap,
    Select,
    StructNode,
)

Run = Callable[[Frame], Any]
_LIST_COST, _MAP_COST, _STRUCT_COST = 10, 30, 40
_FOLDED: Final = frozenset(("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"))
"""Conversions of constants are done once, as cel-go's optimizer does."""


class Compiler:
    def __init__(self, variables: Sequence[str]) -> None:
        self._globals = {name: FIRST_SLOT + index for index, name in enumerate(variables)}
        self._locals: list[tuple[str, int]] = []
        self._next = FIRST_SLOT + len(variables)
        self.slots = self._next
        """How long the frame is."""
        self.has_bool_keys = False

    def compile(self, node: Node) -> Run:
        return _COMPILERS[node.kind](self, node)

    # -- scopes

    def _declare(self, name: str) -> int:
        slot = self._next
        self._next += 1
        self.slots = max(self.slots, self._next)
        self._locals.append((name, slot))
        return slot

    def _forget(self, count: int = 1) -> None:
        del self._locals[-count:]
        self._next -= count

    def _slot(self, name: str) -> int:
        for local, slot in reversed(self._locals):
            if local == name:
                return slot
        return self._globals[name]

    # -- leaves

    def _literal(self, node: Literal) -> Run:
        return _constant(node.value)

    def _ident(self, node: Ident) -> Run:
        if node.is_constant:
            return _constant(node.constant, cost=1)
        slot = self._slot(node.name)

        def run(frame: Frame) -> Any:
            frame[0] += 1
            return frame[slot]

        return _converted(run, node.type)

    def _select(self, node: Select) -> Run:
        if node.is_constant:
            return _constant(node.constant, cost=1)
        operand, name = self.compile(node.operand), node.wire_name
        operand_type = node.operand.type or DYN
        if node.is_test:
            return _test(operand, name)
        if node.is_optional:
            return _optional_select(operand, name)
        if operand_type.is_dyn or operand_type.is_optional:

            def run_dynamic(frame: Frame) -> Any:
                value = operand(frame)
                frame[0] += 1
                return select(value, name)

            return run_dynamic
        if isinstance(node.operand, Ident):
            return _converted(_variable_field(self._slot(node.operand.name), name), node.type)

        def run(frame: Frame) -> Any:
            value = operand(frame)
            frame[0] += 1
            try:
                return value[name]
            except KeyError:
                raise EvaluationError(f"no such key: {name}") from None
            except (TypeError, IndexError):
                raise no_overload() from None

        return _converted(run, node.type)

    # -- calls

    def _call(self, node: Call) -> Run:
        name = node.function
        if name == "_?_:_":
            return self._conditional(node)
        args = [self.compile(child) for child in node.children()]
        if name == "_[_]":
            return _converted(_index(*args), node.type)
        if name == "_[?_]":
            return _optional_index(*args)
        if name in ("or", "orValue") and node.target is not None:
            return _alternative(*args, is_value=name == "orValue")
        if name == "@in" and isinstance(node.args[1], ListNode) and (known := _constant_list(node.args[1])) is not None:
            return _membership(args[0], known)
        if name in _FOLDED and len(node.args) == 1 and isinstance(node.args[0], Literal):
            folded = self._fold(node, args)
            if folded is not None:
                return folded
        return self._invoke(node, args)

    def _fold(self, node: Call, args: Sequence[Run]) -> Run | None:
        try:
            return _constant(self._invoke(node, args)([0, 1_000]))
        except (EvaluationError, CostLimitExceeded):
            return None

    def _invoke(self, node: Call, args: Sequence[Run]) -> Run:
        overloads = node.overloads
        types = [child.type or DYN for child in node.children()]
        is_static = len(overloads) == 1 and (
            overloads[0].is_lenient
            or not any(_needs_check(one, other) for one, other in zip(overloads[0].parameters, types, strict=True))
        )
        if is_static:
            return _static_call(overloads[0], args)
        if all(overload.run is overloads[0].run and overload.is_lenient for overload in overloads):
            return _static_call(overloads[0], args)
        return _dynamic_call(overloads, args)

    def _conditional(self, node: Call) -> Run:
        condition, then, otherwise = (self.compile(arg) for arg in node.args)

        def run(frame: Frame) -> Any:
            chosen = condition(frame)
            if chosen is True:
                return then(frame)
            if chosen is False:
                return otherwise(frame)
            raise no_overload()

        return run

    def _logical(self, node: Logical) -> Run:
        terms = [self.compile(term) for term in node.terms]
        decisive = not node.is_and
        if len(terms) == 2:
            return _logical_pair(*terms, decisive=decisive)

        def run(frame: Frame) -> Any:
            failure: EvaluationError | None = None
            for term in terms:
                try:
                    value = term(frame)
                except EvaluationError as error:
                    failure = failure or error
                    continue
                if value is decisive:
                    return decisive
                if value is not (not decisive):
                    failure = failure or no_overload()
            if failure is not None:
                raise failure
            return not decisive

        return run

    # -- aggregates

    def _list(self, node: ListNode) -> Run:
        known = _constant_list(node)
        if known is not None:
            return _constant(known)
        items, optional = [self.compile(item) for item in node.items], node.optional
        if not optional:

            def run(frame: Frame) -> list[Any]:
                frame[0] += _LIST_COST
                return [item(frame) for item in items]

            return run

        def run_with_optional(frame: Frame) -> list[Any]:
            frame[0] += _LIST_COST
            found: list[Any] = []
            for index, item in enumerate(items):
                value = item(frame)
                if index in optional:
                    found += _present(value)
                else:
                    found.append(value)
            return found

        return run_with_optional

    def _map(self, node: MapNode) -> Run:
        self.has_bool_keys = self.has_bool_keys or any(
            (key.type or DYN).kind in ("bool", "dyn", "any") for key in node.keys
        )
        keys, values = [self.compile(key) for key in node.keys], [self.compile(value) for value in node.values]
        optional = node.optional

        def run(frame: Frame) -> dict[Any, Any]:
            frame[0] += _MAP_COST
            found: dict[Any, Any] = {}
            for index, key in enumerate(keys):
                at, value = map_key(key(frame)), values[index](frame)
                if index in optional:
                    present = _present(value)
                    if not present:
                        continue
                    value = present[0]
                if at in found:
                    raise EvaluationError(f"Failed with repeated key: {at}")
                found[at] = value
            return found

        return run

    def _struct(self, node: StructNode) -> Run:
        values, names, optional = [self.compile(value) for value in node.values], node.fields, node.optional

        def run(frame: Frame) -> dict[str, Any]:
            frame[0] += _STRUCT_COST
            found: dict[str, Any] = {}
            for index, name in enumerate(names):
                value = values[index](frame)
                if index in optional:
                    found.update((name, one) for one in _present(value))
                else:
                    found[name] = value
            return found

        return run

    # -- macros

    def _comprehension(self, node: Comprehension) -> Run:
        range_ = self.compile(node.range)
        slot = self._declare(node.variable)
        slot2 = None if node.variable2 is None else self._declare(node.variable2)
        predicate = None if node.predicate is None else self.compile(node.predicate)
        transform = None if node.transform is None else self.compile(node.transform)
        self._forget(1 if slot2 is None else 2)
        if node.form in ("transformMap", "transformMapEntry"):
            self.has_bool_keys = True
        convert = _conversion_of_elements(node)
        if convert is not None:
            range_ = convert(range_)
        return comprehensions.compile_loop(node.form, range_, slot, slot2, predicate, transform)

    def _bind(self, node: Bind) -> Run:
        value = self.compile(node.value)
        slot = self._declare(node.variable)
        body = self.compile(node.body)
        self._forget()

        def run(frame: Frame) -> Any:
            frame[slot] = value(frame)
            return body(frame)

        return run

    def _optional_map(self, node: OptionalMap) -> Run:
        target = self.compile(node.target)
        slot = self._declare(node.variable)
        body, is_flat = self.compile(node.body), node.is_flat
        self._forget()

        def run(frame: Frame) -> Any:
            optional = target(frame)
            frame[0] += 1
            if not isinstance(optional, OptionalValue):
                raise no_overload()
            if not optional.has_value:
                return NONE
            frame[slot] = optional.value
            frame[0] += 2
            value = body(frame)
            return value if is_flat else OptionalValue(value)

        return run


# -- closures


def _constant(value: Any, cost: int = 0) -> Run:
    if cost:

        def run(frame: Frame) -> Any:
            frame[0] += cost
            return value

        return run
    return lambda frame: value


def _constant_list(node: ListNode) -> list[Any] | None:
    """The elements of a list of literals: it is built once and costs nothing, as in cel-go."""
    found: list[Any] = []
    for item in node.items:
        if isinstance(item, Literal):
            found.append(item.value)
        elif isinstance(item, ListNode) and (inner := _constant_list(item)) is not None:
            found.append(inner)
        else:
            return None
    return None if node.optional else found


def _variable_field(slot: int, name: str) -> Run:
    def run(frame: Frame) -> Any:
        frame[0] += 2
        try:
            return frame[slot][name]
        except KeyError:
            raise EvaluationError(f"no such key: {name}") from None
        except (TypeError, IndexError):
            raise no_overload() from None

    return run


def _test(operand: Run, name: str) -> Run:
    def run(frame: Frame) -> bool:
        value = operand(frame)
        if type(value) is dict:
            return name in value
        return has_field(value, name)

    return run


def _optional_select(operand: Run, name: str) -> Run:
    def run(frame: Frame) -> OptionalValue:
        value = operand(frame)
        frame[0] += 1
        if isinstance(value, OptionalValue):
            if not value.has_value:
                return NONE
            value = value.value
        if not is_map(value):
            raise no_overload()
        return OptionalValue(value[name]) if name in value else NONE

    return run


def _index(container: Run, index: Run) -> Run:
    def run(frame: Frame) -> Any:
        values, key = container(frame), index(frame)
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


def _optional_index(container: Run, index: Run) -> Run:
    def run(frame: Frame) -> OptionalValue:
        values, key = container(frame), index(frame)
        frame[0] += 1
        return _optional_lookup(values, key)

    return run


def _optional_lookup(values: Any, key: Any) -> OptionalValue:
    if isinstance(values, OptionalValue):
        if not values.has_value:
            return NONE
        values = values.value
    if not is_map(values) and not is_list(values):
        raise no_overload()
    try:
        return OptionalValue(lookup(values, key))
    except EvaluationError as error:
        if str(error).startswith(("no such key", "index out of bounds")):
            return NONE
        raise


def _alternative(target: Run, other: Run, *, is_value: bool) -> Run:
    """`or` and `orValue`: the argument is evaluated only if the optional has no value."""

    def run(frame: Frame) -> Any:
        optional = target(frame)
        frame[0] += 1
        if not isinstance(optional, OptionalValue):
            raise no_overload()
        if not optional.has_value:
            return other(frame)
        return optional.value if is_value else optional

    return run


def _membership(element: Run, known: Sequence[Any]) -> Run:
    """`x in [literals]`: one look into a set. Bools are kept apart from numbers."""
    values = {(type(value) is bool, value) for value in known if not isinstance(value, list)}
    lists = [value for value in known if isinstance(value, list)]

    def run(frame: Frame) -> bool:
        value = element(frame)
        if lists and is_list(value):
            charge(frame, len(known))
            return value in lists
        try:
            return (type(value) is bool, value) in values
        except TypeError:
            return False

    return run


def _present(value: Any) -> list[Any]:
    if not isinstance(value, OptionalValue):
        raise no_overload()
    return [value.value] if value.has_value else []


def _logical_pair(left: Run, right: Run, *, decisive: bool) -> Run:
    """`&&` and `||` of two: a decisive operand counts more than the error of the other."""
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
            raise no_overload()
        return indecisive

    return run


def _static_call(overload: Overload, args: Sequence[Run]) -> Run:
    if overload.is_metered:
        return _metered(overload.run, args)
    if overload.cost is not None:
        return _costed(overload.run, overload.cost, args)
    run = overload.run
    if len(args) == 2:
        left, right = args

        def run_two(frame: Frame) -> Any:
            one, other = left(frame), right(frame)
            frame[0] += 1
            return run(one, other)

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


def _metered(run: Callable[..., Any], args: Sequence[Run]) -> Run:
    if len(args) == 2:
        left, right = args
        return lambda frame: run(frame, left(frame), right(frame))
    return lambda frame: run(frame, *[arg(frame) for arg in args])


def _costed(run: Callable[..., Any], cost: Callable[..., int], args: Sequence[Run]) -> Run:
    if len(args) == 2:
        left, right = args

        def run_two(frame: Frame) -> Any:
            one, other = left(frame), right(frame)
            frame[0] += cost(one, other)
            if frame[0] > frame[1]:
                raise CostLimitExceeded
            return run(one, other)

        return run_two

    def run_all(frame: Frame) -> Any:
        values = [arg(frame) for arg in args]
        charge(frame, cost(*values))
        return run(*values)

    return run_all


def _dynamic_call(overloads: Sequence[Overload], args: Sequence[Run]) -> Run:
    """A call whose overload is chosen by the types of the values."""
    choices = [
        (tuple(_MATCHERS.get(one.kind, _matches_named(one)) for one in overload.parameters), overload)
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
        raise no_overload()

    return run


def _needs_check(declared: Type, static: Type) -> bool:
    """Whether a value of the static type may not be of the declared one."""
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


def _converted(run: Run, type_: Type | None) -> Run:
    """The closure, with strings made into timestamps, durations and bytes where the schema declares those."""
    convert = _CONVERSIONS.get(type_.kind) if type_ is not None else None
    return run if convert is None else lambda frame: convert(run(frame))


def _conversion_of_elements(node: Comprehension) -> Callable[[Run], Run] | None:
    type_ = node.range.type or DYN
    convert = _CONVERSIONS.get(type_.parameters[-1].kind) if type_.kind in ("list", "map") else None
    if convert is None:
        return None

    def wrap(run: Run) -> Run:
        def converted(frame: Frame) -> Any:
            values = run(frame)
            charge(frame, len(values))
            if is_map(values):
                return {key: convert(value) for key, value in values.items()}
            return [convert(value) for value in values]

        return converted

    return wrap


_COMPILERS: Final[Mapping[str, Callable[[Compiler, Any], Run]]] = {
    "literal": Compiler._literal,
    "ident": Compiler._ident,
    "select": Compiler._select,
    "call": Compiler._call,
    "logical": Compiler._logical,
    "list": Compiler._list,
    "map": Compiler._map,
    "struct": Compiler._struct,
    "comprehension": Compiler._comprehension,
    "bind": Compiler._bind,
    "optional_map": Compiler._optional_map,
}

__all__ = ["Compiler", "Run"]
