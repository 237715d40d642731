"""The schema of one version of a custom resource, compiled when it is first used, and what it demands beyond the values
of fields: unique entries of sets and maps, and valid metadata of embedded objects (`pkg/apiserver/schema/listtype` and
`objectmeta` of `k8s.io/apiextensions-apiserver`)."""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import msgspec

from sampan.api import names
from sampan.api.codec.json import from_value
from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.schema.tree import Schema, from_openapi
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.customresources.objects.rules import RuleFailures, RuleValidator
from sampan.apiserver.customresources.objects.schema_validator import SchemaValidator
from sampan.apiserver.customresources.objects.value_checks import UNCORRELATED
from sampan.apiserver.registry import metadata


class CompiledSchema:
    """The tree of the schema of a version, and the validators of values and rules, which are compiled on first use."""

    def __init__(self, source: dict[str, Any]) -> None:
        self.tree = from_openapi(source)
        self._has_lists = _has(self.tree, lambda node: node.list_type in ("set", "map"))
        self._has_embedded = _has(self.tree, lambda node: node.embedded)
        self._source = source

    @cached_property
    def _values(self) -> SchemaValidator:
        return SchemaValidator(self._source)

    @cached_property
    def _rules(self) -> RuleValidator:
        return RuleValidator(self.tree)

    def complete(self) -> None:
        """Compile the validators of values and rules, which only writes need."""
        _ = self._values, self._rules

    def validate(self, value: dict[str, Any], old: dict[str, Any] | None) -> Iterator[FieldError]:
        """Yield the errors of an object, in the order of kube-apiserver; `old` is the object before an update."""
        yield from self._values.validate(value, UNCORRELATED if old is None else old)

    def validate_invariants(self, value: dict[str, Any], old: dict[str, Any] | None) -> Iterator[FieldError]:
        """Yield the errors of embedded objects, and of lists with repeated entries, unless the object before the update
        has such lists too."""
        if self._has_embedded:
            yield from validate_embedded(value, self.tree)
        if self._has_lists and (old is None or not any(validate_list_types(old, self.tree))):
            yield from validate_list_types(value, self.tree)

    def validate_rules(self, value: dict[str, Any], old: dict[str, Any] | None) -> RuleFailures:
        """Return the errors and warnings of rules that do not hold."""
        return self._rules.validate(value, UNCORRELATED if old is None else old)

    @property
    def has_rules(self) -> bool:
        return self._rules.has_rules


def _has(node: Schema, matches: Callable[[Schema], bool]) -> bool:
    """Whether a node of the tree matches; the tree of a custom resource has no cycles."""
    children = (*node.properties.values(), node.items, node.additional)
    return matches(node) or any(_has(child, matches) for child in children if child is not None)


class CustomSchema:
    """The openAPIV3Schema of a version as JSON, and what is derived from it.

    Most custom resources of a cluster are only listed, which needs no schema: the JSON takes a small part of the memory
    of the tree. Several threads may use it.
    """

    def __init__(self, source: bytes) -> None:
        self._is_compressed = len(source) > _COMPRESSED_BYTES
        self._source = zlib.compress(source, 1) if self._is_compressed else source
        self.digest = hashlib.sha256(source).hexdigest()
        self._lock = threading.Lock()
        self._compiled: CompiledSchema | None = None
        self.is_complete = False
        """Whether everything that a write needs has been compiled."""

    @property
    def openapi(self) -> dict[str, Any]:
        source = zlib.decompress(self._source) if self._is_compressed else self._source
        decoded: dict[str, Any] = msgspec.json.decode(source)
        return decoded

    @property
    def tree(self) -> Schema:
        return self.compile().tree

    def compile(self) -> CompiledSchema:
        if self._compiled is None:
            with self._lock:
                self._compiled = self._compiled or CompiledSchema(self.openapi)
        return self._compiled

    def complete(self) -> None:
        """Compile everything that a write needs. This takes up to a tenth of a second for the largest schemas, so it
        should happen in a thread."""
        self.compile().complete()
        self.is_complete = True

    def __repr__(self) -> str:
        return f"CustomSchema({self.digest})"


_COMPRESSED_BYTES = 8 << 10
"""Schemas above this size are kept compressed."""


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
    used_keys: set[str] = set()
    for index, item in enumerate(value):
        if schema.list_type == "map":
            if not isinstance(item, dict):
                continue
            shown: Any = {key: item[key] for key in schema.list_keys if key in item}
        else:
            shown = item
        text = gotext.json_text(shown)
        if text in used_keys:
            yield FieldError.duplicate(f"{path}[{index}]", shown)
        used_keys.add(text)


def _validate_object(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if not isinstance(value, dict) or not schema.embedded:
        return
    missing = [field for field in ("apiVersion", "kind") if field not in value]
    yield from (FieldError.required(f"{path}.{field}") for field in missing)
    for field, validate_text in (("apiVersion", _validate_api_version), ("kind", _validate_kind)):
        text = value.get(field)
        if text == "":
            yield FieldError.invalid(f"{path}.{field}", text, "must not be empty")
        elif isinstance(text, str) and (message := validate_text(text)):
            yield FieldError.invalid(f"{path}.{field}", text, message)
    if isinstance(value.get("metadata"), dict):
        for error in _validate_metadata(from_value(value["metadata"], ObjectMeta)):
            yield FieldError(error.type, f"{path}.{error.field}", error.bad_value, error.detail)


def _validate_api_version(text: str) -> str:
    return f"unexpected GroupVersion string: {text}" if text.count("/") > 1 else ""


def _validate_kind(text: str) -> str:
    messages = names.dns1035_label(text.lower())
    return f"may have mixed case, but should otherwise match: {','.join(messages)}" if messages else ""


def _validate_metadata(meta: ObjectMeta) -> list[FieldError]:
    """Return the errors of the metadata of an embedded object. It needs no name, and its scope is not known."""
    meta.name = meta.name or "unnamed"
    field_errors = metadata.validate_object_meta(
        meta, bool(meta.namespace), metadata.validate_path_segment, needs_qualified_finalizers=False
    )
    return [*field_errors, *metadata.validate_managed_fields(meta.managedFields)]
