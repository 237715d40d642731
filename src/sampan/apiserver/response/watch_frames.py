"""Watch events as bytes of a stream, in the negotiated media type.

Frames of one format are shared by all watchers that use it (`CacheEvent.frame`). A `WatchFrames` belongs to one watch,
since only the first of its tables contains the column definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from sampan.api.codec import json as json_codec
from sampan.api.resources.resource import Resource
from sampan.apiserver.request import negotiation
from sampan.apiserver.request.call import Call
from sampan.apiserver.request.negotiation import JSON, PARTIAL_LIST, TABLE, OutputFormat
from sampan.apiserver.response import json_bytes
from sampan.apiserver.tables.table_writer import include_of
from sampan.storage.cacher import CacheEvent, CacheItem, FrameEncoder

if TYPE_CHECKING:
    from sampan.apiserver.response.renderer import Renderer

ToJson = Callable[[CacheItem], bytes]
"""Returns the JSON of an event's object."""


class WatchFrames:
    """Encodes the events of one watch."""

    def __init__(self, *, media: str, first: FrameEncoder | None = None, remainder: FrameEncoder | None = None) -> None:
        self.media = media
        self.first, self.remainder = first, remainder
        """The encoder of the next event, and that of all events after it."""

    @property
    def content_type(self) -> str:
        return JSON if self.media == JSON else f"{self.media};stream=watch"

    def encode(self, events: Sequence[CacheEvent]) -> list[bytes]:
        """Return the frames of the events, which follow those of the previous call. The bytes are shared with other
        watches."""
        if self.first is self.remainder:
            encoder = self.remainder
            return [event.frame(encoder) for event in events]
        frames = []
        for event in events:
            frames.append(event.frame(self.first))
            self.first = self.remainder
        return frames

    def skip_first(self) -> None:
        """Let the next event be encoded like all but the first."""
        self.first = self.remainder

    def wrap_frames(self, wrap: Callable[[FrameEncoder], FrameEncoder]) -> WatchFrames:
        """Return an encoder whose frames are wrapped for a transport. Wrapped frames are shared by all watchers as
        well."""
        return WatchFrames(
            media=self.media, first=wrap(self.first or _JSON_ENCODER), remainder=wrap(self.remainder or _JSON_ENCODER)
        )

    def error(self, status: dict[str, Any]) -> bytes:
        """Return the ERROR event that terminates a watch."""
        return _frame(self.media, "ERROR", json_codec.encode(status))

    def end(self) -> bytes:
        """Return what follows the last event."""
        return b""


class EventEncoder:
    """Encodes events in one form: `to_json` returns the JSON of the object, `key` identifies the form."""

    def __init__(self, *, key: Hashable, media: str, to_json: ToJson) -> None:
        self.key, self._media, self._to_json = key, media, to_json

    def frame(self, type: str, item: CacheItem) -> bytes:
        return _frame(self._media, type, self._to_json(item))


_JSON_ENCODER = EventEncoder(key=JSON, media=JSON, to_json=lambda item: item.raw)


def _frame(media: str, type: str, raw: bytes) -> bytes:
    if media == JSON:
        return b'{"type":"%b","object":%b}\n' % (type.encode(), raw)
    from sampan.api.codec import protobuf

    return protobuf.frame({"type": type, "object": protobuf.read_json(raw)})


def frames(renderer: Renderer, call: Call, resource: Resource) -> WatchFrames:
    """Return the encoder for the events of a watch. Raise NotAcceptable if the media type cannot be streamed."""
    output_format = call.output_format
    negotiation.check_stream(output_format)
    if output_format.as_kind == TABLE:
        return _tables(renderer, output_format, include_of(call), resource)
    to_json = _object_to_json(renderer, output_format, resource)
    if to_json is None and output_format.media == JSON:
        return WatchFrames(media=JSON)
    key = (output_format.media, output_format.as_kind, output_format.as_version, resource.gvk.api_version)
    encoder = EventEncoder(key=key, media=output_format.media, to_json=to_json or (lambda item: item.raw))
    return WatchFrames(media=output_format.media, first=encoder, remainder=encoder)


def _object_to_json(renderer: Renderer, output_format: OutputFormat, resource: Resource) -> ToJson | None:
    if output_format.as_kind == PARTIAL_LIST:
        return _reject
    if output_format.as_kind:
        return lambda item: json_bytes.partial_object(item.raw, output_format)
    if resource.storage is None or resource.storage == resource.gvk:
        return None
    return lambda item: renderer.to_requested_bytes(resource, item)


class UnsupportedOutputFormat(Exception):
    """An event cannot be converted to the requested form: the watch is closed without an error event."""


def _reject(item: CacheItem) -> bytes:
    raise UnsupportedOutputFormat


def _tables(renderer: Renderer, output_format: OutputFormat, include: str, resource: Resource) -> WatchFrames:
    def encoder(has_headers: bool) -> EventEncoder:
        def to_json(item: CacheItem) -> bytes:
            writer = renderer.table_writer(resource, output_format, include)
            row = writer.row(renderer.decode_item(resource, item), lambda: renderer.to_requested_bytes(resource, item))
            return writer.table({"resourceVersion": str(item.revision)}, [row], has_headers=has_headers)

        key = (output_format.media, TABLE, output_format.as_version, resource.gvk.api_version, include, has_headers)
        return EventEncoder(key=key, media=output_format.media, to_json=to_json)

    return WatchFrames(media=output_format.media, first=encoder(True), remainder=encoder(False))
