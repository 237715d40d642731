"""Whether a schema is structural: every field has a type, which nothing below a combination (anyOf …) changes.

The counterpart is `pkg/apiserver/schema/validation.go` of `k8s.io/apiextensions-apiserver`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sampan.api.field_errors import FieldError
from sampan.apiserver.registry.validation import FieldErrors
from sampan.machinery.patterns import PatternError, compile_pattern

Source = Mapping[str, Any]

ROOT, ITEM, FIELD = "at the root", "for specified array items", "for specified object fields"
"""The place of a node, as messages name it."""
_UNSUPPORTED: Final = ("id", "$schema", "$ref", "additionalItems", "patternProperties", "definitions", "dependencies")
_FORBIDDEN_BELOW: Final = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
"""Keywords that no schema inside of a combination may have."""
_COMBINATIONS: Final = ("anyOf", "allOf", "oneOf")
_COMBINED: Final = frozenset(_COMBINATIONS)
_SINGLE: Final = ("items", "additionalProperties", "not")
"""Keywords whose value is one schema."""
_NOT_STRUCTURAL: Final = frozenset([*_UNSUPPORTED, "items", "x-kubernetes-preserve-unknown-fields"])
"""Keywords that can keep a schema from being structural."""
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]


_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})
_PLAIN_KEYWORDS: Final = frozenset(
    [
        *("type", "description", "title", "format", "enum", "nullable", "example", "externalDocs", "required"),
        *("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "multipleOf", "maxLength", "minLength"),
        *("maxItems", "minItems", "maxProperties", "minProperties"),
    ]
)


def is_plain_scalar(source: Source) -> bool:
    """Whether the schema is that of a scalar without any keyword that could be invalid. Most fields are, and are not
    validated further."""
    return source.get("type") in _SCALARS and source.keys() <= _PLAIN_KEYWORDS


def depth_of(source: Source) -> int:
    """Return how deep schemas are nested in a schema."""
    depth, level = 0, [source]
    while level:
        depth += 1
        level = [child for parent in level if not is_plain_scalar(parent) for child in _subschemas(parent)]
    return depth


def is_convertible(source: Source) -> bool:
    """Whether the schema has none of the keywords that structural schemas lack, which other checks report."""
    pending = [source]
    while pending:
        schema = pending.pop()
        if is_plain_scalar(schema):
            continue
        if not _NOT_STRUCTURAL.isdisjoint(schema) and _is_not_structural(schema):
            return False
        pending += _subschemas(schema)
    return True


def _is_not_structural(source: Source) -> bool:
    return (
        any(source.get(key) for key in _UNSUPPORTED)
        or isinstance(source.get("items"), list)
        or source.get("x-kubernetes-preserve-unknown-fields") is False
    )


def _subschemas(source: Source) -> list[Source]:
    """Return the schemas directly below a schema, including those of combinations."""
    children = [*(source.get("properties") or {}).values()]
    children += [child for key in _SINGLE if isinstance(child := source.get(key), dict)]
    if not _COMBINED.isdisjoint(source):
        children += [child for key in _COMBINATIONS for child in source.get(key) or ()]
    return children


def _children(source: Source) -> Iterator[tuple[str, Source]]:
    """Yield the schemas directly below a schema with their relative paths, including those of combinations."""
    yield from _parts(source)
    for key in _COMBINATIONS:
        for index, child in enumerate(source.get(key) or ()):
            yield f"{key}[{index}]", child
    if isinstance(source.get("not"), dict):
        yield "not", source["not"]


def _parts(source: Source) -> Iterator[tuple[str, Source]]:
    if isinstance(source.get("items"), dict):
        yield "items", source["items"]
    for name, child in (source.get("properties") or {}).items():
        yield f"properties[{name}]", child
    if isinstance(source.get("additionalProperties"), dict):
        yield "additionalProperties", source["additionalProperties"]


def validate_structural(source: Source, path: str) -> list[FieldError]:
    """Return the errors, sorted. Fields that only a combination mentions are reported at the root alone, as in
    kube-apiserver."""
    return sorted(
        [*_validate_invariants(source, ROOT, path), *_validate_mentioned(source, source, path, path)], key=str
    )


def _validate_invariants(source: Source, level: str, path: str) -> FieldErrors:
    if source.get("type") == "array" and source.get("items") is None:
        yield FieldError.required(f"{path}.items", "must be specified")
    for step, child in _parts(source):
        if step != "additionalProperties" and not is_plain_scalar(child):
            yield from _validate_invariants(child, ITEM if step == "items" else FIELD, f"{path}.{step}")
    additional = source.get("additionalProperties")
    if additional is not None:
        if level == ROOT:
            yield FieldError.forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, dict) and not is_plain_scalar(additional):
            yield from _validate_invariants(additional, FIELD, f"{path}.additionalProperties")
    yield from _validate_extensions(source, path)
    yield from _validate_values(source, path, *_int_or_string_exceptions(source))
    yield from _validate_type(source, level, path)
    if level == ROOT or source.get("x-kubernetes-embedded-resource"):
        yield from _validate_object_fields(source, level, path)


def _validate_extensions(source: Source, path: str) -> FieldErrors:
    is_preserving = bool(source.get("x-kubernetes-preserve-unknown-fields"))
    is_embedded = bool(source.get("x-kubernetes-embedded-resource"))
    if source.get("x-kubernetes-int-or-string"):
        text = "must be false if x-kubernetes-int-or-string is true"
        for key, is_set in (
            ("x-kubernetes-preserve-unknown-fields", is_preserving),
            ("x-kubernetes-embedded-resource", is_embedded),
        ):
            if is_set:
                yield FieldError.invalid(f"{path}.{key}", True, text)
    if is_embedded and not is_preserving and not source.get("properties"):
        text = "must not be empty if x-kubernetes-embedded-resource is true without"
        yield FieldError.required(f"{path}.properties", f"{text} x-kubernetes-preserve-unknown-fields")
    if is_embedded and source.get("additionalProperties") is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        yield FieldError.forbidden(f"{path}.additionalProperties", text)


def _validate_type(source: Source, level: str, path: str) -> FieldErrors:
    declared = source.get("type", "")
    if source.get("x-kubernetes-embedded-resource") and declared != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        yield (
            FieldError.invalid(f"{path}.type", declared, text)
            if declared
            else FieldError.required(f"{path}.type", text)
        )
    elif not declared and not (
        source.get("x-kubernetes-int-or-string") or source.get("x-kubernetes-preserve-unknown-fields")
    ):
        yield FieldError.required(f"{path}.type", f"must not be empty {level}")
    if level == ROOT and declared and declared != "object":
        yield FieldError.invalid(f"{path}.type", declared, "must be object at the root")


def _validate_object_fields(source: Source, level: str, path: str) -> FieldErrors:
    """Yield errors if a schema restricts apiVersion, kind or metadata, which every object has, more than is allowed."""
    properties = source.get("properties") or {}
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            yield FieldError.invalid(
                f"{path}.properties[{name}].type", properties[name].get("type", ""), "must be string"
            )
    metadata = properties.get("metadata")
    if metadata is None:
        return
    if metadata.get("type") != "object":
        yield FieldError.invalid(f"{path}.properties[metadata].type", metadata.get("type", ""), "must be object")
    if level != ROOT:
        return
    remainder = {
        key: value for key, value in metadata.items() if value and key not in ("type", "default", "properties")
    }
    if remainder or {*(metadata.get("properties") or ())} - {"name", "generateName"}:
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield FieldError.forbidden(f"{path}.properties[metadata]", text)


# -- value validations -----------------------------------------------------------------------------------------------


def _int_or_string_exceptions(source: Source) -> tuple[bool, bool]:
    """Return whether anyOf, and whether the anyOf of the first allOf, only names the types of an int-or-string. Every
    schema may have them, as in kube-apiserver."""
    first = (source.get("allOf") or [{}])[0]
    return source.get("anyOf") == _INT_OR_STRING, first.get("anyOf") == _INT_OR_STRING


def _validate_values(source: Source, path: str, skips_any_of: bool, skips_first: bool) -> FieldErrors:
    for key in _COMBINATIONS:
        for index, child in enumerate(source.get(key) or ()):
            if key == "anyOf" and skips_any_of:
                continue
            is_exception = key == "allOf" and index == 0 and skips_first
            yield from _validate_nested(child, f"{path}.{key}[{index}]", skips_any_of=is_exception)
    if isinstance(source.get("not"), dict):
        yield from _validate_nested(source["not"], f"{path}.not")
    if pattern := source.get("pattern"):
        try:
            compile_pattern(pattern)
        except PatternError as error:
            text = f"must be a valid regular expression, but isn't: error parsing regexp: {error}"
            yield FieldError.invalid(f"{path}.pattern", pattern, text)


def _validate_nested(source: Source, path: str, *, skips_any_of: bool = False) -> FieldErrors:
    """Yield the errors of a schema inside of a combination."""
    yield from _validate_values(source, path, skips_any_of, False)
    for step, child in _parts(source):
        if step != "additionalProperties":
            yield from _validate_nested(child, f"{path}.{step}")
    for key, text in _FORBIDDEN_BELOW.items():
        if _is_set(source, key):
            yield FieldError.forbidden(f"{path}.{key}", text)
    if "metadata" in (source.get("properties") or ()):
        yield FieldError.forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _is_set(source: Source, key: str) -> bool:
    if key == "default":
        return source.get(key) is not None
    return bool(source.get(key)) or (key == "additionalProperties" and source.get(key) == {})


def _validate_mentioned(values: Source, structure: Source, path: str, values_at: str) -> FieldErrors:
    """Yield errors for fields that only a combination mentions."""
    for step, child in _children(values):
        if step.startswith(("items", "properties", "additionalProperties")):
            continue
        yield from _validate_nested_mentioned(child, structure, path, f"{values_at}.{step}")


def _validate_nested_mentioned(values: Source, structure: Source, path: str, values_at: str) -> FieldErrors:
    yield from _validate_mentioned(values, structure, path, values_at)
    for step, child in _parts(values):
        if step == "additionalProperties":
            continue
        below = dict(_parts(structure)).get(step)
        if below is None:
            text = f"because it is defined in {values_at}.{step}"
            yield FieldError.required(f"{path}.{step}", text)
        else:
            yield from _validate_nested_mentioned(child, below, f"{path}.{step}", f"{values_at}.{step}")
