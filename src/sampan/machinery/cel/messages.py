"""What the library says, in the words that users of Kubernetes know."""

from __future__ import annotations

import re
from typing import Final

_CODE = re.compile(r"^[A-Z_]+: ")
"""Failures begin with a code of the library's own."""
_TRAILER = re.compile(r" \[[A-Z_]+\]$")
_STRUCT = re.compile(r"(undefined field '\w+') not found in struct '[\w.]+'")
_QUALIFIED = re.compile(
    r"ERROR: <input>:(?P<line>\d+):\d+: undeclared reference to '(?P<name>\w+)\.[\w.]+' (?P<rest>.*)\n"
    r" \| (?P<text>.*)\n \| \.*\^"
)
_EVALUATED: Final = (
    (re.compile(r"^Key not found in map : \"?(.*?)\"?$"), r"no such key: \1"),
    (re.compile(r"^no_such_field : (.*)$"), r"no such key: \1"),
    (re.compile(r"^No matching overloads found.*$"), "no such overload"),
    (re.compile(r"^divide by zero$"), "division by zero"),
    (re.compile(r"^Iteration budget exceeded$"), "operation cancelled: actual cost limit exceeded"),
)


def compiling(fault: str) -> str:
    """Why a text cannot be compiled: each fault with its place in the text."""
    text = _TRAILER.sub("", _CODE.sub("", fault, count=1))
    return _QUALIFIED.sub(_first_name, _STRUCT.sub(r"\1", text))


def evaluating(fault: str) -> str:
    text = _TRAILER.sub("", _CODE.sub("", fault, count=1))
    for form, words in _EVALUATED:
        if form.match(text):
            return form.sub(words, text)
    return text


def _first_name(found: re.Match[str]) -> str:
    """Of `a.b.c` it is `a` that nobody knows."""
    name, text = found["name"], found["text"]
    at = re.search(rf"\b{name}\b", text)
    column = at.start() if at else 0
    head = f"ERROR: <input>:{found['line']}:{column + 1}: undeclared reference to '{name}' {found['rest']}"
    return f"{head}\n | {text}\n | {'.' * column}^"


__all__ = ["compiling", "evaluating"]
