"""Decoding of a large JSON body into a typed object, piece by piece.

msgspec decodes a body in one call, which holds the interpreter lock to its end: up to a second for 3 MB. Here a large
body is split along its type into the values of its fields and the items of its lists, and each call decodes about
`PIECE_BYTES`. Between two calls other threads get their turn.
"""

import types
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from sampan.api.codec import duplicates
from sampan.api.scalars import decode_hook

PIECE_BYTES: Final = 64 << 10

_split_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_split_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class RepeatedKeyError(ValueError):
    """A key may be there twice, which only careful decoding can tell."""


def decode(body: bytes, type: Any) -> Any:
    """The object in a body, as one call of msgspec would decode it. Raises what that would raise, and
    RepeatedKeyError."""
    if b"\\u0022" in body:  # it would hide a repeated key from the count of quotes
        raise RepeatedKeyError
    return _decode(body, type)


def _decode(body: bytes, type: Any) -> Any:
    if len(body) > PIECE_BYTES:
        type = _without_none(type)
        origin, args = get_origin(type), get_args(type)
        if origin is list:
            return _list(body, type, args[0])
        if origin is dict:
            return _dict(body, type, args[1])
        if isinstance(type, msgspec.StructMeta):
            return _struct(body, type)
    return _decode_whole(body, type)


def _decode_whole(body: bytes, type: Any) -> Any:
    found = _decoder(type).decode(body)
    if duplicates.suspected(body):
        raise RepeatedKeyError
    return found


def _struct(body: bytes, type: Any) -> Any:
    known, values = _fields(type), {}
    for key, raw in _pairs(body):
        if key not in known:
            raise msgspec.ValidationError(f"Object contains unknown field `{key[:100]}`")
        name, field_type = known[key]
        values[name] = _decode(raw, field_type)
    return type(**values)


def _dict(body: bytes, type: Any, value_type: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    small: list[bytes] = []
    for key, raw in _pairs(body):
        if len(raw) > PIECE_BYTES:
            values[key] = _decode(raw, value_type)
        else:
            small.append(_encode(key) + b":" + raw)
    for piece in _groups(small):
        values.update(_decode_whole(b"{%b}" % piece, type))
    return values


def _list(body: bytes, type: Any, item_type: Any) -> list[Any]:
    values: list[Any] = []
    for piece in _groups(map(bytes, _split_list(body))):
        if len(piece) > PIECE_BYTES:
            values.append(_decode(piece, item_type))
        else:
            values += _decode_whole(b"[%b]" % piece, type)
    return values


def _groups(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces joined by commas to groups of about PIECE_BYTES; one that is larger than that comes alone."""
    group: list[bytes] = []
    size = 0
    for piece in pieces:
        if group and size + len(piece) >= PIECE_BYTES:
            yield b",".join(group)
            group, size = [], 0
        group.append(piece)
        size += len(piece) + 1
    if group:
        yield b",".join(group)


def _pairs(body: bytes) -> Iterator[tuple[str, bytes]]:
    """The fields of an object. RepeatedKeyError if one was dropped because its key is there again, which the quotes
    show that are missing then."""
    found = {key: bytes(raw) for key, raw in _split_object(body).items()}
    quotes = sum(_encode(key).count(b'"') + raw.count(b'"') for key, raw in found.items())
    if quotes != body.count(b'"'):
        raise RepeatedKeyError
    yield from found.items()


@cache
def _decoder(type: Any) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(type, dec_hook=decode_hook)


@cache
def _fields(type: Any) -> dict[str, tuple[str, Any]]:
    """Names and types of a struct's fields by their names on the wire."""
    return {field.encode_name: (field.name, field.type) for field in msgspec.structs.fields(type)}


def _without_none(type: Any) -> Any:
    if get_origin(type) in (Union, types.UnionType):
        others = [each for each in get_args(type) if each is not types.NoneType]
        if len(others) == 1:
            return others[0]
    return type


__all__ = ["RepeatedKeyError", "decode"]
