"""A compiled expression as a tree, read from the library's serialized form (cel.expr.CheckedExpr)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Kind = Literal["const", "ident", "select", "call", "list", "struct", "comprehension"]
_KINDS: Final[Mapping[int, Kind]] = {
    3: "const",
    4: "ident",
    5: "select",
    6: "call",
    7: "list",
    8: "struct",
    9: "comprehension",
}
_CHECKED, _EXPRESSION = 2, 4
"""Where the serialized form has its CheckedExpr, and that its Expr."""


@dataclass(frozen=True, slots=True)
class Node:
    kind: Kind
    name: str = ""
    """Of the variable, the selected field or the function; the text of a constant."""
    children: Mapping[str, Node] = field(default_factory=dict)
    """By role, for select (`operand`), call (`target`) and comprehension (`range`, `init`, `condition`, `step`,
    `result`)."""
    items: tuple[Node, ...] = ()
    """Arguments of a call, elements of a list, keys and values of a struct."""

    def walk(self) -> Iterator[Node]:
        yield self
        for child in (*self.children.values(), *self.items):
            yield from child.walk()

    def selects(self, variable: str, name: str) -> bool:
        """Whether `variable.name` or `variable.?name` is in it."""
        return any(_is_selection(node, variable, name) for node in self.walk())


def parse(serialized: bytes) -> Node:
    return _node(_one(_one(serialized, _CHECKED), _EXPRESSION))


def _is_selection(node: Node, variable: str, name: str) -> bool:
    if node.kind == "select":
        operand = node.children["operand"]
        return node.name == name and operand.kind == "ident" and operand.name == variable
    if node.kind == "call" and node.name == "_?._" and len(node.items) == 2:
        operand, selected = node.items
        return selected.name == name and operand.kind == "ident" and operand.name == variable
    return False


def _node(data: bytes) -> Node:
    for number, value in _fields(data):
        if number in _KINDS:
            return _READERS[_KINDS[number]](value)
    return Node("const")


def _constant(data: bytes) -> Node:
    texts = (bytes(value).decode() for number, value in _fields(data) if number == 6)
    return Node("const", next(texts, ""))


def _select(data: bytes) -> Node:
    return Node("select", _text(data, 2), {"operand": _node(_one(data, 1))})


def _call(data: bytes) -> Node:
    target = _one(data, 1)
    return Node("call", _text(data, 2), {"target": _node(target)} if target else {}, tuple(map(_node, _all(data, 3))))


def _struct(data: bytes) -> Node:
    parts = [part for entry in _all(data, 2) for part in (*_all(entry, 3), *_all(entry, 4))]
    return Node("struct", items=tuple(map(_node, parts)))


def _comprehension(data: bytes) -> Node:
    roles = {2: "range", 4: "init", 5: "condition", 6: "step", 7: "result"}
    return Node("comprehension", children={role: _node(_one(data, number)) for number, role in roles.items()})


_READERS: Final[Mapping[Kind, Callable[[bytes], Node]]] = {
    "const": _constant,
    "ident": lambda data: Node("ident", _text(data, 1)),
    "select": _select,
    "call": _call,
    "list": lambda data: Node("list", items=tuple(map(_node, _all(data, 1)))),
    "struct": _struct,
    "comprehension": _comprehension,
}


def _one(data: bytes, number: int) -> bytes:
    return next(_all(data, number), b"")


def _all(data: bytes, number: int) -> Iterator[bytes]:
    return (value for found, value in _fields(data) if found == number)


def _text(data: bytes, number: int) -> str:
    return _one(data, number).decode()


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a message; others are passed over."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, form = tag >> 3, tag & 7
        if form == 0:
            _, at = _varint(data, at)
        elif form == 2:
            length, at = _varint(data, at)
            yield number, data[at : at + length]
            at += length
        else:
            at += 8 if form == 1 else 4


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


__all__ = ["Node", "parse"]
