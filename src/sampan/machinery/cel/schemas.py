"""Types of variables from the schemas of kinds, built-in and custom (`k8s.io/apiserver/pkg/cel/common`).

A schema bounds the sizes of values (`maxLength`, `maxItems`, `maxProperties`); otherwise they are bounded by the size
of a request. The cost estimation uses these sizes. Schemas may be cyclic, so the types of fields are created on demand.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from sampan.api.limits import REQUEST_BODY_BYTES
from sampan.api.schema.tree import UNSPECIFIED, Schema
from sampan.machinery.cel.checker.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    ObjectType,
    Type,
    TypeField,
    limit_size,
    list_of,
    map_of,
)
from sampan.machinery.cel.escapes import escape_name
from sampan.machinery.cel.runtime.values import UnorderedList, parse_duration, parse_timestamp

_MAX_STRING_BYTES = REQUEST_BODY_BYTES - 2
_SCALARS: Final[Mapping[str, tuple[Type, int]]] = {"boolean": (BOOL, 4), "number": (DOUBLE, 1), "integer": (INT, 1)}
_FORMATS: Final[Mapping[str, tuple[Type, int, int]]] = {
    "duration": (DURATION, 3, 32),
    "date": (TIMESTAMP, 12, 12),
    "date-time": (TIMESTAMP, 21, 32),
    "micro-time": (TIMESTAMP, 21, 32),
}
"""By format of a string: the type of its values, and the minimum and maximum size of a value in JSON."""
_TEXT = Schema(type="string")
_KEY = limit_size(STRING, 0)
"""The type of the keys of maps, whose sizes count as 0."""


class DeclaredType(NamedTuple):
    type: Type
    min_size: int
    """The size of the smallest value in JSON, in bytes."""


def declared_type(schema: Schema, name: str, *, is_resource: bool = False) -> Type | None:
    """Return the type of the values of a schema; None if expressions cannot access them, because their content is
    unspecified. `apiVersion`, `kind`, `metadata.name` and `metadata.generateName` of a resource are always
    accessible."""
    declared = declare(schema, name, is_resource=is_resource)
    return None if declared is None else declared.type


def declare(schema: Schema, name: str, *, is_resource: bool = False) -> DeclaredType | None:
    if schema.is_int_or_string:
        return DeclaredType(limit_size(DYN, _max_length(schema, _MAX_STRING_BYTES)), 1)
    if schema.type == "array":
        return _declare_list(schema, name)
    if schema.type == "object":
        if schema.is_map and schema.additional is not UNSPECIFIED:
            return _declare_map(schema, name)
        return _declare_object(schema, name, is_resource=is_resource)
    if schema.type == "string":
        return _declare_string(schema)
    scalar = _SCALARS.get(schema.type)
    return None if scalar is None else DeclaredType(*scalar)


def _declare_list(schema: Schema, name: str) -> DeclaredType | None:
    items = None if schema.items is None else declare(schema.items, f"{name}.@idx", is_resource=schema.items.embedded)
    if items is None:
        return None
    size = _read_limit(schema, "maxItems", _MAX_STRING_BYTES // (items.min_size + 1))
    return DeclaredType(list_of(items.type, max_size=size), 2)


def _declare_map(schema: Schema, name: str) -> DeclaredType | None:
    assert schema.additional is not None
    values = declare(schema.additional, f"{name}.@elem", is_resource=schema.additional.embedded)
    if values is None:
        return None
    size = _read_limit(schema, "maxProperties", _MAX_STRING_BYTES // (values.min_size + 6))
    return DeclaredType(map_of(_KEY, values.type, max_size=size), 2)


def _declare_object(schema: Schema, name: str, *, is_resource: bool) -> DeclaredType:
    properties = _with_metadata(schema.properties) if is_resource else schema.properties
    min_size = 2
    for field in set(schema.required):
        value = properties.get(field)
        if value is None or not isinstance(value.default, type(_TEXT.default)):
            continue
        declared = declare(value, f"{name}.{field}", is_resource=value.embedded)
        if declared is not None:
            min_size += len(field) + declared.min_size + 4
    return DeclaredType(_SchemaObject(schema.name or name, properties), min_size)


def _declare_string(schema: Schema) -> DeclaredType:
    if schema.format == "byte":
        return DeclaredType(limit_size(BYTES, _read_limit(schema, "maxLength", _MAX_STRING_BYTES)), 2)
    if schema.format in _FORMATS:
        type_, minimum, largest = _FORMATS[schema.format]
        return DeclaredType(limit_size(type_, largest), minimum)
    longest = _MAX_STRING_BYTES
    if schema.enum:
        longest = max((len(value.encode()) for value in schema.enum if isinstance(value, str)), default=0)
    return DeclaredType(limit_size(STRING, _max_length(schema, longest)), 2)


def _read_limit(schema: Schema, key: str, otherwise: int) -> int:
    value = (schema.openapi or {}).get(key)
    return max(value, 0) if isinstance(value, int) else otherwise


def _max_length(schema: Schema, otherwise: int) -> int:
    """Return the maximum length of a string in bytes, assuming four bytes for each character; `otherwise` if the schema
    sets no maximum."""
    length = _read_limit(schema, "maxLength", -1)
    return otherwise if length < 0 else length * 4


def _with_metadata(properties: Mapping[str, Schema]) -> Mapping[str, Schema]:
    metadata = properties.get("metadata")
    own = metadata.properties if metadata is not None else {}
    if not all(field in own and own[field].type == "string" for field in ("name", "generateName")):
        metadata = Schema(type="object", properties={"name": _TEXT, "generateName": _TEXT})
    assert metadata is not None
    return {**properties, "apiVersion": _TEXT, "kind": _TEXT, "metadata": metadata}


class _SchemaObject(ObjectType):
    __slots__ = ()

    def __init__(self, name: str, properties: Mapping[str, Schema]) -> None:
        super().__init__(name, {})
        self.fields = _EscapedFields(name, properties)


class _EscapedFields(Mapping[str, TypeField]):
    """The fields of an object by their escaped names."""

    def __init__(self, name: str, properties: Mapping[str, Schema]) -> None:
        self._name = name
        self._properties = {text: (field, properties[field]) for field in properties if (text := escape_name(field))}
        self._known: dict[str, TypeField | None] = {}

    def __getitem__(self, key: str) -> TypeField:
        if key not in self._known:
            field, schema = self._properties[key]
            type_ = declared_type(schema, f"{self._name}.{field}", is_resource=schema.embedded)
            self._known[key] = None if type_ is None else TypeField(field, type_)
        declared = self._known[key]
        if declared is None:
            raise KeyError(key)
        return declared

    def __iter__(self) -> Iterator[str]:
        return iter(self._properties)

    def __len__(self) -> int:
        return len(self._properties)


Adapter = Callable[[Any], Any]
"""Converts a JSON value to the value that expressions see."""


def value_adapter(schema: Schema) -> Adapter | None:
    """Return the function that converts JSON values of a schema to the values that expressions see: times, durations
    and bytes are strings in JSON. Return None if no value has to be converted."""
    if schema.type == "array":
        inner = value_adapter(schema.items) if schema.items is not None else None
        if schema.list_type in ("set", "map"):
            return _unordered_adapter(inner or _keep_value, schema.list_keys if schema.list_type == "map" else ())
        return None if inner is None else _list_adapter(inner)
    if schema.type == "object":
        return _object_adapter(schema)
    return _FORMAT_ADAPTERS.get(schema.format) if schema.type == "string" else None


def _list_adapter(inner: Adapter) -> Adapter:
    return lambda value: [inner(item) for item in value] if isinstance(value, list) else value


def _unordered_adapter(inner: Adapter, keys: tuple[str, ...]) -> Adapter:
    def convert(value: Any) -> Any:
        return UnorderedList([inner(item) for item in value], keys) if isinstance(value, list) else value

    return convert


def _object_adapter(schema: Schema) -> Adapter | None:
    members = {name: adapt for name, child in schema.properties.items() if (adapt := value_adapter(child)) is not None}
    other = value_adapter(schema.additional) if schema.additional is not None else None
    if not members and other is None:
        return None

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: (members.get(name) or other or _keep_value)(member) for name, member in value.items()}

    return convert


def _keep_value(value: Any) -> Any:
    return value


def _string_adapter(parse: Callable[[str], Any]) -> Adapter:
    def convert(value: Any) -> Any:
        try:
            return parse(value)
        except (ValueError, TypeError):
            return value

    return convert


_FORMAT_ADAPTERS: Final[Mapping[str, Adapter]] = {
    "byte": _string_adapter(b64decode),
    "date": _string_adapter(lambda text: parse_timestamp(f"{text}T00:00:00Z")),
    "date-time": _string_adapter(parse_timestamp),
    "micro-time": _string_adapter(parse_timestamp),
    "duration": _string_adapter(parse_duration),
}
