"""Decoding of a large JSON body piece by piece.

msgspec decodes a body in one call, which holds the interpreter lock until it returns: up to a second for 3 MB. Here a
large body is split along its type into the values of its fields and the items of its lists, and each call decodes about
`PIECE_BYTES`. Between two calls other threads can run.
"""

import re
import types
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from sampan.api.codec import parsed

PIECE_BYTES: Final = 16 << 10
SPLIT_VALUES: Final = 100_000
"""The number of values above which an object or list is scanned instead of split by msgspec. msgspec splits it in one
call, which holds the interpreter lock for about 0.3 microseconds for each member. A scan takes up to five times as
long, but other threads can run meanwhile."""

MakeDecoder = Callable[[Any], "msgspec.json.Decoder[Any]"]

_split_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_split_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode

_SPACE: Final = b" \t\r\n"
_COMMA: Final = ord(",")
_NESTING: Final = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1, _COMMA: 0}
_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'
_LEAF: Final = rb'[\[{](?:%b|[^"\[\]{}]++){0,64}+[\]}]' % _STRING
"""The pattern of a small object or list that contains no other object or list, so that the scan need not stop in it."""
_NEXT_MARK = re.compile(rb'(?:%b|%b|[^"\[\]{},]++)*+[\[\]{},]' % (_STRING, _LEAF), re.DOTALL)
"""Matches the text up to the next bracket or comma that is neither in a string nor in a leaf."""
_MEMBER = re.compile(rb"\s*+(%b)\s*+:" % _STRING, re.DOTALL)
"""Matches the key of a member of an object, and the colon after it."""


class RepeatedKeyError(ValueError):
    """A key may be duplicated, which only `careful` can decide."""


class PieceDecoder:
    """Decodes a body like one call of a decoder that `make_decoder` returns, but piece by piece. `make_decoder` is
    called once for each type."""

    def __init__(self, make_decoder: MakeDecoder) -> None:
        self._decoder = cache(make_decoder)

    def decode(self, body: bytes, type: Any) -> Any:
        """Return the value of a body. Raise the exceptions of msgspec, and RepeatedKeyError."""
        if b"\\u0022" in body:  # this escape would hide a duplicate key from the count of quotes
            raise RepeatedKeyError
        return self._decode(body, type)

    def _decode(self, body: bytes, type: Any) -> Any:
        if len(body) > PIECE_BYTES and not _is_decoded_fast(body):
            type = _narrow_type(type, body)
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
        if parsed.may_have_duplicates(body):
            raise RepeatedKeyError
        return value

    def _struct(self, body: bytes, type: Any) -> Any:
        parts = _parts(type).decode(body)
        values, quotes = {}, 0
        for field in _fields(type):
            if raw := bytes(getattr(parts, field.name)):
                quotes += 2 + raw.count(b'"')
                values[field.name] = self._decode(raw, field.type)
        _check_quotes(body, quotes)
        return type(**values)

    def _dict(self, body: bytes, type: Any, value_type: Any) -> dict[str, Any]:
        values: dict[str, Any] = {}
        count = 0
        for piece in _groups(body, b"{}"):
            if len(piece) > PIECE_BYTES and (member := _MEMBER.match(piece)) is not None:
                part = {msgspec.json.decode(member[1], type=str): self._decode(piece[member.end() :], value_type)}
            else:
                part = self._decode_whole(b"{%b}" % piece, type)
            values |= part
            count += len(part)
        if count != len(values):
            raise RepeatedKeyError
        return values

    def _list(self, body: bytes, type: Any, item_type: Any) -> list[Any]:
        values: list[Any] = []
        for piece in _groups(body, b"[]"):
            if len(piece) > PIECE_BYTES:
                values.append(self._decode(piece, item_type))
            else:
                values += self._decode_whole(b"[%b]" % piece, type)
        return values


def _is_decoded_fast(body: bytes) -> bool:
    """Whether one call decodes a body in less than 10 ms. An object with many fields takes up to 2 microseconds, and in
    a body with long texts, such as a schema with descriptions, most bytes are only copied."""
    return len(body) <= 16 * PIECE_BYTES and body.count(b"{") * 2.0 + body.count(b",") * 0.1 < 6_000


def _groups(body: bytes, brackets: bytes) -> Iterator[bytes]:
    """Yield the members of an object, or the items of a list, in groups of at most PIECE_BYTES that are joined by
    commas; a larger one is a group of its own. Malformed JSON raises DecodeError here or when its group is decoded."""
    if body.count(b",") > SPLIT_VALUES:
        return _scan_groups(body, brackets)
    if brackets == b"[]":
        return _group_pieces(map(bytes, _split_list(body)))
    members = [b"%b:%b" % (_encode(key), bytes(raw)) for key, raw in _split_object(body).items()]
    _check_quotes(body, sum(member.count(b'"') for member in members))
    return _group_pieces(members)


def _group_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
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


def _scan_groups(body: bytes, brackets: bytes) -> Iterator[bytes]:
    first = start = last = end = len(body) - len(body.lstrip(_SPACE)) + 1
    depth = 1
    while depth and (mark := _NEXT_MARK.match(body, end)) is not None:
        end = mark.end()
        depth += _NESTING[body[end - 1]]
        if depth > 1 or (depth and body[end - 1] != _COMMA):
            continue
        if end - start > PIECE_BYTES and last > start:
            yield _check_not_empty(body[start : last - 1])
            start = last
        if end - start > PIECE_BYTES or not depth:
            group = body[start : end - 1]
            yield group if start == first and not depth else _check_not_empty(group)
            start = end
        last = end
    if depth or bytes((body[first - 1], body[end - 1])) != brackets or body[end:].strip(_SPACE):
        raise msgspec.DecodeError("JSON is malformed")


def _check_not_empty(group: bytes) -> bytes:
    if not group.strip(_SPACE):
        raise msgspec.DecodeError("JSON is malformed")
    return group


def _check_quotes(body: bytes, quotes: int) -> None:
    """Raise RepeatedKeyError if the parts lack quotes of the body: only the last value of a duplicate key is left."""
    if body.count(b'"') != quotes:
        raise RepeatedKeyError


_fields = cache(msgspec.structs.fields)
"""Returns the fields of a struct. They are cached, because msgspec evaluates all type hints with each call."""


@cache
def _parts(type: Any) -> "msgspec.json.Decoder[Any]":
    """Return a decoder that splits a struct into its undecoded fields; it rejects unknown fields."""
    fields = [(field.name, msgspec.Raw, msgspec.Raw()) for field in _fields(type)]
    renamed = {field.name: field.encode_name for field in _fields(type)}
    return msgspec.json.Decoder(msgspec.defstruct(type.__name__, fields, rename=renamed, forbid_unknown_fields=True))


def _narrow_type(type: Any, body: bytes) -> Any:
    """Return the type without None, because null is not a large body. For Any, return the type that the body itself
    has."""
    if get_origin(type) in (Union, types.UnionType):
        others = [member for member in get_args(type) if member is not types.NoneType]
        return others[0] if len(others) == 1 else type
    if type is Any:
        first = body.lstrip(_SPACE)[:1]
        return dict[str, Any] if first == b"{" else list[Any] if first == b"[" else Any
    return type
