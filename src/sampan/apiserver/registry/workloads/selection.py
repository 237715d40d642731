"""Validation of a workload's selector, and whether it matches the pod template."""

from sampan.api.faults import FieldError
from sampan.api.label_grammar import SelectorError
from sampan.api.label_selector import selector_faults, selector_of
from sampan.api.labels import Selector
from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.api.types.meta_v1 import LabelSelector
from sampan.apiserver.registry.podspec.formats import FieldErrors

IMMUTABLE = "field is immutable"
_MISMATCH = "`selector` does not match template `labels`"


def validate_required_selector(selector: LabelSelector | None, at: str, *, of: str) -> FieldErrors:
    """Yield errors unless the selector is set, valid and not empty. `of` is the kind in the message."""
    if selector is None:
        yield FieldError.required(at)
        return
    yield from selector_faults(selector, at)
    yield from validate_non_empty_selector(selector, at, of=of)


def validate_non_empty_selector(selector: LabelSelector, at: str, *, of: str) -> FieldErrors:
    if not selector.matchLabels and not selector.matchExpressions:
        yield FieldError.invalid(at, selector, f"empty selector is invalid for {of}")


def validate_selector(new: LabelSelector | None, old: LabelSelector | None, at: str) -> list[FieldError]:
    """Return the errors of the selector; invalid values are tolerated if the old selector has errors too.

    `old` is None for a new object.
    """
    errors = selector_faults(new, at)
    if errors and selector_faults(old, at):
        return selector_faults(new, at, allow_bad_values=True)
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
