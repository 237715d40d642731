"""What is wrong with a field of an object: the kind of fault, where, the value, and why, in the real server's words."""

from enum import StrEnum
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


class FaultType(StrEnum):
    """The value is the `reason` of a cause in a Status."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_SHORT = "FieldValueTooShort"
    TOO_MANY = "FieldValueTooMany"
    TOO_FEW = "FieldValueTooFew"
    TYPE_INVALID = "FieldValueTypeInvalid"
    INTERNAL = "InternalError"


_TITLES = {
    FaultType.NOT_FOUND: "Not found",
    FaultType.REQUIRED: "Required value",
    FaultType.DUPLICATE: "Duplicate value",
    FaultType.INVALID: "Invalid value",
    FaultType.NOT_SUPPORTED: "Unsupported value",
    FaultType.FORBIDDEN: "Forbidden",
    FaultType.TOO_LONG: "Too long",
    FaultType.TOO_SHORT: "Too short",
    FaultType.TOO_MANY: "Too many",
    FaultType.TOO_FEW: "Too few",
    FaultType.TYPE_INVALID: "Invalid value",
    FaultType.INTERNAL: "Internal error",
}
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
        title = _TITLES[self.type]
        text = f"{title}: {show(self.value)}" if self.type in _SHOWS_VALUE else title
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
