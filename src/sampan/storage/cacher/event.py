"""Watch events, encoded once for all watchers that use the same representation."""

from collections.abc import Hashable
from typing import Protocol

import msgspec

from sampan.storage.cacher.item import Item
from sampan.storage.cacher.shape import Shape
from sampan.storage.cacher.watch_budget import Charge

ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"

_FRAME = {kind: b'{"type":"%b","object":' % kind.encode() for kind in (ADDED, MODIFIED, DELETED, BOOKMARK)}
_END_MARK = b',"annotations":{"k8s.io/initial-events-end":"true"}'


class FrameEncoder(Protocol):
    """A representation of watch events other than plain JSON: protobuf, tables, metadata only, another API version."""

    @property
    def key(self) -> Hashable:
        """The cache key of frames: encoders with equal keys produce equal frames."""

    def frame(self, type: str, item: Item) -> bytes:
        """Return the complete frame; the `item` of a bookmark has no key and only metadata."""


class WatchEvent(msgspec.Struct, gc=False, eq=False):
    """A watch event, shared by all watchers that receive the change as the same type; it must not be modified."""

    type: str
    item: Item
    """The object; for DELETED its last state, with the resource version of the change."""
    _plain: bytes | None = None
    _others: dict[Hashable, bytes] | None = None
    charge: Charge | None = None
    """What the event counts against the memory budget of all watchers while one of them has it queued."""

    @property
    def revision(self) -> int:
        return self.item.revision

    def frame(self, encoder: FrameEncoder | None = None) -> bytes:
        if encoder is not None:
            return self._other(encoder)
        if self._plain is None:
            self._plain = b"".join((_FRAME[self.type], self.item.head, self.item.body, b"}\n"))
        return self._plain

    def _other(self, encoder: FrameEncoder) -> bytes:
        others = self._others
        if others is None:
            others = self._others = {}
        frame = others.get(encoder.key)
        if frame is None:
            frame = others[encoder.key] = encoder.frame(self.type, self.item)
        return frame


def bookmark(shape: Shape, revision: int, *, ends_initial_events: bool = False) -> WatchEvent:
    mark = _END_MARK if ends_initial_events else b""
    body = b'"metadata":{"resourceVersion":"%d"%b}%b}' % (revision, mark, shape.bookmark_rest)
    return WatchEvent(BOOKMARK, Item("", "", revision, shape.head, body, {}, ()))
