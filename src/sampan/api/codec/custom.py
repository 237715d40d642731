"""Custom objects, which are plain dicts: decoding from a client's JSON body, in which metadata is validated, and
processing along their schema, namely pruning, nulls, defaults and embedded metadata.

The functions that take a value change it in place.
"""

from collections.abc import Iterator
from heapq import nsmallest
from typing import Any

from msgspec import UNSET

from sampan.api import limits
from sampan.api.codec import json
from sampan.api.codec.careful import kind
from sampan.api.codec.errors import DecodeError
from sampan.api.go_compat import gotext
from sampan.api.schema.tree import Schema, copy_value
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import json_numbers

META_FIELDS = ("apiVersion", "kind", "metadata")
"""Fields that every complete object has, whether its schema lists them or not."""


def prune(value: Any, schema: Schema, *, is_object: bool = True) -> list[str]:
    """Remove the fields that the schema does not have; return their paths, sorted, at most 100. `is_object` is whether
    the value is a complete object, which has apiVersion, kind and metadata."""
    return nsmallest(limits.STRICT_ERRORS, _remove_unknown_fields(value, schema, "", is_object=is_object))


def _remove_unknown_fields(
    value: Any, schema: Schema | None, path: str, *, is_object: bool = False, keep: bool = False
) -> Iterator[str]:
    """Remove the unknown fields of a value and yield their paths. `is_object` marks a complete object, which has
    apiVersion, kind and metadata; `keep` preserves unknown fields. Without a schema no field is known."""
    keep = keep or (schema is not None and schema.preserve_unknown)
    is_object = is_object or (schema is not None and schema.embedded)
    if isinstance(value, list) and not (keep and schema and schema.items is None):
        for index, item in enumerate(value):
            yield from _remove_unknown_fields(
                item, schema.items if schema else None, _extend_path(path, f"[{index}]"), keep=keep
            )
    elif isinstance(value, dict):
        yield from _remove_unknown_from_object(value, schema, path, META_FIELDS if is_object else (), keep)


def _remove_unknown_from_object(
    value: dict[str, Any], schema: Schema | None, path: str, known_fields: tuple[str, ...], keep: bool
) -> Iterator[str]:
    for key in [key for key in value if key not in known_fields]:
        child = schema.child(key) if schema else None
        if child is not None:
            if isinstance(value[key], dict | list):
                yield from _remove_unknown_fields(value[key], child, _extend_path(path, f".{key}" if path else key))
        elif not keep:
            yield _extend_path(path, f".{key}" if path else key)
            del value[key]


def drop_nulls(value: Any, schema: Schema | None) -> None:
    """Remove nulls where the schema neither allows them nor has a default."""
    if isinstance(value, list):
        for item in value:
            drop_nulls(item, schema.items if schema else None)
    elif isinstance(value, dict) and schema is not None:
        for key, member in list(value.items()):
            if member is None:
                child = schema.child(key)
                if child is not None and not child.nullable and child.default is UNSET:
                    del value[key]
            elif isinstance(member, dict | list):
                drop_nulls(member, schema.child(key))


def apply_defaults(value: Any, schema: Schema | None) -> None:
    """Set defaults for fields that are missing, or null although not nullable."""
    if schema is None:
        return
    if isinstance(value, dict):
        for key, child in schema.properties.items():
            if child.default not in (UNSET, None) and (key not in value or _forbidden_null(value[key], child)):
                value[key] = copy_value(child.default)
        for key, member in value.items():
            if member is not None and not isinstance(member, dict | list):
                continue
            if (child_schema := schema.child(key)) is not None:
                if key not in schema.properties and _forbidden_null(member, child_schema):
                    value[key] = _default(child_schema)
                apply_defaults(value[key], child_schema)
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            if _forbidden_null(item, schema.items):
                value[index] = _default(schema.items)
            apply_defaults(value[index], schema.items)


def _forbidden_null(value: Any, schema: Schema) -> bool:
    return value is None and not schema.nullable


def _default(schema: Schema) -> Any:
    return None if schema.default is UNSET else copy_value(schema.default)


