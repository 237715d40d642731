"""Decoding of custom objects from a client's JSON body: metadata is validated, and unknown fields are pruned."""

from typing import Any

from sampan.api import limits
from sampan.api.codec import fields, json
from sampan.api.codec.careful import kind
from sampan.api.codec.errors import DecodeError
from sampan.api.go_compat import gotext
from sampan.api.schema import Schema
from sampan.api.types.meta_v1 import ObjectMeta


def decode(body: bytes, schema: Schema) -> tuple[dict[str, Any], list[str]]:
    """Return the object without the fields that the schema does not have, and the strict errors: duplicate fields, then
    unknown ones. Raise JsonSyntaxError or DecodeError as for typed objects."""
    value, strict = json.decode_any(body)
    if not isinstance(value, dict):
        raise DecodeError(f"json: cannot unmarshal {kind(value)} into Go value of type map[string]interface {{}}")
    unknown = accept(value, schema)
    strict += [f"unknown field {gotext.quote(path)}" for path in unknown]
    return value, strict[: limits.STRICT_ERRORS]


def accept(value: dict[str, Any], schema: Schema) -> list[str]:
    """Normalize a custom object in place; return the paths of the fields that were dropped."""
    unknown = _sound_metadata(value, "")
    unknown += fields.prune(value, schema)
    fields.drop_nulls(value, schema)
    for path, inner in fields.embedded_objects(value, schema):
        unknown += _sound_inner(inner, path)
    return unknown


def _sound_inner(inner: dict[str, Any], path: str) -> list[str]:
    for key in ("apiVersion", "kind"):
        if key in inner and not isinstance(inner[key], str):
            shown = json.encode(inner[key]).decode()
            raise DecodeError(f"{path}.{key}: Invalid value: {shown}: must be a string")
    shown = json.encode(inner.get("metadata")).decode()
    try:
        return _sound_metadata(inner, path)
    except DecodeError as error:
        raise DecodeError(f"{path}.metadata: Invalid value: {shown}: {error}") from None


def _sound_metadata(value: dict[str, Any], path: str) -> list[str]:
    """Replace metadata by its canonical form; return the paths of its unknown fields."""
    if "metadata" not in value:
        return []
    meta, strict = json.decode(json.encode(value["metadata"]), ObjectMeta)
    value["metadata"] = json.to_value(meta)
    prefix = f"{path}.metadata" if path else "metadata"
    return [f"{prefix}.{error.split(chr(34), 1)[1][:-1]}" for error in strict]
