"""Invariants of custom objects beyond the values of their fields: unique entries of sets and maps, and the metadata of
embedded objects (`pkg/apiserver/schema/listtype` and `objectmeta` of `k8s.io/apiextensions-apiserver`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sampan.api import names
from sampan.api.codec.json import from_value
from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.schema import Schema
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.registry import metadata

Validate = Callable[[Any, Schema, str], Iterator[FieldError]]


def validate_list_types(value: Any, schema: Schema, path: str = "") -> Iterator[FieldError]:
    """Yield an error for every repeated entry of a set, and for every repeated key of a map list."""
    yield from _walk(value, schema, path, _validate_list)


def validate_embedded(value: Any, schema: Schema, path: str = "") -> Iterator[FieldError]:
    """Yield the errors of embedded objects: a missing apiVersion or kind, and invalid metadata."""
    for name, child in schema.properties.items():
        if isinstance(value, dict) and name in value:
            yield from _walk(value[name], child, f"{path}.{name}" if path else name, _validate_object)


def _walk(value: Any, schema: Schema | None, path: str, validate: Validate) -> Iterator[FieldError]:
    if schema is None or not isinstance(value, dict | list):
        return
    yield from validate(value, schema, path)
    if isinstance(value, list):
        if schema.items is not None:
            for index, item in enumerate(value):
                yield from _walk(item, schema.items, f"{path}[{index}]", validate)
        return
    for name, member in value.items():
        if isinstance(member, dict | list) and (child := schema.child(name)) is not None:
            is_property = name in schema.properties
            step = (f".{name}" if path else name) if is_property else f"[{name}]"
            yield from _walk(member, child, path + step, validate)


def _validate_list(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if not isinstance(value, list) or schema.list_type not in ("set", "map"):
        return
    known: set[str] = set()
    for index, item in enumerate(value):
        if schema.list_type == "map":
            if not isinstance(item, dict):
                continue
            shown: Any = {key: item[key] for key in schema.list_keys if key in item}
        else:
            shown = item
        text = gotext.json_text(shown)
        if text in known:
            yield FieldError.duplicate(f"{path}[{index}]", shown)
        known.add(text)


def _validate_object(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if not isinstance(value, dict) or not schema.embedded:
        return
    if not value.get("apiVersion"):
        yield FieldError.required(f"{path}.apiVersion")
    if not value.get("kind"):
        yield FieldError.required(f"{path}.kind")
    elif messages := names.dns1035_label(str(value["kind"]).lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(messages)}"
        yield FieldError.invalid(f"{path}.kind", value["kind"], text)
    if isinstance(value.get("metadata"), dict):
        meta = from_value(value["metadata"], ObjectMeta)
        for error in metadata.validate_labels_and_references(meta):
            yield FieldError(error.type, f"{path}.{error.field}", error.bad_value, error.detail)
