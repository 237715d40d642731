"""The description of a resource for the cacher (`CachedResource`: key prefix, kind and selectable fields), and the
extraction of labels and selectable fields from the bytes of an object (`FieldExtractor`).

An object is decoded only in part: the decoder is a tree of structs built from the field paths of a `CachedResource`,
and everything else in the object is skipped without being built."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from sys import intern
from typing import Any, NamedTuple, cast

import msgspec

from sampan.host.bounded_cache import BoundedCache


@dataclass(frozen=True, slots=True)
class CachedField:
    """A selectable field, in addition to metadata.name and metadata.namespace, which every resource has."""

    label: str
    paths: tuple[str, ...]
    """Dotted paths of the value, of which the first that is set counts; without paths the value is the default."""
    default: str = ""
    indexed: bool = False
    """Whether to maintain an index from values to objects."""
    aliases: tuple[str, ...] = ()
    """Names of the field in other API versions of the resource."""


@dataclass(frozen=True)
class CachedResource:
    prefix: str
    """The prefix of the storage keys, including the trailing slash."""
    kind: str
    api_version: str
    plural: str
    group: str = ""
    list_kind: str = ""
    is_namespaced: bool = True
    fields: tuple[CachedField, ...] = ()
    is_custom: bool = False
    """Whether this is a custom resource, whose lists include kind and apiVersion in items, and an empty continue token.
    """
    bookmark_rest: bytes = b""
    """The part of a bookmark of this kind after its metadata, for example b',"spec":{},"status":{}'."""

    def __post_init__(self) -> None:
        if not self.prefix.endswith("/"):
            raise ValueError(f"prefix {self.prefix!r} must end with a slash")

    @cached_property
    def head(self) -> bytes:
        """The start of the JSON of an object of this kind, up to its metadata."""
        return b'{"kind":"%b","apiVersion":"%b",' % (self.kind.encode(), self.api_version.encode())

    @cached_property
    def list_head(self) -> bytes:
        kind = self.list_kind or self.kind + "List"
        return b'{"kind":"%b","apiVersion":"%b","metadata":' % (kind.encode(), self.api_version.encode())

    @cached_property
    def positions(self) -> dict[str, int]:
        """The index in `CacheItem.fields` of each field name."""
        return {
            label: position for position, field in enumerate(self.fields) for label in (field.label, *field.aliases)
        }

    def key(self, namespace: str, name: str) -> str:
        return f"{self.prefix}{namespace}/{name}" if self.is_namespaced else self.prefix + name

    def scope(self, namespace: str) -> str:
        """Return the prefix of the keys in a namespace, or of all keys."""
        return f"{self.prefix}{namespace}/" if namespace and self.is_namespaced else self.prefix

    def namespace_of(self, key: str) -> str:
        if not self.is_namespaced:
            return ""
        namespace, slash, name = key[len(self.prefix) :].partition("/")
        if not slash or not name:
            raise ValueError("the key has no namespace")
        return namespace


Scalar = str | int | float | bool | None
Labels = dict[str, str]
_NO_LABELS: Labels = {}
_EMPTY_RAW = msgspec.Raw(b"")
_UNSET = (None, "")
"""Values of a field that count as not set."""
_decode_labels = msgspec.json.Decoder(dict[str, str | None] | None).decode


class FieldExtractor:
    """Extracts from an object's JSON its labels, its field values in the order of the shape, and whether it has a
    resourceVersion.

    Equal label maps are returned as one shared dict, which must not be modified.
    """

    def __init__(self, shape: CachedResource) -> None:
        tree: dict[str, Any] = {"metadata": {"labels": msgspec.Raw, "resourceVersion": msgspec.Raw}}
        paths = [(path, field) for field in shape.fields for path in field.paths]
        for path, field in paths:
            _add_leaf(tree, path.split("."), field.default if len(field.paths) == 1 else None)
        struct, names = _struct("Object", tree)
        all_paths = ["metadata.labels", "metadata.resourceVersion", *(path for path, _ in paths)]
        self._decode = msgspec.json.Decoder(struct).decode
        self._get = attrgetter(*[_attribute(names, path) for path in all_paths])
        self._plan = [(len(field.paths), field.default) for field in shape.fields]
        self._paths = [([path.split(".") for path in field.paths], field.default) for field in shape.fields]
        self._pool: BoundedCache[bytes, Labels] = BoundedCache(
            self._intern_labels, max_entries=10_000, max_entry_bytes=8 << 10, max_bytes=16 << 20
        )

    def __call__(self, value: bytes, like: tuple[str, ...] = ()) -> tuple[Labels, tuple[str, ...], bool]:
        """Extract from `value`; if the field values equal `like`, that tuple is returned so that it is shared."""
        try:
            raw, version, *values = self._get(self._decode(value))
        except (msgspec.ValidationError, AttributeError):  # a part of the path is null or has another type
            return self._extract_slowly(value)
        labels = _NO_LABELS if raw is _EMPTY_RAW else self._pool[bytes(raw)]
        fields = tuple(values)
        if fields != like:
            fields = self._texts(values)
        return labels, like if fields == like else fields, version is not _EMPTY_RAW

    def _texts(self, values: list[Scalar]) -> tuple[str, ...]:
        scalars = iter(values)
        return tuple(
            [
                _text(next(scalars), default)
                if count == 1
                else _pick_first_set([next(scalars) for _ in range(count)], default)
                for count, default in self._plan
            ]
        )

    def _intern_labels(self, raw: bytes) -> Labels:
        return {intern(k): intern(v or "") for k, v in (_decode_labels(raw) or {}).items()}

    def _extract_slowly(self, value: bytes) -> tuple[Labels, tuple[str, ...], bool]:
        """Extract from an object with an unexpected type at a field path; such a field counts as not set."""
        decoded = msgspec.json.decode(value)
        if not isinstance(decoded, dict):
            raise msgspec.ValidationError("Expected `object`")
        metadata = decoded.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        labels = metadata.get("labels")
        pairs = labels.items() if isinstance(labels, dict) else ()
        fields = [
            _pick_first_set([_look_up(decoded, path) for path in paths], default) for paths, default in self._paths
        ]
        return {k: v for k, v in pairs if isinstance(v, str)}, tuple(fields), "resourceVersion" in metadata


class _FieldLeaf(NamedTuple):
    default: str | None


def _add_leaf(tree: dict[str, Any], path: list[str], default: str | None) -> None:
    """Put a leaf at the path; if two fields share a path, they keep the default only if it is the same."""
    for part in path[:-1]:
        branch = tree.setdefault(part, {})
        if not isinstance(branch, dict):
            raise ValueError(f"field path {'.'.join(path)} goes through a value")
        tree = branch
    leaf = tree.setdefault(path[-1], _FieldLeaf(default))
    if isinstance(leaf, _FieldLeaf) and leaf.default != default:
        tree[path[-1]] = _FieldLeaf(None)


Names = dict[str, tuple[str, "Names"]]


def _struct(name: str, tree: dict[str, Any]) -> tuple[type[msgspec.Struct], Names]:
    """Return a struct type with a member for each entry of the tree, empty by default, and the attribute names of the
    keys."""
    names: Names = {}
    members: list[tuple[str, Any, Any]] = []
    for number, (key, inner) in enumerate(tree.items()):
        attribute = f"f{number}"
        below: Names = {}
        if isinstance(inner, dict):
            kind, below = _struct(f"{name}_{attribute}", inner)
            members.append((attribute, kind | None, kind()))
        elif inner is msgspec.Raw:  # a union with None would accept nothing but null
            members.append((attribute, inner, _EMPTY_RAW))
        else:
            members.append((attribute, Scalar, inner.default))
        names[key] = (attribute, below)
    rename = {attribute: key for key, (attribute, _) in names.items()}
    return msgspec.defstruct(name, members, rename=rename, gc=False, frozen=True), names


def _attribute(names: Names, path: str) -> str:
    attributes = []
    for part in path.split("."):
        attribute, names = names[part]
        attributes.append(attribute)
    return ".".join(attributes)


def _look_up(value: Any, path: list[str]) -> Scalar:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, str | int | float | bool) else None


def _pick_first_set(values: list[Scalar], default: str) -> str:
    return next((_text(value, default) for value in values if value not in _UNSET), default)


def _text(value: Scalar, default: str) -> str:
    if value.__class__ is str:
        return intern(value or default)
    if isinstance(value, bool):
        return "true" if value else "false"
    return default if value is None else str(value)


DecodeValue = Callable[[bytes], bytes]


def require_json(value: bytes) -> bytes:
    """Return a stored value unchanged if it is JSON. Raise DecodeError for other values, for which this server has no
    decoder."""
    if value.startswith(b"{"):
        return value
    raise msgspec.DecodeError(f"no decoder for values that begin with {cast(object, value[:4])!r}")
