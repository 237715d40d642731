"""An object in the cache, and its creation from a stored value."""

import sys
from collections.abc import Callable
from typing import Any

import msgspec

from sampan.storage.cacher.errors import CorruptValue, Undecipherable
from sampan.storage.cacher.extract import DecodeValue, Extract, Labels
from sampan.storage.cacher.shape import Shape
from sampan.storage.cacher.splice import respliced, splice

_PROTOBUF = b"k8s\x00"
_ENCRYPTED = b"k8s:enc:"


_REPLACED = object()
"""Marks the decoded form of an item that only the history still references."""


class Item(msgspec.Struct, gc=False, eq=False):
    """An object at one resource version, immutable except for the cached decoded form.

    It opts out of cyclic garbage collection because nothing that it references leads back to it.
    """

    key: str
    namespace: str
    revision: int
    head: bytes
    """Kind and apiVersion; nearly all items of a resource share one object."""
    body: bytes
    """The rest of the object from the metadata on, with the resource version in place."""
    labels: Labels
    fields: tuple[str, ...]
    decoded: Any = None

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def raw(self) -> bytes:
        """The object as JSON."""
        return self.head + self.body

    def at(self, revision: int) -> "Item":
        """Return the same content at another resource version, as used for deletions."""
        body = respliced(self.body, self.revision, revision)
        return Item(self.key, self.namespace, revision, self.head, body, self.labels, self.fields)

    def object(self, decode: Callable[[bytes], Any]) -> Any:
        """Return the decoded object, shared and read-only; it is decoded once while the item is in the cache."""
        if self.decoded is None:
            self.decoded = decode(self.raw)
        elif self.decoded is _REPLACED:
            return decode(self.raw)
        return self.decoded

    def replace(self) -> None:
        """Drop the decoded form when the item leaves the cache.

        The history keeps only the bytes, because the decoded form is many times as large; a slow watcher decodes them
        again.
        """
        self.decoded = _REPLACED


class ItemMaker:
    """Creates items of one resource from keys and stored values."""

    def __init__(self, *, shape: Shape, decode_value: DecodeValue, convert_value: DecodeValue | None = None) -> None:
        self._shape = shape
        self._extract = Extract(shape)
        self._decode_value = decode_value
        self._convert_value = convert_value

    def make(self, key: str, value: bytes, revision: int, like: Item | None = None) -> Item:
        """Create an item; it shares equal parts with `like`, the previous item of the key. Raise `CorruptValue`."""
        try:
            if value.startswith(_PROTOBUF):
                value = self._decode_value(value)
            elif value.startswith(_ENCRYPTED):
                raise Undecipherable(key, f"it is encrypted ({_key_of(value)}), and no key that was given opens it")
            labels, fields, head, body = self._parts(value, revision, like)
            if head is not self._shape.head and self._convert_value is not None:
                labels, fields, head, body = self._parts(self._convert_value(value), revision, like)
            if like is None:
                namespace = sys.intern(self._shape.namespace_of(key))
            else:
                key, namespace = like.key, like.namespace
        except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptValue(key, str(error)) from error
        return Item(key, namespace, revision, head, body, labels, fields)

    def _parts(self, value: bytes, revision: int, like: Item | None) -> tuple[Labels, tuple[str, ...], bytes, bytes]:
        labels, fields, has_version = self._extract(value, like.fields if like is not None else ())
        return labels, fields, *splice(value, revision, self._shape.head, is_clean=not has_version)


def _key_of(value: bytes) -> str:
    """Return the provider and the name of the key that the value was encrypted with."""
    provider, _, rest = value[len(_ENCRYPTED) :].partition(b":v1:")
    name, colon, _ = rest.partition(b":")
    return f"{provider.decode()} key {name.decode()!r}" if colon and len(name) < 256 else "in a way that is not known"
