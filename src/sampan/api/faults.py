"""What is wrong with a field of an object: the kind of fault, where, the value, and why, in the real server's words."""

from enum import Enum
from typing import Any, NamedTuple

import msgspec

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}


class FaultType(Enum):
    """The value is the `reason` of a cause; `title` begins the message."""

    NOT_FOUND = "FieldValueNotFound", "Not found"
    REQUIRED = "FieldValueRequired", "Required value"
    DUPLICATE = "FieldValueDuplicate", "Duplicate value"
    INVALID = "FieldValueInvalid", "Invalid value"
    NOT_SUPPORTED = "FieldValueNotSupported", "Unsupported value"
    FORBIDDEN = "FieldValueForbidden", "Forbidden"
    TOO_LONG = "FieldValueTooLong", "Too long"
    TOO_SHORT = "FieldValueTooShort", "Too short"
    TOO_MANY = "FieldValueTooMany", "Too many"
    TOO_FEW = "FieldValueTooFew", "Too few"
    TYPE_INVALID = "FieldValueTypeInvalid", "Invalid value"
    INTERNAL = "InternalError", "Internal error"

    title: str

    def __new__(cls, reason: str, title: str) -> "FaultType":
        member = object.__new__(cls)
        member._value_ = reason
        member.title = title
        return member


_SHOWS_VALUE = frozenset(FaultType) - {
    FaultType.REQUIRED,
    FaultType.FORBIDDEN,
    FaultType.TOO_LONG,
    FaultType.TOO_SHORT,
    FaultType.INTERNAL,
}


class Fault(NamedTuple):
    type: FaultType
    field: str
    value: Any
    detail: str

    @property
    def message(self) -> str:
        """Without the field."""
        text = f"{self.type.title}: {show(self.value)}" if self.type in _SHOWS_VALUE else self.type.title
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def invalid(field: str, value: Any, detail: str) -> Fault:
    return Fault(FaultType.INVALID, field, value, detail)


def required(field: str, detail: str = "") -> Fault:
    return Fault(FaultType.REQUIRED, field, "", detail)


def forbidden(field: str, detail: str) -> Fault:
    return Fault(FaultType.FORBIDDEN, field, "", detail)


def show(value: Any) -> str:
    """A value as messages show it."""
    return quote(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


def quote(text: str) -> str:
    """In double quotes, with escapes for what does not print."""
    return f'"{text}"' if text.isalnum() else f'"{"".join(map(_escape, text))}"'


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def join(faults: "list[Fault]") -> str:
    """Several as one message: in brackets, each text once."""
    texts = list(dict.fromkeys(map(str, faults)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
