"""The decoder's handling of plain fields: integers, numbers, bytes, map entries.

Each function returns a closure that puts a field's value into the object under construction. The last of several values
counts, so an empty value that JSON would not print removes an earlier one.
"""

from base64 import b64encode
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final

from sampan.api.codec.protobuf.field_table import Field
from sampan.api.codec.protobuf.wire import (
    ProtobufError,
    read_size,
    read_varint,
    signed32,
    signed64,
    skip,
    text,
    truncation_error,
)

JsonObject = dict[str, Any]
Budget = list[int]
"""A single number: how many more items lists and maps may hold in the whole object."""
Store = Callable[[JsonObject, bytes, int, int, int, Budget], None]
"""Takes the object under construction, the buffer, the start and end of the field's content, depth and budget."""
Read = Callable[[bytes, int, int, int, Budget], Any]
"""Takes the buffer, the start and end of the content, depth and budget, and returns the value."""


class _Absence(Enum):
    ABSENT = auto()


ABSENT: Final = _Absence.ABSENT
INTEGERS: Final[dict[str, Callable[[int], Any]]] = {"int32": signed32, "int64": signed64, "bool": bool}
ZEROES: Final[dict[str, Any]] = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0, "bytes": None}


def keeps_zero(field: Field) -> bool:
    """Whether JSON prints the field's zero value."""
    return field.pointer or field.shown == "!"


def read_map_entry(buf: bytes, pos: int, stop: int, depth: int, budget: Budget, read: Read) -> tuple[str, Any]:
    key = ""
    value: Any = ABSENT
    while pos < stop:
        tag, pos = read_varint(buf, pos)
        if tag == 10:
            start, pos = read_size(buf, pos, stop)
            key = text(buf[start:pos])
        elif tag == 18:
            start, pos = read_size(buf, pos, stop)
            value = read(buf, start, pos, depth, budget)
        elif tag >> 3 in (1, 2):
            raise ProtobufError(f"proto: wrong wireType = {tag & 7} in a map entry")
        else:
            pos = skip(tag, buf, pos, stop)
    if pos != stop:
        raise truncation_error()
    return key, value


def make_integer_store(field: Field) -> Callable[[JsonObject, int], None]:
    name, keep, convert = field.name, keeps_zero(field), INTEGERS[field.type]

    def store(out: JsonObject, value: int) -> None:
        number = convert(value)
        if number or keep:
            out[name] = number
        elif name in out:
            del out[name]

    return store


def make_integer_append(field: Field) -> Callable[[JsonObject, int], None]:
    name, convert = field.name, INTEGERS[field.type]
    return lambda out, value: out.setdefault(name, []).append(convert(value))


def make_packed_append(field: Field) -> Store:
    append = make_integer_append(field)

    def store(out: JsonObject, buf: bytes, pos: int, stop: int, depth: int, budget: Budget) -> None:
        while pos < stop:
            value, pos = read_varint(buf, pos)
            append(out, value)
        if pos != stop:
            raise truncation_error()

    return store


def make_double_store(field: Field) -> Callable[[JsonObject, float], None]:
    """Return a closure for a double. Go prints a whole number without a fraction, so it becomes an int."""
    name, keep = field.name, keeps_zero(field)

    def store(out: JsonObject, value: float) -> None:
        if value != value or value in (float("inf"), float("-inf")):
            raise ProtobufError(f"json: unsupported value: {value}")
        if value or keep:
            out[name] = int(value) if value.is_integer() and abs(value) < 1e21 else value
        else:
            out.pop(name, None)

    return store


def make_base64_store(field: Field) -> Store:
    name, keep = field.name, keeps_zero(field)

    def store(out: JsonObject, buf: bytes, pos: int, stop: int, depth: int, budget: Budget) -> None:
        if pos < stop or keep:
            out[name] = b64encode(buf[pos:stop]).decode()
        else:
            out.pop(name, None)

    return store
