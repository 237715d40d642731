"""Schema trees as OpenAPI v3. Those of built-in kinds are exactly the schemas that kube-apiserver publishes, without
descriptions."""

from typing import Any

from msgspec import UNSET

from sampan.api.schema import schemas
from sampan.api.schema.tree import Schema

QUANTITY = {"oneOf": [{"type": "string"}, {"type": "number"}]}
INT_OR_STRING = {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}
ZEROS: dict[str, Any] = {"object": {}, "string": "", "integer": 0, "number": 0, "boolean": False}
PREFIX = "#/components/schemas/"


def definition(schema: Schema) -> dict[str, Any]:
    """Return a definition (components.schemas) of a built-in kind."""
    if schema.format == "quantity":
        return dict(QUANTITY)
    if schema.format == "int-or-string":
        return dict(INT_OR_STRING)
    if schema.format in ("date-time", "micro-time"):
        return {"type": "string", "format": "date-time"}
    if not schema.type:  # a union of types, which OpenAPI does not describe
        return {}
    node: dict[str, Any] = {"type": schema.type}
    if schema.properties:
        node["properties"] = {name: _field(child) for name, child in sorted(schema.properties.items())}
    if schema.required:
        node["required"] = list(schema.required)
    if schema.map_type:
        node["x-kubernetes-map-type"] = schema.map_type
    if schema.kinds:
        kinds = [{"group": group, "version": version, "kind": kind} for group, version, kind in schema.kinds]
        node["x-kubernetes-group-version-kind"] = kinds
    if schema.unions:
        node["x-kubernetes-unions"] = list(schema.unions)
    return node


def _field(schema: Schema) -> dict[str, Any]:
    node = _reference(schema) if schema.ref else _inline(schema)
    if schema.default is not UNSET:
        node["default"] = schema.default
    elif schema.zero:
        node["default"] = ZEROS[schema.type]
    if schema.enum:
        node["enum"] = list(schema.enum)
    for key, value in (
        ("x-kubernetes-list-type", schema.list_type),
        ("x-kubernetes-list-map-keys", list(schema.list_keys)),
        ("x-kubernetes-map-type", _own_map_type(schema)),
        ("x-kubernetes-patch-merge-key", schema.patch_key),
        ("x-kubernetes-patch-strategy", ",".join(schema.patch_strategy)),
    ):
        if value:
            node[key] = value
    return node


def _own_map_type(schema: Schema) -> str:
    """Return the field's map type, or "" if the referenced definition has the same."""
    return "" if schema.ref and schemas.definition(schema.ref).map_type == schema.map_type else schema.map_type


def _reference(schema: Schema) -> dict[str, Any]:
    return {"allOf": [{"$ref": PREFIX + schema.ref}]}


def _inline(schema: Schema) -> dict[str, Any]:
    node: dict[str, Any] = {"type": schema.type} if schema.type else {}
    if schema.format:
        node["format"] = schema.format
    if schema.items is not None:
        node["items"] = _element(schema.items)
    if schema.additional is not None:
        node["additionalProperties"] = _element(schema.additional)
    return node


def _element(schema: Schema) -> dict[str, Any]:
    """Return the schema of a list's item or map's value, which has no default: a bare reference if nothing is added to
    it."""
    node = _field(schema)
    node.pop("default", None)
    return node["allOf"][0] if list(node) == ["allOf"] else node
