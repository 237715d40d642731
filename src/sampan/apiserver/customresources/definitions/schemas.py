"""Validation of the openAPIV3Schema of a CustomResourceDefinition.

`structural` decides whether it is structural, `expressions` validates its rules; here are the keywords, the list and
map types, and the default values. The counterparts are `ValidateCustomResourceDefinitionOpenAPISchema` and
`ValidateDefaults` of `k8s.io/apiextensions-apiserver`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sampan.api import limits
from sampan.api.codec import custom
from sampan.api.codec import json as json_codec
from sampan.api.field_errors import FieldError
from sampan.api.schema.tree import copy_value, from_openapi
from sampan.api.types.apiextensions_v1 import CustomResourceValidation
from sampan.apiserver.customresources.definitions.expressions import (
    RuleCosts,
    validate_expressions,
    validate_rule_fields,
)
from sampan.apiserver.customresources.definitions.structural import (
    depth_of,
    is_convertible,
    is_plain_scalar,
    validate_structural,
)
from sampan.apiserver.customresources.objects.custom_schema import validate_embedded
from sampan.apiserver.customresources.objects.rules import RuleValidator
from sampan.apiserver.customresources.objects.schema_validator import SchemaValidator
from sampan.apiserver.registry.validation import FieldErrors

Source = Mapping[str, Any]

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_OBJECT_FIELDS: Final = ("metadata", "kind", "apiVersion")
_ROOT_FIELDS: Final = (
    *("Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum"),
    *("MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items"),
    *("Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations"),
)
"""The fields that the root may have if the status is a subresource."""


def validate_schema(validation: CustomResourceValidation | None, path: str, *, has_status: bool) -> FieldErrors:
    """Yield the errors of the schema of a version, or of all versions if they have the same schema."""
    schema = validation.openAPIV3Schema if validation is not None else None
    if schema is None:
        return
    path, source = f"{path}.openAPIV3Schema", json_codec.to_value(schema)
    if (depth := depth_of(source)) > limits.CUSTOM_SCHEMA_DEPTH:
        text = f"schemas must not be nested more than {limits.CUSTOM_SCHEMA_DEPTH} levels deep, but are {depth}"
        yield FieldError.forbidden(path, text)
        return
    if has_status:
        yield from _validate_root_fields(source, path)
    if schema.nullable:
        yield FieldError.forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    is_structural = is_convertible(source)
    structural_errors = list(_validate_structure(source, path)) if is_structural else []
    yield from structural_errors
    walk = _SchemaWalk(evaluates_rules=is_structural and not structural_errors)
    yield from walk.validate(source, path, _SchemaPosition(is_root=True))
    yield from walk.costs.validate_total(path)


def _validate_root_fields(source: Source, path: str) -> FieldErrors:
    for key in source:
        words = key.removeprefix("x-kubernetes-").split("-")
        name = "".join(word[:1].upper() + word[1:] for word in words)
        name = f"X{name}" if key.startswith("x-") else name
        if name not in _ROOT_FIELDS:
            text = f"only [{' '.join(_ROOT_FIELDS)}] fields are allowed at the root of the schema if the status"
            yield FieldError.invalid(path, source, f"{text} subresource is enabled")
            return


def _validate_structure(source: Source, path: str) -> FieldErrors:
    structural = validate_structural(source, path)
    yield from structural
    if not structural:
        yield from _validate_defaults({**source, "x-kubernetes-embedded-resource": True}, path)


# -- defaults --------------------------------------------------------------------------------------------------------


def _validate_defaults(source: Source, path: str) -> FieldErrors:
    """Yield the errors of default values, which must be valid, and must not have fields that the schema lacks."""
    if source.get("default") is not None:
        yield from _validate_default(source, f"{path}.default")
    if isinstance(source.get("items"), dict):
        yield from _validate_defaults(source["items"], f"{path}.items")
    for name, child in (source.get("properties") or {}).items():
        if not is_plain_scalar(child):
            yield from _validate_defaults(child, f"{path}.properties[{name}]")


def _validate_default(source: Source, path: str) -> FieldErrors:
    default, tree = source["default"], from_openapi(source)
    pruned = copy_value(default)
    if custom.prune(pruned, tree, is_object=tree.embedded):
        yield FieldError.invalid(path, default, "must not have unknown fields")
    embedded = list(validate_embedded({"": default}, from_openapi({"type": "object", "properties": {"": source}})))
    if embedded:
        yield from (replace_prefix(error, path) for error in embedded)
        return
    field_errors = SchemaValidator(source).validate(default)
    if not field_errors:
        field_errors = RuleValidator(tree, is_resource=tree.embedded).validate(default).errors
    for error in field_errors:
        yield replace_prefix(error, path)


def replace_prefix(error: FieldError, path: str) -> FieldError:
    """Return the error with its field path, which is relative to a value, appended to `path`, the path of that
    value."""
    if error.field in ("", "<nil>"):
        field = path
    else:
        field = path + error.field if error.field.startswith("[") else f"{path}.{error.field.removeprefix('.')}"
    return FieldError(error.type, field, error.bad_value, error.detail)


# -- keywords --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _SchemaPosition:
    """The position of a schema in the tree, which decides what the schema may contain."""

    is_root: bool = False
    is_inside_metadata: bool = False
    forbids_defaults: str = ""
    """Why there must be no default value, empty if there may be one."""
    cardinality: int | None = 1
    """How many values an object has here at most; None if the schema does not bound it."""
    uncorrelated_at: str = ""
    """The path of the outermost list around the schema whose items cannot be related to those before an
    update; "" if there is none."""

    def multiply_cardinality(self, count: int | None) -> int | None:
        """Return the cardinality of the entries if each value at this position has at most `count` entries."""
        return None if self.cardinality is None or count is None else self.cardinality * max(count, 0)


class _SchemaWalk:
    """Validates all schemas of a tree, each after those below it."""

    def __init__(self, *, evaluates_rules: bool) -> None:
        self._evaluates_rules, self.costs = evaluates_rules, RuleCosts()
        self._schema_errors = 0
        """The number of errors so far that are not those of expressions."""

    def validate(self, source: Source, path: str, place: _SchemaPosition) -> FieldErrors:
        before = self._schema_errors
        yield from self._validate_below(source, path, place)
        for error in (*_validate_supported(source, path, place), *validate_rule_fields(source, path)):
            self._schema_errors += 1
            yield error
        if self._evaluates_rules and self._schema_errors == before:  # rules on an invalid schema have misleading errors
            yield from validate_expressions(
                source,
                path,
                is_resource=place.is_root or bool(source.get("x-kubernetes-embedded-resource")),
                cardinality=place.cardinality,
                uncorrelated_at=place.uncorrelated_at,
                costs=self.costs,
            )

    def _validate_below(self, source: Source, path: str, place: _SchemaPosition) -> FieldErrors:
        below = replace(place, is_root=False) if place.is_root else place
        yield from self._validate_members(source, path, place, below)
        if isinstance(source.get("not"), dict):
            yield from self.validate(source["not"], f"{path}.not", below)
        for key in ("allOf", "oneOf", "anyOf"):
            for index, child in enumerate(source.get(key) or ()):
                if not is_plain_scalar(child):
                    yield from self.validate(child, f"{path}.{key}[{index}]", below)
        if isinstance(source.get("items"), dict) and not is_plain_scalar(source["items"]):
            is_correlated = source.get("x-kubernetes-list-type") == "map"
            inner = replace(
                below,
                cardinality=place.multiply_cardinality(source.get("maxItems")),
                uncorrelated_at=place.uncorrelated_at if is_correlated else place.uncorrelated_at or path,
            )
            yield from self.validate(source["items"], f"{path}.items", inner)

    def _validate_members(
        self, source: Source, path: str, place: _SchemaPosition, below: _SchemaPosition
    ) -> FieldErrors:
        additional = source.get("additionalProperties")
        if isinstance(additional, dict) and not is_plain_scalar(additional):
            inner = replace(below, cardinality=place.multiply_cardinality(source.get("maxProperties")))
            if place.is_inside_metadata:
                inner = replace(inner, forbids_defaults="inside additionalProperties applying to object metadata")
            yield from self.validate(additional, f"{path}.additionalProperties", inner)
        is_object = place.is_root or bool(source.get("x-kubernetes-embedded-resource"))
        for name, child in (source.get("properties") or {}).items():
            if is_plain_scalar(child):
                continue
            inner = below
            if is_object and name in _OBJECT_FIELDS:
                reason = f"in top-level {name}" if place.is_root else below.forbids_defaults
                inner = replace(below, is_inside_metadata=True, forbids_defaults=reason)
            yield from self.validate(child, f"{path}.properties[{name}]", inner)


def _validate_supported(source: Source, path: str, place: _SchemaPosition) -> FieldErrors:
    declared = source.get("type", "")
    if declared and declared not in _TYPES:
        yield FieldError.not_supported(f"{path}.type", declared, _TYPES)
    if source.get("default") is not None and place.forbids_defaults:
        yield FieldError.forbidden(f"{path}.default", f"must not be set {place.forbids_defaults}")
    for key in _UNSUPPORTED:
        if source.get(key):
            yield FieldError.forbidden(f"{path}.{key}", f"{key} is not supported")
    if declared == "null":
        yield FieldError.forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(source.get("items"), list):
        yield FieldError.forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.is_inside_metadata and source.get("x-kubernetes-embedded-resource"):
        text = "must not be used inside of resource meta"
        yield FieldError.forbidden(f"{path}.x-kubernetes-embedded-resource", text)
    if source.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield FieldError.forbidden(f"{path}.uniqueItems", text)
    additional = source.get("additionalProperties")
    if additional is not None and additional is not True and source.get("properties"):
        text = "additionalProperties and properties are mutual exclusive"
        yield FieldError.forbidden(f"{path}.additionalProperties", text)
    if source.get("x-kubernetes-preserve-unknown-fields") is False:
        yield FieldError.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    yield from _validate_map_type(source, path)
    yield from _validate_list_type(source, path)


def _validate_map_type(source: Source, path: str) -> FieldErrors:
    map_type = source.get("x-kubernetes-map-type")
    if map_type is None:
        return
    yield from _validate_needed_type(source, path, "object", "x-kubernetes-map-type")
    if map_type not in ("atomic", "granular"):
        yield FieldError.not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))


def _validate_needed_type(source: Source, path: str, needed: str, key: str) -> FieldErrors:
    declared, text = source.get("type", ""), f"must be {needed} if {key} is specified"
    if not declared:
        yield FieldError.required(f"{path}.type", text)
    elif declared != needed:
        yield FieldError.invalid(f"{path}.type", declared, text)


def _validate_list_type(source: Source, path: str) -> FieldErrors:
    list_type, keys = source.get("x-kubernetes-list-type"), source.get("x-kubernetes-list-map-keys") or []
    key_at, type_at = f"{path}.x-kubernetes-list-map-keys", f"{path}.x-kubernetes-list-type"
    if list_type is not None:
        yield from _validate_needed_type(source, path, "array", "x-kubernetes-list-type")
        if list_type not in ("atomic", "set", "map"):
            yield FieldError.not_supported(type_at, list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield FieldError.required(type_at, text) if list_type is None else FieldError.invalid(type_at, list_type, text)
    items = source.get("items")
    if list_type == "map":
        if not keys:
            yield FieldError.required(key_at, "must not be empty if x-kubernetes-list-type is map")
        if items is None:
            yield FieldError.required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        if isinstance(items, dict):
            yield from _validate_map_keys(items, keys, key_at, f"{path}.items")
    elif list_type == "set" and isinstance(items, dict) and source.get("type") == "array":
        yield from _validate_set_items(items, f"{path}.items")
    if list_type in ("map", "set") and isinstance(items, dict) and items.get("nullable"):
        text = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield FieldError.forbidden(f"{path}.items.nullable", text)


def _validate_map_keys(items: Source, keys: list[str], path: str, items_at: str) -> FieldErrors:
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield FieldError.invalid(f"{items_at}.type", items.get("type", ""), text)
        return
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        if key not in properties:
            yield FieldError.invalid(path, keys, "entries must all be names of item properties")
        if key in keys[:index]:
            yield FieldError.invalid(path, keys, "must not contain duplicate entries")
    subject = "this property is in x-kubernetes-list-map-keys, so it"
    for key in keys:
        if key not in properties:
            continue
        if key not in (items.get("required") or ()) and properties[key].get("default") is None:
            text = f"{subject} must have a default or be a required property"
            yield FieldError.required(f"{items_at}.properties[{key}].default", text)
        if properties[key].get("nullable"):
            yield FieldError.forbidden(f"{items_at}.properties[{key}].nullable", f"{subject} cannot be nullable")


def _validate_set_items(items: Source, path: str) -> FieldErrors:
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield FieldError.invalid(f"{path}.x-kubernetes-list-type", list_type, text)
    elif items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield FieldError.invalid(f"{path}.x-kubernetes-map-type", list_type, text)
