"""Encodes JSON values as protobuf bytes, exactly as kube-apiserver does.

Fields are written in the order of their numbers, maps sorted by key. A field that is a plain value in Go is written
even when empty, a pointer, list or map only when set. A message is compiled on first use into steps; `write_message`
executes them and is one loop, with strings and messages handled inline, because it is the hot path.
"""

import struct
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from typing import Any, Final

from sampan.api.codec.protobuf.field_table import MAX_DEPTH, Field, MessageTable, UnionConverter, union_of
from sampan.api.codec.protobuf.leaves import LEAVES
from sampan.api.codec.protobuf.wire import BYTES, FIXED64, VARINT, ProtobufError, encode_delimited, tag_bytes, varint

JsonObject = dict[str, Any]
Write = Callable[[Any, int], bytes | bytearray]
"""Returns the content of a length-delimited field, from its value and the depth."""
Append = Callable[[bytearray, Any, int], None]

_TEXT, _MESSAGE, _OTHER = range(3)


class MessageEncodingPlan:
    """The steps in which one message is written."""

    __slots__ = ("blank", "embeds", "name", "steps", "union")

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps: list[tuple[str, int, bytes, Any, bytes]] | None = None
        """JSON name, kind of step, tag, the argument of the step, and the bytes to write if there is no value."""
        self.embeds: list[str] = []
        self.union: UnionConverter | None = None
        self.blank = b""
        """The encoding of a message with no field set."""


class Encoder:
    def __init__(self, *, table: MessageTable) -> None:
        self._table = table
        self._plans: dict[str, MessageEncodingPlan] = {}

    def encode(self, message: str, value: JsonObject) -> bytes:
        try:
            return bytes(self.write_message(self._get_plan(message), value, 0))
        except UnicodeEncodeError as error:
            raise ProtobufError(f"{message}: {error.reason} in a string") from error

    def field(self, message: str, name: str) -> Field:
        return next(field for field in self._table.fields(message) if field.name == name)

    def write_message(self, plan: MessageEncodingPlan, value: Any, depth: int) -> bytearray:
        if plan.union is not None:
            value = plan.union.wrap(value)
        if value.__class__ is not dict:
            raise ProtobufError(f"{plan.name}: an object is expected, not {type(value).__name__}")
        if depth > MAX_DEPTH:
            raise ProtobufError(f"{plan.name}: nested more than {MAX_DEPTH} deep")
        steps = plan.steps
        if steps is None:
            steps = self._compile(plan)
        if plan.embeds:
            value = value | dict.fromkeys(plan.embeds, value)
        get = value.get
        out = bytearray()
        for name, kind, tag, extra, blank in steps:
            item = get(name)
            if item is None:
                out += blank
                continue
            if kind == _TEXT:
                if item.__class__ is not str:
                    raise ProtobufError(f"{plan.name}.{name}: a string is expected, not {type(item).__name__}")
                data: bytes | bytearray = item.encode()
            elif kind == _MESSAGE:
                data = self.write_message(extra, item, depth + 1)
            else:
                extra(out, item, depth + 1)
                continue
            out += tag
            size = len(data)
            if size < 128:
                out.append(size)
            else:
                out += varint(size)
            out += data
        return out

    def _get_plan(self, message: str) -> MessageEncodingPlan:
        """Return the plan of a message; its steps are compiled on first use."""
        plan = self._plans.get(message)
        if plan is None:
            plan = self._plans[message] = MessageEncodingPlan(message)
            plan.union = union_of(message, self._table.fields(message))
        return plan

    def _compile(self, plan: MessageEncodingPlan) -> list[tuple[str, int, bytes, Any, bytes]]:
        fields = self._table.fields(plan.name)
        plan.embeds = [field.name for field in fields if field.embedded]
        plan.steps = [self._step(plan, field) for field in fields]
        plan.blank = b"".join(step[4] for step in plan.steps)
        return plan.steps

    def _step(self, plan: MessageEncodingPlan, field: Field) -> tuple[str, int, bytes, Any, bytes]:
        field_path = f"{plan.name}.{field.name}"
        tag = tag_bytes(field.number, BYTES if field.many == "{}" else _WIRE.get(field.type, BYTES))
        blank = self._blank(field, tag)
        if field.many == "{}":
            return field.name, _OTHER, tag, self._make_map_append(field, tag, field_path), blank
        if field.many == "[]":
            return field.name, _OTHER, tag, self._make_list_append(field, tag, field_path), blank
        if field.type == "string":
            return field.name, _TEXT, tag, None, blank
        if field.type in _SCALARS:
            return field.name, _OTHER, tag, _SCALARS[field.type](tag, field_path), blank
        if field.type == "bytes" or field.type in LEAVES:
            return field.name, _OTHER, tag, self._make_single_append(field, tag, field_path), blank
        return field.name, _MESSAGE, tag, self._get_plan(field.type), blank

    def _blank(self, field: Field, tag: bytes) -> bytes:
        """Return the bytes that are written for a field that the object does not have."""
        if field.pointer or field.many or field.type == "bytes":
            return b""
        if field.is_scalar:
            return tag + (bytes(8) if field.type == "double" else b"\0")
        if field.type in LEAVES:
            leaf = LEAVES[field.type]
            return encode_delimited(tag, b"" if leaf.zero is None else leaf.write(leaf.zero))
        plan = self._get_plan(field.type)
        if plan.union is not None:
            return b""
        if plan.steps is None:
            self._compile(plan)
        return encode_delimited(tag, plan.blank)

    def _writer(self, kind: str, path: str) -> Write:
        """Return the writer of a list's item or a map's value; null is written as the zero value."""
        if kind == "string":
            return lambda value, depth: _text(value, path)
        if kind == "bytes":
            return lambda value, depth: _from_base64(value, path)
        if kind in LEAVES:
            leaf = LEAVES[kind]
            return lambda value, depth: _leaf(leaf.write, leaf.zero if value is None else value, path)
        plan, write_message = self._get_plan(kind), self.write_message
        if plan.union is not None:
            return lambda value, depth: b"" if value is None else write_message(plan, value, depth)
        return lambda value, depth: write_message(plan, {} if value is None else value, depth)

    def _make_single_append(self, field: Field, tag: bytes, path: str) -> Append:
        write = self._writer(field.type, path)

        def append(out: bytearray, value: Any, depth: int) -> None:
            out += encode_delimited(tag, write(value, depth))

        return append

    def _make_list_append(self, field: Field, tag: bytes, path: str) -> Append:
        if field.type in _SCALARS:
            return _scalars(_SCALARS[field.type](tag, path), path)
        write = self._writer(field.type, path)

        def append(out: bytearray, value: Any, depth: int) -> None:
            for item in _list_of(value, path):
                out += encode_delimited(tag, write(item, depth))

        return append

    def _make_map_append(self, field: Field, tag: bytes, path: str) -> Append:
        write, is_bytes = self._writer(field.type, path), field.type == "bytes"

        def append(out: bytearray, value: Any, depth: int) -> None:
            if not isinstance(value, dict):
                raise ProtobufError(f"{path}: an object is expected, not {type(value).__name__}")
            for key in sorted(value):
                item = value[key]
                entry = encode_delimited(b"\x0a", key.encode())
                if item is not None or not is_bytes:
                    entry += encode_delimited(b"\x12", write(item, depth))
                out += encode_delimited(tag, entry)

        return append


