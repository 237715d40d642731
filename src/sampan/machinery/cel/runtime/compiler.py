"""The compiler: every node of a checked tree becomes a closure over the closures of its children.

A closure takes the frame of the evaluation and returns the value. It adds to the cost in the frame; the limit is
checked wherever a cost depends on sizes, in each iteration of a loop, and once at the end, because everything else
costs no more than the length of the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sampan.machinery.cel.checker.types import DYN, Type
from sampan.machinery.cel.errors import CostLimitExceeded, EvaluationError
from sampan.machinery.cel.runtime import closures, comprehensions
from sampan.machinery.cel.runtime.closures import Run
from sampan.machinery.cel.runtime.meter import FIRST_SLOT, Frame
from sampan.machinery.cel.runtime.operators import map_key, overload_error, select
from sampan.machinery.cel.runtime.values import (
    NONE,
    OptionalValue,
)
from sampan.machinery.cel.syntax.ast import (
    BindNode,
    CallNode,
    Comprehension,
    ExpressionNode,
    Ident,
    ListNode,
    Literal,
    Logical,
    MapNode,
    OptionalMap,
    Select,
    StructNode,
)
from sampan.machinery.patterns import PatternError, compile_pattern

_LIST_COST, _MAP_COST, _STRUCT_COST = 10, 30, 40
_FOLDED: Final = frozenset(("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"))
"""The conversion functions that are evaluated once if their argument is a constant, as in cel-go's optimizer."""


