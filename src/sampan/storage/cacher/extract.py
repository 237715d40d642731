"""Labels and selectable fields out of an object's bytes, by one partial decode.

The decoder is a tree of structs made from the field paths of a `Shape`: everything else in the object is skipped over
without being built.
"""

import sys
from collections.abc import Callable
from typing import Any, cast

import msgspec

from sampan.storage.cacher.shape import Shape

Scalar = str | int | float | bool | None
Labels = dict[str, str]
_NO_LABELS: Labels = {}
_decode_labels = msgspec.json.Decoder(dict[str, str | None] | None).decode


class Extract:
    """Called with an object's JSON, gives its labels, its field values in the order of the shape, and whether its
    metadata names a resourceVersion.

    Equal label maps come out as one shared dict, which nobody may change.
    """

    _POOL = 10_000

    def __init__(self, shape: Shape) -> None:
        tree: dict[str, Any] = {"metadata": {"labels": msgspec.Raw, "resourceVersion": msgspec.Raw}}
        for field in shape.fields:
            for path in field.paths:
                _plant(tree, path.split("."))
        struct, names = _struct("Object", tree)
        self._decode = msgspec.json.Decoder(struct).decode
        metadata = names["metadata"]
        self._metadata = metadata[0]
        self._labels, self._version = metadata[1]["labels"][0], metadata[1]["resourceVersion"][0]
        self._plan = [([_attributes(names, path) for path in field.paths], field.default) for field in shape.fields]
        self._paths = [([path.split(".") for path in field.paths], field.default) for field in shape.fields]
        self._pool: dict[bytes, Labels] = {}

    def __call__(self, value: bytes) -> tuple[Labels, tuple[str, ...], bool]:
        try:
            found = self._decode(value)
        except msgspec.ValidationError:
            return self._slowly(value)
        metadata = getattr(found, self._metadata)
        fields = tuple([_first(found, paths, default) for paths, default in self._plan])
        if metadata is None:
            return _NO_LABELS, fields, False
        labels = getattr(metadata, self._labels)
        has_version = getattr(metadata, self._version) is not None
        return (_NO_LABELS if labels is None else self._shared(bytes(labels))), fields, has_version

    def _shared(self, raw: bytes) -> Labels:
        labels = self._pool.get(raw)
        if labels is None:
            labels = {sys.intern(k): sys.intern(v or "") for k, v in (_decode_labels(raw) or {}).items()}
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
        fields = tuple([_first_in(found, paths, default) for paths, default in self._paths])
        return {k: v for k, v in pairs if isinstance(v, str)}, fields, "resourceVersion" in metadata


def _plant(tree: dict[str, Any], path: list[str]) -> None:
    for part in path[:-1]:
        branch = tree.setdefault(part, {})
        if not isinstance(branch, dict):
            raise ValueError(f"field path {'.'.join(path)} goes through a value")
        tree = branch
    tree.setdefault(path[-1], Scalar)


Names = dict[str, tuple[str, "Names"]]


def _struct(name: str, tree: dict[str, Any]) -> tuple[type[msgspec.Struct], Names]:
    """A struct with an optional member for each entry, and the attribute that each key became."""
    names: Names = {}
    members: list[tuple[str, Any, Any]] = []
    for number, (key, inner) in enumerate(tree.items()):
        attribute = f"f{number}"
        kind: Any = inner
        below: Names = {}
        if isinstance(inner, dict):
            kind, below = _struct(f"{name}_{attribute}", inner)
        names[key] = (attribute, below)
        members.append((attribute, kind | None if kind is not Scalar else kind, None))
    rename = {attribute: key for key, (attribute, _) in names.items()}
    return msgspec.defstruct(name, members, rename=rename, gc=False), names


def _attributes(names: Names, path: str) -> tuple[str, ...]:
    found = []
    for part in path.split("."):
        attribute, names = names[part]
        found.append(attribute)
    return tuple(found)


def _first(found: object, paths: list[tuple[str, ...]], default: str) -> str:
    for path in paths:
        value: Any = found
        for attribute in path:
            value = getattr(value, attribute)
            if value is None:
                break
        else:
            text = value if type(value) is str else _text(value)
            if text:
                return sys.intern(text)
    return default


def _first_in(found: dict[str, Any], paths: list[list[str]], default: str) -> str:
    for path in paths:
        value: Any = found
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, str | int | float | bool) and (text := _text(value)):
            return text
    return default


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


DecodeValue = Callable[[bytes], bytes]


def no_decoder(value: bytes) -> bytes:
    """The `decode_value` of a server that reads only JSON."""
    raise msgspec.DecodeError(f"no decoder for values that begin with {cast(object, value[:4])!r}")
