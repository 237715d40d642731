"""JSON encoding and decoding of typed objects and of plain values.

`decode` is for client bodies: it reports every unknown and duplicate field with kube-apiserver's messages. `read` is
for bytes of our own or from storage: unknown fields are dropped. Both try msgspec's single pass first; only an unusual
body is decoded by `careful`.
"""

import re
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from sampan.api import limits
from sampan.api.codec import careful, parsed, pieces, syntax
from sampan.api.codec.errors import BodyTooLargeError, DecodeError, JsonSyntaxError
from sampan.api.schema import schemas
from sampan.api.types.base import Object, Struct
from sampan.api.values import json_numbers
from sampan.api.values.scalars import decode_hook

T = TypeVar("T", bound=Struct)

MAX_DEPTH = 500
"""The maximum depth of plain values. Go's limit is 10,000; real objects stay below 100."""

_encoder = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """Return the bytes of a typed object or plain value. The items of a typed list do not repeat kind and
    apiVersion."""
    if _is_list(value) and value.items:
        return _encode_list(value)
    return _encoder.encode(value)


def decode(body: bytes, type: type[T]) -> tuple[T, list[str]]:
    """Return the object in a client's body, and the strict errors: unknown and duplicate fields.

    Raise JsonSyntaxError for invalid JSON, DecodeError for a value of a wrong type.
    """
    if len(body) > limits.INLINE_BODY_BYTES:
        return _decode_large(body, type)
    try:
        obj = _decoder(type).decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _decode_carefully(body, type)
    return _decode_carefully(body, type) if parsed.may_have_duplicates(body) else (obj, [])


def _decode_large(body: bytes, type: type[T]) -> tuple[T, list[str]]:
    check_size(body)
    try:
        return _typed_pieces.decode(body, type), []
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        return _decode_carefully(body, type)


def check_size(body: bytes) -> None:
    """Reject a body with more values than `limits.BODY_VALUES`: objects, arrays, and every item but the first."""
    if _count_values(body) <= limits.BODY_VALUES:
        return
    outside = _without_strings(body)
    if _count_values(outside) > limits.BODY_VALUES:
        _refuse_brackets(outside)
        raise BodyTooLargeError(f"limit is {limits.BODY_VALUES} values")


def _count_values(body: bytes) -> int:
    return body.count(b"{") + body.count(b"[") + body.count(b",")


def _refuse_brackets(body: bytes) -> None:
    """Raise JsonSyntaxError if the start of a text without strings is nested too deeply."""
    depth = 0
    for bracket in _BRACKET.findall(body[: 4 * syntax.MAX_DEPTH]):
        depth += 1 if bracket in b"{[" else -1
        if depth > syntax.MAX_DEPTH:
            raise JsonSyntaxError(syntax.TOO_DEEP_MESSAGE)


def _without_strings(body: bytes) -> bytes:
    """Return the text outside of strings, in small steps that let other threads run."""
    body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside, is_inside = [], False
    for start in range(0, len(body), pieces.PIECE_BYTES):
        parts = body[start : start + pieces.PIECE_BYTES].split(b'"')
        outside += parts[is_inside::2]
        is_inside ^= len(parts) % 2 == 0
    return b"".join(outside)


_BRACKET = re.compile(rb"[\[\]{}]")


def read(body: bytes, type: type[T]) -> T:
    """Return the object in trusted bytes; unknown fields are dropped."""
    try:
        return _decoder(type).decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _decode_carefully(body, type)[0]


def decode_any(body: bytes) -> tuple[Any, list[str]]:
    """Return the plain value in a client's body (a custom object, a patch), and its duplicate fields. It is nested at
    most MAX_DEPTH deep, so that recursive functions are safe."""
    if len(body) > limits.INLINE_BODY_BYTES:
        return _decode_any_large(body)
    try:
        value = _any_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_any_carefully(body)
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        _refuse_depth(value)
    return _decode_any_carefully(body) if parsed.may_have_duplicates_in(body, value) else (value, [])


def _decode_any_large(body: bytes) -> tuple[Any, list[str]]:
    check_size(body)
    try:
        value = _plain_pieces.decode(body, Any)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _decode_any_carefully(body)
    _refuse_depth(value)
    return value, []


def read_any(body: bytes) -> Any:
    """Return the plain value in bytes that are known to be JSON."""
    try:
        return _any_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return parsed.to_plain(parsed.parse(body))


def to_value(obj: Any) -> Any:
    """Return a typed object as a plain JSON value."""
    body = _encoder.encode(obj)
    if body.count(b",") > pieces.SPLIT_VALUES:
        with suppress(pieces.RepeatedKeyError):  # text such as \\u0022 may look like a duplicate key
            return _plain_pieces.decode(body, Any)
    return _any_decoder.decode(body)


def from_value(value: Any, type: type[T]) -> T:
    """Return a plain value as a typed object, dropping unknown fields. Raise DecodeError for a wrong type."""
    return read(_encoder.encode(value), type)


def decode_value(value: Any, type: type[T]) -> tuple[T, list[str]]:
    """Return a client's plain value (the result of a patch) as a typed object, and its unknown fields. Raise
    DecodeError for a wrong type."""
    try:
        body = _encoder.encode(value)
        if body.count(b",") > pieces.SPLIT_VALUES:
            return _typed_pieces.decode(body, type), []
        return _decoder(type).decode(body), []
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        plain, strict = careful.decode(value, schemas.schema_of(type))
        return convert(plain, type), strict


