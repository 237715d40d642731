"""JSONPath as Kubernetes understands it (`k8s.io/client-go/util/jsonpath`), for printer columns.

A path such as `.spec.list[?(@.kind=="b")].name` is parsed once into steps, which are evaluated on JSON values. Missing
keys are no errors: they yield nothing. Not supported are the text templates around paths (`range`, literals), which
only kubectl's output option has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from sampan.api.go_compat import gotext

Step = Callable[[Any], Iterator[Any]]
"""From one value to the values that a step of the path selects in it."""


class JsonPathError(ValueError):
    """The path has a syntax error."""


class JsonPath:
    """A compiled path."""

    def __init__(self, text: str) -> None:
        self._steps, end = _steps(text, 0)
        if end < len(text):
            raise JsonPathError(f"unrecognized character in action: {text[end]!r}")

    def find(self, value: Any) -> list[Any]:
        """Return all values that the path selects."""
        return _selected(self._steps, value)


def _selected(steps: Iterable[Step], value: Any) -> list[Any]:
    values = [value]
    for step in steps:
        values = [selected for present in values for selected in step(present)]
    return values


def text_of(value: Any) -> str:
    """Return a selected value as text: strings as they are, lists and objects as JSON."""
    if isinstance(value, dict | list):
        return msgspec.json.encode(value, order="sorted").decode()
    return value if isinstance(value, str) else gotext.value(value)


_FIELD: Final = re.compile(r"(?:\\.|[^\\.\[\]\s{}()'\"?@=<>!,:*])+")


def _steps(text: str, at: int) -> tuple[list[Step], int]:
    """Parse the steps from an offset on; return them and the offset of the first character after them."""
    steps: list[Step] = []
    if text.startswith(("$", "@"), at):
        at += 1
    while at < len(text):
        if text.startswith("..", at):
            steps.append(_descend)
            at += 2
            if text.startswith("[", at):
                continue
            at = _field(text, at, steps)
        elif text[at] == ".":
            at = _field(text, at + 1, steps)
        elif text[at] == "[":
            end = _closing(text, at)
            steps.append(_bracket(text[at + 1 : end].strip()))
            at = end + 1
        else:
            break
    return steps, at


def _field(text: str, at: int, steps: list[Step]) -> int:
    if text.startswith("*", at):
        steps.append(_children)
        return at + 1
    match = _FIELD.match(text, at)
    if match is None:
        return at
    steps.append(_key(re.sub(r"\\(.)", r"\1", match[0])))
    return match.end()


def _closing(text: str, start: int) -> int:
    """Return the offset of the bracket that closes the one at `start`."""
    depth, quote, at = 0, "", start
    while at < len(text):
        char = text[at]
        if quote:
            at += char == "\\"
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if not depth:
                return at
        at += 1
    raise JsonPathError("unterminated array")


def _bracket(inner: str) -> Step:
    if inner == "*":
        return _children
    if inner.startswith("?"):
        return _filter(inner[1:].strip())
    parts = _split(inner)
    if len(parts) > 1:
        steps = [_bracket(part) for part in parts]
        return lambda value: (selected for step in steps for selected in step(value))
    if inner[:1] in ("'", '"'):
        return _key(_literal(inner))
    return _slice(inner)


def _split(inner: str) -> list[str]:
    """Split a union at the commas that are not inside quotes."""
    parts, start, quote, at = [], 0, "", 0
    while at < len(inner):
        char = inner[at]
        if quote:
            at += char == "\\"
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == ",":
            parts.append(inner[start:at].strip())
            start = at + 1
        at += 1
    return [*parts, inner[start:].strip()]


def _literal(text: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    try:
        return json.loads(text)
    except ValueError:
        raise JsonPathError(f"unrecognized literal: {text}") from None


def _key(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descend(value: Any) -> Iterator[Any]:
    pending = [value]
    while pending:
        present = pending.pop()
        yield present
        pending.extend(reversed([*_children(present)]))


_SLICE: Final = re.compile(r"(-?\d*)(?:(:)(-?\d*)(?::(-?\d*))?)?")


def _slice(inner: str) -> Step:
    match = _SLICE.fullmatch(inner)
    if match is None or not inner:
        raise JsonPathError(f"invalid array index {inner}")
    start, colon, stop, pace = (int(part) if part and part not in ("-", ":") else part for part in match.groups())

    def step(value: Any) -> Iterator[Any]:
        if not isinstance(value, list):
            return
        if not colon:
            if isinstance(start, int) and -len(value) <= start < len(value):
                yield value[start]
            return
        bounds = [bound if isinstance(bound, int) else None for bound in (start, stop, pace)]
        if bounds[2] is None or bounds[2] > 0:
            yield from value[slice(*bounds)]

    return step


_COMPARISON: Final = re.compile(r"[=!]=|[<>]=?")
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}


def _filter(inner: str) -> Step:
    if not (inner.startswith("(") and inner.endswith(")")):
        raise JsonPathError(f"unterminated filter {inner}")
    condition = inner[1:-1].strip()
    if (match := _COMPARISON.search(condition)) is not None:
        left, right = _operand(condition[: match.start()].rstrip()), _operand(condition[match.end() :].lstrip())
        operator = _OPERATORS[match[0]]
        return lambda value: (item for item in _children(value) if _holds(operator, left(item), right(item)))
    present = _operand(condition)
    return lambda value: (item for item in _children(value) if present(item))


def _operand(text: str) -> Callable[[Any], list[Any]]:
    if text.startswith("@"):
        steps, end = _steps(text, 0)
        if end < len(text):
            raise JsonPathError(f"unrecognized character in action: {text[end]!r}")
        return lambda item: _selected(steps, item)
    constant = [_literal(text)]
    return lambda item: constant


def _holds(operator: Callable[[Any, Any], bool], left: list[Any], right: list[Any]) -> bool:
    if not left or not right:
        return False
    try:
        return operator(left[0], right[0])
    except TypeError:
        return False
