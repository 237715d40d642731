"""Validation of numbers of pods that may be percentages: maxUnavailable and maxSurge."""

from sampan.api import int_or_string, names
from sampan.api.faults import FieldError
from sampan.api.int_or_string import IntOrString
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_non_negative


def validate_int_or_percent(value: IntOrString, at: str) -> FieldErrors:
    if isinstance(value, int):
        yield from validate_non_negative(value, at)
        return
    for text in names.percent(value):
        yield FieldError.invalid(at, value, text)


def validate_at_most_100_percent(value: IntOrString, at: str) -> FieldErrors:
    """Yield an error for a percentage above 100%."""
    if (percent := _percent(value)) is not None and percent > 100:
        yield FieldError.invalid(at, value, "must not be greater than 100%")


def is_zero(value: IntOrString) -> bool:
    percent = _percent(value)
    return (int_or_string.int_value(value) if percent is None else percent) == 0


def _percent(value: IntOrString) -> int | None:
    return int_or_string.percent_of(value) if isinstance(value, str) and not names.percent(value) else None
