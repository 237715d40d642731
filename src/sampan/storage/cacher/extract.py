"""Labels and selectable fields out of an object's bytes, by one partial decode.

The decoder is a tree of structs made from the field paths of a `Shape`: everything else in the object is skipped over
without being built.
"""

from collections.abc import Callable
from operator import attrgetter
from sys import intern
from typing import Any, cast

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
        paths = [path for field in shape.fields for path in field.paths]
        for path in paths:
            _plant(tree, path.split("."))
        struct, names = _struct("Object", tree)
        wanted = ["metadata.labels", "metadata.resourceVersion", *paths]
        self._decode = msgspec.json.Decoder(struct).decode
        self._get = attrgetter(*[_attribute(names, path) for path in wanted])
        self._defaults = [field.default for field in shape.fields]
        self._is_simple = all(len(field.paths) == 1 for field in shape.fields)
        self._paths = [[path.split(".") for path in field.paths] for field in shape.fields]
        self._pool: dict[bytes, Labels] = {}

    def __call__(self, value: bytes) -> tuple[Labels, tuple[str, ...], bool]:
        try:
            raw, version, *values = self._get(self._decode(value))
        except (msgspec.ValidationError, AttributeError):  # something else, or null, where a part is expected
            return self._slowly(value)
        labels = bytes(raw)
        fields = self._texts(values) if self._is_simple else self._first_texts(values)
        return (self._shared(labels) if labels else _NO_LABELS), fields, bool(bytes(version))

    def _texts(self, values: list[Scalar]) -> tuple[str, ...]:
        return tuple(
            [
                intern(value) if value.__class__ is str and value else default if value in _UNSET else _text(value)
                for value, default in zip(values, self._defaults, strict=False)
            ]
        )

    def _first_texts(self, values: list[Scalar]) -> tuple[str, ...]:
        at = iter(values)
        return tuple(
            [
                next((_text(value) for value in [next(at) for _ in paths] if value not in _UNSET), default)
                for paths, default in zip(self._paths, self._defaults, strict=True)
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
        fields = [_first_in(found, paths, default) for paths, default in zip(self._paths, self._defaults, strict=True)]
        return {k: v for k, v in pairs if isinstance(v, str)}, tuple(fields), "resourceVersion" in metadata


def _plant(tree: dict[str, Any], path: list[str]) -> None:
    for part in path[:-1]:
        branch = tree.setdefault(part, {})
        if not isinstance(branch, dict):
            raise ValueError(f"field path {'.'.join(path)} goes through a value")
        tree = branch
    tree.setdefault(path[-1], Scalar)


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
            members.append((attribute, inner, None))
        names[key] = (attribute, below)
    rename = {attribute: key for key, (attribute, _) in names.items()}
    return msgspec.defstruct(name, members, rename=rename, gc=False, frozen=True), names


def _attribute(names: Names, path: str) -> str:
    found = []
    for part in path.split("."):
        attribute, names = names[part]
        found.append(attribute)
    return ".".join(found)


def _first_in(found: dict[str, Any], paths: list[list[str]], default: str) -> str:
    for path in paths:
        value: Any = found
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, str | int | float | bool) and value != "":
            return _text(value)
    return default


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return intern(str(value))


DecodeValue = Callable[[bytes], bytes]


def no_decoder(value: bytes) -> bytes:
    """The `decode_value` of a server that reads only JSON."""
    raise msgspec.DecodeError(f"no decoder for values that begin with {cast(object, value[:4])!r}")
