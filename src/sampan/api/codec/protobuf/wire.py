"""The protobuf wire format: variable-length integers, tags, skipping of unknown fields.

Readers take a whole buffer, a position and an end. They may read beyond the end within the buffer: the caller checks
the new position against the end, and an IndexError means that the buffer is truncated (`decode` translates it).
"""

from collections.abc import Iterator
from typing import Final

PREFIX: Final = b"k8s\x00"
"""The prefix of every envelope, which distinguishes Kubernetes objects from other protobuf."""
VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

MASK64: Final = 2**64 - 1
_ONE_BYTE_VARINTS: Final = [bytes([value]) for value in range(128)]
_SIGN64: Final = 2**63
_SIGN32: Final = 2**31
_LAST_NUMBER: Final = 2**29 - 1


class ProtobufError(ValueError):
    """The bytes are not a message of the kind, or the object has no protobuf encoding."""


def truncation_error() -> ProtobufError:
    return ProtobufError("unexpected EOF")


def read_varint(buf: bytes, pos: int) -> tuple[int, int]:
    """Return the unsigned integer at a position, and the position after it."""
    value = shift = 0
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & MASK64, pos
        shift += 7
        if shift >= 70:
            raise ProtobufError("proto: integer overflow")


def read_size(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    """Return the start and end of the content of a length-delimited field."""
    size, pos = read_varint(buf, pos)
    if pos + size > end:
        raise truncation_error()
    return pos, pos + size


def signed64(value: int) -> int:
    return value - 2**64 if value >= _SIGN64 else value


def signed32(value: int) -> int:
    """Return an int32, which is written sign-extended to 64 bits; only the low half counts."""
    value &= 0xFFFFFFFF
    return value - 2**32 if value >= _SIGN32 else value


def skip(tag: int, buf: bytes, pos: int, end: int) -> int:
    """Return the position after an unknown field whose tag has been read."""
    number, wire = tag >> 3, tag & 7
    if not 0 < number <= _LAST_NUMBER:
        raise ProtobufError(f"proto: illegal tag {number} (wire type {wire})")
    if wire == VARINT:
        return read_varint(buf, pos)[1]
    if wire == BYTES:
        return read_size(buf, pos, end)[1]
    if wire == FIXED64:
        return pos + 8
    if wire == FIXED32:
        return pos + 4
    raise ProtobufError(f"proto: illegal wireType {wire}")


def small_fields(buf: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield numbers and values of a message of integers and bytes; fields of other wire types are skipped."""
    pos, end = 0, len(buf)
    while pos < end:
        tag, pos = read_varint(buf, pos)
        if tag & 7 == VARINT and tag > 7:
            value, pos = read_varint(buf, pos)
            yield tag >> 3, value
        elif tag & 7 == BYTES and tag > 7:
            start, pos = read_size(buf, pos, end)
            yield tag >> 3, buf[start:pos]
        else:
            pos = skip(tag, buf, pos, end)
    if pos != end:
        raise truncation_error()


def text(data: bytes) -> str:
    """Return a string field. kube-apiserver accepts any bytes and shows invalid UTF-8 as U+FFFD; so does this."""
    return data.decode("utf-8", "replace")


def varint(value: int) -> bytes:
    """Return the encoding of a signed or unsigned 64-bit integer."""
    if 0 <= value < 128:
        return _ONE_BYTE_VARINTS[value]
    if not -_SIGN64 <= value <= MASK64:
        raise ProtobufError(f"{value} does not fit in 64 bits")
    value &= MASK64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag_bytes(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def encode_delimited(tag: bytes, data: bytes | bytearray) -> bytes:
    """Return a complete length-delimited field."""
    size = len(data)
    return b"".join((tag, _ONE_BYTE_VARINTS[size] if size < 128 else varint(size), data))
