"""The type names in the errors of Go's decoder, from data/gotypes.json, which is read on the first such error."""

from functools import cache
from pathlib import Path

import msgspec

from sampan.api.schema import Schema

JSON_SCHEMA_PROPS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
PLAIN = {"string": "string", "boolean": "bool", "number": "float64"}


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
        return _plain(schema)
    return ".".join(schema.name.split(".")[-2:])


def type_of(definition: str, field: str, schema: Schema) -> str:
    """Return the Go type of a struct's field, such as `[]v1.Container`."""
    return _facts().get(definition, _NONE).types.get(field) or _plain(schema)


def field_path(definition: str, field: str) -> list[str]:
    """Return the field, preceded by the embedded structs that contain it."""
    via = _facts().get(definition, _NONE).via.get(field)
    return [*via.split("."), field] if via else [field]


def element(go_type: str, schema: Schema) -> str:
    """Return the element type of a list or map type in Go's notation."""
    if go_type.startswith(("[]", "map[")):
        return go_type.split("]", 1)[1].lstrip("*")
    return name_of(schema)


def _plain(schema: Schema) -> str:
    if schema.type == "integer":
        return schema.format or "int64"
    if schema.format == "byte":
        return "[]uint8"
    return PLAIN.get(schema.type, "interface {}")
