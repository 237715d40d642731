"""Validation of the root of a version's schema, and the search for unknown formats."""

from collections.abc import Iterator

from sampan.api.faults import FieldError
from sampan.api.types.apiextensions_v1 import CustomResourceValidation, JSONSchemaProps
from sampan.apiserver.registry.podspec.formats import FieldErrors

_TEXT_FORMATS = frozenset(
    [
        *("bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5"),
        *("isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date"),
        *("duration", "datetime", "k8sshortname", "k8slongname"),
    ]
)
_FORMATS = {"integer": ("int32", "int64"), "number": ("float", "double")}


def validate_schema(validation: CustomResourceValidation | None, at: str) -> FieldErrors:
    schema = validation.openAPIV3Schema if validation is not None else None
    if schema is None:
        return
    at = f"{at}.openAPIV3Schema"
    if schema.nullable:
        yield FieldError.forbidden(f"{at}.nullable", "nullable cannot be true at the root")
    if not schema.type:
        yield FieldError.required(f"{at}.type", "must not be empty at the root")
    elif schema.type != "object":
        yield FieldError.invalid(f"{at}.type", schema.type, "must be object at the root")


def unknown_formats(validation: CustomResourceValidation | None) -> Iterator[str]:
    """Yield formats that are unknown and therefore not validated."""
    schema = validation.openAPIV3Schema if validation is not None else None
    for part in _parts(schema) if schema is not None else ():
        if part.format and not _is_known(part.type, part.format):
            yield part.format


def _is_known(kind: str, name: str) -> bool:
    if kind in ("", "string"):
        return name.replace("-", "") in _TEXT_FORMATS
    return name in _FORMATS.get(kind, ())


def _parts(schema: JSONSchemaProps) -> Iterator[JSONSchemaProps]:
    """Yield the schema and all schemas nested in it."""
    yield schema
    for group in (schema.allOf, schema.oneOf, schema.anyOf, schema.properties.values(), schema.definitions.values()):
        for part in group:
            yield from _parts(part)
    items = schema.items if isinstance(schema.items, list) else [schema.items]
    for single in (*items, schema.not_, schema.additionalProperties, schema.additionalItems):
        if isinstance(single, JSONSchemaProps):
            yield from _parts(single)
    for part in schema.patternProperties.values():
        yield from _parts(part)
