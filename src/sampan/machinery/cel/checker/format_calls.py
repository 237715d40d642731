"""Validation of `format` calls whose template and list of arguments are literals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sampan.machinery.cel.checker.types import DYN
from sampan.machinery.cel.errors import Issue
from sampan.machinery.cel.syntax.ast import CallNode, ExpressionNode, ListNode, Literal

_CLAUSE = re.compile(r"%(%|\.[0-9]*|)")
_INTEGERS: Final = frozenset(("int", "uint"))
_STRINGS = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
_CLAUSES: Final = {
    "s": (
        _INTEGERS
        | {"string", "bool", "bytes", "double", "map", "list", "type", "duration", "timestamp", "null", "null_type"},
        f"string clause can only be used on {_STRINGS}",
    ),
    "d": (_INTEGERS, "decimal clause can only be used on integers"),
    "f": (frozenset(("double", "string")), "fixed-point clause can only be used on doubles"),
    "e": (frozenset(("double", "string")), "scientific clause can only be used on doubles"),
    "b": (_INTEGERS | {"bool"}, "only integers and bools can be formatted as binary"),
    "x": (_INTEGERS | {"string", "bytes"}, "only integers, byte buffers, and strings can be formatted as hex"),
    "o": (_INTEGERS, "octal clause can only be used on integers"),
}
"""By clause: the kinds of its arguments, and the error for any other."""
_CLAUSES["X"] = _CLAUSES["x"]


def find_format_issue(node: CallNode) -> Issue | None:
    """Return the first error of a checked `format` call, or None if it is valid or not made of literals."""
    template, arguments = node.target, node.args[0] if len(node.args) == 1 else None
    if not isinstance(template, Literal) or not isinstance(template.value, str) or not isinstance(arguments, ListNode):
        return None
    count = 0
    for clause in _clauses(template.value):
        if clause not in _CLAUSES:
            return Issue(node.offset, clause)
        if count >= len(arguments.items):
            return Issue(node.offset, f"index {count} out of range")
        if message := _type_error(clause, arguments.items[count]):
            return Issue(arguments.items[count].offset, f"error during formatting: {message}")
        count += 1
    if count < len(arguments.items):
        supplied = f"(expected {count}, got {len(arguments.items)})"
        return Issue(node.offset, f"too many arguments supplied to string.format {supplied}")
    return None


def _clauses(template: str) -> Iterator[str]:
    """Yield the letters of the clauses of a template, or the error of one."""
    position = 0
    while (match := _CLAUSE.search(template, position)) is not None:
        position = match.end()
        if match[1] == "%":
            continue
        if position == len(template):
            yield "could not find end of precision specifier" if match[1] else "unexpected end of string"
            return
        letter = template[position]
        position += 1
        if letter in _CLAUSES:
            yield letter
        else:
            yield f'could not parse formatting clause: unrecognized formatting clause "{letter}"'
            return


def _type_error(clause: str, argument: ExpressionNode) -> str:
    kinds, message = _CLAUSES[clause]
    type_ = argument.type or DYN
    if type_.is_dyn or type_.kind == "parameter" or type_.kind in kinds:
        return ""
    return f"{message}, was given {type_}"
