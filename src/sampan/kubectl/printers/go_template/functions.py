"""The functions of Go templates, and those that kubectl adds (base64decode, exists)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import quote_plus

from sampan.kubectl.printers.go_template.printf import sprint, sprintf, sprintln
from sampan.kubectl.printers.go_template.values import (
    INVALID,
    Byte,
    CallError,
    Int,
    InterfaceValue,
    default_text,
    is_true,
    type_name,
    unwrap,
)

_HTML = str.maketrans(
    {"\0": "\ufffd", '"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;"},
)
_JAVASCRIPT = {"\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026", "=": "\\u003D"}


@dataclass(frozen=True, slots=True)
class TemplateFunction:
    """A function with the types of its parameters: `value` accepts everything and keeps the static type, `any`
    accepts everything as a plain value, `string` only strings."""

    call: Callable[..., Any]
    parameters: tuple[str, ...]
    variadic: str = ""

    def parameter(self, index: int) -> str:
        return self.parameters[index] if index < len(self.parameters) else self.variadic


# -- index, slice, len -----------------------------------------------------------------------------------------------


def index(item: Any, *indexes: Any) -> Any:
    if unwrap(item) is INVALID:
        raise CallError("index of untyped nil")
    for number, key in enumerate(indexes):
        key, inner = unwrap(key), unwrap(item)
        if inner is INVALID and number:
            raise CallError("index of nil pointer")
        match inner:
            case list():
                item = InterfaceValue(inner[_element(key, len(inner), "slice")])
            case str():
                data = inner.encode("utf-8", "surrogateescape")
                item = Byte(data[_element(key, len(data), "string")])
            case dict():
                if key is INVALID:
                    raise CallError("value is nil; should be of type string")
                if not isinstance(key, str):
                    raise CallError(f"value has type {type_name(key)}; should be string")
                item = InterfaceValue(inner.get(key))
            case _:
                raise CallError(f"can't index item of type {type_name(inner)}")
    return item


def _element(key: Any, length: int, operation: str) -> int:
    position = _position(key, length)
    if position == length:
        raise CallError(f"reflect: {operation} index out of range")
    return position


def _position(key: Any, max_index: int) -> int:
    if key is INVALID:
        raise CallError("cannot index slice/array with nil")
    if not isinstance(key, int) or isinstance(key, bool):
        raise CallError(f"cannot index slice/array with type {type_name(key)}")
    if not 0 <= key <= max_index:
        raise CallError(f"index out of range: {int(key)}")
    return int(key)


def slice_item(item: Any, *indexes: Any) -> Any:
    inner = unwrap(item)
    if inner is INVALID:
        raise CallError("slice of untyped nil")
    if len(indexes) > 3:
        raise CallError(f"too many slice indexes: {len(indexes)}")
    if not isinstance(inner, (str, list)):
        raise CallError(f"can't slice item of type {type_name(inner)}")
    if isinstance(inner, str) and len(indexes) == 3:
        raise CallError("cannot 3-index slice a string")
    data = inner.encode("utf-8", "surrogateescape") if isinstance(inner, str) else inner
    bounds = [0, len(data)]
    for number, key in enumerate(indexes):
        bounds[number : number + 1] = [_position(unwrap(key), len(data))]
    for low, high in pairwise(bounds):
        if low > high:
            raise CallError(f"invalid slice index: {low} > {high}")
    part = data[bounds[0] : bounds[1]]
    return part.decode("utf-8", "surrogateescape") if isinstance(part, bytes) else part


def length(item: Any) -> Int:
    if isinstance(item, InterfaceValue) and item.value is None:
        raise CallError("len of nil pointer")
    inner = unwrap(item)
    if inner is INVALID:
        raise CallError("reflect: call of reflect.Value.Type on zero Value")
    if isinstance(inner, str):
        return Int(len(inner.encode("utf-8", "surrogateescape")))
    if isinstance(inner, (list, dict)):
        return Int(len(inner))
    raise CallError(f"len of type {type_name(inner)}")


def call(name: str, function: Any, *arguments: Any) -> Any:
    """Refuse to call a value: JSON values are never functions. `name` is the text of the operand."""
    inner = unwrap(function)
    if inner is INVALID:
        raise CallError("call of nil")
    raise CallError(f"non-function {name} of type {type_name(inner)}")


# -- comparison ------------------------------------------------------------------------------------------------------


def _basic_kind(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case Byte():
            return "uint"
        case int():
            return "int"
        case float():
            return "float"
        case complex():
            return "complex"
        case str():
            return "string"
        case _:
            return ""


def equal(first: Any, *candidates: Any) -> bool:
    first = unwrap(first)
    if not candidates:
        raise CallError("missing argument for comparison")
    return any(_is_equal(first, unwrap(candidate)) for candidate in candidates)


def _is_equal(first: Any, second: Any) -> bool:
    kinds = {_basic_kind(first), _basic_kind(second)}
    if len(kinds) > 1 and kinds != {"int", "uint"}:
        if first is not INVALID and second is not INVALID:
            raise CallError(f"incompatible types for comparison: {type_name(first)} and {type_name(second)}")
        return False
    if kinds != {""}:
        return bool(first == second)
    if first is INVALID or second is INVALID:
        return first is second
    if type(first) is not type(second):
        raise CallError(
            f"non-comparable types {default_text(first)}: {type_name(first)}, "
            f"{type_name(second)}: {default_text(second)}"
        )
    raise CallError(f"non-comparable type {default_text(second)}: {type_name(second)}")


def not_equal(first: Any, second: Any) -> bool:
    return not equal(first, second)


def less(first: Any, second: Any) -> bool:
    first, second = unwrap(first), unwrap(second)
    kinds = {_basic_kind(first), _basic_kind(second)}
    if "" in kinds:
        raise CallError("invalid type for comparison")
    if len(kinds) > 1 and kinds != {"int", "uint"}:
        raise CallError(f"incompatible types for comparison: {type_name(first)} and {type_name(second)}")
    if kinds & {"bool", "complex"}:
        raise CallError("invalid type for comparison")
    return bool(first < second)


def less_or_equal(first: Any, second: Any) -> bool:
    return less(first, second) or equal(first, second)


# -- texts -----------------------------------------------------------------------------------------------------------


def html(*values: Any) -> str:
    return _join_values(values).translate(_HTML)


def javascript(*values: Any) -> str:
    return "".join(_javascript_char(char) for char in _join_values(values))


def _javascript_char(char: str) -> str:
    if char in _JAVASCRIPT:
        return _JAVASCRIPT[char]
    if char < " " or (not char.isprintable() and ord(char) >= 0x80):
        return f"\\u{ord(char):04X}"
    return char


def url_query(*values: Any) -> str:
    return quote_plus(_join_values(values), safe="-_.~", errors="surrogateescape")


def _join_values(values: Sequence[Any]) -> str:
    return sprint(["<no value>" if value is None else value for value in values])


def base64_decode(text: str) -> str:
    data = text.replace("\r", "").replace("\n", "")
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        alphabet = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
        index = next((index for index, char in enumerate(data) if char not in alphabet), len(data))
        raise CallError(f"base64 decode failed: illegal base64 data at input byte {index}") from None


def exists(item: Any, *keys: Any) -> bool:
    """Whether there is a value under the keys."""
    for key in keys:
        match item:
            case dict():
                if key is not None and not isinstance(key, str):
                    return False
                item = item.get(key or "")
            case list() | str():
                data = item.encode("utf-8", "surrogateescape") if isinstance(item, str) else item
                if not isinstance(key, int) or isinstance(key, bool) or not 0 <= key < len(data):
                    return False
                item = data[key]
            case _:
                return False
    return item is not None


FUNCTIONS: dict[str, TemplateFunction] = {
    "and": TemplateFunction(lambda *values: values, ("value",), "value"),
    "or": TemplateFunction(lambda *values: values, ("value",), "value"),
    "not": TemplateFunction(lambda value: not is_true(value), ("value",)),
    "call": TemplateFunction(call, ("value",), "value"),
    "html": TemplateFunction(html, (), "any"),
    "js": TemplateFunction(javascript, (), "any"),
    "urlquery": TemplateFunction(url_query, (), "any"),
    "index": TemplateFunction(index, ("value",), "value"),
    "slice": TemplateFunction(slice_item, ("value",), "value"),
    "len": TemplateFunction(length, ("value",)),
    "print": TemplateFunction(lambda *values: sprint(values), (), "any"),
    "println": TemplateFunction(lambda *values: sprintln(values), (), "any"),
    "printf": TemplateFunction(lambda text, *values: sprintf(text, values), ("string",), "any"),
    "eq": TemplateFunction(equal, ("value",), "value"),
    "ne": TemplateFunction(not_equal, ("value", "value")),
    "lt": TemplateFunction(less, ("value", "value")),
    "le": TemplateFunction(less_or_equal, ("value", "value")),
    "gt": TemplateFunction(lambda first, second: not less_or_equal(first, second), ("value", "value")),
    "ge": TemplateFunction(lambda first, second: not less(first, second), ("value", "value")),
    "base64decode": TemplateFunction(base64_decode, ("string",)),
    "exists": TemplateFunction(exists, ("any",), "any"),
}
