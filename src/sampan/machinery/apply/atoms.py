"""The merge behavior and field ownership that the schemas of a kind define, in each of its versions: an `Atom` says
whether a place is a leaf, and what is below it.

A place may allow a scalar, a map and a list at once (where the schema is unspecified); the value decides which of them
applies. Atoms are created only as far as values reach, because schemas may be recursive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from msgspec import UNSET

from sampan.api.schema import schemas
from sampan.api.schema.tree import Schema


class MissingVersion(ValueError):
    """The kind does not exist in that version, or no longer exists."""


class VersionedSchemas(Protocol):
    def atom(self, api_version: str) -> Atom:
        """Return the atom of a version. Raise MissingVersion if the kind has no such version."""

    def convert(self, value: Any, api_version: str) -> Any:
        """Convert a complete object, which contains its own version; the result may share parts. Raise
        MissingVersion."""


Scalar = Literal["", "string", "numeric", "boolean", "untyped"]
Form = Literal["map", "scalar", "list"]

_RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_FIELDS_V1 = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_TEXT = Schema(type="string")


class Atom:
    """The merge behavior of one place in an object. A place that does not allow a scalar has an empty `scalar`, one
    that does not allow a map has the `fields` None, and one that does not allow a list has a false `is_list`."""

    __slots__ = (
        "_item",
        "_make_item",
        "element",
        "fields",
        "first",
        "is_atomic_list",
        "is_atomic_map",
        "is_exact",
        "is_free",
        "is_list",
        "keys",
        "scalar",
    )

    def __init__(
        self,
        *,
        scalar: Scalar = "",
        fields: FieldAtoms | None = None,
        element: Atom | None = None,
        is_atomic_map: bool = False,
        item: Callable[[], Atom] | None = None,
        is_atomic_list: bool = True,
        keys: tuple[tuple[str, Any], ...] = (),
        is_exact: bool = True,
        is_free: bool = False,
    ) -> None:
        self.scalar, self.fields, self.element, self.keys = scalar, fields, element, keys
        """`element` describes the values of undeclared keys; None if they are not allowed. `keys` are the sorted key
        names of an associative list's items, with their defaults; a list without keys is a set."""
        self.is_atomic_map, self.is_atomic_list = is_atomic_map, is_atomic_list
        self.is_list = item is not None
        self._make_item = item
        self._item: Atom | None = None
        self.is_exact = is_exact
        """Whether each value here has only one type, so that Python's equality (1 == True) is safe."""
        self.is_free = is_free
        """Whether the type of a value here is unspecified."""
        self.first: Form = "map" if fields is not None else "scalar" if scalar else "list"
        """The form in which a null is treated. It is also the expected form in the error for a value of a wrong
        type."""

    def form(self, value: Any) -> Form:
        if isinstance(value, dict):
            return "map" if self.fields is not None else self.first
        if isinstance(value, list):
            return "list" if self.is_list else self.first
        return "scalar" if self.scalar and value is not None and value is not MISSING else self.first

    def item(self) -> Atom:
        """Return the atom of a list's item, created on first use."""
        if self._item is None:
            assert self._make_item is not None
            self._item = self._make_item()
        return self._item

    def child(self, name: str) -> Atom | None:
        """Return the atom of the value under a key of a map; None if the schema does not allow the key."""
        atom = self.fields[name] if self.fields is not None else None
        return atom if atom is not None else self.element

    def declares(self, name: str) -> bool:
        return self.fields is not None and self.fields[name] is not None


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
"""Marks a value that does not exist, unlike one that is null."""


class FieldAtoms(dict[str, Atom | None]):
    """The atoms of the fields that a map declares, created on first use; None for a field that is not declared."""

    def __init__(self, properties: Mapping[str, Schema], is_open: bool) -> None:
        super().__init__()
        self._properties, self._is_open = properties, is_open

    def __missing__(self, name: str) -> Atom | None:
        schema = self._properties.get(name)
        if schema is None:
            return None
        atom = self[name] = build_atom(schema, is_open=self._is_open)
        return atom

    def __bool__(self) -> bool:
        return bool(self._properties)


def build_object_atom(schema: Schema, *, is_custom: bool) -> Atom:
    """Return the atom of a complete object. The atom of a custom resource also has the metadata that all objects
    have."""
    return build_atom(_with_identity(schema) if is_custom else schema)


