"""Labels and selectable fields out of an object's bytes, by one partial decode.

The decoder is a tree of structs made from the field paths of a `Shape`: everything else in the object is skipped over
without being built.
"""

from collections.abc import Callable
from operator import attrgetter
from sys import intern
from typing import Any, NamedTuple, cast

import msgspec

from sampan.storage.cacher.shape import Shape

Scalar = str | int | float | bool | None
Labels = dict[str, str]
_NO_LABELS: Labels = {}
_NOTHING = msgspec.Raw(b"")
_UNSET = (None, "")
"""Both count as not set."""
_decode_labels = msgspec.json.Decoder(dict[str, str | None] | None).decode


class Extract:
    """Called with an object's JSON, gives its labels, its field values in the order of the shape, and whether its
    metadata names a resourceVersion.

    Equal label maps come out as one shared dict, which nobody may change.
    """

    _POOL = 10_000

    def __init__(self, shape: Shape) -> None:
        tree: dict[str, Any] = {"metadata": {"labels": msgspec.Raw, "resourceVersion": msgspec.Raw}}
        paths = [(path, field) for field in shape.fields for path in field.paths]
        for path, field in paths:
            _plant(tree, path.split("."), field.default if len(field.paths) == 1 else None)
        struct, names = _struct("Object", tree)
        wanted = ["metadata.labels", "metadata.resourceVersion", *(path for path, _ in paths)]
        self._decode = msgspec.json.Decoder(struct).decode
        self._get = attrgetter(*[_attribute(names, path) for path in wanted])
        self._plan = [(len(field.paths), field.default) for field in shape.fields]
        self._paths = [([path.split(".") for path in field.paths], field.default) for field in shape.fields]
        self._pool: dict[bytes, Labels] = {}

    def __call__(self, value: bytes, like: tuple[str, ...] = ()) -> tuple[Labels, tuple[str, ...], bool]:
        """`like` are the field values that are expected, given back if they are the same."""
        try:
            raw, version, *values = self._get(self._decode(value))
        except (msgspec.ValidationError, AttributeError):  # something else, or null, where a part is expected
            return self._slowly(value)
        labels = _NO_LABELS if raw is _NOTHING else self._shared(bytes(raw))
        fields = tuple(values)
        if fields != like:
            fields = self._texts(values)
        return labels, like if fields == like else fields, version is not _NOTHING

    def _texts(self, values: list[Scalar]) -> tuple[str, ...]:
        at = iter(values)
        return tuple(
            [
                _text(next(at), default) if count == 1 else _first([next(at) for _ in range(count)], default)
                for count, default in self._plan
            ]
        )

    def _shared(self, raw: bytes) -> Labels:
        labels = self._pool.get(raw)
        if labels is None:
            labels = {intern(k): intern(v or "") for k, v in (_decode_labels(raw) or {}).items()}
            if len(self._pool) >= self._POOL:
                self._pool.clear()
            self._pool[raw] = labels
        return labels

    def _slowly(self, value: bytes) -> tuple[Labels, tuple[str, ...], bool]:
        """For objects that have something else than a value where one is expected: that counts as not set."""
        found = msgspec.json.decode(value)
        if not isinstance(found, dict):
            raise msgspec.ValidationError("Expected `object`")
        metadata = found.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        labels = metadata.get("labels")
        pairs = labels.items() if isinstance(labels, dict) else ()
        fields = [_first([_dig(found, path) for path in paths], default) for paths, default in self._paths]
        return {k: v for k, v in pairs if isinstance(v, str)}, tuple(fields), "resourceVersion" in metadata


class _Leaf(NamedTuple):
    default: str | None


def _plant(tree: dict[str, Any], path: list[str], default: str | None) -> None:
    """Put a leaf at the path. Two fields may be at one path if they have the same default."""
    for part in path[:-1]:
        branch = tree.setdefault(part, {})
        if not isinstance(branch, dict):
            raise ValueError(f"field path {'.'.join(path)} goes through a value")
        tree = branch
    leaf = tree.setdefault(path[-1], _Leaf(default))
    if isinstance(leaf, _Leaf) and leaf.default != default:
        tree[path[-1]] = _Leaf(None)


Names = dict[str, tuple[str, "Names"]]


def _struct(name: str, tree: dict[str, Any]) -> tuple[type[msgspec.Struct], Names]:
    """A struct with a member for each entry, empty by default, and the attribute that each key became."""
    names: Names = {}
    members: list[tuple[str, Any, Any]] = []
    for number, (key, inner) in enumerate(tree.items()):
        attribute = f"f{number}"
        below: Names = {}
        if isinstance(inner, dict):
            kind, below = _struct(f"{name}_{attribute}", inner)
            members.append((attribute, kind | None, kind()))
        elif inner is msgspec.Raw:  # a union with None would not take anything but null
            members.append((attribute, inner, _NOTHING))
        else:
            members.append((attribute, Scalar, inner.default))
        names[key] = (attribute, below)
    rename = {attribute: key for key, (attribute, _) in names.items()}
    return msgspec.defstruct(name, members, rename=rename, gc=False, frozen=True), names


def _attribute(names: Names, path: str) -> str:
    found = []
    for part in path.split("."):
        attribute, names = names[part]
        found.append(attribute)
    return ".".join(found)


def _dig(found: Any, path: list[str]) -> Scalar:
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, str | int | float | bool) else None


def _first(values: list[Scalar], default: str) -> str:
    return next((_text(value, default) for value in values if value not in _UNSET), default)


def _text(value: Scalar, default: str) -> str:
    if value.__class__ is str:
        return intern(value or default)
    if isinstance(value, bool):
        return "true" if value else "false"
    return default if value is None else str(value)


DecodeValue = Callable[[bytes], bytes]


def no_decoder(value: bytes) -> bytes:
    """The `decode_value` of a server that reads only JSON."""
    raise msgspec.DecodeError(f"no decoder for values that begin with {cast(object, value[:4])!r}")
