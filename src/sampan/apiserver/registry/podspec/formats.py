"""Validation of single values, with the messages of kube-apiserver."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.apiserver.registry.podspec.internal_view import shown
from sampan.apiserver.registry.sameness import is_same

FieldErrors = Iterator[FieldError]

IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
_ID_RANGE_ERROR = names.out_of_range(0, 2**31 - 1)


def validate_dns_label(value: str, at: str) -> FieldErrors:
    for text in names.dns1123_label(value):
        yield FieldError.invalid(at, value, text)


def validate_dns_subdomain(value: str, at: str) -> FieldErrors:
    for text in names.dns1123_subdomain(value):
        yield FieldError.invalid(at, value, text)


def validate_qualified_name(value: str, at: str) -> FieldErrors:
    for text in names.qualified_name(value):
        yield FieldError.invalid(at, value, text)


def validate_label_value(value: str, at: str) -> FieldErrors:
    for text in names.label_value(value):
        yield FieldError.invalid(at, value, text)


def validate_labels(labels: Mapping[str, str], at: str) -> FieldErrors:
    for key in sorted(labels):
        yield from validate_qualified_name(key, at)
        yield from validate_label_value(labels[key], at)


def validate_non_negative(value: int, at: str) -> FieldErrors:
    if value < 0:
        yield FieldError.invalid(at, value, NEGATIVE)


def validate_positive(value: int, at: str) -> FieldErrors:
    if value <= 0:
        yield FieldError.invalid(at, value, "must be greater than zero")


def validate_user_or_group_id(value: int | None, at: str) -> FieldErrors:
    if value is not None and not 0 <= value < 2**31:
        yield FieldError.invalid(at, value, _ID_RANGE_ERROR)


def validate_one_of(value: str, allowed: Sequence[str], at: str) -> FieldErrors:
    """Yield an error if the value is missing or not allowed. The message lists the allowed values in their order."""
    if value in allowed:
        return
    yield FieldError.not_supported(at, value, allowed) if value else FieldError.required(at)


def validate_optional_one_of(value: str | None, allowed: Sequence[str], at: str) -> FieldErrors:
    """Yield an error if the value is set and not allowed; "" counts as set."""
    if value is not None and value not in allowed:
        yield FieldError.not_supported(at, value, allowed)


def validate_required(value: str | Collection[str] | None, at: str) -> FieldErrors:
    if not value:
        yield FieldError.required(at)


def validate_unique(value: str, known_values: set[str], at: str) -> FieldErrors:
    """Yield an error if the value was seen before, and add it to `known_values`."""
    if value in known_values:
        yield FieldError.duplicate(at, value)
    known_values.add(value)


def validate_immutable(new: Any, old: Any, at: str) -> FieldErrors:
    """Yield an error if an immutable value has changed."""
    if not is_same(new, old):
        yield FieldError.invalid(at, new if isinstance(new, str) else shown(new), IMMUTABLE)
