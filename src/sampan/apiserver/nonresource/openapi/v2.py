"""OpenAPI v2: one document with everything, as JSON, or as the protobuf message that old versions of kubectl request.

The message is openapi.v2.Document of gnostic.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from sampan.api.codec.protobuf.wire import BYTES, VARINT, encode_delimited, tag_bytes, varint
from sampan.apiserver.nonresource.openapi.components import Parameter
from sampan.apiserver.nonresource.openapi.documents import (
    SECURITY_SCHEMES,
    NoDocument,
    OpenApiContents,
    collect_schema_names,
    extensions,
    hoist_shared_parameters,
)
from sampan.apiserver.nonresource.openapi.operations import TEXT, Operation, PathItem

_KINDS = "x-kubernetes-group-version-kind"
_V3_PREFIX, _PREFIX = "#/components/schemas/", "#/definitions/"
_SCHEMA_KEYWORDS = frozenset(
    {"description", "format", "properties", "required", "type", "items", "additionalProperties"}
)
"""The schema keywords of v2, besides extensions; like kube-apiserver, defaults and enums are omitted."""
_CUSTOM_SCHEMA_KEYWORDS = _SCHEMA_KEYWORDS | {
    *("default", "enum", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "multipleOf", "title"),
    *("maxLength", "minLength", "pattern", "maxItems", "minItems", "maxProperties", "minProperties", "example"),
}
"""The keywords of custom resources, whose value validations v2 has too."""
_TYPED = frozenset({"type", "format", "items", "properties", "additionalProperties", "required"})
_INLINE_PARAMETERS = frozenset({"dryRun", "fieldValidation"})
"""Parameters that clients search for in operations without following references."""


def document(contents: OpenApiContents) -> dict[str, Any]:
    """Return the document of all paths, without those of groups that are removed while it is made: it is made in a
    thread."""
    items: list[PathItem] = []
    versions: list[tuple[str, str]] = []
    for name in contents.names():
        with suppress(NoDocument):
            items += contents.paths(name)
            versions += contents.versions(name)
    schemas = contents.definitions.closure(collect_schema_names(items), versions)
    shared: dict[str, Any] = {}
    paths = {item.path: _path(item, shared) for item in sorted(items, key=lambda item: item.path)}
    return {
        "swagger": "2.0",
        "info": contents.info,
        "paths": paths,
        "definitions": {
            name: _custom_definition(schema) if contents.definitions.is_custom(name) else schema_of(schema)
            for name, schema in schemas.items()
        },
        "parameters": dict(sorted(shared.items())),
        "securityDefinitions": SECURITY_SCHEMES,
        "security": [{"BearerToken": []}],
    }


def _custom_definition(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the definition of a custom resource. If it preserves unknown fields, it has no properties, because kubectl
    would reject all fields but those."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return {"type": "object", _KINDS: schema[_KINDS]}
    return schema_of(schema, is_custom=True)


def schema_of(node: dict[str, Any], *, is_custom: bool = False) -> dict[str, Any]:
    """Convert a v3 schema to v2."""
    keywords = _CUSTOM_SCHEMA_KEYWORDS if is_custom else _SCHEMA_KEYWORDS
    schema_value = {key: value for key, value in node.items() if key in keywords or key.startswith("x-")}
    target = node.get("$ref") or next((part["$ref"] for part in node.get("allOf", ()) if "$ref" in part), None)
    if target is not None:
        schema_value["$ref"] = target.replace(_V3_PREFIX, _PREFIX)
    elif "oneOf" in node and not is_custom:  # a quantity or an int-or-string
        schema_value["type"] = "string"
    if node.get("nullable"):  # v2 cannot say that null is allowed
        schema_value = {key: value for key, value in schema_value.items() if key not in _TYPED}
    elif node.get("x-kubernetes-preserve-unknown-fields"):  # kubectl would reject fields that are not listed
        schema_value = {key: value for key, value in schema_value.items() if key not in ("properties", "items")}
    if isinstance(properties := schema_value.get("properties"), dict):
        schema_value["properties"] = {
            name: schema_of(schema, is_custom=is_custom) for name, schema in properties.items()
        }
    for below in ("items", "additionalProperties"):
        if isinstance(child := schema_value.get(below), dict):
            schema_value[below] = schema_of(child, is_custom=is_custom)
    return schema_value


def _path(item: PathItem, shared: dict[str, Any]) -> dict[str, Any]:
    common, operations = hoist_shared_parameters(item)
    path_value: dict[str, Any] = {operation.method: _operation(operation, own, shared) for operation, own in operations}
    if common:
        path_value["parameters"] = [_parameter(parameter, shared) for parameter in common]
    return path_value


def _operation(operation: Operation, own: list[Parameter], shared: dict[str, Any]) -> dict[str, Any]:
    parameters = [_parameter(parameter, shared) for parameter in own]
    if operation.body:
        parameters.insert(0, _body(operation))
    operation_value: dict[str, Any] = {
        "description": operation.description,
        "consumes": list(operation.body_forms),
        "produces": list(operation.forms),
        "operationId": operation.id,
        "responses": {
            **{
                str(code): {"description": "OK", "schema": _response_schema(schema)}
                for code, schema in operation.responses
            },
            "401": {"description": "Unauthorized"},
        },
        "schemes": ["https"],
        "tags": [operation.tag],
    }
    if parameters:
        operation_value["parameters"] = parameters
    return {**operation_value, **extensions(operation)}


def _response_schema(schema: str) -> dict[str, Any]:
    return {"$ref": _PREFIX + schema} if schema != TEXT else {"type": "string"}


def _body(operation: Operation) -> dict[str, Any]:
    parameter_value: dict[str, Any] = {"in": "body", "name": "body", "schema": {"$ref": _PREFIX + operation.body}}
    return {**parameter_value, "required": True} if operation.body_required else parameter_value


def _parameter(parameter: Parameter, shared: dict[str, Any]) -> dict[str, Any]:
    parameter_value: dict[str, Any] = {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.description,
        "type": parameter.type,
        "uniqueItems": True,
    }
    if parameter.place == "path":
        parameter_value["required"] = True
    if parameter.name in _INLINE_PARAMETERS or parameter.place == "path":
        return parameter_value
    key = f"{parameter.name}-{parameter.place}"
    shared[key] = parameter_value
    return {"$ref": f"#/parameters/{key}"}


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
            parts.append(_put(extension, _encode_named(name, _put(2, msgspec.json.encode(item) + b"\n"))))
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
    return encode_delimited(tag_bytes(number, BYTES), content)


def _encode_named(name: str, content: bytes) -> bytes:
    """Return an entry of a JSON object as a named message."""
    return _put(1, name.encode()) + _put(2, content)


def _entries(number: int, write: Write) -> Write:
    return lambda value: b"".join([_put(number, _encode_named(name, write(item))) for name, item in value.items()])


def _schema(value: dict[str, Any]) -> bytes:
    return _message("schema", value)


def _parameter_item(value: dict[str, Any]) -> bytes:
    """Return a parameter, or a reference to one."""
    if "$ref" in value:
        return _put(2, _put(1, value["$ref"].encode()))
    return _put(1, _encode_parameter(value))


def _encode_parameter(value: dict[str, Any]) -> bytes:
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
    "named parameters": _entries(1, _encode_parameter),
    "responses": _entries(1, lambda value: _put(1, _message("response", value))),
    "security": _entries(1, lambda value: _put(2, _message("key", value))),
}
