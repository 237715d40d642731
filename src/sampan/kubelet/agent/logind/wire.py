"""Pure encoding and decoding of D-Bus messages, little-endian, as far as method calls and signals need it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

CALL, RETURN, ERROR, SIGNAL = 1, 2, 3, 4
_PATH, _INTERFACE, _MEMBER, _ERROR_NAME, _REPLY_TO, _DESTINATION, _SENDER, _SIGNATURE, _FDS = range(1, 10)
_TEXT_FIELDS = {_PATH: "o", _INTERFACE: "s", _MEMBER: "s", _ERROR_NAME: "s", _DESTINATION: "s", _SENDER: "s"}
_FIXED = {"y": ("B", 1), "b": ("I", 4), "n": ("h", 2), "q": ("H", 2), "i": ("i", 4), "u": ("I", 4), "h": ("I", 4)}
_FIXED |= {"x": ("q", 8), "t": ("Q", 8), "d": ("d", 8)}
_LEAST = 16
"""Number of bytes after which the length of a message is known."""


@dataclass(slots=True, kw_only=True)
class Message:
    kind: int
    serial: int = 0
    path: str = ""
    interface: str = ""
    member: str = ""
    destination: str = ""
    sender: str = ""
    """Set by the bus."""
    error: str = ""
    reply_to: int = 0
    signature: str = ""
    body: Sequence[Any] = ()
    fds: list[int] = field(default_factory=list)
    """File descriptors received with the message; `h` in the body is an index into this list."""
    fd_count: int = 0


def encode(message: Message) -> bytes:
    body = _Writer()
    for kind, value in zip(parts(message.signature), message.body, strict=True):
        body.put(kind, value)
    texts = {
        _PATH: message.path,
        _INTERFACE: message.interface,
        _MEMBER: message.member,
        _ERROR_NAME: message.error,
        _DESTINATION: message.destination,
    }
    fields: list[Any] = [(code, (_TEXT_FIELDS[code], text)) for code, text in texts.items() if text]
    if message.reply_to:
        fields.append((_REPLY_TO, ("u", message.reply_to)))
    if message.signature:
        fields.append((_SIGNATURE, ("g", message.signature)))
    if message.fd_count:
        fields.append((_FDS, ("u", message.fd_count)))
    head = _Writer()
    for kind, value in zip("yyyyuu", (ord("l"), message.kind, 0, 1, len(body.data), message.serial), strict=True):
        head.put(kind, value)
    head.put("a(yv)", fields)
    head.align(8)
    return bytes(head.data + body.data)


def length(data: bytes) -> int | None:
    """Return the length of the first message in `data`, or None if there are too few bytes to tell."""
    if len(data) < _LEAST:
        return None
    body, _, fields = struct.unpack_from("<III", data, 4)
    return int(_LEAST + -(-fields // 8) * 8 + body)


def decode(data: bytes) -> Message:
    reader = _Reader(data)
    order, kind, _, _, _, serial = (reader.take(signature_code) for signature_code in "yyyyuu")
    if order != ord("l"):
        raise ValueError("not in little-endian order")
    fields = {code: value for code, (_, value) in reader.take("a(yv)")}
    reader.align(8)
    signature = fields.get(_SIGNATURE, "")
    return Message(
        kind=kind,
        serial=serial,
        path=fields.get(_PATH, ""),
        interface=fields.get(_INTERFACE, ""),
        member=fields.get(_MEMBER, ""),
        destination=fields.get(_DESTINATION, ""),
        sender=fields.get(_SENDER, ""),
        error=fields.get(_ERROR_NAME, ""),
        reply_to=fields.get(_REPLY_TO, 0),
        signature=signature,
        body=[reader.take(signature_code) for signature_code in parts(signature)],
        fd_count=fields.get(_FDS, 0),
    )


def parts(signature: str) -> list[str]:
    """Return the complete types of which the signature consists."""
    types, at = [], 0
    while at < len(signature):
        end = _end(signature, at)
        types.append(signature[at:end])
        at = end
    return types


def _end(signature: str, at: int) -> int:
    while signature[at] == "a":
        at += 1
    if signature[at] not in "({":
        return at + 1
    depth = 0
    for index in range(at, len(signature)):
        depth += (signature[index] in "({") - (signature[index] in ")}")
        if not depth:
            return index + 1
    raise ValueError(f"the signature {signature!r} does not end")


def _alignment(kind: str) -> int:
    if kind[0] in _FIXED:
        return _FIXED[kind[0]][1]
    return {"s": 4, "o": 4, "a": 4, "g": 1, "v": 1, "(": 8, "{": 8}[kind[0]]


class _Writer:
    def __init__(self) -> None:
        self.data = bytearray()

    def align(self, size: int) -> None:
        self.data += b"\0" * (-len(self.data) % size)

    def put(self, kind: str, value: Any) -> None:
        self.align(_alignment(kind))
        if kind in _FIXED:
            self.data += struct.pack(f"<{_FIXED[kind][0]}", value)
        elif kind in ("s", "o", "g"):
            text = value.encode()
            self.data += struct.pack("<B" if kind == "g" else "<I", len(text)) + text + b"\0"
        elif kind == "v":
            self.put("g", value[0])
            self.put(value[0], value[1])
        elif kind[0] == "a":
            self._put_array(kind[1:], value)
        else:
            for inner, item in zip(parts(kind[1:-1]), value, strict=True):
                self.put(inner, item)

    def _put_array(self, kind: str, values: Sequence[Any]) -> None:
        mark = len(self.data)
        self.data += b"\0\0\0\0"
        self.align(_alignment(kind))
        begin = len(self.data)
        for value in values:
            self.put(kind, value)
        struct.pack_into("<I", self.data, mark, len(self.data) - begin)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def align(self, size: int) -> None:
        self._at += -self._at % size

    def take(self, kind: str) -> Any:
        self.align(_alignment(kind))
        if kind in _FIXED:
            code, size = _FIXED[kind]
            (value,) = struct.unpack_from(f"<{code}", self._data, self._at)
            self._at += size
            return bool(value) if kind == "b" else value
        if kind in ("s", "o", "g"):
            return self._take_text(1 if kind == "g" else 4)
        if kind == "v":
            inner = self.take("g")
            return inner, self.take(inner)
        if kind[0] == "a":
            return self._take_array(kind[1:])
        return tuple(self.take(inner) for inner in parts(kind[1:-1]))

    def _take_text(self, width: int) -> str:
        size = int.from_bytes(self._data[self._at : self._at + width], "little")
        begin = self._at + width
        self._at = begin + size + 1
        return self._data[begin : begin + size].decode()

    def _take_array(self, kind: str) -> list[Any]:
        (size,) = struct.unpack_from("<I", self._data, self._at)
        self._at += 4
        self.align(_alignment(kind))
        end, values = self._at + size, []
        while self._at < end:
            values.append(self.take(kind))
        return values
