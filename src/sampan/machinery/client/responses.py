"""Responses and watch events that are received as bytes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from sampan.api.codec import json
from sampan.api.codec.errors import JSON_ERRORS
from sampan.machinery import errors
from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.client.transport import BOOKMARK, INITIAL_EVENTS_END, ListPage
from sampan.machinery.object_key import NamespacedName, key_of


class BytesResponse:
    __slots__ = ("_body", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status, self.headers, self._body = status, headers, body

    def body(self) -> bytes:
        return self._body

    @property
    def warnings(self) -> Sequence[str]:
        return [warning_text(header) for key, header in self.headers.items() if key.lower() == "warning"]

    def object(self, codec: ObjectCodec) -> Any:
        """Return the decoded object. A Status in place of the object, which some deletes return, is returned as a
        dict."""
        with _translate_decode_errors():
            if json.read_kind(self._body) == ("v1", "Status"):
                return json.read_any(self._body)
            return codec.decode(self._body)

    def page(self, codec: ObjectCodec) -> ListPage:
        with _translate_decode_errors():
            meta, items = codec.decode_list(self._body)
        return ListPage(items, meta.resourceVersion, meta.continue_, meta.remainingItemCount)


def warning_text(header: str) -> str:
    """Return the text in a Warning header: `299 - "text"`."""
    quoted = header.partition('"')[2].rpartition('"')[0]
    return quoted.replace('\\"', '"').replace("\\\\", "\\")


@contextmanager
def _translate_decode_errors() -> Iterator[None]:
    try:
        yield
    except (*JSON_ERRORS, json.DecodeError) as error:
        raise errors.unexpected_error(f"cannot decode the response of the server: {error}") from error


class DecodedEvent:
    __slots__ = ("ends_initial_events", "object", "type")

    def __init__(self, type: str, obj: Any) -> None:
        self.type, self.object = type, obj
        self.ends_initial_events = type == BOOKMARK and INITIAL_EVENTS_END in obj.metadata.annotations

    @property
    def key(self) -> NamespacedName:
        return key_of(self.object)

    @property
    def resource_version(self) -> str:
        version: str = self.object.metadata.resourceVersion
        return version


class _WatchFrame(msgspec.Struct):
    type: str
    object: msgspec.Raw


_frame_decoder = msgspec.json.Decoder(_WatchFrame)


def read_event(line: bytes, codec: ObjectCodec) -> DecodedEvent:
    """Return the event in one line of a watch; raise the ApiError of an ERROR event."""
    frame = _frame_decoder.decode(line)
    raw = bytes(frame.object)
    if frame.type == "ERROR":
        raise errors.from_status(json.read_any(raw))
    return DecodedEvent(frame.type, codec.decode(raw))
