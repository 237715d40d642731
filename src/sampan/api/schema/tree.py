"""The schema of an API object as a tree, for patching, server-side apply, pruning, defaulting and OpenAPI.

Built-in kinds have generated trees (`schemas.definition`), those of custom resources are read from their
openAPIV3Schema (`from_openapi`); all users treat both alike. A tree may be cyclic (JSONSchemaProps contains itself), so
traverse it along a value, never on its own.
"""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from msgspec import UNSET, Struct, UnsetType

Type = Literal["object", "array", "string", "integer", "number", "boolean", ""]


class Schema(Struct, kw_only=True, omit_defaults=True):
    """One node of a schema tree. The defaults of the fields mean "unspecified"."""

    type: Type = ""
    """The JSON type of the value; empty if any type is allowed."""
    format: str = ""
    """The format of the value: int32, int64, double, byte, date-time, micro-time, quantity or int-or-string."""
    name: str = ""
    """The name of an object's definition, such as io.k8s.api.core.v1.PodSpec."""
    properties: dict[str, "Schema"] = {}
    additional: "Schema | None" = None
    """The schema of a map's values; an object has either properties or this, or neither if any content is allowed."""
    items: "Schema | None" = None
    required: tuple[str, ...] = ()
    default: Any | UnsetType = UNSET
    zero: bool = False
    """Whether OpenAPI publishes the type's zero value as the default, because the field is a plain value in Go."""
    enum: tuple[Any, ...] = ()
    nullable: bool = False
    list_type: Literal["", "atomic", "set", "map"] = ""
    """The merge behavior of a list; empty means atomic."""
    list_keys: tuple[str, ...] = ()
    map_type: Literal["", "granular", "atomic"] = ""
    """The merge behavior of a map or an object; empty means granular."""
    patch_strategy: tuple[Literal["merge", "retainKeys", "replace"], ...] = ()
    """How a strategic merge patch treats this field; empty means replace for lists, merge for objects."""
    patch_key: str = ""
    preserve_unknown: bool = False
    """Whether unknown fields are kept below this node (x-kubernetes-preserve-unknown-fields, RawExtension, JSON)."""
    embedded: bool = False
    """Whether the value is a complete object with its own apiVersion, kind and metadata
    (x-kubernetes-embedded-resource)."""
    ref: str = ""
    """For a field of a built-in kind: the definition that it refers to, whose properties it shares."""
    kinds: tuple[tuple[str, str, str], ...] = ()
    """For a definition: group, version and kind of each registration."""
    unions: tuple[dict[str, Any], ...] = ()
    """For a definition: its unions of mutually exclusive fields, as published."""
    openapi: Mapping[str, Any] | None = None
    """For a custom resource: the source of this node, with the value validations that only validation reads."""

    @property
    def tree(self) -> "Schema":
        """The schema itself: a tree is its own `SchemaSource`."""
        return self

    @property
    def is_int_or_string(self) -> bool:
        return self.format == "int-or-string"

    @property
    def is_map(self) -> bool:
        return self.type == "object" and self.additional is not None

    def child(self, field: str) -> "Schema | None":
        """Return the schema of a key of this object, or None if the schema does not have it."""
        schema = self.properties.get(field)
        return schema if schema is not None else self.additional


class SchemaSource(Protocol):
    """The source of the schema tree of a custom resource. The tree may be created on first use."""

    @property
    def tree(self) -> Schema: ...

    @property
    def openapi(self) -> Mapping[str, Any] | None:
        """The schema as it was written, for OpenAPI documents."""


ANY = Schema(preserve_unknown=True)
UNSPECIFIED = Schema(nullable=True)
"""The schema of the values below `additionalProperties: true`."""

_STRATEGIES = ("merge", "retainKeys", "replace")
_FIELD_BY_KEYWORD = {
    "nullable": "nullable",
    "x-kubernetes-list-type": "list_type",
    "x-kubernetes-map-type": "map_type",
    "x-kubernetes-patch-merge-key": "patch_key",
    "x-kubernetes-preserve-unknown-fields": "preserve_unknown",
    "x-kubernetes-embedded-resource": "embedded",
}


def from_openapi(source: Mapping[str, Any]) -> Schema:
    """Return the tree of a structural openAPIV3Schema (of a custom resource). Value validations stay in `openapi`."""
    node = Schema(openapi=source)
    kind = source.get("type", "")
    node.type = kind if kind in ("object", "array", "string", "integer", "number", "boolean") else ""
    node.format = "int-or-string" if source.get("x-kubernetes-int-or-string") else source.get("format", "")
    for key, field in _FIELD_BY_KEYWORD.items():
        if source.get(key):
            setattr(node, field, source[key])
    node.list_keys = tuple(source.get("x-kubernetes-list-map-keys") or ())
    strategy = source.get("x-kubernetes-patch-strategy") or ""
    node.patch_strategy = tuple(s for s in strategy.split(",") if s in _STRATEGIES)  # type: ignore[misc]
    node.required = tuple(source.get("required") or ())
    node.enum = tuple(source.get("enum") or ())
    if "default" in source:
        node.default = source["default"]
    node.properties = {name: from_openapi(sub) for name, sub in (source.get("properties") or {}).items()}
    additional = source.get("additionalProperties")
    if isinstance(additional, Mapping):
        node.additional = from_openapi(additional)
    elif additional is True:
        node.additional = UNSPECIFIED
    if isinstance(source.get("items"), Mapping):
        node.items = from_openapi(source["items"])
    return node


def copy_value(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    if isinstance(value, dict):
        return {k: copy_value(v) for k, v in value.items()}
    if isinstance(value, list):
        return [copy_value(v) for v in value]
    return value
