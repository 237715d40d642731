"""The syntax tree of an expression. Macros are nodes of their own: they are not expanded into folds, so a tree is never
larger than its source. The checker writes types and references into the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from typing import Literal as OneOf

if TYPE_CHECKING:
    from sampan.machinery.cel.checker.declarations import Overload
    from sampan.machinery.cel.checker.types import Type

ComprehensionKind = OneOf[
    "all", "exists", "exists_one", "filter", "map", "transformList", "transformMap", "transformMapEntry", "sortBy"
]


class ExpressionNode:
    """A node of the tree. `offset` is the position for errors: that of the operator, parenthesis or bracket."""

    __slots__ = ("depth", "offset", "type")
    kind: ClassVar[str] = ""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.depth = 1
        self.type: Type | None = None

    def children(self) -> Sequence[ExpressionNode]:
        return ()

    def walk(self) -> Iterator[ExpressionNode]:
        waiting: list[ExpressionNode] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children()))

    def selects(self, variable: str, name: str) -> bool:
        """Whether `variable.name` or `variable.?name` occurs in the expression."""
        return any(
            isinstance(node, Select)
            and node.field == name
            and isinstance(node.operand, Ident)
            and node.operand.name == variable
            for node in self.walk()
        )


class Literal(ExpressionNode):
    __slots__ = ("value",)
    kind = "literal"

    def __init__(self, offset: int, value: Any) -> None:
        super().__init__(offset)
        self.value = value


class Ident(ExpressionNode):
    """A variable, or the name of a type or constant."""

    __slots__ = ("constant", "is_constant", "name")
    kind = "ident"

    def __init__(self, offset: int, name: str) -> None:
        super().__init__(offset)
        self.name = name
        self.is_constant = False
        self.constant: Any = None


class Select(ExpressionNode):
    """The selection of a field: `operand.field`, `operand.?field` or `has(operand.field)`."""

    __slots__ = ("constant", "field", "is_constant", "is_optional", "is_test", "operand", "variable", "wire_name")
    kind = "select"

    def __init__(
        self, offset: int, operand: ExpressionNode, field: str, *, is_test: bool = False, is_optional: bool = False
    ):
        super().__init__(offset)
        self.operand, self.field, self.is_test, self.is_optional = operand, field, is_test, is_optional
        self.wire_name = field
        """The key in the value; the checker sets it if the field of an object is escaped in the expression."""
        self.is_constant = False
        self.constant: Any = None
        """The value of a qualified type name, such as `google.protobuf.Timestamp`, which is a constant."""
        self.variable = ""
        """The name of a qualified variable, such as `authorizer.requestResource`, that the whole selection denotes."""

    def children(self) -> Sequence[ExpressionNode]:
        return (self.operand,)


def qualified_name(node: ExpressionNode) -> str | None:
    """Return the qualified name of a chain of selections, such as `a.b.c`, or None if the node is not such a chain."""
    names: list[str] = []
    while isinstance(node, Select) and not node.is_test and not node.is_optional:
        names.append(node.field)
        node = node.operand
    return ".".join((node.name, *reversed(names))) if isinstance(node, Ident) else None


class CallNode(ExpressionNode):
    """A call of a function, a method (`target` is set) or an operator."""

    __slots__ = ("args", "function", "overloads", "target")
    kind = "call"

    def __init__(
        self, offset: int, function: str, args: Sequence[ExpressionNode], target: ExpressionNode | None = None
    ) -> None:
        super().__init__(offset)
        self.function, self.args, self.target = function, tuple(args), target
        self.overloads: Sequence[Overload] = ()
        """The overloads that match the types known to the checker."""

    def children(self) -> Sequence[ExpressionNode]:
        return self.args if self.target is None else (self.target, *self.args)


class Logical(ExpressionNode):
    """A conjunction or disjunction: `a && b && c` or `a || b || c`. Chains are flat, however long. `offsets` are the
    positions of the operators."""

    __slots__ = ("is_and", "offsets", "terms")
    kind = "logical"

    def __init__(self, offsets: Sequence[int], terms: Sequence[ExpressionNode], *, is_and: bool) -> None:
        super().__init__(offsets[0])
        self.offsets, self.terms, self.is_and = offsets, tuple(terms), is_and

    def children(self) -> Sequence[ExpressionNode]:
        return self.terms


class ListNode(ExpressionNode):
    __slots__ = ("items", "optional")
    kind = "list"

    def __init__(self, offset: int, items: Sequence[ExpressionNode], optional: Sequence[int] = ()) -> None:
        """`optional` has the indices of the elements `?e`, which are omitted if they have no value."""
        super().__init__(offset)
        self.items, self.optional = tuple(items), frozenset(optional)

    def children(self) -> Sequence[ExpressionNode]:
        return self.items


class MapNode(ExpressionNode):
    __slots__ = ("keys", "optional", "values")
    kind = "map"

    def __init__(
        self,
        offset: int,
        keys: Sequence[ExpressionNode],
        values: Sequence[ExpressionNode],
        optional: Sequence[int] = (),
    ) -> None:
        super().__init__(offset)
        self.keys, self.values, self.optional = tuple(keys), tuple(values), frozenset(optional)

    def children(self) -> Sequence[ExpressionNode]:
        return [part for pair in zip(self.keys, self.values, strict=True) for part in pair]


class StructNode(ExpressionNode):
    """The construction of an object: `Name{field: value}`."""

    __slots__ = ("fields", "name", "offsets", "optional", "values")
    kind = "struct"

    def __init__(
        self,
        offset: int,
        name: str,
        fields: Sequence[tuple[str, int]],
        values: Sequence[ExpressionNode],
        optional: Sequence[int],
    ) -> None:
        super().__init__(offset)
        self.name, self.values, self.optional = name, tuple(values), frozenset(optional)
        self.fields, self.offsets = tuple(name for name, _ in fields), tuple(offset_value for _, offset_value in fields)

    def children(self) -> Sequence[ExpressionNode]:
        return self.values


class Comprehension(ExpressionNode):
    """A macro that iterates over a list or map. `predicate` is the condition of `all`, `exists`, `filter` and of the
    longer forms of `map` and the transformations; `transform` is their expression for an element."""

    __slots__ = ("form", "predicate", "range", "transform", "variable", "variable2")
    kind = "comprehension"

    def __init__(
        self,
        offset: int,
        form: ComprehensionKind,
        range_: ExpressionNode,
        variables: tuple[str, str | None],
        *,
        predicate: ExpressionNode | None,
        transform: ExpressionNode | None,
    ) -> None:
        super().__init__(offset)
        self.form, self.range = form, range_
        self.variable, self.variable2 = variables
        self.predicate, self.transform = predicate, transform

    def children(self) -> Sequence[ExpressionNode]:
        return [node for node in (self.range, self.predicate, self.transform) if node is not None]


class BindNode(ExpressionNode):
    """The macro `cel.bind(variable, value, body)`."""

    __slots__ = ("body", "value", "variable")
    kind = "bind"

    def __init__(self, offset: int, variable: str, value: ExpressionNode, body: ExpressionNode) -> None:
        super().__init__(offset)
        self.variable, self.value, self.body = variable, value, body

    def children(self) -> Sequence[ExpressionNode]:
        return (self.value, self.body)


class OptionalMap(ExpressionNode):
    """The macro `target.optMap(variable, body)`, or `optFlatMap`, whose body is itself optional."""

    __slots__ = ("body", "is_flat", "target", "variable")
    kind = "optional_map"

    def __init__(
        self, offset: int, target: ExpressionNode, variable: str, body: ExpressionNode, *, is_flat: bool
    ) -> None:
        super().__init__(offset)
        self.target, self.variable, self.body, self.is_flat = target, variable, body, is_flat

    def children(self) -> Sequence[ExpressionNode]:
        return (self.target, self.body)
