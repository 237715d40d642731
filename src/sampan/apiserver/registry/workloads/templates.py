"""The pod template of a workload, and the common strategy of kinds with one."""

from collections.abc import Iterable
from typing import Any

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.apiserver.registry.podspec.disabled import drop_disabled_fields
from sampan.apiserver.registry.podspec.formats import FieldErrors
from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions
from sampan.apiserver.registry.podspec.warnings import warnings_for
from sampan.apiserver.registry.strategy import Context, Strategy

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
