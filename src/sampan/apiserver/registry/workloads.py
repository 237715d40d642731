"""The parts that workload kinds share: the strategy of kinds with a pod template, their table columns and version
annotations, and the validation of selectors, percentages of pods and the counts in a status.

The pod spec itself is in `registry.podspec`; what is specific to a kind is in its own module. The counterpart is
`pkg/apis/apps/validation`.
"""

from collections.abc import Callable, Iterable
from typing import Any

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.selectors.label_grammar import SelectorError
from sampan.api.selectors.label_selector import selector_errors, selector_of
from sampan.api.selectors.labels import Selector
from sampan.api.types.core_v1 import Container, PodTemplateSpec
from sampan.api.types.meta_v1 import LabelSelector
from sampan.api.values import int_or_string
from sampan.api.values.int_or_string import IntOrString
from sampan.api.values.integers import is_integer
from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions
from sampan.apiserver.registry.podspec.warnings import warnings_for
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_non_negative
from sampan.apiserver.tables import cells
from sampan.machinery import errors

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


def validate_int_or_percent(value: IntOrString, path: str) -> FieldErrors:
    if isinstance(value, int):
        yield from validate_non_negative(value, path)
        return
    for text in names.percent(value):
        yield FieldError.invalid(path, value, text)


def validate_at_most_100_percent(value: IntOrString, path: str) -> FieldErrors:
    """Yield an error for a percentage above 100%."""
    if (percent := _percent(value)) is not None and percent > 100:
        yield FieldError.invalid(path, value, "must not be greater than 100%")


def is_zero(value: IntOrString) -> bool:
    percent = _percent(value)
    return (int_or_string.int_value(value) if percent is None else percent) == 0


def _percent(value: IntOrString) -> int | None:
    return int_or_string.percent_of(value) if isinstance(value, str) and not names.percent(value) else None


IMMUTABLE = "field is immutable"
_MISMATCH = "`selector` does not match template `labels`"


def validate_required_selector(selector: LabelSelector | None, path: str, *, of: str) -> FieldErrors:
    """Yield errors unless the selector is set, valid and not empty. `of` is the kind in the message."""
    if selector is None:
        yield FieldError.required(path)
        return
    yield from selector_errors(selector, path)
    yield from validate_non_empty_selector(selector, path, of=of)


def validate_non_empty_selector(selector: LabelSelector, path: str, *, of: str) -> FieldErrors:
    if not selector.matchLabels and not selector.matchExpressions:
        yield FieldError.invalid(path, selector, f"empty selector is invalid for {of}")


def validate_selector(new: LabelSelector | None, old: LabelSelector | None, path: str) -> list[FieldError]:
    """Return the errors of the selector; invalid values are tolerated if the old selector has errors too.

    `old` is None for a new object.
    """
    errors = selector_errors(new, path)
    if errors and selector_errors(old, path):
        return selector_errors(new, path, allow_bad_values=True)
    return errors


def parse_selector(selector: LabelSelector | None) -> Selector | None:
    """Return the parsed selector, None if it is invalid. A missing selector matches nothing."""
    try:
        return selector_of(selector)
    except SelectorError:
        return None


def validate_selector_matches_template(selector: Selector, template: PodTemplateSpec, path: str) -> FieldErrors:
    """Yield an error if the selector does not match the labels of the template at `path`."""
    labels = template.metadata.labels
    if not selector.matches(labels):
        yield FieldError.invalid(f"{path}.metadata.labels", labels or None, _MISMATCH)


def validate_immutable_selector(new: LabelSelector | None, old: LabelSelector | None, path: str) -> FieldErrors:
    if new != old:
        yield FieldError.invalid(path, new, IMMUTABLE)


def selector_expression(selector: LabelSelector | None) -> str:
    """Return the selector as text for the scale subresource; "" if it matches everything or nothing, or is invalid."""
    parsed_selector = parse_selector(selector)
    return str(parsed_selector) if parsed_selector is not None else ""


def _containers(obj: Any) -> list[Container]:
    return obj.spec.template.spec.containers or []