class Compiler:
    def __init__(self, variables: Sequence[str]) -> None:
        self._globals = {name: FIRST_SLOT + index for index, name in enumerate(variables)}
        self._locals: list[tuple[str, int]] = []
        self._next = FIRST_SLOT + len(variables)
        self.slots = self._next
        """The number of variables in the frame of an evaluation."""
        self.has_bool_keys = False
        self.failure: EvaluationError | None = None
        """The first error of a conversion that is evaluated once because its argument is a constant."""

    def compile(self, node: ExpressionNode) -> Run:
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
        return closures.constant(node.value)

    def _ident(self, node: Ident) -> Run:
        if node.is_constant:
            return closures.constant(node.constant)
        return self._variable(node.name, node.type)

    def _variable(self, name: str, type_: Type | None) -> Run:
        slot = self._slot(name)

        def run(frame: Frame) -> Any:
            frame[0] += 1
            return frame[slot]

        return closures.convert_result(run, type_)

    def _select(self, node: Select) -> Run:
        if node.is_constant:
            return closures.constant(node.constant)
        if node.variable:
            return self._variable(node.variable, node.type)
        operand, name = self.compile(node.operand), node.wire_name
        operand_type = node.operand.type or DYN
        if node.is_test:
            return closures.presence_test(operand, name)
        if node.is_optional:
            return closures.optional_select(operand, name)
        if not _is_attribute(node.operand):
            operand = closures.with_cost(operand, 1)
        if operand_type.is_dyn or operand_type.is_optional:

            def run_dynamic(frame: Frame) -> Any:
                value = operand(frame)
                frame[0] += 1
                return select(value, name)

            return run_dynamic
        if isinstance(node.operand, Ident):
            return closures.convert_result(closures.variable_field(self._slot(node.operand.name), name), node.type)

        def run(frame: Frame) -> Any:
            value = operand(frame)
            frame[0] += 1
            try:
                return value[name]
            except (KeyError, TypeError, IndexError):
                raise EvaluationError(f"no such key: {name}") from None

        return closures.convert_result(run, node.type)

    # -- calls

    def _call(self, node: CallNode) -> Run:
        name = node.function
        if name == "_?_:_":
            return self._conditional(node)
        args = [self.compile(child) for child in node.children()]
        if name == "_[_]":
            if not _is_attribute(node.args[0]):
                args[0] = closures.with_cost(args[0], 1)
            return closures.convert_result(closures.index(*args), node.type)
        if name == "_[?_]":
            return closures.optional_index(*args)
        if name in ("or", "orValue") and node.target is not None:
            return closures.alternative(*args, is_value=name == "orValue")
        if (
            name == "@in"
            and isinstance(node.args[1], ListNode)
            and (elements := closures.constant_list(node.args[1])) is not None
        ):
            return closures.membership(args[0], elements)
        if name in ("find", "findAll") and isinstance(node.args[0], Literal):
            self._check_pattern(node.args[0].value)
        if name in _FOLDED and len(node.args) == 1 and isinstance(node.args[0], Literal):
            folded = self._fold(node, args)
            if folded is not None:
                return folded
        return self._invoke(node, args)

    def _check_pattern(self, pattern: Any) -> None:
        try:
            compile_pattern(pattern)
        except PatternError as error:
            self.failure = self.failure or EvaluationError(f"error parsing regexp: {error}")

    def _fold(self, node: CallNode, args: Sequence[Run]) -> Run | None:
        try:
            return closures.constant(self._invoke(node, args)([0, 1_000, 0]))
        except EvaluationError as error:
            self.failure = self.failure or error
            return None
        except CostLimitExceeded:
            return None

    def _invoke(self, node: CallNode, args: Sequence[Run]) -> Run:
        overloads = node.overloads
        types = [child.type or DYN for child in node.children()]
        is_static = len(overloads) == 1 and (
            overloads[0].is_lenient
            or not any(
                closures.needs_check(parameter, argument)
                for parameter, argument in zip(overloads[0].parameters, types, strict=True)
            )
        )
        if is_static:
            return closures.static_call(overloads[0], args)
        if all(overload.run is overloads[0].run and overload.is_lenient for overload in overloads):
            return closures.static_call(overloads[0], args)
        return closures.dynamic_call(overloads, args)

    def _conditional(self, node: CallNode) -> Run:
        condition, then, otherwise = (self.compile(arg) for arg in node.args)
        if _is_attribute(node.args[1]) and not _is_conditional(node.args[1]):
            then = closures.with_cost(then, -1)
        if _is_attribute(node.args[2]) and not _is_conditional(node.args[2]):
            otherwise = closures.with_cost(otherwise, -1)

        def run(frame: Frame) -> Any:
            chosen = condition(frame)
            if chosen is True:
                return then(frame)
            if chosen is False:
                return otherwise(frame)
            raise overload_error()

        return run

    def _logical(self, node: Logical) -> Run:
        terms = [self.compile(term) for term in node.terms]
        decisive = not node.is_and
        if len(terms) == 2:
            return closures.logical_pair(*terms, decisive=decisive)

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
                    failure = failure or overload_error()
            if failure is not None:
                raise failure
            return not decisive

        return run

    # -- aggregates

    def _list(self, node: ListNode) -> Run:
        constants = closures.constant_list(node)
        if constants is not None:
            return closures.constant(constants)
        items, optional = [self.compile(item) for item in node.items], node.optional
        if not optional:

            def run(frame: Frame) -> list[Any]:
                frame[0] += _LIST_COST
                return [item(frame) for item in items]

            return run

        def run_with_optional(frame: Frame) -> list[Any]:
            frame[0] += _LIST_COST
            elements: list[Any] = []
            for index, item in enumerate(items):
                value = item(frame)
                if index in optional:
                    elements += closures.unpack_optional(value)
                else:
                    elements.append(value)
            return elements

        return run_with_optional

    def _map(self, node: MapNode) -> Run:
        self.has_bool_keys = self.has_bool_keys or any(
            (key.type or DYN).kind in ("bool", "dyn", "any") for key in node.keys
        )
        keys, values = [self.compile(key) for key in node.keys], [self.compile(value) for value in node.values]
        optional = node.optional

        def run(frame: Frame) -> dict[Any, Any]:
            frame[0] += _MAP_COST
            entries: dict[Any, Any] = {}
            for index, key in enumerate(keys):
                entry_key, value = map_key(key(frame)), values[index](frame)
                if index in optional:
                    present = closures.unpack_optional(value)
                    if not present:
                        continue
                    value = present[0]
                if entry_key in entries:
                    raise EvaluationError(f"Failed with repeated key: {entry_key}")
                entries[entry_key] = value
            return entries

        if optional or not all(isinstance(part, Literal) for part in node.children()):
            return run
        try:
            return closures.constant(run([0, 1_000, 0]))
        except (EvaluationError, CostLimitExceeded):
            return run

    def _struct(self, node: StructNode) -> Run:
        values, names, optional = [self.compile(value) for value in node.values], node.fields, node.optional

        def run(frame: Frame) -> dict[str, Any]:
            frame[0] += _STRUCT_COST
            fields: dict[str, Any] = {}
            for index, name in enumerate(names):
                value = values[index](frame)
                if index in optional:
                    fields.update((name, item) for item in closures.unpack_optional(value))
                else:
                    fields[name] = value
            return fields

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
        convert = closures.conversion_of_elements(node)
        if convert is not None:
            range_ = convert(range_)
        return comprehensions.compile_loop(node.form, range_, slot, slot2, predicate, transform)

    def _bind(self, node: BindNode) -> Run:
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
                raise overload_error()
            if not optional.has_value:
                return NONE
            frame[slot] = optional.value
            frame[0] += 3 if is_flat else 4
            value = body(frame)
            return value if is_flat else OptionalValue(value)

        return run


def _is_conditional(node: ExpressionNode) -> bool:
    return isinstance(node, CallNode) and node.function == "_?_:_"


def _is_attribute(node: ExpressionNode) -> bool:
    """Whether cel-go evaluates the node as an attribute: a variable with fields and indices. An attribute that is a
    branch of a conditional costs one less, and fields and indices of anything else cost one more."""
    if isinstance(node, Ident | Select):
        return not node.is_constant and not (isinstance(node, Select) and node.is_test)
    return isinstance(node, CallNode) and node.function in ("_[_]", "_[?_]", "_?_:_")


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
