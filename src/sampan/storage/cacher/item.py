"""An object in the cache, its creation from a stored value, and its watch events, which are encoded once for all
watchers that use the same representation.

A stored value is an object without metadata.resourceVersion that starts with its kind and apiVersion, followed by its
metadata. `splice` inserts the resource version without decoding: it cuts the value into the head (kind and apiVersion,
the same bytes for all objects of a resource) and the body, which then starts with `"metadata":{"resourceVersion":"N"`.
Values that other clients wrote in another order, with whitespace or with a version are normalized first, field by
field, without changing the fields themselves.
"""

import sys
from collections.abc import Callable, Hashable
from enum import Enum, auto
from typing import Any, Literal, Protocol

import msgspec

from sampan.storage.cacher.errors import CorruptValue, UndecipherableValue
from sampan.storage.cacher.object_fields import CachedResource, DecodeValue, FieldExtractor, Labels
from sampan.storage.cacher.watch_budget import WatchCharge

_METADATA = b'"metadata":{'
_VERSION = b'"metadata":{"resourceVersion":"'
_BRACE = ord("}")

_Fields = dict[str, msgspec.Raw]
_decode_fields = msgspec.json.Decoder(_Fields).decode


def splice(value: bytes, revision: int, head: bytes, *, is_clean: bool = True) -> tuple[bytes, bytes]:
    """Return the head and the body.

    `head` is the expected head; that same object is returned if the value starts with it. `is_clean` states that the
    metadata contains no resourceVersion.
    """
    if not (is_clean and value.startswith(head) and value.startswith(_METADATA, len(head))):
        return _rearrange_fields(value, revision, head)
    path = len(head) + len(_METADATA)
    remainder = value[path:]
    if remainder[-1] != _BRACE:
        remainder = remainder.rstrip()
    if remainder[0] == _BRACE:
        return head, b'"metadata":{"resourceVersion":"%d"' % revision + remainder
    return head, b'"metadata":{"resourceVersion":"%d",' % revision + remainder


def replace_version(body: bytes, old: int, new: int) -> bytes:
    """Return the same body at another resource version."""
    return b'"metadata":{"resourceVersion":"%d' % new + body[len(_VERSION) + len(str(old)) :]


def _rearrange_fields(value: bytes, revision: int, head: bytes) -> tuple[bytes, bytes]:
    fields = _decode_fields(msgspec.json.format(value, indent=-1))
    kind, version = (bytes(fields.pop(name, b'""')) for name in ("kind", "apiVersion"))
    metadata = _decode_fields(fields.pop("metadata", b"{}"))
    metadata.pop("resourceVersion", None)
    inner = {"resourceVersion": msgspec.Raw(b'"%d"' % revision), **metadata}
    body = msgspec.json.encode({"metadata": inner, **fields})[1:]
    own_head = b'{"kind":%b,"apiVersion":%b,' % (kind, version)
    return (head if own_head == head else own_head), body


_PREFIX = b"k8s"
"""The start of values that are not JSON: protobuf, and values that no key has decrypted."""
_ENCRYPTED = b"k8s:enc:"
_NEWLINE = b"\n"
"""The end of the JSON that kube-apiserver stores. JSON of Sampan has none, so that its values are recognized at no
cost."""


class _Retention(Enum):
    """What takes the place of the decoded form of an item that only the history still references."""

    BYTES_ONLY = auto()


class CacheItem(msgspec.Struct, gc=False, eq=False):
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
    _decoded: object | Literal[_Retention.BYTES_ONLY] | None = None
    """Only the methods of this class read it: it may hold a mark in place of an object."""

    @property
    def decoded(self) -> Any | None:
        """The decoded object if the item has it, shared and read-only; otherwise None."""
        return None if self._decoded is _Retention.BYTES_ONLY else self._decoded

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def raw(self) -> bytes:
        """The object as JSON."""
        return self.head + self.body

    def with_revision(self, revision: int) -> "CacheItem":
        """Return the same content at another resource version, as used for deletions."""
        body = replace_version(self.body, self.revision, revision)
        return CacheItem(self.key, self.namespace, revision, self.head, body, self.labels, self.fields)

    def object(self, decode: Callable[[bytes], Any]) -> Any:
        """Return the decoded object, shared and read-only; it is decoded once while the item is in the cache."""
        if self._decoded is _Retention.BYTES_ONLY:
            return decode(self.raw)
        if self._decoded is None:
            self._decoded = decode(self.raw)
        return self._decoded

    def replace(self) -> None:
        """Drop the decoded form when the item leaves the cache.

        The history keeps only the bytes, because the decoded form is many times as large; a slow watcher decodes them
        again.
        """
        self._decoded = _Retention.BYTES_ONLY


