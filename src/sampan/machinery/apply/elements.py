"""The elements of a field path, as in FieldsV1: `f:name` for an object's field, `k:{"key":1}` and `v:"x"` for an item
of a map or set list, `i:0` for an item of a plain one; `.` is the object or item itself.

An element is its text: equal elements have equal texts, which `canonical` ensures for input.
"""

import heapq
import re
from collections.abc import Collection
from typing import Any

import msgspec

from sampan.api.go_compat import gotext
from sampan.api.values.integers import parse_int64
from sampan.host.bounded_cache import BoundedCache

SELF = "."

_ESCAPED = re.compile('[\x00-\x1f"\\\\<>&\u2028\u2029]')
_NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ORDER = {"f": 0, "k": 1, "v": 2, "i": 3}
_SORT_CHUNK_SIZE = 16_384
"""How many names one call of `sorted` sorts, because it holds the interpreter lock."""


class BadElement(ValueError):
    """A key of a FieldsV1 object is not a path element."""


def field(name: str) -> str:
    return "f:" + name


def value(json: Any) -> str:
    return "v:" + json_text(json)


def key(parts: list[tuple[str, Any]]) -> str:
    """Return the element of an item. `parts` are the names and values of its keys, sorted by name."""
    return "k:{" + ",".join([f'"{name}":{json_text(part)}' for name, part in parts]) + "}"


def _text(json: str) -> str:
    return f'"{_ESCAPED.sub(lambda match: _NAMED.get(match[0]) or f"{chr(92)}u{ord(match[0]):04x}", json)}"'


_texts = BoundedCache(_text, max_entries=4096)


def json_text(json: Any) -> str:
    """Return the JSON text of a value inside an element, encoded like kube-apiserver's JSON library."""
    if type(json) is not str:
        return gotext.json_text(json)
    return _texts[json]


def canonical(element: str) -> str | None:
    """Return the canonical form of an element, or None for an unknown type of element. Raise BadElement."""
    return _canonical_forms[element]


def _canonical(element: str) -> str | None:
    kind, remainder = element[:2], element[2:]
    if len(element) < 2:
        raise BadElement("key must be 2 characters long:")
    if kind[1] != ":":
        raise BadElement(f"missing colon: {element}")
    match kind:
        case "f:":
            return element
        case "v:":
            return value(_decode(remainder))
        case "k:":
            parts = _decode(remainder)
            if not isinstance(parts, dict):
                raise BadElement(f"no object: {remainder}")
            return key(sorted(parts.items()))
        case "i:":
            return f"i:{_index(remainder)}"
    return None


_canonical_forms = BoundedCache(_canonical, max_entries=4096)


def _decode(text: str) -> Any:
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadElement(str(error)) from None


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


_decoder = msgspec.json.Decoder(float_hook=_number)


def _index(text: str) -> int:
    number = parse_int64(text)
    if number is None:
        raise BadElement(f"no number: {text[:100]}")
    return number


def sort_elements(elements: dict[str, Any]) -> list[str]:
    """Return the keys in kube-apiserver's order: by type of element, then by value (numbers numerically)."""
    keys = sort_names(elements)
    return keys if not keys or keys[-1][0] <= "f" else sorted(keys, key=_rank_element)


def sort_names(names: Collection[str]) -> list[str]:
    """Return the names in order. More than `_SORT_CHUNK_SIZE` names are sorted in pieces that are then merged: a single
    call of `sorted` would hold the interpreter lock for up to 100 milliseconds."""
    if len(names) <= _SORT_CHUNK_SIZE:
        return sorted(names)
    every = list(names)
    starts = range(0, len(every), _SORT_CHUNK_SIZE)
    return list(heapq.merge(*(sorted(every[start : start + _SORT_CHUNK_SIZE]) for start in starts)))


def _rank_element(element: str) -> tuple[Any, ...]:
    return _ranks[element]


def _rank(element: str) -> tuple[Any, ...]:
    if element == SELF:
        return (-1,)
    kind, remainder = element[0], element[2:]
    if kind == "f":
        return (0, remainder)
    if kind == "i":
        return (3, int(remainder))
    json = msgspec.json.decode(remainder)
    return (
        _ORDER[kind],
        [(name, _value_rank(part)) for name, part in json.items()] if kind == "k" else _value_rank(json),
    )


_ranks = BoundedCache(_rank, max_entries=4096)


def _value_rank(json: Any) -> tuple[Any, ...]:
    if isinstance(json, bool):
        return (2, json)
    if isinstance(json, int | float):
        return (0, json)
    if isinstance(json, str):
        return (1, json)
    if isinstance(json, list):
        return (3, [_value_rank(item) for item in json])
    if isinstance(json, dict):
        return (4, [(name, _value_rank(json[name])) for name in sorted(json)])
    return (5,)


def format_element(element: str) -> str:
    """Return the element as in error messages: `.name`, `[key="a"]`, `[=1]`, `[0]`."""
    kind, remainder = element[0], element[2:]
    if kind == "f":
        return "." + remainder
    if kind == "i":
        return f"[{remainder}]"
    json = msgspec.json.decode(remainder)
    if kind == "v":
        return f"[={_format_value(json)}]"
    return "[" + ",".join(f"{name}={_format_value(part)}" for name, part in json.items()) + "]"


def _format_value(json: Any) -> str:
    if isinstance(json, str):
        return gotext.quote(json)
    if json is None:
        return "null"
    if isinstance(json, list):
        return "[" + ",".join(map(_format_value, json)) + "]"
    if isinstance(json, dict):
        return "".join(f"{name}={_format_value(part)}" for name, part in json.items())
    return gotext.value(json)