def embedded_objects(value: Any, schema: Schema | None, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the embedded objects (`x-kubernetes-embedded-resource`) inside an object, with their paths."""
    if schema is None:
        return
    if isinstance(value, dict):
        if schema.embedded and path:
            yield path, value
        for key, member in list(value.items()):
            if isinstance(member, dict | list) and (child := schema.child(key)) is not None:
                step = f"[{key}]" if key not in schema.properties else f".{key}" if path else key
                yield from embedded_objects(value.get(key), child, _extend_path(path, step))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from embedded_objects(item, schema.items, _extend_path(path, f"[{index}]"))


def _extend_path(path: str, step: str) -> str:
    """Extend a path by one step. It is truncated as messages are, because a key can be as long as a body and is
    repeated by every field below it."""
    return (path + step)[: limits.STRICT_ERROR_LENGTH]


def decode(body: bytes, schema: Schema) -> tuple[dict[str, Any], list[str]]:
    """Return the object without the fields that the schema does not have, and the strict errors: duplicate fields, then
    unknown ones. Raise JsonSyntaxError or DecodeError as for typed objects."""
    value, strict = json.decode_any(body)
    value = json_numbers.normalize_decoded(body, value)
    if not isinstance(value, dict):
        raise DecodeError(f"json: cannot unmarshal {kind(value)} into Go value of type map[string]interface {{}}")
    unknown = normalize(value, schema)
    strict += [f"unknown field {gotext.quote(path)}" for path in unknown]
    return value, strict[: limits.STRICT_ERRORS]


def normalize(value: dict[str, Any], schema: Schema) -> list[str]:
    """Normalize a custom object in place; return the paths of the fields that were dropped."""
    unknown = _normalize_metadata(value, "")
    unknown += prune(value, schema)
    drop_nulls(value, schema)
    embedded: list[str] = []
    for path, inner in embedded_objects(value, schema):
        embedded += _normalize_embedded(inner, path)
    return unknown + nsmallest(limits.STRICT_ERRORS, embedded)


def repair(value: dict[str, Any], schema: Schema) -> None:
    """Remove from a stored custom object, in place, what its schema does not allow. It may have been stored with
    another schema, so that malformed fields of the metadata of embedded objects are removed instead of refused."""
    prune(value, schema)
    drop_nulls(value, schema)
    for _, inner in embedded_objects(value, schema):
        _repair_embedded(inner)


def _repair_embedded(inner: dict[str, Any]) -> None:
    for key in ("apiVersion", "kind"):
        if key in inner and not isinstance(inner[key], str):
            del inner[key]
    metadata = inner.get("metadata")
    if isinstance(metadata, dict):
        inner["metadata"] = json.to_value(_read_metadata(metadata))


def _read_metadata(value: dict[str, Any]) -> ObjectMeta:
    """Return the metadata of an embedded object without malformed fields."""
    try:
        return json.decode_value(value, ObjectMeta)[0]
    except DecodeError:
        readable = {field: member for field, member in value.items() if _is_readable(field, member)}
        return json.decode_value(readable, ObjectMeta)[0]


def _is_readable(field: str, value: Any) -> bool:
    try:
        json.decode_value({field: value}, ObjectMeta)
    except DecodeError:
        return False
    return True


def _normalize_embedded(inner: dict[str, Any], path: str) -> list[str]:
    for key in ("apiVersion", "kind"):
        if key in inner and not isinstance(inner[key], str):
            shown = gotext.json_text(inner[key])
            raise DecodeError(f"{path}.{key}: Invalid value: {shown}: must be a string")
    try:
        return _normalize_metadata(inner, path)
    except DecodeError as error:
        shown = gotext.json_text(inner["metadata"])
        raise DecodeError(f"{path}.metadata: Invalid value: {shown}: {error}") from None


def _normalize_metadata(value: dict[str, Any], path: str) -> list[str]:
    """Replace metadata by its canonical form; return the paths of its unknown fields."""
    if "metadata" not in value:
        return []
    meta, strict = json.decode(json.encode(value["metadata"]), ObjectMeta)
    value["metadata"] = json.to_value(meta)
    prefix = f"{path}.metadata" if path else "metadata"
    return [f"{prefix}.{error.split(chr(34), 1)[1][:-1]}" for error in strict]
