"""OpenAPI v2: one document with everything, for older clients."""

from __future__ import annotations

from typing import Any

from sampan.apiserver.special.openapi.documents import INFO, Contents, extensions, hoisted, used
from sampan.apiserver.special.openapi.operations import TEXT, Operation, PathItem
from sampan.apiserver.special.openapi.parameters import Parameter

_V3_PREFIX, _PREFIX = "#/components/schemas/", "#/definitions/"
_KEPT = frozenset({"description", "format", "properties", "required", "type", "items", "additionalProperties"})
"""The schema keywords of v2, besides extensions; like kube-apiserver, defaults and enums are omitted."""
_LOOKED_AT = frozenset({"dryRun", "fieldValidation"})
"""Parameters that clients search for in operations without following references."""
_SECURITY = {
    "BearerToken": {
        "description": "Bearer Token authentication",
        "in": "header",
        "name": "authorization",
        "type": "apiKey",
    }
}


def document(contents: Contents) -> dict[str, Any]:
    items = [item for name in contents.names() for item in contents.paths(name)]
    versions = [version for name in contents.names() for version in contents.versions(name)]
    schemas = contents.definitions.closure(used(items), versions)
    shared: dict[str, Any] = {}
    paths = {item.path: _path(item, shared) for item in sorted(items, key=lambda item: item.path)}
    return {
        "swagger": "2.0",
        "info": INFO,
        "paths": paths,
        "definitions": {name: schema_of(schema) for name, schema in schemas.items()},
        "parameters": dict(sorted(shared.items())),
        "securityDefinitions": _SECURITY,
        "security": [{"BearerToken": []}],
    }


def schema_of(node: dict[str, Any]) -> dict[str, Any]:
    """Convert a v3 schema to v2."""
    schema_value = {key: value for key, value in node.items() if key in _KEPT or key.startswith("x-")}
    target = node.get("$ref") or next((part["$ref"] for part in node.get("allOf", ()) if "$ref" in part), None)
    if target is not None:
        schema_value["$ref"] = target.replace(_V3_PREFIX, _PREFIX)
    elif "oneOf" in node:  # a quantity or an int-or-string
        schema_value["type"] = "string"
    if isinstance(properties := schema_value.get("properties"), dict):
        schema_value["properties"] = {name: schema_of(schema) for name, schema in properties.items()}
    for below in ("items", "additionalProperties"):
        if isinstance(child := schema_value.get(below), dict):
            schema_value[below] = schema_of(child)
    return schema_value


def _path(item: PathItem, shared: dict[str, Any]) -> dict[str, Any]:
    common, operations = hoisted(item)
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
            **{str(code): {"description": "OK", "schema": _answer(schema)} for code, schema in operation.answers},
            "401": {"description": "Unauthorized"},
        },
        "schemes": ["https"],
        "tags": [operation.tag],
    }
    if parameters:
        operation_value["parameters"] = parameters
    return {**operation_value, **extensions(operation)}


def _answer(schema: str) -> dict[str, Any]:
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
    if parameter.name in _LOOKED_AT or parameter.place == "path":
        return parameter_value
    key = f"{parameter.name}-{parameter.place}"
    shared[key] = parameter_value
    return {"$ref": f"#/parameters/{key}"}
