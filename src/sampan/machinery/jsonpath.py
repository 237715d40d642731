"""JSONPath templates such as `{range .items[*]}{.metadata.name}{"\\n"}{end}` (`k8s.io/client-go/util/jsonpath`).

A template is parsed into nodes once and then executed on JSON values. Errors have the texts of the counterpart. The
printer columns of custom resources are templates of one path, `{.spec.size}`; the output formats, sort keys and
conditions of kubectl are whole templates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sampan.api.go_compat import gotext

_TERMINATORS = frozenset(" \t\r\n.,[]$@{}")
_SLICE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?", re.ASCII)
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"'}
_ESCAPE_SEQUENCE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.?))", re.DOTALL)


class JsonPathError(ValueError):
    """The template has a syntax error, or it cannot be executed on a value."""


@dataclass(frozen=True, slots=True)
class PathNode:
    """A step of a path, or a literal. `name` is the type of the node; `value` depends on it."""

    name: str
    value: Any = None


@dataclass(slots=True)
class JsonPathTemplate:
    text: str
    allows_missing_keys: bool = True
    _nodes: list[PathNode] = field(init=False)

    def __post_init__(self) -> None:
        self._nodes = _Parser(self.text).parse()

    def find(self, value: Any) -> list[list[Any]]:
        """Return the values that each part of the template selects; literal text is a part of its own."""
        return _TemplateExecution(self.allows_missing_keys).run(self._nodes, value)[0]

    def render(self, value: Any) -> str:
        """Return the template's text for a value."""
        return "".join(" ".join(text_of(result) for result in results) for results in self.find(value))


def text_of(value: Any) -> str:
    """Return a selected value as text: strings as they are, lists and objects as JSON."""
    if isinstance(value, (dict, list)):
        text = msgspec.json.encode(value, order="sorted").decode()
        return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    if value is None:
        return "null"
    return value if isinstance(value, str) else gotext.value(value)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def parse(self) -> list[PathNode]:
        nodes: list[PathNode] = []
        while self._at < len(self._text):
            start = self._text.find("{", self._at)
            if start < 0:
                start = len(self._text)
            if start > self._at:
                nodes.append(PathNode("text", self._text[self._at : start]))
            self._at = start + 1
            if start < len(self._text):
                nodes.append(PathNode("list", self._action()))
        return nodes

    def _action(self) -> list[PathNode]:
        nodes: list[PathNode] = []
        while True:
            remainder = self._text[self._at : self._at + 3]
            if remainder.startswith("}"):
                self._at += 1
                return nodes
            if remainder == "[?(":
                nodes.append(self._filter())
            elif remainder.startswith(".."):
                self._recursive(nodes)
            else:
                self._part(nodes)

    def _part(self, nodes: list[PathNode]) -> None:
        char = self._take_char()
        if char in ("", "\n", "\r"):
            raise JsonPathError("unclosed action")
        if char in " @$":
            return
        if char == "[":
            nodes += self._array()
        elif char in "\"'":
            nodes.append(PathNode("text", self._quote(char)))
        elif char == ".":
            nodes.append(self._field())
        elif char in "+-" or char.isdigit():
            nodes.append(self._number(char))
        elif char == "_" or char.isalnum():
            nodes.append(self._identifier(char))
        else:
            raise JsonPathError(f"unrecognized character in action: U+{ord(char):04X} '{char}'")

    def _take_char(self) -> str:
        char = self._text[self._at : self._at + 1]
        self._at += 1
        return char

    def _word(self) -> str:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in _TERMINATORS:
            self._at += 2 if self._text[self._at] == "\\" else 1
        self._at = min(self._at, len(self._text))
        return self._text[start : self._at]

    def _recursive(self, nodes: list[PathNode]) -> None:
        if nodes and nodes[-1].name == "recursive":
            raise JsonPathError("invalid multiple recursive descent")
        self._at += 2
        nodes.append(PathNode("recursive"))
        next_char = self._text[self._at : self._at + 1]
        if next_char == "_" or next_char.isalnum():
            nodes.append(self._field())

    def _field(self) -> PathNode:
        word = self._word()
        return PathNode("wildcard") if word == "*" else PathNode("field", word.replace("\\", ""))

    def _identifier(self, first: str) -> PathNode:
        word = first + self._word()
        return PathNode("constant", word == "true") if word in ("true", "false") else PathNode("identifier", word)

    def _number(self, first: str) -> PathNode:
        start = self._at
        while self._at < len(self._text) and (self._text[self._at] == "." or self._text[self._at].isdigit()):
            self._at += 1
        text = first + self._text[start : self._at]
        for convert in (int, float):
            try:
                return PathNode("constant", convert(text))
            except ValueError:
                continue
        raise JsonPathError(f"cannot parse number {text}")

    def _quote(self, end: str) -> str:
        start = self._at
        while (char := self._take_char()) and char != "\n":
            if char == end and self._text[self._at - 2] != "\\":
                return _unescape(self._text[start : self._at - 1])
        raise JsonPathError("unterminated quoted string")

    def _array(self) -> list[PathNode]:
        start = self._at
        while (char := self._take_char()) != "]":
            if char in ("", "\n"):
                raise JsonPathError("unterminated array")
        text = self._text[start : self._at - 1]
        if text == "*":
            text = ":"
        parts = text.split(",")
        if len(parts) > 1:
            return [PathNode("union", [_Parser(f"[{part.strip(' ')}]}}")._action() for part in parts])]
        if match := re.fullmatch(r"'([^']*)'", text):
            return _Parser(f".{match[1]}}}")._action()
        return [PathNode("array", _parse_slice(text))]

    def _filter(self) -> PathNode:
        self._at += 3
        start, quote, is_closed = self._at, "", False
        while True:
            char = self._take_char()
            if char in ("", "\n"):
                raise JsonPathError("unterminated filter")
            if char in "\"'":
                if not quote:
                    quote = char
                elif char == quote and self._text[self._at - 2] != "\\":
                    is_closed = True
            elif char == ")" and bool(quote) == is_closed:
                break
        text = self._text[start : self._at - 1]
        if self._take_char() != "]":
            raise JsonPathError("unclosed array expect ]")
        match = _COMPARISON.fullmatch(text)
        if match is None:
            return PathNode("filter", (_Parser(text + "}")._action(), "exists", []))
        return PathNode("filter", (_Parser(match[1] + "}")._action(), match[2], _Parser(match[3] + "}")._action()))


