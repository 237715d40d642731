"""The strategy of kinds with a pod template, with the table columns and version annotations that they share."""

from collections.abc import Callable, Iterable
from typing import Any

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.integers import is_integer
from sampan.api.types.core_v1 import Container, PodTemplateSpec
from sampan.apiserver.registry.podspec.disabled_fields import drop_disabled_fields
from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions
from sampan.apiserver.registry.podspec.warnings import warnings_for
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import FieldErrors
from sampan.apiserver.tables import cells
from sampan.machinery import errors


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


def count(name: str, field: str) -> Column:
    """Return a column with a number from the status."""
    return Column(name, lambda obj, now: getattr(obj.status, field), type="integer", field=f"status.{field}")


_LEAST, _MOST = -(2**63), 2**63 - 1


def number_annotation(obj: Any, key: str) -> None:
    """Normalize the number in the annotation, if present. Raise BadRequest if it is not a 64-bit integer."""
    text: str | None = obj.metadata.annotations.get(key)
    if text is None:
        return
    if not is_integer(text):
        raise _unreadable(obj, text, "invalid syntax")
    number = int(text) if len(text) < 32 else _MOST + 1
    if not _LEAST <= number <= _MOST:
        raise _unreadable(obj, text, "value out of range")
    obj.metadata.annotations[key] = str(number)


def _unreadable(obj: Any, text: str, why: str) -> errors.ApiError:
    version = obj.apiVersion.rpartition("/")[2]
    start = f'{obj.kind} in version "{version}" cannot be handled as a {obj.kind}'
    return errors.bad_request(f"{start}: strconv.ParseInt: parsing {gotext.quote(text)}: {why}")


_SURPRISE = "this is used in Pod names and hostnames, which can result in surprising behavior"


def update_options(old: PodTemplateSpec) -> PodValidationOptions:
    """Return what an update of the template may keep although it is invalid."""
    return PodValidationOptions(old.spec, old.metadata.annotations)


def validate_template_never_completes(template: PodTemplateSpec, at: str, *, of: str) -> FieldErrors:
    """Yield errors if pods of the template could complete, although those of the kind (`of`) must not."""
    if template.spec.restartPolicy != "Always":
        yield FieldError.not_supported(f"{at}.spec.restartPolicy", template.spec.restartPolicy, ("Always",))
    if template.spec.activeDeadlineSeconds is not None:
        yield FieldError.forbidden(
            f"{at}.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {of} is not Supported"
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
        drop_disabled_fields(self.template_of(obj).spec, ctx)

    def prepare_for_update(self, ctx: Context, obj: Any, old: Any) -> None:
        obj.status = old.status
        drop_disabled_fields(self.template_of(obj).spec, ctx)

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
