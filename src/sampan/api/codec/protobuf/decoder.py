"""Decodes protobuf bytes to the JSON value that Go's JSON encoder would print for the same object.

A message is compiled on first use into a plan: a table from tag to how the field is read. `read_message` executes it;
it is one long loop because it is the hot path, and handles strings, messages and integers itself. Everything else is a
closure.
"""

import struct
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

from sampan.api.codec.protobuf import stores
from sampan.api.codec.protobuf.field_table import MAX_DEPTH, Field, MessageTable, union_of
from sampan.api.codec.protobuf.leaves import LEAVES, RAW_EXTENSION, check_json, raw_json
from sampan.api.codec.protobuf.stores import Budget, JsonObject, Read, Store
from sampan.api.codec.protobuf.wire import (
    BYTES,
    FIXED64,
    PREFIX,
    VARINT,
    ProtobufError,
    read_varint,
    skip,
    text,
    truncation_error,
)

OpenEnvelope = Callable[[bytes, int], Any]
"""Reads a complete object at a nesting depth."""

_ENVELOPE_DEPTH: Final = 8
"""The depth that an envelope inside an object counts for, because it takes that many more stack frames."""
_FREE_ITEMS: Final = 50_000
_BYTES_PER_ITEM: Final = 16
"""An item of two bytes can become an object of a kilobyte, so beyond `_FREE_ITEMS` the number of items is limited by
the size of the message."""

_TEXT, _MESSAGE, _OTHER, _INTEGER, _DOUBLE = range(5)

Entry = tuple[int, str, Any]
Blank = tuple[str, Callable[[int, Budget], Any]]


class MessageDecodingPlan:
    """The table by which the fields of one message are read."""

    __slots__ = ("blanks", "entries", "name", "names")

    def __init__(self, name: str) -> None:
        self.name = name
        self.entries: dict[int, Entry] | None = None
        """By tag of a field: how its value is read, its JSON name, and the argument of the reader."""
        self.names: dict[int, str] = {}
        self.blanks: list[Blank] = []
        """Fields that JSON prints even if they were not sent, with factories of their values."""


