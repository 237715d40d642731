"""The v2 document as the protobuf message that older versions of kubectl request (gnostic's openapi.v2.Document)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from sampan.api.codec.protobuf.wire import BYTES, VARINT, delimited, tag_bytes, varint

Write = Callable[[Any], bytes]
"""Returns the encoded message of a JSON value."""
_Fields = dict[str, tuple[int, str]]

_SCHEMA: _Fields = {
    "$ref": (1, "text"),
    "format": (2, "text"),
    "description": (4, "text"),
    "required": (19, "texts"),
    "additionalProperties": (21, "one schema"),
    "type": (22, "types"),
    "items": (23, "one schema"),
    "properties": (25, "schemas"),
}
_MESSAGES: dict[str, tuple[_Fields, int]] = {
    "document": (
        {
            "swagger": (1, "text"),
            "info": (2, "info"),
            "paths": (8, "paths"),
            "definitions": (9, "schemas"),
            "parameters": (10, "named parameters"),
            "security": (12, "requirements"),
            "securityDefinitions": (13, "security"),
        },
        16,
    ),
    "info": ({"title": (1, "text"), "version": (2, "text")}, 7),
    "path": (
        {
            "get": (2, "operation"),
            "put": (3, "operation"),
            "post": (4, "operation"),
            "delete": (5, "operation"),
            "options": (6, "operation"),
            "head": (7, "operation"),
            "patch": (8, "operation"),
            "parameters": (9, "parameters"),
        },
        10,
    ),
    "operation": (
        {
            "tags": (1, "texts"),
            "description": (3, "text"),
            "operationId": (5, "text"),
            "produces": (6, "texts"),
            "consumes": (7, "texts"),
            "parameters": (8, "parameters"),
            "responses": (9, "responses"),
            "schemes": (10, "texts"),
        },
        13,
    ),
    "body": (
        {
            "description": (1, "text"),
            "name": (2, "text"),
            "in": (3, "text"),
            "required": (4, "flag"),
            "schema": (5, "schema"),
        },
        6,
    ),
    "query": (
        {
            "required": (1, "flag"),
            "in": (2, "text"),
            "description": (3, "text"),
            "name": (4, "text"),
            "type": (6, "text"),
            "uniqueItems": (20, "flag"),
        },
        23,
    ),
    "path parameter": (
        {
            "required": (1, "flag"),
            "in": (2, "text"),
            "description": (3, "text"),
            "name": (4, "text"),
            "type": (5, "text"),
            "uniqueItems": (19, "flag"),
        },
        22,
    ),
    "response": ({"description": (1, "text"), "schema": (2, "one schema")}, 5),
    "schema": (_SCHEMA, 31),
    "key": ({"type": (1, "text"), "name": (2, "text"), "in": (3, "text"), "description": (4, "text")}, 5),
}
"""The fields of each message by JSON name, and the field number of its extensions."""


def encode(document: dict[str, Any]) -> bytes:
    return _message("document", document)


def _message(kind: str, value: dict[str, Any]) -> bytes:
    fields, extension = _MESSAGES[kind]
    parts = []
    for name, item in value.items():
        known_field = fields.get(name)
        if known_field is not None:
            parts.append(_field(known_field[0], known_field[1], item))
        elif name.startswith("x-"):
            parts.append(_put(extension, _named(name, _put(2, msgspec.json.encode(item) + b"\n"))))
    return b"".join(parts)


def _field(number: int, kind: str, value: Any) -> bytes:
    if kind == "text":
        return _put(number, value.encode())
    if kind == "flag":
        return tag_bytes(number, VARINT) + varint(1) if value else b""
    if kind == "texts":
        return b"".join([_put(number, text.encode()) for text in value])
    if kind == "parameters":
        return b"".join([_put(number, _parameter_item(item)) for item in value])
    if kind == "requirements":
        return b"".join([_put(number, _requirement(item)) for item in value])
    return _put(number, _WRITERS[kind](value))


def _put(number: int, content: bytes) -> bytes:
    return delimited(tag_bytes(number, BYTES), content)


def _named(name: str, content: bytes) -> bytes:
    """Return an entry of a JSON object as a named message."""
    return _put(1, name.encode()) + _put(2, content)


def _entries(number: int, write: Write) -> Write:
    return lambda value: b"".join([_put(number, _named(name, write(item))) for name, item in value.items()])


def _schema(value: dict[str, Any]) -> bytes:
    return _message("schema", value)


def _parameter_item(value: dict[str, Any]) -> bytes:
    """Return a parameter, or a reference to one."""
    if "$ref" in value:
        return _put(2, _put(1, value["$ref"].encode()))
    return _put(1, _parameter(value))


def _parameter(value: dict[str, Any]) -> bytes:
    if value["in"] == "body":
        return _put(1, _message("body", value))
    if value["in"] == "query":
        return _put(2, _put(3, _message("query", value)))
    return _put(2, _put(4, _message("path parameter", value)))


def _requirement(value: dict[str, list[str]]) -> bytes:
    return _entries(1, lambda scopes: b"".join([_put(1, scope.encode()) for scope in scopes]))(value)


_WRITERS: dict[str, Write] = {
    "info": lambda value: _message("info", value),
    "operation": lambda value: _message("operation", value),
    "schema": _schema,
    "one schema": lambda value: _put(1, _schema(value)),
    "types": lambda value: _put(1, value.encode()),
    "schemas": _entries(1, _schema),
    "paths": _entries(2, lambda value: _message("path", value)),
    "named parameters": _entries(1, _parameter),
    "responses": _entries(1, lambda value: _put(1, _message("response", value))),
    "security": _entries(1, lambda value: _put(2, _message("key", value))),
}
