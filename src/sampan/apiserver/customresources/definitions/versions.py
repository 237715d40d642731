"""Validation of versions: names, printer columns, subresources and selectable fields.

kube-apiserver's internal type holds what all versions have in common at the top level, and reports validation errors at
those fields; `hoist_shared_fields` does the same.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types.apiextensions_v1 import (
    CustomResourceColumnDefinition,
    CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion,
    CustomResourceSubresources,
    CustomResourceValidation,
    JSONSchemaProps,
    SelectableField,
)
from sampan.apiserver.customresources.definitions.schemas import validate_schema
from sampan.apiserver.registry.validation import FieldErrors, validate_required

_FIELDS = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


class HoistedSpec(msgspec.Struct, frozen=True):
    """A spec with the common values of all versions at the top level, and removed from `versions`."""

    versions: Sequence[CustomResourceDefinitionVersion]
    schema: CustomResourceValidation | None = None
    subresources: CustomResourceSubresources | None = None
    additionalPrinterColumns: Sequence[CustomResourceColumnDefinition] = ()
    selectableFields: Sequence[SelectableField] = ()


def hoist_shared_fields(spec: CustomResourceDefinitionSpec) -> HoistedSpec:
    versions = list(spec.versions or ())
    shared: dict[str, Any] = {}
    for field in _FIELDS:
        values = [getattr(version, field) for version in versions]
        if values and all(value == values[0] for value in values):
            shared[field] = values[0]
    blank = CustomResourceDefinitionVersion()
    emptied = {field: getattr(blank, field) for field in shared}
    return HoistedSpec(versions=[msgspec.structs.replace(version, **emptied) for version in versions], **shared)


_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE = ("string", "boolean", "integer")
_MAX_WARNING_LENGTH, _MAX_SELECTABLE_FIELDS = 256, 8
_TOP = "spec"


def validate_schemas_present(spec: CustomResourceDefinitionSpec) -> FieldErrors:
    for index, version in enumerate(spec.versions or ()):
        if version.schema is None or version.schema.openAPIV3Schema is None:
            yield FieldError.required(f"spec.versions[{index}].schema.openAPIV3Schema")


def validate_versions(spec: HoistedSpec) -> FieldErrors:
    """Yield the errors of each version and of the list of versions."""
    for index, version in enumerate(spec.versions):
        path = f"spec.versions[{index}]"
        if messages := names.dns1035_label(version.name):
            yield FieldError.invalid(f"{path}.name", version.name, ",".join(messages))
        yield from _validate_deprecation(version, f"{path}.deprecationWarning")
        yield from validate_schema(version.schema, f"{path}.schema", has_status=_has_status(version))
        yield from _validate_subresources_and_columns(version, path)
        yield from _validate_selectable_fields(version.selectableFields, version.schema, f"{path}.selectableFields")
    shown_versions = encode_error_value(list(spec.versions))
    if len({version.name for version in spec.versions}) < len(spec.versions):
        yield FieldError.invalid("spec.versions", shown_versions, "must contain unique version names")
    if sum(version.storage for version in spec.versions) != 1:
        yield FieldError.invalid(
            "spec.versions", shown_versions, "must have exactly one version marked as storage version"
        )


def validate_common_fields(spec: HoistedSpec) -> FieldErrors:
    """Yield the errors of what all versions have in common."""
    yield from validate_schema(spec.schema, "spec.validation", has_status=_has_status(spec))
    yield from _validate_subresources_and_columns(spec, _TOP)
    if spec.selectableFields and spec.schema is None:
        text = "may only be set when validations.schema is included"
        yield FieldError.invalid("spec.selectableFields", "", text)
    else:
        yield from _validate_selectable_fields(spec.selectableFields, spec.schema, "spec.selectableFields")


def _has_status(version: HoistedSpec | CustomResourceDefinitionVersion) -> bool:
    return version.subresources is not None and version.subresources.status is not None


def validate_stored_versions(stored: Sequence[str], versions: Iterable[CustomResourceDefinitionVersion]) -> FieldErrors:
    path = "status.storedVersions"
    if not stored:
        yield FieldError.invalid(path, None, "must have at least one stored version")
        return
    remaining = dict(zip(stored, range(len(stored)), strict=True))
    for version in versions:
        if remaining.pop(version.name, None) is None and version.storage:
            yield FieldError.invalid(path, list(stored), f"must have the storage version {version.name}")
    for name, index in remaining.items():
        text = (
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
            f"until a storage migration ensures no data remains persisted in {name} and removes {name} from "
            "status.storedVersions"
        )
        yield FieldError.invalid(f"{path}[{index}]", name, text)


def _validate_subresources_and_columns(
    version: HoistedSpec | CustomResourceDefinitionVersion, path: str
) -> FieldErrors:
    if version.subresources is not None:
        yield from _validate_subresources(version.subresources, f"{path}.subresources")
    for index, column in enumerate(version.additionalPrinterColumns):
        yield from _validate_printer_column(column, f"{path}.additionalPrinterColumns[{index}]")


def _validate_deprecation(version: CustomResourceDefinitionVersion, path: str) -> FieldErrors:
    warning = version.deprecationWarning
    if warning is None:
        return
    if not version.deprecated:
        yield FieldError.invalid(path, warning, "can only be set for deprecated versions")
        return
    if names.size(warning) > _MAX_WARNING_LENGTH:
        yield FieldError.invalid(path, warning, f"must be <= {_MAX_WARNING_LENGTH} characters long")
    if not warning:
        yield FieldError.invalid(path, warning, "must not be an empty string")
    bad = next((index for index, letter in enumerate(warning) if not letter.isprintable()), None)
    if bad is not None:
        text = "must only contain printable UTF-8 characters; non-printable character found at index"
        yield FieldError.invalid(path, warning, f"{text} {len(warning[:bad].encode())}")


def _validate_subresources(subresources: CustomResourceSubresources, element_path: str) -> FieldErrors:
    scale = subresources.scale
    if scale is None:
        return
    for field, part in (("specReplicasPath", "spec"), ("statusReplicasPath", "status")):
        path, field_path = getattr(scale, field), f"{element_path}.scale.{field}"
        yield from validate_required(path, field_path)
        if path:
            yield from _validate_json_path(path, (part,), f"should be a json path under .{part}", field_path)
    if scale.labelSelectorPath:
        text = "should be a json path under either .spec or .status"
        yield from _validate_json_path(
            scale.labelSelectorPath, ("spec", "status"), text, f"{element_path}.scale.labelSelectorPath"
        )


def _validate_json_path(path: str, parts: Sequence[str], text: str, field_path: str) -> FieldErrors:
    if not path.startswith("."):
        yield FieldError.invalid(field_path, path, "must be a simple json path starting with .")
    elif not path.startswith(tuple(f".{part}." for part in parts)):
        yield FieldError.invalid(field_path, path, text)


def _validate_printer_column(column: CustomResourceColumnDefinition, path: str) -> FieldErrors:
    yield from validate_required(column.name, f"{path}.name")
    expected = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not column.type:
        yield FieldError.required(f"{path}.type", expected)
    elif column.type not in _COLUMN_TYPES:
        yield FieldError.invalid(f"{path}.type", column.type, expected)
    if column.format and column.format not in _COLUMN_FORMATS:
        yield FieldError.invalid(f"{path}.format", column.format, f"must be one of {','.join(_COLUMN_FORMATS)}")
    yield from validate_required(column.jsonPath, f"{path}.JSONPath")
    if column.jsonPath and not column.jsonPath.startswith("."):
        yield FieldError.invalid(f"{path}.JSONPath", column.jsonPath, "must be a simple json path starting with .")


def _validate_selectable_fields(
    fields: Sequence[SelectableField], schema: CustomResourceValidation | None, field_path: str
) -> FieldErrors:
    if not fields:
        return
    root = schema.openAPIV3Schema if schema is not None else None
    if root is None:
        yield FieldError.invalid(
            field_path, "", "may only be set when `version.schema.openAPIV3Schema` is not included"
        )
        return
    paths: set[str] = set()
    for index, field in enumerate(fields):
        path = f"{field_path}[{index}].jsonPath"
        yield from validate_required(field.jsonPath, path)
        if field.jsonPath:
            yield from _validate_selectable_path(field.jsonPath, root, paths, path)
    if len(paths) > _MAX_SELECTABLE_FIELDS:
        yield FieldError.too_many(field_path, len(paths), _MAX_SELECTABLE_FIELDS)


def _validate_selectable_path(path: str, root: JSONSchemaProps, known_paths: set[str], field_path: str) -> FieldErrors:
    try:
        steps, leaf = _find_selectable_field(path, root)
    except _InvalidPath as error:
        yield FieldError.invalid(field_path, path, f"is an invalid path: {error}")
        return
    if steps[0] == "metadata":
        yield FieldError.invalid(field_path, path, "must not point to fields in metadata")
    if leaf.type not in _SELECTABLE:
        text = (
            "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are"
        )
        yield FieldError.invalid(field_path, path, f"{text} allowed.")
    if path in known_paths:
        yield FieldError.duplicate(field_path, path)
    known_paths.add(path)


class _InvalidPath(Exception):
    """The path does not lead to a field."""


_PATH_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\.)*+'|[.\[\]]|[^.\[\]]++")


def _find_selectable_field(path: str, root: JSONSchemaProps) -> tuple[list[str], JSONSchemaProps]:
    """Return the names in a path such as `.spec.name`, and the schema of the field. Values of maps are fields too."""
    tokens = iter(_PATH_TOKEN.findall(path))
    steps: list[str] = []
    schema = root
    for token in tokens:
        if token == "[":
            raise _InvalidPath("array notation is not allowed")
        if token != ".":
            raise _InvalidPath(f"expected [ or . but got: {token}")
        step = next(tokens, None)
        if step is None:
            raise _InvalidPath("unexpected end of JSON path")
        child = schema.properties.get(step) if schema.properties else schema.additionalProperties
        if not isinstance(child, JSONSchemaProps):
            raise _InvalidPath("does not refer to a valid field")
        steps.append(step)
        schema = child
    return steps, schema
