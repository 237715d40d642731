"""Errors of expressions, in the format of cel-go, which Kubernetes shows to users."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class CelError(ValueError):
    """The expression cannot be compiled, or its evaluation fails."""


class CompileError(CelError):
    """The expression has syntax or type errors; the message lists each with its position in the source."""


class InstantiationError(CelError):
    """The expression is valid, but the conversion of a constant in it fails."""


class EvaluationError(CelError):
    """The evaluation failed. `&&`, `||` and the macros `all` and `exists` may absorb the error."""


class CostLimitExceeded(CelError):
    """The evaluation was stopped because it exceeded its cost limit. Nothing absorbs this error."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Issue(NamedTuple):
    """A syntax or type error at an offset of the source, counted in code points."""

    offset: int
    message: str


_MESSAGE_CHARACTERS = 20_000
"""Every error repeats the source line; after this many characters further errors are only counted."""
_SHOWN_CHARACTERS = 16_384
"""The longest source line that an error shows; cel-go omits longer lines, too."""


def format_issues(source: str, issues: Sequence[Issue]) -> str:
    """Return the issues sorted by position, each with the source line and a caret under the position."""
    lines = source.split("\n")
    starts = [0]
    for text in lines:
        starts.append(starts[-1] + len(text) + 1)
    located = sorted((_position(starts, issue.offset), number, issue) for number, issue in enumerate(issues))
    shown: list[str] = []
    size = 0
    for (line, column), _, issue in located:
        if size > _MESSAGE_CHARACTERS:
            shown.append(f"ERROR: <input>: {len(issues) - len(shown)} more errors were truncated")
            break
        shown.append(_format(lines[line], line, column, issue.message))
        size += len(shown[-1])
    return "\n".join(shown)


def _position(starts: Sequence[int], offset: int) -> tuple[int, int]:
    line = min(bisect_right(starts, offset) - 1, len(starts) - 2)
    return line, offset - starts[line]


def _format(text: str, line: int, column: int, message: str) -> str:
    head = f"ERROR: <input>:{line + 1}:{column + 1}: {message}"
    if len(text) > _SHOWN_CHARACTERS:
        return head
    text = text.replace("\t", " ")
    dots = "".join("." if char.isascii() else "\uff0e" for char in text[:column])
    caret = "^" if text[column : column + 1].isascii() else "\uff3e"
    return f"{head}\n | {text}\n | {dots}{caret}"