def _parse_slice(text: str) -> tuple[int | None, int | None, int | None, bool]:
    """Return start, end and step, and whether the end follows from a single index."""
    match = _SLICE.fullmatch(text)
    if match is None:
        raise JsonPathError(f"invalid array index {text}")
    numbers: list[int | None] = []
    for index, part in enumerate(match.groups()):
        digits = (part or "")[1 if index else 0 :]
        try:
            numbers.append(int(digits) if digits else None)
        except ValueError:
            raise JsonPathError(f"array index {digits} is not a number") from None
    if match[2] is None:
        return numbers[0], (numbers[0] or 0) + 1, numbers[2], True
    return numbers[0], numbers[1], numbers[2], False


def _unescape(text: str) -> str:
    """Replace the escape sequences of Go string literals."""

    def character(match: re.Match[str]) -> str:
        if digits := match[1] or match[2] or match[3]:
            return chr(int(digits, 16))
        return _ESCAPES[match[4]]

    try:
        return _ESCAPE_SEQUENCE.sub(character, text)
    except (KeyError, ValueError, OverflowError):
        raise JsonPathError(f"unquote string {text} error invalid syntax") from None


class _TemplateExecution:
    """One run of a template. Ranges nest, so the state is the remaining nodes rather than counters."""

    def __init__(self, allows_missing_keys: bool) -> None:
        self._allows_missing_keys = allows_missing_keys

    def run(self, nodes: Sequence[PathNode], value: Any, *, is_in_range: bool = False) -> tuple[list[list[Any]], int]:
        """Return the results, and the position after the `{end}` of the range that this run is in."""
        results: list[list[Any]] = []
        position = 0
        while position < len(nodes):
            node = nodes[position]
            position += 1
            is_list = node.name == "list"
            names = [part.value for part in node.value if part.name == "identifier"] if is_list else []
            if "end" in names and is_in_range:
                return results, position
            values = self._walk([value], node)
            if "range" not in names:
                results.append(values)
                continue
            length = len(nodes)
            for item in values:
                inner, length = self.run(nodes[position:], item, is_in_range=True)
                results += inner
            if not values:
                length = self._skip(nodes[position:])
            position += length
        return results, position

    def _skip(self, nodes: Sequence[PathNode]) -> int:
        """Return the position after the `{end}` of a range without items."""
        depth = 0
        for index, node in enumerate(nodes):
            names = [part.value for part in node.value if part.name == "identifier"] if node.name == "list" else []
            depth += "range" in names
            if "end" in names:
                if not depth:
                    return index + 1
                depth -= 1
        return len(nodes)

    def _walk(self, values: list[Any], node: PathNode) -> list[Any]:
        match node.name:
            case "list":
                for part in node.value:
                    values = self._walk(values, part)
                return values
            case "text":
                return [node.value]
            case "constant":
                return [node.value for _ in values]
            case "identifier":
                return self._identifier(values, str(node.value))
            case "field":
                return self._field(values, str(node.value))
            case "array":
                return [item for value in values for item in _slice_list(value, *node.value)]
            case "union":
                return [item for part in node.value for item in self._walk(values, PathNode("list", part))]
            case "wildcard":
                return [item for value in values for item in _children(value)]
            case "recursive":
                return [item for value in values for item in _descendants(value)]
            case _:
                return [item for value in values for item in self._filter_items(value, *node.value)]

    def _identifier(self, values: list[Any], name: str) -> list[Any]:
        if name == "range":
            return values
        if name == "end":
            raise JsonPathError("not in range, nothing to end")
        raise JsonPathError(f"unrecognized identifier {name}")

    def _field(self, values: list[Any], name: str) -> list[Any]:
        results = [value[name] for value in values if isinstance(value, dict) and name in value]
        if values and not results and not self._allows_missing_keys:
            raise JsonPathError(f"{name} is not found")
        return results

    def _filter_items(self, value: Any, left: list[PathNode], operator: str, right: list[PathNode]) -> list[Any]:
        if not isinstance(value, list):
            raise JsonPathError(f"{gotext.value(value)} is not array or slice and cannot be filtered")
        return [item for item in value if self._passes(item, left, operator, right)]

    def _passes(self, item: Any, left: list[PathNode], operator: str, right: list[PathNode]) -> bool:
        if operator == "exists":
            try:
                return bool(self._walk([item], PathNode("list", left)))
            except JsonPathError:
                return False
        lefts = self._walk([item], PathNode("list", left))
        if not lefts:
            return False
        rights = self._walk([item], PathNode("list", right))
        if len(lefts) > 1 or len(rights) > 1:
            raise JsonPathError("can only compare one element at a time")
        return bool(rights) and _compare(lefts[0], operator, rights[0])


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}