def container_columns(containers: Callable[[Any], list[Container]] = _containers) -> tuple[Column, Column]:
    """Return the columns with the names and images of the containers that `containers` returns."""
    return (
        Column(
            "Containers",
            lambda obj, now: cells.container_names(containers(obj)),
            description="Names of each container in the template.",
            wide=True,
        ),
        Column(
            "Images",
            lambda obj, now: cells.container_images(containers(obj)),
            description="Images referenced by each container in the template.",
            wide=True,
        ),
    )


SELECTOR = Column("Selector", lambda obj, now: cells.selector(obj.spec.selector), field="spec.selector", wide=True)


def make_count_column(name: str, field: str) -> Column:
    """Return the table column that shows a number from the status."""
    return Column(name, lambda obj, now: getattr(obj.status, field), type="integer", field=f"status.{field}")


_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1


def normalize_number_annotation(obj: Any, key: str) -> None:
    """Normalize the number in the annotation, if present. Raise BadRequest if it is not a 64-bit integer."""
    text: str | None = obj.metadata.annotations.get(key)
    if text is None:
        return
    if not is_integer(text):
        raise _unreadable_number_error(obj, text, "invalid syntax")
    number = int(text) if len(text) < 32 else _MAX_INT64 + 1
    if not _MIN_INT64 <= number <= _MAX_INT64:
        raise _unreadable_number_error(obj, text, "value out of range")
    obj.metadata.annotations[key] = str(number)


def _unreadable_number_error(obj: Any, text: str, why: str) -> errors.ApiError:
    version = obj.apiVersion.rpartition("/")[2]
    start = f'{obj.kind} in version "{version}" cannot be handled as a {obj.kind}'
    return errors.bad_request(f"{start}: strconv.ParseInt: parsing {gotext.quote(text)}: {why}")


_SURPRISE = "this is used in Pod names and hostnames, which can result in surprising behavior"


def update_options(old: PodTemplateSpec) -> PodValidationOptions:
    """Return the options that tolerate invalid values in an update if the old template has them too."""
    return PodValidationOptions(old.spec, old.metadata.annotations)


def validate_template_never_completes(template: PodTemplateSpec, path: str, *, of: str) -> FieldErrors:
    """Yield errors if pods of the template could complete, although those of the kind (`of`) must not."""
    if template.spec.restartPolicy != "Always":
        yield FieldError.not_supported(f"{path}.spec.restartPolicy", template.spec.restartPolicy, ("Always",))
    if template.spec.activeDeadlineSeconds is not None:
        yield FieldError.forbidden(
            f"{path}.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {of} is not Supported"
        )


def name_warnings(name: str) -> Iterable[str]:
    if messages := names.dns1123_label(name):
        yield f"metadata.name: {_SURPRISE}; a DNS label is recommended: [{' '.join(messages)}]"


class TemplateStrategy(Strategy):
    """The strategy of a kind with a pod template at `template_at`."""

    counts_generation = True
    template_at = "spec.template"
    warns_of_names = True
    """Whether to warn of a name that is no DNS label; false for kinds that reject such names."""

    def template_of(self, obj: Any) -> PodTemplateSpec:
        template: PodTemplateSpec = obj.spec.template
        return template

    def prepare_for_create(self, ctx: Context, obj: Any) -> None:
        obj.status = type(obj.status)()

    def prepare_for_update(self, ctx: Context, obj: Any, old: Any) -> None:
        obj.status = old.status

    def warnings(self, ctx: Context, obj: Any, old: Any | None) -> Iterable[str]:
        if old is None and self.warns_of_names:
            yield from name_warnings(obj.metadata.name)
        if old is None or obj.metadata.generation != old.metadata.generation:
            yield from self.spec_warnings(obj)
            template = self.template_of(obj)
            yield from warnings_for(template.spec, template.metadata, self.template_at)

    def spec_warnings(self, obj: Any) -> Iterable[str]:
        """Yield warnings about the spec outside the template."""
        return ()