def _list_of(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise ProtobufError(f"{path}: a list is expected, not {type(value).__name__}")
    return value


def _text(value: Any, path: str) -> bytes:
    if value is None:
        return b""
    if not isinstance(value, str):
        raise ProtobufError(f"{path}: a string is expected, not {type(value).__name__}")
    return value.encode()


def _from_base64(value: Any, path: str) -> bytes:
    try:
        return b64decode(_text(value, path), validate=True)
    except Base64Error as error:
        raise ProtobufError(f"{path}: {error}") from error


def _leaf(write: Callable[[Any], bytes], value: Any, path: str) -> bytes:
    if value is None:
        return b""
    try:
        return write(value)
    except ProtobufError as error:
        raise ProtobufError(f"{path}: {error}") from error


def _scalars(append_one: Append, path: str) -> Append:
    def append(out: bytearray, value: Any, depth: int) -> None:
        for item in _list_of(value, path):
            append_one(out, item, depth)

    return append


def _integer(tag: bytes, path: str) -> Append:
    def append(out: bytearray, value: Any, depth: int) -> None:
        if value.__class__ is not int:
            raise ProtobufError(f"{path}: an integer is expected, not {type(value).__name__}")
        out += tag
        out += varint(value)

    return append


def _bool(tag: bytes, path: str) -> Append:
    true, false = tag + b"\1", tag + b"\0"

    def append(out: bytearray, value: Any, depth: int) -> None:
        if value.__class__ is not bool:
            raise ProtobufError(f"{path}: a boolean is expected, not {type(value).__name__}")
        out += true if value else false

    return append


def _double(tag: bytes, path: str) -> Append:
    def append(out: bytearray, value: Any, depth: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ProtobufError(f"{path}: a number is expected, not {type(value).__name__}")
        out += tag + struct.pack("<d", value)

    return append


_WIRE: Final = {"bool": VARINT, "int32": VARINT, "int64": VARINT, "double": FIXED64}
_SCALARS: Final = {"bool": _bool, "int32": _integer, "int64": _integer, "double": _double}
