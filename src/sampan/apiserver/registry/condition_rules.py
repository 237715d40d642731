"""Validation of status conditions of the common type `metav1.Condition`."""

from collections.abc import Sequence

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.types.meta_v1 import Condition
from sampan.apiserver.registry.podspec.formats import (
    FieldErrors,
    validate_optional_one_of,
    validate_qualified_name,
    validate_unique,
)

_STATUSES = ("False", "True", "Unknown")
_REASON_MOST, _MESSAGE_MOST = 1024, 32 * 1024
_reason = names.Form(
    pattern=r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
    fault="a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', REGEX)",
)


def validate_conditions(conditions: Sequence[Condition], at: str) -> FieldErrors:
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        yield from validate_unique(condition.type, types, f"{at}[{index}].type")
        yield from _validate_condition(condition, f"{at}[{index}]")


def _validate_condition(condition: Condition, at: str) -> FieldErrors:
    yield from validate_qualified_name(condition.type, f"{at}.type")
    yield from validate_optional_one_of(condition.status, _STATUSES, f"{at}.status")
    if condition.observedGeneration < 0:
        text = "must be greater than or equal to zero"
        yield FieldError.invalid(f"{at}.observedGeneration", condition.observedGeneration, text)
    if condition.lastTransitionTime is None:
        yield FieldError.required(f"{at}.lastTransitionTime")
    yield from _validate_reason(condition.reason, f"{at}.reason")
    if names.size(condition.message) > _MESSAGE_MOST:
        yield FieldError.too_long(f"{at}.message", _MESSAGE_MOST)


def _validate_reason(reason: str, at: str) -> FieldErrors:
    if not reason:
        yield FieldError.required(at)
        return
    for text in _reason(reason):
        yield FieldError.invalid(at, reason, text)
    if names.size(reason) > _REASON_MOST:
        yield FieldError.too_long(at, _REASON_MOST)