def read_kind(body: bytes) -> tuple[str, str]:
    """Return apiVersion and kind of a body, empty if absent."""
    try:
        type_meta = _kind_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _read_kind_carefully(body)
    return type_meta.apiVersion or "", type_meta.kind or ""


class _TypeMeta(msgspec.Struct):
    apiVersion: str | None = None
    kind: str | None = None


_kind_decoder = msgspec.json.Decoder(_TypeMeta)


def _number(text: str) -> int | float:
    return json_numbers.from_float(float(text))


_any_decoder = msgspec.json.Decoder(float_hook=_number)
_plain_pieces = pieces.PieceDecoder(lambda type: msgspec.json.Decoder(type, float_hook=_number))
_typed_pieces = pieces.PieceDecoder(lambda type: msgspec.json.Decoder(type, dec_hook=decode_hook))
_STRUCT_FOR_KIND = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def _decoder(type: type[T]) -> "msgspec.json.Decoder[T]":
    decoder = _decoders.get(type)
    if decoder is None:
        decoder = _decoders[type] = msgspec.json.Decoder(type, dec_hook=decode_hook)
    return decoder


def _decode_carefully(body: bytes, type: type[T]) -> tuple[T, list[str]]:
    value, strict = careful.decode(parsed.parse(body), schemas.schema_of(type))
    return convert(value, type), strict


def convert(value: Any, type: type[T]) -> T:
    """Return a result of `careful.decode` as a typed object."""
    try:
        return msgspec.convert(value, type, dec_hook=decode_hook)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DecodeError(str(error)) from error


def _decode_any_carefully(body: bytes) -> tuple[Any, list[str]]:
    value = parsed.parse(body)
    _refuse_depth(value)
    errors: dict[str, None] = {}
    _note_duplicates(value, [], errors)
    return parsed.to_plain(value), list(errors)


def _refuse_depth(value: Any) -> None:
    """Raise JsonSyntaxError for a value that is nested more than MAX_DEPTH deep. It proceeds level by level, without
    recursion."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for node in level for child in parsed.children(node)]
        if not level:
            return
    raise JsonSyntaxError(syntax.TOO_DEEP_MESSAGE)


def _note_duplicates(value: Any, path: list[str], duplicate_paths: dict[str, None]) -> None:
    """Add the duplicate fields below `path` to `duplicate_paths`, up to `limits.STRICT_ERRORS`."""
    if len(duplicate_paths) >= limits.STRICT_ERRORS:
        return
    if isinstance(value, parsed.JsonPairs):
        keys: set[str] = set()
        for key, item in value:
            if key in keys and len(duplicate_paths) < limits.STRICT_ERRORS:
                duplicate_paths[f"duplicate field {careful.quote_field(path, parsed.text(key))}"] = None
            keys.add(key)
            _note_duplicates_below(item, key, path, duplicate_paths)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _note_duplicates_below(item, f"[{index}]", path, duplicate_paths)


def _note_duplicates_below(item: Any, step: str, path: list[str], duplicate_paths: dict[str, None]) -> None:
    if isinstance(item, list):
        path.append(step)
        _note_duplicates(item, path, duplicate_paths)
        path.pop()


def _read_kind_carefully(body: bytes) -> tuple[str, str]:
    value = parsed.parse(body)
    if not isinstance(value, parsed.JsonPairs):
        if value is None:
            return "", ""
        raise DecodeError(f"json: cannot unmarshal {careful.kind(value)} into Go value of type {_STRUCT_FOR_KIND}")
    type_meta = {"apiVersion": "", "kind": ""}
    for key, item in value:
        if key in type_meta and item is not None:
            if not isinstance(item, str):
                kind = careful.kind(item)
                raise DecodeError(f"json: cannot unmarshal {kind} into Go struct field .{key} of type string")
            type_meta[key] = parsed.text(item)
    return type_meta["apiVersion"], type_meta["kind"]


def _is_list(value: Any) -> bool:
    """Whether the value is a list whose kind, such as PodList, implies the kind of its items."""
    name = value.__class__.__name__
    return isinstance(value, Object) and name.endswith("List") and name not in ("List", "PartialObjectMetadataList")


_TITLE = re.compile(rb'\{"kind":"[^"]*","apiVersion":"[^"]*",?')


def _encode_list(value: Any) -> bytes:
    """Return the encoded list, with kind and apiVersion, the first two fields, removed from each item."""
    pieces = []
    for item in value.items:
        piece = _encoder.encode(item)
        title = _TITLE.match(piece)
        pieces.append(b"{" + piece[title.end() :] if title else piece)
    empty = msgspec.structs.replace(value, items=[])
    head, _, tail = _encoder.encode(empty).rpartition(b'"items":[]')
    return head + b'"items":[' + b",".join(pieces) + b"]" + tail


__all__ = [
    "BodyTooLargeError",
    "DecodeError",
    "JsonSyntaxError",
    "check_size",
    "convert",
    "decode",
    "decode_any",
    "decode_value",
    "encode",
    "from_value",
    "read",
    "read_any",
    "read_kind",
    "to_value",
]