class ItemMaker:
    """Creates items of one resource from keys and stored values."""

    def __init__(
        self, *, shape: CachedResource, decode_value: DecodeValue, convert_value: DecodeValue | None = None
    ) -> None:
        self._shape = shape
        self._extract = FieldExtractor(shape)
        self._decode_value = decode_value
        self._convert_value = convert_value

    def make(self, key: str, value: bytes, revision: int, like: CacheItem | None = None) -> CacheItem:
        """Create an item; it shares equal parts with `like`, the previous item of the key. Raise `CorruptValue`."""
        try:
            if value.startswith(_PREFIX) or value.endswith(_NEWLINE):
                value = self._decode_value(_require_decrypted(key, value))
            labels, fields, head, body = self._parts(value, revision, like)
            if head is not self._shape.head and self._convert_value is not None:
                labels, fields, head, body = self._parts(self._convert_value(value), revision, like)
            if like is None:
                namespace = sys.intern(self._shape.namespace_of(key))
            else:
                key, namespace = like.key, like.namespace
        except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise CorruptValue(key, str(error)) from error
        return CacheItem(key, namespace, revision, head, body, labels, fields)

    def _parts(
        self, value: bytes, revision: int, like: CacheItem | None
    ) -> tuple[Labels, tuple[str, ...], bytes, bytes]:
        labels, fields, has_version = self._extract(value, like.fields if like is not None else ())
        return labels, fields, *splice(value, revision, self._shape.head, is_clean=not has_version)


def _require_decrypted(key: str, value: bytes) -> bytes:
    if value.startswith(_ENCRYPTED):
        raise UndecipherableValue(key, f"it is encrypted with {_key_of(value)}, which no configured key can decrypt")
    return value


def _key_of(value: bytes) -> str:
    """Return the provider and the name of the key that the value was encrypted with."""
    provider, _, remainder = value[len(_ENCRYPTED) :].partition(b":v1:")
    name, colon, _ = remainder.partition(b":")
    return f"{provider.decode()} key {name.decode()!r}" if colon and len(name) < 256 else "an unknown provider"


ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"

_FRAME = {kind: b'{"type":"%b","object":' % kind.encode() for kind in (ADDED, MODIFIED, DELETED, BOOKMARK)}
_END_MARK = b',"annotations":{"k8s.io/initial-events-end":"true"}'


class FrameEncoder(Protocol):
    """A representation of watch events other than plain JSON: protobuf, tables, metadata only, another API version."""

    @property
    def key(self) -> Hashable:
        """The cache key of frames: encoders with equal keys produce equal frames."""

    def frame(self, type: str, item: CacheItem) -> bytes:
        """Return the complete frame; the `item` of a bookmark has no key and only metadata."""


class CacheEvent(msgspec.Struct, gc=False, eq=False):
    """A watch event, shared by all watchers that receive the change as the same type; it must not be modified."""

    type: str
    item: CacheItem
    """The object; for DELETED its last state, with the resource version of the change."""
    _plain: bytes | None = None
    _others: dict[Hashable, bytes] | None = None
    charge: WatchCharge | None = None
    """The memory that the event counts against the budget of all watchers while one of them has it queued."""

    @property
    def revision(self) -> int:
        return self.item.revision

    def frame(self, encoder: FrameEncoder | None = None) -> bytes:
        if encoder is not None:
            return self._get_encoded_frame(encoder)
        if self._plain is None:
            self._plain = b"".join((_FRAME[self.type], self.item.head, self.item.body, b"}\n"))
        return self._plain

    def _get_encoded_frame(self, encoder: FrameEncoder) -> bytes:
        others = self._others
        if others is None:
            others = self._others = {}
        frame = others.get(encoder.key)
        if frame is None:
            frame = others[encoder.key] = encoder.frame(self.type, self.item)
        return frame


def bookmark(shape: CachedResource, revision: int, *, ends_initial_events: bool = False) -> CacheEvent:
    mark = _END_MARK if ends_initial_events else b""
    body = b'"metadata":{"resourceVersion":"%d"%b}%b}' % (revision, mark, shape.bookmark_rest)
    return CacheEvent(BOOKMARK, CacheItem("", "", revision, shape.head, body, {}, ()))
