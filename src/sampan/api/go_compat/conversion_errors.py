"""The error messages of Go's decoders.

`runtime.DefaultUnstructuredConverter` decodes the results of strategic merge patches and applies: its messages say less
than those of a JSON decoder, and never where the error is. The type names in the errors of Go's JSON decoder are in
data/gotypes.json, which is read on the first such error.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from sampan.api.schema.tree import Schema

_KINDS: dict[type, str] = {str: "string", bool: "bool", int: "int64", float: "float64", list: "slice", dict: "map"}
_NUMBERS = ("integer", "number")
_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
JSON_SCHEMA_PROPS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
GO_TYPE_BY_SCHEMA_TYPE = {"string": "string", "boolean": "bool", "number": "float64"}


def conversion_error(value: Any, schema: Schema, error: str) -> str:
    """Return the message for the first value of a wrong type. `error`, the error of the JSON decoder, is used only for
    types with their own unmarshaller (a quantity, a time)."""
    message = _find_error(value, schema, name_of(schema))
    return message or re.sub(r"Go struct field \S+ of type", "Go value of type", error)


def _find_error(value: Any, schema: Schema, go_type: str) -> str | None:
    if value is None or schema.preserve_unknown or schema.format in _READ_THEMSELVES:
        return None
    if schema.properties:
        return _struct(value, schema)
    if schema.additional is not None:
        return _map(value, schema.additional, go_type)
    if schema.items is not None:
        return _list(value, schema.items, go_type)
    return _scalar(value, schema, go_type)


_READ_THEMSELVES = frozenset({"quantity", "date-time", "micro-time", "int-or-string", "byte"})


def _struct(value: Any, schema: Schema) -> str | None:
    if not isinstance(value, dict):
        return f"cannot restore struct from: {_KINDS[type(value)]}"
    messages = (
        _find_error(value[key], child, type_of(schema.name, key, child))
        for key, child in schema.properties.items()
        if key in value
    )
    return next((text for text in messages if text), None)


def _map(value: Any, child: Schema, go_type: str) -> str | None:
    if not isinstance(value, dict):
        return f"cannot restore map from {_KINDS[type(value)]}"
    inner = element(go_type, child)
    return next((text for item in value.values() if (text := _find_error(item, child, inner))), None)


def _list(value: Any, child: Schema, go_type: str) -> str | None:
    if not isinstance(value, list):
        return f"cannot restore slice from {_KINDS[type(value)]}"
    inner = element(go_type, child)
    return next((text for item in value if (text := _find_error(item, child, inner))), None)


def _scalar(value: Any, schema: Schema, go_type: str) -> str | None:
    """Return the error for a scalar of a wrong type. Go converts between numbers, and integers to strings, so these
    conversions are rejected with a message of their own."""
    if _fits(value, schema):
        return None
    is_number = type(value) in (int, float)
    if is_number and (schema.type in _NUMBERS or (schema.type == "string" and type(value) is int)):
        return f"cannot convert {_KINDS[type(value)]} to {go_type}"
    return f"unrecognized type: {_go_kind(schema)}"


def _fits(value: Any, schema: Schema) -> bool:
    if schema.type == "integer":
        return type(value) is int or (type(value) is float and value.is_integer())
    if schema.type == "number":
        return type(value) in (int, float)
    return type(value) is {"string": str, "boolean": bool}.get(schema.type)


def _go_kind(schema: Schema) -> str:
    """Return the Go kind that underlies the type of a scalar."""
    if schema.type == "integer":
        return schema.format or "int64"
    return {"string": "string", "boolean": "bool", "number": "float64"}.get(schema.type, "interface")


def base64_error_message(value: str) -> str | None:
    """Return Go's error message for a string that is not standard base64, or None if it is."""
    position = _find_first_illegal(value.encode())
    return None if position is None else f"illegal base64 data at input byte {position}"


def _find_first_illegal(data: bytes) -> int | None:
    """Return where Go's decoder stops: at an illegal byte, or at the start of an incomplete group of four."""
    letters = [(index, byte) for index, byte in enumerate(data) if byte not in b"\r\n"]
    for position, (index, byte) in enumerate(letters):
        if byte == ord("="):
            return _find_padding_error(data, letters[position:], position % 4)
        if byte not in _BASE64:
            return index
    unfinished = len(letters) % 4
    return len(data) - unfinished if unfinished else None


def _find_padding_error(data: bytes, later_groups: list[tuple[int, int]], place: int) -> int | None:
    """Return the position of an error from the first = on, which is at index `place` of its group."""
    if place < 2:
        return later_groups[0][0]
    if place == 2:
        if len(later_groups) == 1:
            return len(data)
        if later_groups[1][1] != ord("="):
            return later_groups[1][0] - 1
        later_groups = later_groups[1:]
    return later_groups[1][0] if len(later_groups) > 1 else None


class _StructFacts(msgspec.Struct):
    types: dict[str, str] = {}
    via: dict[str, str] = {}


@cache
def _facts() -> dict[str, _StructFacts]:
    data = (Path(__file__).parent.parent / "data/gotypes.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, _StructFacts])


_NONE = _StructFacts()


def name_of(schema: Schema) -> str:
    """Return `v1.Pod` for `io.k8s.api.core.v1.Pod`; the plain type for a schema without a name."""
    if not schema.name:
        return _basic_go_type(schema)
    return ".".join(schema.name.split(".")[-2:])


def type_of(definition: str, field: str, schema: Schema) -> str:
    """Return the Go type of a struct's field, such as `[]v1.Container`."""
    return _facts().get(definition, _NONE).types.get(field) or _basic_go_type(schema)


def field_path(definition: str, field: str) -> list[str]:
    """Return the field, preceded by the embedded structs that contain it."""
    via = _facts().get(definition, _NONE).via.get(field)
    return [*via.split("."), field] if via else [field]


def element(go_type: str, schema: Schema) -> str:
    """Return the element type of a list or map type in Go's notation."""
    if go_type.startswith(("[]", "map[")):
        return go_type.split("]", 1)[1].lstrip("*")
    return name_of(schema)


def _basic_go_type(schema: Schema) -> str:
    if schema.type == "integer":
        return schema.format or "int64"
    if schema.format == "byte":
        return "[]uint8"
    return GO_TYPE_BY_SCHEMA_TYPE.get(schema.type, "interface {}")
