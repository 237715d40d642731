"""The error messages of Go's `runtime.DefaultUnstructuredConverter`, which decodes the results of strategic merge
patches and applies: they say less than those of a JSON decoder, and never where the error is."""

from __future__ import annotations

import re
from typing import Any

from sampan.api.go_compat import gotypes
from sampan.api.schema import Schema

_KINDS: dict[type, str] = {str: "string", bool: "bool", int: "int64", float: "float64", list: "slice", dict: "map"}
_NUMBERS = ("integer", "number")


def conversion_error(value: Any, schema: Schema, error: str) -> str:
    """Return the message for the first value of a wrong type. `error`, the error of the JSON decoder, is used only for
    types with their own unmarshaller (a quantity, a time)."""
    message = _below(value, schema, gotypes.name_of(schema))
    return message or re.sub(r"Go struct field \S+ of type", "Go value of type", error)


def _below(value: Any, schema: Schema, go_type: str) -> str | None:
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
        _below(value[key], child, gotypes.type_of(schema.name, key, child))
        for key, child in schema.properties.items()
        if key in value
    )
    return next((text for text in messages if text), None)


def _map(value: Any, child: Schema, go_type: str) -> str | None:
    if not isinstance(value, dict):
        return f"cannot restore map from {_KINDS[type(value)]}"
    inner = gotypes.element(go_type, child)
    return next((text for item in value.values() if (text := _below(item, child, inner))), None)


def _list(value: Any, child: Schema, go_type: str) -> str | None:
    if not isinstance(value, list):
        return f"cannot restore slice from {_KINDS[type(value)]}"
    inner = gotypes.element(go_type, child)
    return next((text for item in value if (text := _below(item, child, inner))), None)


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
