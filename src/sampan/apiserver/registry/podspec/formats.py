"""Validation of single values, with the messages of kube-apiserver."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.apiserver.registry.podspec.internal_view import shown
from sampan.apiserver.registry.sameness import is_same

Faults = Iterator[FieldError]

IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
_ID_FAULT = names.out_of_range(0, 2**31 - 1)


def dns_label(value: str, at: str) -> Faults:
    for text in names.dns1123_label(value):
        yield FieldError.invalid(at, value, text)


def dns_subdomain(value: str, at: str) -> Faults:
    for text in names.dns1123_subdomain(value):
        yield FieldError.invalid(at, value, text)


def qualified(value: str, at: str) -> Faults:
    for text in names.qualified_name(value):
        yield FieldError.invalid(at, value, text)


def label_value(value: str, at: str) -> Faults:
    for text in names.label_value(value):
        yield FieldError.invalid(at, value, text)


def labels(found: Mapping[str, str], at: str) -> Faults:
    for key in sorted(found):
        yield from qualified(key, at)
        yield from label_value(found[key], at)


def non_negative(value: int, at: str) -> Faults:
    if value < 0:
        yield FieldError.invalid(at, value, NEGATIVE)


def positive(value: int, at: str) -> Faults:
    if value <= 0:
        yield FieldError.invalid(at, value, "must be greater than zero")


def user_or_group_id(value: int | None, at: str) -> Faults:
    if value is not None and not 0 <= value < 2**31:
        yield FieldError.invalid(at, value, _ID_FAULT)


def one_of(value: str, allowed: Sequence[str], at: str) -> Faults:
    """Yield an error if the value is missing or not allowed. The message lists the allowed values in their order."""
    if value in allowed:
        return
    yield FieldError.not_supported(at, value, allowed) if value else FieldError.required(at)


def optional_one_of(value: str | None, allowed: Sequence[str], at: str) -> Faults:
    """Yield an error if the value is set and not allowed; "" counts as set."""
    if value is not None and value not in allowed:
        yield FieldError.not_supported(at, value, allowed)


def given(value: str | Collection[str] | None, at: str) -> Faults:
    if not value:
        yield FieldError.required(at)


def repeated(value: str, seen: set[str], at: str) -> Faults:
    """Yield an error if the value was seen before, and add it to `seen`."""
    if value in seen:
        yield FieldError.duplicate(at, value)
    seen.add(value)


def fixed(new: Any, old: Any, at: str) -> Faults:
    """Yield an error if an immutable value has changed."""
    if not is_same(new, old):
        yield FieldError.invalid(at, new if isinstance(new, str) else shown(new), IMMUTABLE)