def build_atom(schema: Schema, *, is_open: bool = False) -> Atom:
    """Return the atom of a schema. `is_open` means that an object above preserves unknown fields, which applies to
    everything below it."""
    is_open = is_open or schema.preserve_unknown
    if schema.name == _RAW_EXTENSION:
        return UNTYPED_ATOM
    if schema.format == "quantity":
        return _QUANTITY
    match schema.type:
        case "object":
            return Atom(is_exact=not is_open and _is_exact(schema, set()), **_map(schema, is_open))
        case "array":
            return Atom(is_exact=not is_open and _is_exact(schema, set()), **_list(schema, is_open))
        case "":
            return Atom(
                scalar="untyped", is_exact=False, is_free=True, **_map(schema, is_open), **_list(schema, is_open)
            )
    return _scalar(schema)


def _is_exact(schema: Schema, visited: set[int]) -> bool:
    """Whether the schema specifies the type of every value at its place and below."""
    if schema.name == _FIELDS_V1:  # only managedFields have this type, and they are not compared
        return True
    if schema.preserve_unknown or schema.embedded or (not schema.type and not schema.is_int_or_string):
        return False
    if schema.type == "object":
        if id(schema.properties) in visited:
            return True
        visited.add(id(schema.properties))
        if not schema.properties and schema.additional is None:
            return False
        if not all(_is_exact(child, visited) for child in schema.properties.values()):
            return False
    below = schema.items if schema.type == "array" else schema.additional
    return below is None or _is_exact(below, visited)


def _map(schema: Schema, is_open: bool) -> dict[str, Any]:
    properties = _with_identity(schema).properties if schema.embedded else schema.properties
    element: Atom | None = None
    if schema.additional is not None:
        element = build_atom(schema.additional, is_open=is_open)
    elif is_open or not properties:
        element = DEDUCED_ATOM
    return {
        "fields": FieldAtoms(properties, is_open),
        "element": element,
        "is_atomic_map": schema.map_type == "atomic",
    }


def _list(schema: Schema, is_open: bool) -> dict[str, Any]:
    is_atomic, names = _relation(schema)
    item = schema.items
    return {
        "item": (lambda: build_atom(item, is_open=is_open)) if item is not None else (lambda: UNTYPED_ATOM),
        "is_atomic_list": is_atomic,
        "keys": tuple((name, _default(item, name)) for name in sorted(names)),
    }


def _relation(schema: Schema) -> tuple[bool, tuple[str, ...]]:
    """Return whether the list is atomic, and the keys of its items. Without a list type the patch strategy decides."""
    if schema.list_type:
        return schema.list_type == "atomic", schema.list_keys if schema.list_type == "map" else ()
    if "merge" in schema.patch_strategy:
        return False, (schema.patch_key,) if schema.patch_key else ()
    return True, ()


def _default(item: Schema | None, name: str) -> Any:
    schema = item.properties.get(name) if item is not None else None
    if schema is None:
        return MISSING
    if schema.default is not UNSET:
        return schema.default
    return _ZEROS.get(schema.type, MISSING) if schema.zero else MISSING


_ZEROS: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}


def _with_identity(schema: Schema) -> Schema:
    identity = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": schemas.definition(_OBJECT_META)}
    return Schema(
        type="object",
        properties={**schema.properties, **identity},
        additional=schema.additional,
        map_type=schema.map_type,
        preserve_unknown=schema.preserve_unknown,
    )


def _scalar(schema: Schema) -> Atom:
    if schema.type == "string":
        return _STRING if schema.format in ("", "byte") else _UNTYPED_SCALAR
    return _BOOLEAN if schema.type == "boolean" else _NUMERIC


_STRING, _NUMERIC, _BOOLEAN = Atom(scalar="string"), Atom(scalar="numeric"), Atom(scalar="boolean")
_UNTYPED_SCALAR, _QUANTITY = Atom(scalar="untyped", is_free=True), Atom(scalar="untyped")

UNTYPED_ATOM: Atom = Atom(
    scalar="untyped", fields=FieldAtoms({}, True), item=lambda: UNTYPED_ATOM, is_atomic_map=True, is_exact=False
)
UNTYPED_ATOM.element = UNTYPED_ATOM
"""The atom of a place that allows any value and treats it as a single leaf."""

DEDUCED_ATOM: Atom = Atom(
    scalar="untyped", fields=FieldAtoms({}, True), item=lambda: UNTYPED_ATOM, is_exact=False, is_free=True
)
DEDUCED_ATOM.element = DEDUCED_ATOM
"""The atom of values without a schema: maps are merged by key, lists are leaves."""