def _compare(left: Any, operator: str, right: Any) -> bool:
    if operator not in _OPERATORS:
        raise JsonPathError(f"unrecognized filter operator {operator}")
    if _kind(left) == "" or _kind(right) == "":
        raise JsonPathError("invalid type for comparison")
    if _kind(left) != _kind(right):
        raise JsonPathError("incompatible types for comparison")
    if _kind(left) == "bool" and operator not in ("==", "!="):
        raise JsonPathError("invalid type for comparison")
    return _OPERATORS[operator](left, right)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return {int: "int", float: "float", str: "string"}.get(type(value), "")


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _descendants(value: Any) -> list[Any]:
    """Return every non-empty object and list in a value, the value itself included, outer ones before inner ones."""
    pending, descendants = [value], []
    while pending:
        present = pending.pop()
        if children := _children(present):
            descendants.append(present)
            pending.extend(reversed(children))
    return descendants


def _slice_list(value: Any, start: int | None, end: int | None, step: int | None, is_index: bool) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise JsonPathError(f"{_go_type(value)} is not array or slice")
    first, last, length = start or 0, end, len(value)
    first += length if first < 0 else 0
    last = length if last is None else last
    last += length if last < 0 or (last == 0 and is_index) else 0
    if first == last:
        return []
    if not 0 <= first < length:
        raise JsonPathError(f"array index out of bounds: index {first}, length {length}")
    if not 0 <= last <= length:
        raise JsonPathError(f"array index out of bounds: index {last - 1}, length {length}")
    if first > last:
        raise JsonPathError(f"starting index {first} is greater than ending index {last}")
    if step is not None and step <= 0:
        raise JsonPathError("step must be > 0")
    return value[first : last : step or 1]


def _go_type(value: Any) -> str:
    names = {bool: "bool", int: "int64", float: "float64", str: "string", dict: "map[string]interface {}"}
    return names.get(type(value), "interface {}")
