"""Decoding of a large JSON body piece by piece.

msgspec decodes a body in one call, which holds the interpreter lock until it returns: up to a second for 3 MB. Here a
large body is split along its type into the values of its fields and the items of its lists, and each call decodes about
`PIECE_BYTES`. Between two calls other threads can run.
"""

import types
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from sampan.api.codec import duplicates

PIECE_BYTES: Final = 16 << 10

MakeDecoder = Callable[[Any], "msgspec.json.Decoder[Any]"]

_split_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_split_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class RepeatedKeyError(ValueError):
    """A key may be duplicated, which only `careful` can decide."""


class PieceDecoder:
    """Decodes like the decoders that `make_decoder` returns, which is called once for each type."""

    def __init__(self, make_decoder: MakeDecoder) -> None:
        self._decoder = cache(make_decoder)

    def decode(self, body: bytes, type: Any) -> Any:
        """Return the value of a body. Raise the exceptions of msgspec, and RepeatedKeyError."""
        if b"\\u0022" in body:  # it would hide a duplicate key from the count of quotes
            raise RepeatedKeyError
        return self._decode(body, type)

    def _decode(self, body: bytes, type: Any) -> Any:
        if len(body) > PIECE_BYTES:
            type = _narrowed(type, body)
            origin, args = get_origin(type), get_args(type)
            if origin is list:
                return self._list(body, type, args[0])
            if origin is dict:
                return self._dict(body, type, args[1])
            if isinstance(type, msgspec.StructMeta):
                return self._struct(body, type)
        return self._decode_whole(body, type)

    def _decode_whole(self, body: bytes, type: Any) -> Any:
        value = self._decoder(type).decode(body)
        if duplicates.suspected(body):
            raise RepeatedKeyError
        return value

    def _struct(self, body: bytes, type: Any) -> Any:
        parts = _parts(type).decode(body)
        values, quotes = {}, 0
        for field in msgspec.structs.fields(type):
            if raw := bytes(getattr(parts, field.name)):
                quotes += 2 + raw.count(b'"')
                values[field.name] = self._decode(raw, field.type)
        _check_quotes(body, quotes)
        return type(**values)

    def _dict(self, body: bytes, type: Any, value_type: Any) -> dict[str, Any]:
        values: dict[str, Any] = {}
        small: list[bytes] = []
        quotes = 0
        for key, raw in _split_object(body).items():
            name, value = _encode(key), bytes(raw)
            quotes += name.count(b'"') + value.count(b'"')
            if len(value) > PIECE_BYTES:
                values[key] = self._decode(value, value_type)
            else:
                values[key] = None
                small.append(b"%b:%b" % (name, value))
        _check_quotes(body, quotes)
        for piece in _groups(small):
            values.update(self._decode_whole(b"{%b}" % piece, type))
        return values

    def _list(self, body: bytes, type: Any, item_type: Any) -> list[Any]:
        values: list[Any] = []
        for piece in _groups(map(bytes, _split_list(body))):
            if len(piece) > PIECE_BYTES:
                values.append(self._decode(piece, item_type))
            else:
                values += self._decode_whole(b"[%b]" % piece, type)
        return values


def _groups(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces joined by commas in groups of at most PIECE_BYTES; a larger piece forms a group of its own."""
    group: list[bytes] = []
    size = 0
    for piece in pieces:
        if group and size + len(piece) > PIECE_BYTES:
            yield b",".join(group)
            group, size = [], 0
        group.append(piece)
        size += len(piece) + 1
    if group:
        yield b",".join(group)


def _check_quotes(body: bytes, quotes: int) -> None:
    """Raise RepeatedKeyError if the parts lack quotes of the body: only the last value of a duplicate key is left."""
    if body.count(b'"') != quotes:
        raise RepeatedKeyError


@cache
def _parts(type: Any) -> "msgspec.json.Decoder[Any]":
    """Return a decoder that splits a struct into its undecoded fields; it rejects unknown fields."""
    fields = [(field.name, msgspec.Raw, msgspec.Raw()) for field in msgspec.structs.fields(type)]
    renamed = {field.name: field.encode_name for field in msgspec.structs.fields(type)}
    return msgspec.json.Decoder(msgspec.defstruct(type.__name__, fields, rename=renamed, forbid_unknown_fields=True))


def _narrowed(type: Any, body: bytes) -> Any:
    """Return the type without None, which a large body cannot be; for Any, the body's own type."""
    if get_origin(type) in (Union, types.UnionType):
        others = [member for member in get_args(type) if member is not types.NoneType]
        return others[0] if len(others) == 1 else type
    if type is Any:
        first = body.lstrip(b" \t\r\n")[:1]
        return dict[str, Any] if first == b"{" else list[Any] if first == b"[" else Any
    return type
