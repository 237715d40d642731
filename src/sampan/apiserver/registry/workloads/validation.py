"""Validation that workloads share: selectors, percentages of pods, and the counts in a status."""

from collections.abc import Iterable
from typing import Any

from sampan.api import int_or_string, names
from sampan.api.field_errors import FieldError
from sampan.api.int_or_string import IntOrString
from sampan.api.label_grammar import SelectorError
from sampan.api.label_selector import selector_errors, selector_of
from sampan.api.labels import Selector
from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.api.types.meta_v1 import LabelSelector
from sampan.apiserver.registry.validation import FieldErrors, validate_non_negative

_ABOVE_ALL = "cannot be greater than status.replicas"


def validate_non_negative_counts(status: Any, fields: Iterable[str]) -> FieldErrors:
    """Yield an error for each negative count, in the order of `fields`; unset counts are valid."""
    for field in fields:
        value: int | None = getattr(status, field)
        if value is not None and value < 0:
            yield from validate_non_negative(value, f"status.{field}")


def validate_counts_at_most_replicas(status: Any, fields: Iterable[str]) -> FieldErrors:
    for field in fields:
        if (value := getattr(status, field)) > status.replicas:
            yield FieldError.invalid(f"status.{field}", value, _ABOVE_ALL)


def validate_available_at_most_ready(status: Any, *, ready: str = "readyReplicas") -> FieldErrors:
    """Yield an error if there are more available than ready pods. `ready` is the name of the field in the message."""
    if status.availableReplicas > status.readyReplicas:
        text = f"cannot be greater than {ready}"
        yield FieldError.invalid("status.availableReplicas", status.availableReplicas, text)


def validate_collision_count(new: Any, old: Any) -> FieldErrors:
    """Yield an error if the count of hash collisions decreases."""
    before, after = old.collisionCount, new.collisionCount
    if before is not None and (after is None or after < before):
        yield FieldError.invalid("status.collisionCount", after or 0, "cannot be decremented")


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


IMMUTABLE = "field is immutable"
_MISMATCH = "`selector` does not match template `labels`"


def validate_required_selector(selector: LabelSelector | None, at: str, *, of: str) -> FieldErrors:
    """Yield errors unless the selector is set, valid and not empty. `of` is the kind in the message."""
    if selector is None:
        yield FieldError.required(at)
        return
    yield from selector_errors(selector, at)
    yield from validate_non_empty_selector(selector, at, of=of)


def validate_non_empty_selector(selector: LabelSelector, at: str, *, of: str) -> FieldErrors:
    if not selector.matchLabels and not selector.matchExpressions:
        yield FieldError.invalid(at, selector, f"empty selector is invalid for {of}")


def validate_selector(new: LabelSelector | None, old: LabelSelector | None, at: str) -> list[FieldError]:
    """Return the errors of the selector; invalid values are tolerated if the old selector has errors too.

    `old` is None for a new object.
    """
    errors = selector_errors(new, at)
    if errors and selector_errors(old, at):
        return selector_errors(new, at, allow_bad_values=True)
    return errors


def parsed(selector: LabelSelector | None) -> Selector | None:
    """Return the parsed selector, None if it is invalid. A missing selector matches nothing."""
    try:
        return selector_of(selector)
    except SelectorError:
        return None


def validate_selector_matches_template(selector: Selector, template: PodTemplateSpec, at: str) -> FieldErrors:
    """Yield an error if the selector does not match the labels of the template at `at`."""
    labels = template.metadata.labels
    if not selector.matches(labels):
        yield FieldError.invalid(f"{at}.metadata.labels", labels or None, _MISMATCH)


def validate_immutable_selector(new: LabelSelector | None, old: LabelSelector | None, at: str) -> FieldErrors:
    if new != old:
        yield FieldError.invalid(at, new, IMMUTABLE)


def expression(selector: LabelSelector | None) -> str:
    """Return the selector as text for the scale subresource; "" if it matches everything or nothing, or is invalid."""
    parsed_selector = parsed(selector)
    return str(parsed_selector) if parsed_selector is not None else ""
