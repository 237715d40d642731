"""Cost estimation: the minimum and maximum cost of an evaluation, from the bounds that schemas set on sizes. The model
is that of cel-go's `checker.Cost` with the estimates of Kubernetes' libraries."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sampan.machinery.cel.checker.types import DYN, INT, SCALARS, ObjectType, Type
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

MAX_COST: Final = 2**64 - 1
STRING_FACTOR: Final = 0.1
REGEX_FACTOR: Final = 0.25
_LIST_COST, _MAP_COST, _STRUCT_COST = 10, 30, 40


class Range(NamedTuple):
    """A number between two bounds; sums and products are clamped to 64 bits."""

    min: int
    max: int

    def add(self, other: Range) -> Range:
        return Range(min(self.min + other.min, MAX_COST), min(self.max + other.max, MAX_COST))

    def times(self, other: Range) -> Range:
        return Range(min(self.min * other.min, MAX_COST), min(self.max * other.max, MAX_COST))

    def scale(self, factor: float) -> Range:
        return Range(_scale(self.min, factor), _scale(self.max, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.min, other.min), max(self.max, other.max))


def _scale(value: int, factor: float) -> int:
    return min(math.ceil(float(value) * factor), MAX_COST)


def fixed_range(value: int) -> Range:
    return Range(value, value)


UNKNOWN: Final = Range(0, MAX_COST)
ZERO, UNIT = fixed_range(0), fixed_range(1)


class CostEntry(NamedTuple):
    """The estimated sizes of the keys and of the values of a list or map."""

    key: Range
    value: Range


class CallEstimate(NamedTuple):
    """The estimate of a call: its own cost, without that of its arguments, and the size of its result if known."""

    cost: Range
    size: Range | None = None


class Operand(NamedTuple):
    """An argument of a call, for its estimate."""

    node: ExpressionNode
    type: Type
    declared: Type | None
    """The type that the schema declares for the value, with bounds on sizes, if the value comes from a variable."""
    size: Range
    element: Range | None
    """The size of the elements, if the operand is a list and that size is known."""


class _LocalVariable(NamedTuple):
    declared: Type | None
    size: Range | None
    entry: CostEntry | None


class CostEstimator:
    def __init__(self, variables: Mapping[str, Type]) -> None:
        self._variables = variables
        self._locals: dict[str, list[_LocalVariable]] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, CostEntry] = {}
        self._declared: dict[int, Type | None] = {}

    def cost(self, node: ExpressionNode) -> Range:
        return _COSTS[node.kind](self, node)

    # -- sizes

    def size(self, node: ExpressionNode) -> Range | None:
        """Return the size of the value: characters, bytes, elements or entries; 1 for scalars."""
        computed = self._sizes.get(id(node))
        if computed is not None:
            return computed
        if isinstance(node, Literal):
            return fixed_range(len(node.value)) if isinstance(node.value, str | bytes) else UNIT
        if isinstance(node, ListNode):
            return fixed_range(len(node.items))
        if isinstance(node, MapNode):
            return fixed_range(len(node.keys))
        declared = self._declared.get(id(node))
        if declared is not None and declared.max_size is not None:
            return Range(0, declared.max_size)
        if _is_scalar(node.type or DYN):
            return UNIT
        local = self._local(node)
        return local.size if local is not None else None

    def _local(self, node: ExpressionNode) -> _LocalVariable | None:
        if isinstance(node, Ident):
            stack = self._locals.get(node.name)
            return stack[-1] if stack else None
        return None

    def size_or_unknown(self, node: ExpressionNode) -> Range:
        size = self.size(node)
        return UNKNOWN if size is None else size

    def _entry(self, node: ExpressionNode) -> CostEntry | None:
        computed = self._entries.get(id(node))
        if computed is not None:
            return computed
        local = self._local(node)
        return local.entry if local is not None else None

    def operand(self, node: ExpressionNode) -> Operand:
        declared = self._declared.get(id(node))
        entry = self._entry(node)
        element = entry.value if entry else None
        if element is None and declared is not None and declared.kind == "list":
            inner = declared.parameters[0]
            if inner.max_size is not None:
                element = Range(0, inner.max_size)
        return Operand(node, node.type or DYN, declared, self.size_or_unknown(node), element)

    # -- nodes

    def _literal(self, _: ExpressionNode) -> Range:
        return ZERO

    def _ident(self, node: Ident) -> Range:
        local = self._local(node)
        self._declared[id(node)] = local.declared if local is not None else self._variables.get(node.name)
        return UNIT

    def _select(self, node: Select) -> Range:
        if node.is_constant:
            return UNIT
        if node.variable:
            self._declared[id(node)] = self._variables.get(node.variable)
            return UNIT
        operand = self.cost(node.operand)
        declared = self._declared.get(id(node.operand))
        if declared is not None:
            self._declared[id(node)] = _member(declared, node.field)
        if node.is_test:
            return operand
        kind = (node.operand.type or DYN).kind
        return operand.add(UNIT) if kind in ("map", "object", "parameter") or node.is_optional else operand

    def _call(self, node: CallNode) -> Range:
        costs = [self.cost(child) for child in node.children()]
        if node.function == "_?_:_":
            return self._conditional(node, costs)
        if node.function == "dyn":
            self._copy(node, node.args[0])
            return costs[0].add(UNIT)
        operands = [self.operand(child) for child in node.children()]
        total: Range | None = None
        size: Range | None = None
        for overload in node.overloads:
            estimate = overload.estimate(self, operands) if overload.estimate is not None else CallEstimate(UNIT)
            total = estimate.cost if total is None else total.union(estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.union(estimate.size)
        if node.function in ("_[_]", "_[?_]"):
            size = self._index(node) or size
        elif node.function == "_+_":
            self._concatenation(node)
        if size is None:
            size = self.size(node)
        if size is not None:
            self._sizes[id(node)] = size
        result = total or ZERO
        for cost in costs:
            result = result.add(cost)
        return result

    def _index(self, node: CallNode) -> Range | None:
        container = node.args[0]
        declared = self._declared.get(id(container))
        if declared is not None and declared.kind in ("list", "map"):
            self._declared[id(node)] = declared.parameters[-1]
        entry = self._entry(container)
        return entry.value if entry else None

    def _concatenation(self, node: CallNode) -> None:
        left, right = self._entry(node.args[0]), self._entry(node.args[1])
        if left and right:
            self._entries[id(node)] = CostEntry(left.key.union(right.key), left.value.union(right.value))

    def _conditional(self, node: CallNode, costs: Sequence[Range]) -> Range:
        _, then, otherwise = node.args
        self._sizes[id(node)] = self.size_or_unknown(then).union(self.size_or_unknown(otherwise))
        self._concatenation_of(node, then, otherwise)
        return costs[0].add(costs[1].union(costs[2]))

    def _concatenation_of(self, node: ExpressionNode, left: ExpressionNode, right: ExpressionNode) -> None:
        first, second = self._entry(left), self._entry(right)
        if first and second:
            self._entries[id(node)] = CostEntry(first.key.union(second.key), first.value.union(second.value))

    def _logical(self, node: Logical) -> Range:
        costs = [self.cost(term) for term in node.terms]
        most = ZERO
        for cost in costs:
            most = most.add(cost)
        return Range(costs[0].min, most.max)

    def _list(self, node: ListNode) -> Range:
        total = fixed_range(_LIST_COST)
        for item in node.items:
            total = total.add(self.cost(item))
        value = self._union_of(node.items)
        self._entries[id(node)] = CostEntry(UNIT, value)
        return total

    def _union_of(self, nodes: Sequence[ExpressionNode]) -> Range:
        sizes = [self.size_or_unknown(node) for node in nodes]
        return Range(min(size.min for size in sizes), max(size.max for size in sizes)) if sizes else ZERO

    def _map(self, node: MapNode) -> Range:
        total = fixed_range(_MAP_COST)
        for part in node.children():
            total = total.add(self.cost(part))
        self._entries[id(node)] = CostEntry(self._union_of(node.keys), self._union_of(node.values))
        return total

    def _struct(self, node: StructNode) -> Range:
        total = fixed_range(_STRUCT_COST)
        for value in node.values:
            total = total.add(self.cost(value))
        return total

    def _copy(self, target: ExpressionNode, source: ExpressionNode) -> None:
        size, entry = self.size(source), self._entry(source)
        if size is not None:
            self._sizes[id(target)] = size
        if entry is not None:
            self._entries[id(target)] = entry

    # -- macros

    def _comprehension(self, node: Comprehension) -> Range:
        total = self.cost(node.range)
        count = self.size_or_unknown(node.range)
        self._push_iteration(node)
        predicate = ZERO if node.predicate is None else self.cost(node.predicate)
        transform = ZERO if node.transform is None else self.cost(node.transform)
        element = None if node.transform is None else self.size_or_unknown(node.transform)
        for name in (node.variable, node.variable2):
            if name is not None:
                self._locals[name].pop()
        form = node.form
        fixed_cost, step = _LOOPS[form](predicate, transform, node.predicate is not None)
        if form in ("filter", "map", "transformList", "sortBy"):
            self._sizes[id(node)] = count
            entry = self._entry(node.range) if form in ("filter", "sortBy") else None
            if element is not None and form != "sortBy":
                entry = CostEntry(UNIT, element)
            if entry is not None:
                self._entries[id(node)] = entry
        elif form in ("transformMap", "transformMapEntry"):
            self._sizes[id(node)] = count
        total = total.add(fixed_cost).add(count.times(step))
        if form == "sortBy":
            total = total.add(count.times(UNIT)).add(fixed_range(10))
        return total

    def _push_iteration(self, node: Comprehension) -> None:
        declared, entry = self._declared.get(id(node.range)), self._entry(node.range)
        kind = declared.kind if declared is not None else (node.range.type or DYN).kind
        key: Type | None = None
        value: Type | None = None
        if declared is not None and kind == "list":
            key, value = INT, declared.parameters[0]
        elif declared is not None and kind == "map":
            key, value = declared.parameters
        key_local = _LocalVariable(key, entry.key if entry else None, None)
        value_local = _LocalVariable(value, entry.value if entry else None, None)
        if node.variable2 is None:
            self._locals.setdefault(node.variable, []).append(key_local if kind == "map" else value_local)
        else:
            self._locals.setdefault(node.variable, []).append(key_local)
            self._locals.setdefault(node.variable2, []).append(value_local)

    def _bind(self, node: BindNode) -> Range:
        total = fixed_range(_LIST_COST).add(self.cost(node.value))
        local = _LocalVariable(self._declared.get(id(node.value)), self.size(node.value), self._entry(node.value))
        self._locals.setdefault(node.variable, []).append(local)
        total = total.add(self.cost(node.body))
        self._locals[node.variable].pop()
        self._copy(node, node.body)
        return total

    def _optional_map(self, node: OptionalMap) -> Range:
        target = self.cost(node.target)
        self._locals.setdefault(node.variable, []).append(_LocalVariable(None, self.size(node.target), None))
        body = self.cost(node.body)
        self._locals[node.variable].pop()
        return target.add(UNIT).add(UNIT.union(target.add(body).add(fixed_range(_LIST_COST + 2))))


def _member(declared: Type, name: str) -> Type | None:
    if isinstance(declared, ObjectType):
        field = declared.fields.get(name)
        return field.type if field is not None else None
    return declared.parameters[1] if declared.kind == "map" else None


def _is_scalar(type_: Type) -> bool:
    """Whether the size of a value of this type is estimated as 1. Types as values count as scalars, too, as in
    kube-apiserver."""
    return type_.kind in SCALARS or type_.kind == "type" or (type_.is_optional and _is_scalar(type_.parameters[0]))


def _all(predicate: Range, _: Range, __: bool) -> tuple[Range, Range]:
    return UNIT, Range(3, min(3 + predicate.max, MAX_COST))


def _exists(predicate: Range, _: Range, __: bool) -> tuple[Range, Range]:
    return UNIT, Range(4, min(4 + predicate.max, MAX_COST))


def _exists_one(predicate: Range, _: Range, __: bool) -> tuple[Range, Range]:
    return fixed_range(2), predicate.add(Range(1, 2))


def _filter(predicate: Range, _: Range, __: bool) -> tuple[Range, Range]:
    return fixed_range(11), predicate.add(Range(1, 13))


def _map(predicate: Range, transform: Range, has_predicate: bool) -> tuple[Range, Range]:
    step = transform.add(fixed_range(12))
    return fixed_range(11), predicate.add(step.union(UNIT)) if has_predicate else step


def _map_entries(predicate: Range, transform: Range, has_predicate: bool) -> tuple[Range, Range]:
    step = transform.add(fixed_range(3))
    return fixed_range(31), predicate.add(step.union(UNIT)) if has_predicate else step


_LOOPS: Final[Mapping[str, Callable[[Range, Range, bool], tuple[Range, Range]]]] = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
    "transformList": _map,
    "sortBy": _map,
    "transformMap": _map_entries,
    "transformMapEntry": _map_entries,
}
"""By macro: the function that returns its cost outside of the loop and the cost of one step, as if it were expanded
into a fold."""
_COSTS: Final[Mapping[str, Callable[[CostEstimator, Any], Range]]] = {
    "literal": CostEstimator._literal,
    "ident": CostEstimator._ident,
    "select": CostEstimator._select,
    "call": CostEstimator._call,
    "logical": CostEstimator._logical,
    "list": CostEstimator._list,
    "map": CostEstimator._map,
    "struct": CostEstimator._struct,
    "comprehension": CostEstimator._comprehension,
    "bind": CostEstimator._bind,
    "optional_map": CostEstimator._optional_map,
}

# -- estimates that several libraries use


def traverse(factor: float = STRING_FACTOR, *, at: int = 0, keeps_size: bool = False) -> Callable[..., CallEstimate]:
    """Return the estimate of a traversal of one argument, whose size may also be that of the result."""

    def estimate(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
        size = operands[at].size
        return CallEstimate(size.scale(factor), size if keeps_size else None)

    return estimate


def nominal(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(UNIT)


def search_pattern(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    """Estimate a search for a regular expression: the length of the text times that of the pattern."""
    text, pattern = operands[0].size, operands[1].size
    cost = text.add(UNIT).scale(STRING_FACTOR).times(pattern.scale(REGEX_FACTOR))
    return CallEstimate(cost, Range(0, text.max))
