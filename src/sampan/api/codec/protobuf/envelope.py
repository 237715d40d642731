"""Complete objects: the envelope with their kind, lists joined from encoded items, watch events and their framing."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import msgspec

from sampan.api.codec import json
from sampan.api.codec.protobuf.decoder import Decoder
from sampan.api.codec.protobuf.encoder import Encoder
from sampan.api.codec.protobuf.field_table import UnknownKindError, table
from sampan.api.codec.protobuf.leaves import FIRST_FIELD_TAG
from sampan.api.codec.protobuf.wire import (
    BYTES,
    PREFIX,
    ProtobufError,
    encode_delimited,
    small_fields,
    tag_bytes,
    text,
    truncation_error,
    varint,
)

JsonObject = dict[str, Any]

_SECOND_FIELD_TAG: Final = tag_bytes(2, BYTES)
_TAIL: Final = b"\x1a\x00\x22\x00"
"""contentEncoding and contentType, which are always written and always empty."""
_LENGTH: Final = 4
MAX_FRAME: Final = 1 << 30
EVENT: Final = "meta.v1.WatchEvent"


@cache
def _decoder() -> Decoder:
    return Decoder(table=table(), open_envelope=lambda data, depth: _decode(data, None, depth))


@cache
def _encoder() -> Encoder:
    return Encoder(table=table())


def supports(api_version: str, kind: str) -> bool:
    """Whether the kind has a protobuf encoding; custom resources have none."""
    try:
        table().message_of(api_version, kind)
    except UnknownKindError:
        return False
    return True


def decode(data: bytes, *, default: tuple[str, str] | None = None) -> JsonObject:
    """Return the object in an enveloped message, with apiVersion and kind. `default` is used if the envelope has
    none."""
    return _decode(data, default, 0)


def _decode(data: bytes, default: tuple[str, str] | None, depth: int) -> JsonObject:
    api_version, kind, raw = unwrap(data)
    if default is not None:
        api_version, kind = api_version or default[0], kind or default[1]
    if not kind:
        raise ProtobufError("Object 'Kind' is missing")
    if not api_version:
        raise ProtobufError("Object 'apiVersion' is missing")
    fields = _decoder().decode(table().message_of(api_version, kind), raw, depth)
    return {"kind": kind, "apiVersion": api_version} | fields


def encode(obj: JsonObject) -> bytes:
    """Return an object with apiVersion and kind as an enveloped message."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise ProtobufError("an object without apiVersion and kind has no protobuf form")
    return wrap(api_version, kind, encode_body(api_version, kind, obj))


def read_json(raw: bytes) -> JsonObject:
    """Return the value to encode for an object in JSON; its raw JSON fields keep their bytes."""
    value: JsonObject = json.read_any(raw)
    decoder = _json_decoder(str(value.get("apiVersion")), str(value.get("kind")))
    return value if decoder is None else decoder.decode(raw)


@cache
def _json_decoder(api_version: str, kind: str) -> "msgspec.json.Decoder[JsonObject] | None":
    """Return the decoder of a kind that has raw JSON fields."""
    if not supports(api_version, kind):
        return None
    type = table().json_type(table().message_of(api_version, kind))
    return None if type is Any else msgspec.json.Decoder(type)


def encode_body(api_version: str, kind: str, obj: JsonObject) -> bytes:
    """Return an object without its envelope, as `wrap` and `join_list` take it."""
    return _encoder().encode(table().message_of(api_version, kind), obj)


def join_list(api_version: str, kind: str, metadata: JsonObject, bodies: Iterable[bytes]) -> bytes:
    """Return an enveloped list of items that are already encoded."""
    message = table().message_of(api_version, kind)
    head = _encoder().encode(message, {"metadata": metadata})
    tag = tag_bytes(_encoder().field(message, "items").number, BYTES)
    parts = [head]
    for body in bodies:
        parts += (tag, varint(len(body)), body)
    return _wrap_parts(api_version, kind, parts)


def wrap(api_version: str, kind: str, body: bytes) -> bytes:
    return _wrap_parts(api_version, kind, [body])


def _wrap_parts(api_version: str, kind: str, parts: list[bytes]) -> bytes:
    """Return the enveloped parts. They are copied only once, because a list may be large."""
    type_meta = encode_delimited(FIRST_FIELD_TAG, api_version.encode()) + encode_delimited(
        _SECOND_FIELD_TAG, kind.encode()
    )
    size = varint(sum(map(len, parts)))
    return b"".join((PREFIX, encode_delimited(FIRST_FIELD_TAG, type_meta), _SECOND_FIELD_TAG, size, *parts, _TAIL))


def unwrap(data: bytes) -> tuple[str, str, bytes]:
    """Return apiVersion, kind and body of an envelope."""
    if not data:
        raise ProtobufError("empty data")
    if not data.startswith(PREFIX):
        expected = " ".join(map(str, PREFIX))
        raise ProtobufError(f"provided data does not appear to be a protobuf message, expected prefix [{expected}]")
    if len(data) == len(PREFIX):
        raise ProtobufError("empty body")
    try:
        parts = dict(small_fields(data[len(PREFIX) :]))
        names = dict(small_fields(_content(parts, 1)))
    except IndexError as error:
        raise truncation_error() from error
    return text(_content(names, 1)), text(_content(names, 2)), _content(parts, 2)


def _content(parts: dict[int, int | bytes], number: int) -> bytes:
    content = parts.get(number, b"")
    if not isinstance(content, bytes):
        raise ProtobufError(f"proto: wrong wireType = 0 for field {number} of an envelope")
    return content


def encode_event(kind: str, obj: bytes) -> bytes:
    """Return a watch event around an enveloped object. Events have no envelope of their own."""
    return encode_delimited(FIRST_FIELD_TAG, kind.encode()) + encode_delimited(
        _SECOND_FIELD_TAG, encode_delimited(FIRST_FIELD_TAG, obj)
    )


def decode_event(data: bytes) -> JsonObject:
    """Return the `type` and the decoded `object` of a watch event."""
    return _decoder().decode(EVENT, data)


def frame(event: JsonObject) -> bytes:
    """Return a watch event with its object, framed for the stream."""
    return frame_bytes(encode_event(event["type"], encode(event["object"])))


def frame_bytes(message: bytes) -> bytes:
    """Return a message of a stream, prefixed by its length."""
    return len(message).to_bytes(_LENGTH, "big") + message


class Unframer:
    """Splits a stream into messages, however the bytes arrive."""

    def __init__(self, *, max_size: int = MAX_FRAME) -> None:
        self._max_size = max_size
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the messages that these bytes complete. Iterate to the end before feeding more."""
        self._rest += data
        while len(self._rest) >= _LENGTH:
            stop = _LENGTH + int.from_bytes(self._rest[:_LENGTH], "big")
            if stop - _LENGTH > self._max_size:
                raise ProtobufError(f"a frame of {stop - _LENGTH} bytes is larger than {self._max_size}")
            if len(self._rest) < stop:
                return
            message = bytes(self._rest[_LENGTH:stop])
            del self._rest[:stop]
            yield message

    def finish(self) -> None:
        """Check that nothing is left over at the end of the stream."""
        if self._rest:
            raise truncation_error()


def unframe(stream: bytes) -> list[JsonObject]:
    """Return the watch events of a complete stream."""
    unframer = Unframer()
    events = [decode_event(message) for message in unframer.feed(stream)]
    unframer.finish()
    return events
