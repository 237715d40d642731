"""KYAML: YAML in flow style with quoted strings, which is valid YAML and easy to read and compare
(`sigs.k8s.io/yaml/kyaml`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sampan.api.go_compat import gotext

_UNQUOTED_KEY_PATTERN = re.compile(r"[^\W](?:[\w./-]*[\w])?")
_AMBIGUOUS = re.compile(
    r"null|t|f|true|false|y|yes|on|n|no|off|[+-]?[0-9._]+(?:e[+-]?\d+)?|0[xob][0-9a-f_]+|\d{4}-\d\d?-\d\d?.*|nan|inf|infinity",
    re.IGNORECASE,
)
_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\r": "\\r", "\v": "\\v", "\0": "\\0", "\x1b": "\\e", "\x85": "\\N"}
_ESCAPES |= {"\xa0": "\\_", "\u2028": "\\L", "\u2029": "\\P", '"': '\\"', "\\": "\\\\", "\t": "\t"}


def as_kyaml(value: dict[str, Any]) -> str:
    return "---\n" + "".join(_text(value, 0))


def _text(value: Any, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(value, dict) and value:
        yield "{\n"
        for key in sorted(value):
            yield f"{indent}  {_key(key)}: "
            yield from _text(value[key], depth + 1)
            yield ",\n"
        yield indent + "}"
    elif isinstance(value, list) and value:
        yield from _items(value, depth)
    elif isinstance(value, (dict, list)):
        yield "{}" if isinstance(value, dict) else "[]"
    else:
        yield _scalar(value, depth)


def _items(values: list[Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    if any(isinstance(item, (dict, list)) and item for item in values):
        yield "["
        for index, item in enumerate(values):
            yield ", " if index else ""
            yield from _text(item, depth)
        yield "]"
        return
    yield "[\n"
    for item in values:
        yield f"{indent}  "
        yield from _text(item, depth + 1)
        yield ",\n"
    yield indent + "]"


def _key(key: str) -> str:
    return key if _UNQUOTED_KEY_PATTERN.fullmatch(key) and not _AMBIGUOUS.fullmatch(key) else _quote(key)


def _scalar(value: Any, depth: int) -> str:
    if value is None:
        return "null"
    if not isinstance(value, str):
        return gotext.value(value)
    return _fold(value, "  " * (depth + 1)) if "\n" in value else _quote(value)


def _quote(text: str) -> str:
    return '"' + "".join(map(_character, text)) + '"'


def _character(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _fold(text: str, indent: str) -> str:
    """Write each line of a text on a line of its own; a backslash at its end continues the string."""
    lines = text.split("\n")
    last = lines.pop()
    shown = [_escape_line(line, indent) + "\\n\\\n" for line in lines]
    if last:
        shown.append(_escape_line(last, indent) + "\\\n")
    return '"\\\n' + "".join(shown) + indent + '"'


def _escape_line(line: str, indent: str) -> str:
    mark = "\\" if line[:1].isspace() else " "
    return indent + mark + "".join(map(_character, line))
