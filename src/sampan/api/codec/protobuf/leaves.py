"""Messages that are a single value in JSON: times, quantities, int-or-string, raw JSON.

Each has a pair of functions: `read` takes the content of the message, `write` returns it. `zero` is the value of an
empty message, that is, of a field that is not a pointer and was not sent. Times, quantities and ports repeat all the
time, hence the caches; only short values are cached, so that long ones cannot fill the memory.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from sampan.api.codec.protobuf.wire import (
    BYTES,
    ProtobufError,
    encode_delimited,
    signed32,
    signed64,
    small_fields,
    tag_bytes,
    text,
    varint,
)
from sampan.host.bounded_cache import BoundedCache

FIRST_FIELD_TAG: Final = tag_bytes(1, BYTES)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO_TIME_S = -62135596800
"""Go's zero time, which is null in JSON."""
_LAST_SECOND = 253402300799
_JSON_DEPTH = 500


class LeafCodec(NamedTuple):
    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]
    zero: Any


def _cache_short_values(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    results = BoundedCache(function, max_entries=4096, max_entry_bytes=512)

    def call(value: Any) -> Any:
        return results[value] if value.__class__ in (bytes, str) else function(value)

    return call


def _timestamp(data: bytes) -> tuple[int, int]:
    parts = dict(small_fields(data))
    seconds, nanos = parts.get(1, 0), parts.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        raise ProtobufError("proto: wrong wireType = 2 for field Seconds")
    seconds = signed64(seconds)
    if not _ZERO_TIME_S <= seconds <= _LAST_SECOND:
        raise ProtobufError(f"a time of {seconds} seconds is out of range")
    return seconds, signed32(nanos)


@_cache_short_values
def read_time(data: bytes) -> str | None:
    if not data or (seconds := _timestamp(data)[0]) == _ZERO_TIME_S:
        return None
    return f"{(_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]}Z"


@_cache_short_values
def read_micro_time(data: bytes) -> str | None:
    if not data:
        return None
    seconds, nanos = _timestamp(data)
    micros = int(nanos / 1000)
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=micros)
    except OverflowError as error:
        raise ProtobufError(f"a time of {seconds} seconds is out of range") from error
    return None if moment.year == 1 and (seconds, micros) == (_ZERO_TIME_S, 0) else _micro_text(moment)


def _micro_text(moment: datetime) -> str:
    return f"{moment.isoformat()[:19]}.{moment.microsecond:06d}Z"


def _moment(value: Any) -> tuple[int, int]:
    try:
        moment = datetime.fromisoformat(value)
        since = moment - _EPOCH
    except (TypeError, ValueError, OverflowError) as error:
        raise ProtobufError(f"{value!r} is not a time") from error
    return since.days * 86400 + since.seconds, since.microseconds


@_cache_short_values
def write_time(value: Any) -> bytes:
    seconds, _ = _moment(value)
    return b"" if seconds == _ZERO_TIME_S else b"\x08%b\x10\x00" % varint(seconds)


@_cache_short_values
def write_micro_time(value: Any) -> bytes:
    seconds, micros = _moment(value)
    return b"" if (seconds, micros) == (_ZERO_TIME_S, 0) else b"\x08%b\x10%b" % (varint(seconds), varint(micros * 1000))


@_cache_short_values
def read_quantity(data: bytes) -> str:
    """Return the quantity as sent: quantities of clients are made canonical later, for JSON and protobuf alike."""
    value = dict(small_fields(data)).get(1, b"0")
    if not isinstance(value, bytes) or not value:
        raise ProtobufError("quantities must match the regular expression of quantities")
    return text(value)


@_cache_short_values
def write_quantity(value: Any) -> bytes:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ProtobufError(f"{value!r} is not a quantity")
    return encode_delimited(FIRST_FIELD_TAG, str(value).encode())


@_cache_short_values
def read_int_or_string(data: bytes) -> int | str:
    parts = dict(small_fields(data))
    kind, number, string = parts.get(1, 0), parts.get(2, 0), parts.get(3, b"")
    if kind not in (0, 1) or not isinstance(number, int) or not isinstance(string, bytes):
        raise ProtobufError("impossible IntOrString.Type")
    return text(string) if kind else signed32(number)


@_cache_short_values
def write_int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\x00" + encode_delimited(tag_bytes(3, BYTES), value.encode())
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProtobufError(f"{value!r} is neither an integer nor a string")
    return b"\x08\x00\x10%b\x1a\x00" % varint(value)


def raw_json(data: bytes) -> bytes:
    """Return the content of a message with one bytes field; empty if it was not sent."""
    content = dict(small_fields(data)).get(1, b"")
    if not isinstance(content, bytes):
        raise ProtobufError("proto: wrong wireType = 0 for field Raw")
    return content


def json_value(raw: bytes) -> Any:
    try:
        value = msgspec.json.decode(raw) if raw else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtobufError(f"raw JSON: {error}") from error
    if raw.count(b"{") + raw.count(b"[") > _JSON_DEPTH:
        _refuse_depth(value)
    return value


def _refuse_depth(value: Any) -> None:
    level = [value]
    for _ in range(_JSON_DEPTH + 1):
        level = [child for node in level for child in (node.values() if isinstance(node, dict) else node)]
        level = [node for node in level if isinstance(node, dict | list)]
        if not level:
            return
    raise ProtobufError("raw JSON: exceeded max depth")


def read_json(data: bytes) -> Any:
    return json_value(raw_json(data))


def write_json(value: Any) -> bytes:
    try:
        return encode_delimited(FIRST_FIELD_TAG, msgspec.json.encode(value))
    except (msgspec.MsgspecError, TypeError, RecursionError, UnicodeEncodeError) as error:
        raise ProtobufError(f"raw JSON: {error}") from error


def check_json(raw: bytes) -> msgspec.Raw | None:
    """Return valid JSON as it is, None if there is none."""
    json_value(raw)
    return msgspec.Raw(raw) if raw else None


def read_raw_json(data: bytes) -> msgspec.Raw | None:
    return check_json(raw_json(data))


def write_raw_json(value: Any) -> bytes:
    """Return a message with JSON bytes or with the encoding of a value."""
    if isinstance(value, msgspec.Raw):
        return encode_delimited(FIRST_FIELD_TAG, bytes(value)) if bytes(value) != b"null" else b""
    return write_json(value)


RAW_EXTENSION: Final = "runtime.RawExtension"
LEAVES: Final = {
    "meta.v1.Time": LeafCodec(read_time, write_time, None),
    "meta.v1.MicroTime": LeafCodec(read_micro_time, write_micro_time, None),
    "meta.v1.FieldsV1": LeafCodec(read_json, write_json, None),
    "quantity.Quantity": LeafCodec(read_quantity, write_quantity, "0"),
    "intstr.IntOrString": LeafCodec(read_int_or_string, write_int_or_string, 0),
    "apiextensions.v1.JSON": LeafCodec(read_json, write_json, None),
    RAW_EXTENSION: LeafCodec(read_raw_json, write_raw_json, None),
}
