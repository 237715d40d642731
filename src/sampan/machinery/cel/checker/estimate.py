"""Cost estimation: the minimum and maximum cost of an evaluation, from the bounds that schemas set on sizes. The model
is that of cel-go's `checker.Cost` with the estimates of Kubernetes' libraries."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sampan.machinery.cel.checker.types import DYN, SCALARS, Type
from sampan.machinery.cel.checker.value_paths import (
    INDICES,
    ITEMS,
    KEYS,
    VALUES,
    ValuePath,
    declared_type,
    extend,
    max_size,
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


class EntrySizes(NamedTuple):
    """The estimated sizes of the keys and of the values of a list or map that an expression builds."""

    kind: str
    """Either list or map."""
    key: Range
    value: Range

    def union(self, other: EntrySizes | None) -> EntrySizes | None:
        return other and EntrySizes(self.kind, self.key.union(other.key), self.value.union(other.value))


class CallEstimate(NamedTuple):
    """The estimate of a call: its own cost, without that of its arguments, and the size of its result if known."""

    cost: Range
    size: Range | None = None


class Operand(NamedTuple):
    """An argument of a call, for its estimate."""

    node: ExpressionNode
    type: Type
    path: ValuePath | None
    known_size: Range | None

    @property
    def size(self) -> Range:
        """The size, between 0 and the largest number if nothing is known about it."""
        return UNKNOWN if self.known_size is None else self.known_size


class _LocalVariable(NamedTuple):
    path: ValuePath | None
    size: Range | None
    entries: EntrySizes | None


class CostEstimator:
    """Estimates one expression. Nodes are estimated in the order in which cel-go does, arguments before the target of a
    method, because the paths that it records may change each other."""

    def __init__(self, variables: Mapping[str, Type]) -> None:
        self._variables = variables
        self._locals: dict[str, list[_LocalVariable]] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, EntrySizes] = {}
        self._paths: dict[int, ValuePath] = {}

    def cost(self, node: ExpressionNode) -> Range:
        return _COSTS[node.kind](self, node)

    # -- sizes

    def size(self, node: ExpressionNode) -> Range | None:
        """Return the size of the value: characters, bytes, elements or entries; 1 for scalars."""
        estimate = self._sizes.get(id(node))
        if estimate is not None:
            return estimate
        if isinstance(node, Literal):
            return fixed_range(len(node.value)) if isinstance(node.value, str | bytes) else UNIT
        if isinstance(node, ListNode):
            return fixed_range(len(node.items))
        if isinstance(node, MapNode):
            return fixed_range(len(node.keys))
        declared = self._declared_size(self._path(node))
        if declared is not None:
            self._sizes[id(node)] = declared
            return declared
        if _is_scalar(node.type or DYN):
            return UNIT
        local = self._local(node)
        return local.size if local is not None else None

    def size_or_unknown(self, node: ExpressionNode) -> Range:
        size = self.size(node)
        return UNKNOWN if size is None else size

    def element_size(self, operand: Operand) -> Range | None:
        """Return the size of the elements of an operand; None if it is no list. Only the schema says it: elements of a
        list that the expression builds have an unknown size."""
        if not operand.type.parameters:
            return None
        return self._declared_size(operand.path and operand.path.element()) or UNKNOWN

    def _declared_size(self, path: ValuePath | None) -> Range | None:
        declared = None if path is None else declared_type(path, self._variables)
        bound = None if declared is None else max_size(declared)
        return None if bound is None else Range(0, bound)

    def _local(self, node: ExpressionNode) -> _LocalVariable | None:
        if isinstance(node, Ident):
            stack = self._locals.get(node.name)
            return stack[-1] if stack else None
        return None

    def _path(self, node: ExpressionNode) -> ValuePath | None:
        local = self._local(node)
        return local.path if local is not None else self._paths.get(id(node))

    def _entry_sizes(self, node: ExpressionNode) -> EntrySizes | None:
        sizes = self._entries.get(id(node))
        if sizes is not None:
            return sizes
        local = self._local(node)
        return local.entries if local is not None else None

    def _set(self, node: ExpressionNode, size: Range | None, entries: EntrySizes | None = None) -> None:
        if size is not None:
            self._sizes[id(node)] = size
        if entries is not None:
            self._entries[id(node)] = entries

    # -- leaves and selections

    def _literal(self, _: ExpressionNode) -> Range:
        return ZERO

    def _ident(self, node: Ident) -> Range:
        local = self._local(node)
        if local is None:
            self._paths[id(node)] = ValuePath((node.name,))
        elif local.path is not None:
            self._paths[id(node)] = local.path
        return UNIT

    def _select(self, node: Select) -> Range:
        if node.is_constant or node.variable:
            self._paths[id(node)] = ValuePath((node.variable or node.field,))
            return UNIT
        cost = self.cost(node.operand)
        if node.is_test:
            return cost
        if node.is_optional:
            self.size(node.operand)
            return cost.add(UNIT)
        self._paths[id(node)] = extend(self._path(node.operand), node.field)
        kind = (node.operand.type or DYN).kind
        return cost.add(UNIT) if kind in ("map", "object", "parameter") else cost

    # -- calls

    def _call(self, node: CallNode) -> Range:
        if node.function == "dyn":
            cost = self.cost(node.args[0])
            self._set(node, self.size(node.args[0]), self._entry_sizes(node.args[0]))
            return cost.add(UNIT)
        args = [self._argument(arg) for arg in node.args]
        cost = ZERO
        for argument_cost, _ in args:
            cost = cost.add(argument_cost)
        operands = [operand for _, operand in args]
        if node.function == "_?_:_":
            return self._conditional(node, [argument_cost for argument_cost, _ in args])
        if node.target is not None:
            target_cost, target = self._argument(node.target)
            cost = cost.add(target_cost)
            operands = [target, *operands]
        own: Range | None = None
        size: Range | None = None
        for overload in node.overloads:
            estimate = overload.estimate(self, operands) if overload.estimate is not None else CallEstimate(UNIT)
            own = estimate.cost if own is None else own.union(estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.union(estimate.size)
            if node.function == "_[_]":
                size = self._index(node, overload.parameters[0].kind)
            if size is None:
                size = self.size(node)
        if node.function == "_+_":
            self._concatenate(node)
        self._set(node, size)
        return cost.add(own or ZERO)

    def _argument(self, node: ExpressionNode) -> tuple[Range, Operand]:
        cost = self.cost(node)
        return cost, Operand(node, node.type or DYN, self._path(node), self.size(node))

    def _index(self, node: CallNode, container: str) -> Range | None:
        """Record the path of the value at an index and return its size, if the container is one that the expression
        builds."""
        if container not in ("list", "map"):
            return None
        values = node.args[0]
        self._paths[id(node)] = extend(self._path(values), ITEMS if container == "list" else VALUES)
        entries = self._entry_sizes(values)
        return entries.value if entries is not None else None

    def _concatenate(self, node: CallNode) -> None:
        left, right = (self._entry_sizes(arg) for arg in node.args)
        if left is not None:
            self._set(node, None, left.union(right))

    def _conditional(self, node: CallNode, costs: Sequence[Range]) -> Range:
        _, then, otherwise = node.args
        entries = self._entry_sizes(then)
        size = self.size_or_unknown(then).union(self.size_or_unknown(otherwise))
        self._set(node, size, entries and entries.union(self._entry_sizes(otherwise)))
        return costs[0].add(costs[1].union(costs[2]))

    def _logical(self, node: Logical) -> Range:
        costs = []
        for term in node.terms:
            costs.append(self.cost(term))
            self.size(term)
        total = ZERO
        for cost in costs:
            total = total.add(cost)
        return Range(costs[0].min, total.max)

    # -- aggregates

    def _list(self, node: ListNode) -> Range:
        cost, size = self._union_of(node.items)
        self._set(node, None, EntrySizes("list", UNIT, size))
        return cost.add(fixed_range(_LIST_COST))

    def _union_of(self, nodes: Sequence[ExpressionNode]) -> tuple[Range, Range]:
        """Return the sum of the costs of nodes, and the union of their sizes."""
        total, size = ZERO, Range(MAX_COST if nodes else 0, 0)
        for node in nodes:
            total = total.add(self.cost(node))
            size = size.union(self.size_or_unknown(node))
        return total, size

    def _map(self, node: MapNode) -> Range:
        total = fixed_range(_MAP_COST)
        keys = values = Range(MAX_COST if node.keys else 0, 0)
        for key, value in zip(node.keys, node.values, strict=True):
            total = total.add(self.cost(key)).add(self.cost(value))
            keys, values = keys.union(self.size_or_unknown(key)), values.union(self.size_or_unknown(value))
        self._set(node, None, EntrySizes("map", keys, values))
        return total

    def _struct(self, node: StructNode) -> Range:
        return self._union_of(node.values)[0].add(fixed_range(_STRUCT_COST))

    # -- macros

    def _comprehension(self, node: Comprehension) -> Range:
        total = self.cost(node.range)
        if node.form == "sortBy":
            return total.add(self._sort_by(node))
        self._push_iteration(node)
        predicate = ZERO if node.predicate is None else self.cost(node.predicate)
        transform = ZERO if node.transform is None else self.cost(node.transform)
        element = self._element_of_result(node)
        for name in (node.variable, node.variable2):
            if name is not None:
                self._locals[name].pop()
        count = self.size_or_unknown(node.range)
        fixed_cost, step = _LOOPS[node.form](predicate, transform, node.predicate is not None)
        if element is not None:
            self._set(node, count, EntrySizes("list", UNIT, Range(0, element.max)))
        else:
            self._set(node, count if node.form in ("transformMap", "transformMapEntry") else UNIT)
        return total.add(fixed_cost).add(count.times(step))

    def _element_of_result(self, node: Comprehension) -> Range | None:
        """Return the size of the elements of the list that a macro builds; None if it builds none."""
        if node.form in ("map", "transformList"):
            assert node.transform is not None
            return self.size_or_unknown(node.transform)
        if node.form != "filter":
            return None
        element = Ident(node.offset, node.variable)
        parameters = (node.range.type or DYN).parameters
        element.type = parameters[0] if parameters else DYN
        size = self.size_or_unknown(element)
        self._sizes.pop(id(element), None)
        return size

    def _sort_by(self, node: Comprehension) -> Range:
        """Return the cost of sorting, without that of the list, as if it were
        `cel.bind(l, list, l.sort(l.map(variable, transform)))`."""
        assert node.transform is not None
        self._push_iteration(node)
        transform = self.cost(node.transform)
        self._locals[node.variable].pop()
        count = self.size_or_unknown(node.range)
        fixed_cost, step = _LOOPS["map"](ZERO, transform, False)
        pairs = count.times(count)
        kind = (node.transform.type or DYN).kind
        factors = (2.1, 2.1) if kind in ("string", "bytes") else (2.0, 2.1) if kind in ("dyn", "any") else (2.0, 2.0)
        comparisons = pairs.scale(factors[0]).union(pairs.scale(factors[1])).add(fixed_range(_LIST_COST + 1))
        self._set(node, pairs)
        keys = fixed_cost.add(count.times(step)).add(UNIT)
        return keys.add(comparisons).add(fixed_range(_LIST_COST + 1))

    def _push_iteration(self, node: Comprehension) -> None:
        entries, path = self._entry_sizes(node.range), self._path(node.range)
        is_list = (entries.kind if entries is not None else (node.range.type or DYN).kind) == "list"
        key, value = (entries.key, entries.value) if entries is not None else (None, None)
        if node.variable2 is not None:
            self._push(node.variable, extend(path, INDICES if is_list else KEYS), key)
            self._push(node.variable2, extend(path, ITEMS if is_list else VALUES), value)
        elif is_list:
            self._push(node.variable, extend(path, ITEMS), value)
        else:
            self._push(node.variable, extend(path, KEYS), key)

    def _push(self, name: str, path: ValuePath | None, size: Range | None, entries: EntrySizes | None = None) -> None:
        self._locals.setdefault(name, []).append(_LocalVariable(path, size, entries))

    def _bind(self, node: BindNode) -> Range:
        total = fixed_range(_LIST_COST).add(self.cost(node.value))
        self._push(node.variable, self._path(node.value), self.size(node.value), self._entry_sizes(node.value))
        total = total.add(self.cost(node.body))
        self._set(node, self.size(node.body), self._entry_sizes(node.body))
        self._locals[node.variable].pop()
        return total

    def _optional_map(self, node: OptionalMap) -> Range:
        """Return the cost as if the macro were `target.hasValue() ? optional.of(body) : optional.none()`, with the
        variable bound to `target.value()`."""
        target = self.cost(node.target)
        self._push(node.variable, None, None)
        body = self.cost(node.body)
        self._locals[node.variable].pop()
        self._set(node, UNIT if _is_scalar(node.type or DYN) else UNKNOWN)
        own = _LIST_COST + (1 if node.is_flat else 2)
        return target.add(UNIT).add(UNIT.union(target.add(body).add(fixed_range(own))))


def _is_scalar(type_: Type) -> bool:
    """Whether the size of a value of this type is estimated as 1."""
    return type_.kind in SCALARS or (type_.is_optional and _is_scalar(type_.parameters[0]))


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


def _map_entries(own: int) -> Callable[[Range, Range, bool], tuple[Range, Range]]:
    def estimate(predicate: Range, transform: Range, has_predicate: bool) -> tuple[Range, Range]:
        step = transform.add(fixed_range(own))
        return fixed_range(31), predicate.add(step.union(UNIT)) if has_predicate else step

    return estimate


_LOOPS: Final[Mapping[str, Callable[[Range, Range, bool], tuple[Range, Range]]]] = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
    "transformList": _map,
    "transformMap": _map_entries(3),
    "transformMapEntry": _map_entries(2),
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


def traverse(factor: float = STRING_FACTOR, *, index: int = 0, keeps_size: bool = False) -> Callable[..., CallEstimate]:
    """Return the estimate of a traversal of one argument, whose size may also be that of the result."""

    def estimate(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
        size = operands[index].size
        return CallEstimate(size.scale(factor), size if keeps_size else None)

    return estimate


def nominal(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(UNIT)


def match_pattern(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    """Estimate a search for a regular expression: the length of the text times that of the pattern."""
    text, pattern = operands[0].size, operands[1].size
    return CallEstimate(text.add(UNIT).scale(STRING_FACTOR).times(pattern.scale(REGEX_FACTOR)))


def find_pattern(estimator: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(match_pattern(estimator, operands).cost, Range(0, operands[0].size.max))
