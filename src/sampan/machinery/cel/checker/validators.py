"""Validation of literals beyond types: durations, timestamps and regular expressions written as constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sampan.machinery.cel.errors import CompileError, Issue, format_issues
from sampan.machinery.cel.runtime.values import parse_duration, parse_timestamp
from sampan.machinery.cel.syntax.ast import CallNode, ExpressionNode, Literal
from sampan.machinery.patterns import compile_pattern

_CHECKS: Final[Mapping[str, tuple[int, Callable[[str], Any]]]] = {
    "duration": (1, parse_duration),
    "timestamp": (1, parse_timestamp),
    "matches": (2, compile_pattern),
}
"""By function: the number of operands, the last of which is checked, and the check, which raises ValueError."""


def check_literals(source: str, tree: ExpressionNode) -> None:
    """Validate the literals of an expression. Raise CompileError."""
    issues = []
    for node in tree.walk():
        if not isinstance(node, CallNode) or node.function not in _CHECKS:
            continue
        count, check = _CHECKS[node.function]
        operands = node.children()
        last = operands[-1] if len(operands) == count else None
        if isinstance(last, Literal) and isinstance(last.value, str):
            try:
                check(last.value)
            except ValueError:
                issues.append(Issue(last.offset, f"invalid {node.function} argument"))
    if issues:
        raise CompileError(format_issues(source, issues))
