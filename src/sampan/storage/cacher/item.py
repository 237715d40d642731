"""One object in the cache, and how it is made from what the store holds."""

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
"""In place of the decoded form of an item that only the history still holds."""


class Item(msgspec.Struct, gc=False, eq=False):
    """An object at one version. Immutable, but for the decoded form that is kept once somebody asked for it.

    Opts out of the cyclic collector: nothing that an item holds leads back to it.
    """

    key: str
    namespace: str
    revision: int
    head: bytes
    """Kind and apiVersion; for nearly all items of a resource the very same object."""
    body: bytes
    """The rest, from the metadata on, with the resource version in place."""
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
        """The same content with another version: what a deletion shows."""
        body = respliced(self.body, self.revision, revision)
        return Item(self.key, self.namespace, revision, self.head, body, self.labels, self.fields)

    def object(self, decode: Callable[[bytes], Any]) -> Any:
        """The decoded object, shared and read-only; decoded once, as long as the item is in the cache."""
        if self.decoded is None:
            self.decoded = decode(self.raw)
        elif self.decoded is _REPLACED:
            return decode(self.raw)
        return self.decoded

    def replace(self) -> None:
        """The item has left the cache: the history keeps its bytes, not the decoded form, which is many times as
        large. A watcher that gets to it only now decodes it once more."""
        self.decoded = _REPLACED


class ItemMaker:
    """Makes items of one resource from keys and stored values."""

    def __init__(self, *, shape: Shape, decode_value: DecodeValue, convert_value: DecodeValue | None = None) -> None:
        self._shape = shape
        self._extract = Extract(shape)
        self._decode_value = decode_value
        self._convert_value = convert_value

    def make(self, key: str, value: bytes, revision: int, like: Item | None = None) -> Item:
        """`like` is the item that this one follows, whose equal parts it shares. Raises `CorruptValue`."""
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
        except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError) as fault:
            raise CorruptValue(key, str(fault)) from fault
        return Item(key, namespace, revision, head, body, labels, fields)

    def _parts(self, value: bytes, revision: int, like: Item | None) -> tuple[Labels, tuple[str, ...], bytes, bytes]:
        labels, fields, has_version = self._extract(value, like.fields if like is not None else ())
        return labels, fields, *splice(value, revision, self._shape.head, is_clean=not has_version)


def _key_of(value: bytes) -> str:
    """Provider and name of the key that a value says it was encrypted with."""
    provider, _, rest = value[len(_ENCRYPTED) :].partition(b":v1:")
    name, colon, _ = rest.partition(b":")
    return f"{provider.decode()} key {name.decode()!r}" if colon and len(name) < 256 else "in a way that is not known"