class Decoder:
    def __init__(self, *, table: MessageTable, open_envelope: OpenEnvelope) -> None:
        """`open_envelope` reads a complete object that is embedded in place of raw JSON."""
        self._table = table
        self._open_envelope = open_envelope
        self._plans: dict[str, MessageDecodingPlan] = {}

    def decode(self, message: str, buf: bytes, depth: int = 0) -> JsonObject:
        budget = [_FREE_ITEMS + len(buf) // _BYTES_PER_ITEM]
        try:
            return self.read_message(self._get_plan(message), buf, 0, len(buf), {}, depth, budget)
        except (IndexError, struct.error) as error:
            raise truncation_error() from error

    def read_message(
        self, plan: MessageDecodingPlan, buf: bytes, pos: int, end: int, out: JsonObject, depth: int, budget: Budget
    ) -> JsonObject:
        """Read fields into `out`, which may hold an earlier part of the same message."""
        entries = plan.entries
        if entries is None:
            entries = self._compile(plan)
        if depth > MAX_DEPTH:
            raise ProtobufError(f"{plan.name}: nested more than {MAX_DEPTH} deep")
        while pos < end:
            tag = buf[pos]
            pos += 1
            if tag > 127:
                tag, pos = read_varint(buf, pos - 1)
            entry = entries.get(tag)
            if entry is None:
                pos = _skip(plan, tag, buf, pos, end)
                continue
            kind, name, extra = entry
            if kind > _OTHER:
                if kind == _DOUBLE:
                    extra(out, struct.unpack_from("<d", buf, pos)[0])
                    pos += 8
                    continue
                value = buf[pos]
                pos += 1
                if value > 127:
                    value, pos = read_varint(buf, pos - 1)
                extra(out, value)
                continue
            size = buf[pos]
            pos += 1
            if size > 127:
                size, pos = read_varint(buf, pos - 1)
            stop = pos + size
            if stop > end:
                raise truncation_error()
            if kind == _TEXT:
                if size or extra:
                    out[name] = buf[pos:stop].decode("utf-8", "replace")
                elif name in out:
                    del out[name]
            elif kind == _MESSAGE:
                part = out.get(name)
                out[name] = self.read_message(extra, buf, pos, stop, {} if part is None else part, depth + 1, budget)
            else:
                extra(out, buf, pos, stop, depth + 1, budget)
            pos = stop
        if pos != end:
            raise truncation_error()
        for name, blank in plan.blanks:
            if name not in out:
                out[name] = blank(depth + 1, budget)
        return out

    def _get_plan(self, message: str) -> MessageDecodingPlan:
        """Return the plan of a message; its entries are compiled on first use."""
        plan = self._plans.get(message)
        if plan is None:
            plan = self._plans[message] = MessageDecodingPlan(message)
        return plan

    def _compile(self, plan: MessageDecodingPlan) -> dict[int, Entry]:
        fields = self._table.fields(plan.name)
        plan.names = {field.number: field.name for field in fields}
        plan.blanks = [blank for field in fields for blank in self._blanks(field)]
        plan.entries = {
            field.number << 3 | wire: (kind, field.name, extra)
            for field in fields
            for wire, kind, extra in self._list_wire_forms(field)
        }
        return plan.entries

    def _list_wire_forms(self, field: Field) -> list[tuple[int, int, Any]]:
        """Return the wire types that a field may have, and how each is read."""
        if field.many == "{}":
            return [(BYTES, _OTHER, self._make_map_store(field))]
        if field.type in stores.INTEGERS:
            if field.many:
                append, append_packed = stores.make_integer_append(field), stores.make_packed_append(field)
                return [(VARINT, _INTEGER, append), (BYTES, _OTHER, append_packed)]
            return [(VARINT, _INTEGER, stores.make_integer_store(field))]
        if field.type == "double":
            return [(FIXED64, _DOUBLE, stores.make_double_store(field))]
        if field.many:
            return [(BYTES, _OTHER, self._make_list_store(field))]
        if field.type == "string":
            return [(BYTES, _TEXT, stores.keeps_zero(field))]
        if field.type == "bytes":
            return [(BYTES, _OTHER, stores.make_base64_store(field))]
        if field.embedded:
            return [(BYTES, _OTHER, self._make_embedded_store(field))]
        if field.type in LEAVES or self._is_union(field.type):
            return [(BYTES, _OTHER, self._make_single_store(field))]
        return [(BYTES, _MESSAGE, self._get_plan(field.type))]

    def _is_union(self, message: str) -> bool:
        return union_of(message, self._table.fields(message)) is not None

    def _reader(self, kind: str) -> Read:
        """Return the reader of a list's item, a map's value or a leaf."""
        if kind == "string":
            return lambda buf, pos, stop, depth, budget: text(buf[pos:stop])
        if kind == "bytes":
            return lambda buf, pos, stop, depth, budget: b64encode(buf[pos:stop]).decode()
        if kind == RAW_EXTENSION:
            return self._read_raw_extension
        if kind in LEAVES:
            read = LEAVES[kind].read
            return lambda buf, pos, stop, depth, budget: read(buf[pos:stop])
        plan, read_message = self._get_plan(kind), self.read_message
        if union := union_of(kind, self._table.fields(kind)):
            unwrap = union.unwrap
            return lambda buf, pos, stop, depth, budget: unwrap(read_message(plan, buf, pos, stop, {}, depth, budget))
        return lambda buf, pos, stop, depth, budget: read_message(plan, buf, pos, stop, {}, depth, budget)

    def _read_raw_extension(self, buf: bytes, pos: int, stop: int, depth: int, budget: Budget) -> Any:
        raw = raw_json(buf[pos:stop])
        if not raw.startswith(PREFIX):
            return check_json(raw)
        return self._open_envelope(raw, depth + _ENVELOPE_DEPTH)

    def _make_single_store(self, field: Field) -> Store:
        name, drops_none, read = field.name, field.shown == "~", self._reader(field.type)

        def store(out: JsonObject, buf: bytes, pos: int, stop: int, depth: int, budget: Budget) -> None:
            out[name] = value = read(buf, pos, stop, depth, budget)
            if value is None and drops_none:
                del out[name]

        return store

    def _make_list_store(self, field: Field) -> Store:
        name, read = field.name, self._reader(field.type)

        def store(out: JsonObject, buf: bytes, pos: int, stop: int, depth: int, budget: Budget) -> None:
            items = out.get(name)
            if items is None:
                items = out[name] = []
            _spend(budget)
            items.append(read(buf, pos, stop, depth, budget))

        return store

    def _make_map_store(self, field: Field) -> Store:
        name, read = field.name, self._reader(field.type)

        def store(out: JsonObject, buf: bytes, pos: int, stop: int, depth: int, budget: Budget) -> None:
            entries = out.get(name)
            if entries is None:
                entries = out[name] = {}
            _spend(budget)
            key, value = stores.read_map_entry(buf, pos, stop, depth, budget, read)
            entries[key] = read(b"", 0, 0, depth, budget) if value is stores.ABSENT else value

        return store

    def _make_embedded_store(self, field: Field) -> Store:
        plan, read_message = self._get_plan(field.type), self.read_message

        def store(out: JsonObject, buf: bytes, pos: int, stop: int, depth: int, budget: Budget) -> None:
            read_message(plan, buf, pos, stop, out, depth, budget)

        return store

    def _blanks(self, field: Field) -> list[Blank]:
        if field.embedded:
            plan = self._get_plan(field.type)
            if plan.entries is None:
                self._compile(plan)
            return plan.blanks
        if field.shown == "~":
            return []
        if field.pointer or field.many or field.is_scalar:
            zero = None if field.pointer or field.many else stores.ZEROES[field.type]
            return [(field.name, lambda depth, budget: zero)] if field.shown else []
        if field.type in LEAVES:
            zero = LEAVES[field.type].zero
            return [(field.name, lambda depth, budget: zero)]
        if self._is_union(field.type):
            return [(field.name, lambda depth, budget: None)] if field.shown else []
        plan, read_message = self._get_plan(field.type), self.read_message
        return [(field.name, lambda depth, budget: read_message(plan, b"", 0, 0, {}, depth, budget))]


def _spend(budget: Budget) -> None:
    budget[0] -= 1
    if budget[0] < 0:
        raise ProtobufError("too many nearly empty items")


def _skip(plan: MessageDecodingPlan, tag: int, buf: bytes, pos: int, end: int) -> int:
    name = plan.names.get(tag >> 3)
    if name is not None:
        raise ProtobufError(f"proto: wrong wireType = {tag & 7} for field {name} of {plan.name}")
    return skip(tag, buf, pos, end)
