"""Field errors: the path, the type of error and kube-apiserver's message; the counterpart of
`apimachinery/pkg/util/validation/field`."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from sampan.api import limits
from sampan.api.go_compat import gotext

REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
TYPE_INVALID = "FieldValueTypeInvalid"
DUPLICATE = "FieldValueDuplicate"
NOT_SUPPORTED = "FieldValueNotSupported"
FORBIDDEN = "FieldValueForbidden"
NOT_FOUND = "FieldValueNotFound"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"
INTERNAL = "InternalError"

_WORDS = {
    REQUIRED: "Required value",
    INVALID: "Invalid value",
    TYPE_INVALID: "Invalid value",
    DUPLICATE: "Duplicate value",
    NOT_SUPPORTED: "Unsupported value",
    FORBIDDEN: "Forbidden",
    NOT_FOUND: "Not found",
    TOO_LONG: "Too long",
    TOO_MANY: "Too many",
    INTERNAL: "Internal error",
}
_VALUE_IS_SHOWN = frozenset({INVALID, TYPE_INVALID, NOT_SUPPORTED, NOT_FOUND, DUPLICATE, TOO_MANY})


class _Omitted:
    def __repr__(self) -> str:
        return "OMITTED"


OMITTED: Final = _Omitted()
"""An invalid value that the message does not show."""


class FieldPath:
    """The path of a field: `Path("spec") / "containers"`, then `[0]` for an item or `["key"]` for an entry of a map."""

    __slots__ = ("_text",)

    def __init__(self, *names: str) -> None:
        self._text = ".".join(names)

    def __truediv__(self, name: str) -> "FieldPath":
        return _path(f"{self._text}.{name}" if self._text else name)

    def __getitem__(self, key: int | str) -> "FieldPath":
        return _path(f"{self._text}[{key}]")

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Path({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldPath) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def _path(text: str) -> FieldPath:
    path = FieldPath.__new__(FieldPath)
    path._text = text
    return path


class FieldError(Struct, frozen=True):
    """One field error. Use the class methods, which format the message of each type."""

    type: str
    field: str
    bad_value: Any = OMITTED
    detail: str = ""

    @property
    def body(self) -> str:
        """The message without the field, as in a cause of a Status."""
        parts = [_WORDS.get(self.type, self.type)]
        if self.type in _VALUE_IS_SHOWN and self.bad_value is not OMITTED:
            parts.append(_format_value(self.bad_value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"

    def cause(self) -> dict[str, str]:
        cause = {"reason": self.type, "message": self.body, "field": self.field}
        return {key: text for key, text in cause.items() if text}

    @classmethod
    def required(cls, path: FieldPath | str, detail: str = "") -> "FieldError":
        return cls(REQUIRED, str(path), OMITTED, detail)

    @classmethod
    def invalid(cls, path: FieldPath | str, value: Any, detail: str) -> "FieldError":
        return cls(INVALID, str(path), value, detail)

    @classmethod
    def type_invalid(cls, path: FieldPath | str, value: Any, detail: str) -> "FieldError":
        return cls(TYPE_INVALID, str(path), value, detail)

    @classmethod
    def duplicate(cls, path: FieldPath | str, value: Any) -> "FieldError":
        return cls(DUPLICATE, str(path), value)

    @classmethod
    def not_supported(cls, path: FieldPath | str, value: Any, supported: Iterable[str] = ()) -> "FieldError":
        """Return an error that lists the supported values in the given order; kube-apiserver mostly sorts them."""
        listed = ", ".join(gotext.quote(word) for word in supported)
        return cls(NOT_SUPPORTED, str(path), value, f"supported values: {listed}" if listed else "")

    @classmethod
    def forbidden(cls, path: FieldPath | str, detail: str) -> "FieldError":
        return cls(FORBIDDEN, str(path), OMITTED, detail)

    @classmethod
    def not_found(cls, path: FieldPath | str, value: Any) -> "FieldError":
        return cls(NOT_FOUND, str(path), value)

    @classmethod
    def too_long(cls, path: FieldPath | str, max_length: int, unit: str = "byte") -> "FieldError":
        """Return an error that does not show the value. kube-apiserver counts bytes, in a few places characters."""
        detail = f"may not be more than {_count(max_length, unit)}" if max_length >= 0 else "value is too long"
        return cls(TOO_LONG, str(path), OMITTED, detail)

    @classmethod
    def too_many(cls, path: FieldPath | str, actual: int, max_count: int) -> "FieldError":
        """Return an error; a negative `actual` is not shown, a negative `max_count` is not named."""
        detail = f"must have at most {_count(max_count, 'item')}" if max_count >= 0 else "has too many items"
        return cls(TOO_MANY, str(path), actual if actual >= 0 else OMITTED, detail)

    @classmethod
    def internal(cls, path: FieldPath | str, detail: str) -> "FieldError":
        return cls(INTERNAL, str(path), OMITTED, detail)


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return gotext.quote(value)
    if isinstance(value, float):
        return gotext.value(value)
    return gotext.json_text(value)


def collect_errors(errors: Iterable[FieldError]) -> list[FieldError]:
    """Return the errors of an object, as many as a response can hold. Validation stops there: a path may contain a key
    of any length, and each error below it contains the path."""
    reported: list[FieldError] = []
    character_budget = limits.VALIDATION_ERROR_CHARACTERS
    for error in errors:
        reported.append(error)
        character_budget -= len(error.field) + len(error.detail)
        if character_budget < 0 or len(reported) >= limits.VALIDATION_ERRORS:
            break
    return reported


def join_messages(messages: Sequence[str]) -> str:
    """Return several error messages as one text without duplicates, in the format of kube-apiserver."""
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
