"""Macros: calls whose arguments are not evaluated but transformed, such as `list.all(x, x > 0)` and `has(a.b)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sampan.machinery.cel.syntax.ast import (
    BindNode,
    Comprehension,
    ComprehensionKind,
    ExpressionNode,
    Ident,
    OptionalMap,
    Select,
)


class MacroError(ValueError):
    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


Arguments = Sequence[ExpressionNode]
Macro = Callable[[int, ExpressionNode | None, Arguments], ExpressionNode | None]
"""Returns the node for the call at an offset, or None if it is not a call of the macro."""
Key = tuple[str, int, bool]
"""The key of a macro: its name, the number of its arguments, and whether it has a target."""

_FOLD = "@result"
_NOT_SORTABLE = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"


def _variable(node: ExpressionNode, message: str = "argument must be a simple name") -> str:
    if not isinstance(node, Ident) or node.name.startswith("."):
        raise MacroError(node.offset, message)
    if node.name in ("__result__", _FOLD):
        raise MacroError(node.offset, "iteration variable overwrites accumulator variable")
    return node.name


def _has(offset: int, _: ExpressionNode | None, args: Arguments) -> ExpressionNode:
    (arg,) = args
    if not isinstance(arg, Select) or arg.is_test or arg.is_optional:
        raise MacroError(arg.offset, "invalid argument to has() macro")
    node = Select(arg.offset, arg.operand, arg.field, is_test=True)
    node.offset = offset
    return node


def _condition(form: ComprehensionKind, count: int) -> Macro:
    """Return the macro `range.form(x, condition)` or `range.form(i, x, condition)`."""

    def expand(offset: int, target: ExpressionNode | None, args: Arguments) -> ExpressionNode:
        assert target is not None
        *names, predicate = args
        variables = [_variable(name) for name in names]
        if len(set(variables)) != len(variables):
            raise MacroError(names[-1].offset, f"duplicate variable name: {variables[-1]}")
        second = variables[1] if count == 3 else None
        return Comprehension(offset, form, target, (variables[0], second), predicate=predicate, transform=None)

    return expand


def _map(offset: int, target: ExpressionNode | None, args: Arguments) -> ExpressionNode:
    """Expand `range.map(x, transform)` and `range.map(x, condition, transform)`."""
    assert target is not None
    name = _variable(args[0], "argument is not an identifier")
    predicate = args[1] if len(args) == 3 else None
    return Comprehension(offset, "map", target, (name, None), predicate=predicate, transform=args[-1])


def _transformation(form: ComprehensionKind) -> Macro:
    """Return the macro `range.form(i, x, transform)` or `range.form(i, x, condition, transform)`."""

    def expand(offset: int, target: ExpressionNode | None, args: Arguments) -> ExpressionNode:
        assert target is not None
        first, second = _variable(args[0]), _variable(args[1])
        if first == second:
            raise MacroError(args[1].offset, f"duplicate variable name: {second}")
        predicate = args[2] if len(args) == 4 else None
        return Comprehension(offset, form, target, (first, second), predicate=predicate, transform=args[-1])

    return expand


def _sort_by(offset: int, target: ExpressionNode | None, args: Arguments) -> ExpressionNode:
    assert target is not None
    if not isinstance(target, Select | Ident) and target.kind not in ("list", "comprehension", "call"):
        raise MacroError(target.offset, _NOT_SORTABLE)
    return Comprehension(offset, "sortBy", target, (_variable(args[0]), None), predicate=None, transform=args[1])


def _bind(offset: int, target: ExpressionNode | None, args: Arguments) -> ExpressionNode | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    return BindNode(
        offset, _variable(args[0], "cel.bind() variable names must be simple identifiers"), args[1], args[2]
    )


def _optional(*, is_flat: bool) -> Macro:
    words = f"{'optFlatMap' if is_flat else 'optMap'}() variable name must be a simple identifier"

    def expand(offset: int, target: ExpressionNode | None, args: Arguments) -> ExpressionNode:
        assert target is not None
        return OptionalMap(offset, target, _variable(args[0], words), args[1], is_flat=is_flat)

    return expand


STANDARD: Final[Mapping[Key, Macro]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _condition("all", 2),
    ("exists", 2, True): _condition("exists", 2),
    ("exists_one", 2, True): _condition("exists_one", 2),
    ("filter", 2, True): _condition("filter", 2),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
}
TWO_VARIABLES: Final[Mapping[Key, Macro]] = {
    ("all", 3, True): _condition("all", 3),
    ("exists", 3, True): _condition("exists", 3),
    ("existsOne", 3, True): _condition("exists_one", 3),
    ("exists_one", 3, True): _condition("exists_one", 3),
    **{
        (name, count, True): _transformation(name)
        for name in ("transformList", "transformMap", "transformMapEntry")
        for count in (3, 4)
    },
}
OPTIONALS: Final[Mapping[Key, Macro]] = {
    ("optMap", 2, True): _optional(is_flat=False),
    ("optFlatMap", 2, True): _optional(is_flat=True),
}
BINDINGS: Final[Mapping[Key, Macro]] = {("bind", 3, True): _bind}
SORT_BY: Final[Mapping[Key, Macro]] = {("sortBy", 2, True): _sort_by}
