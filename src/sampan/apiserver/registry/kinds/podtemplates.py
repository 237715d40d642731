"""PodTemplate: a pod template as an object of its own."""

from collections.abc import Iterable
from typing import Any

from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import PodTemplate
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec.defaults import default_template
from sampan.apiserver.registry.podspec.spec import validate_pod_template_spec
from sampan.apiserver.registry.podspec.validation_options import NEW_TEMPLATE, PodValidationOptions
from sampan.apiserver.registry.podspec.warnings import warnings_for
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import NAME


class PodTemplateStrategy(Strategy):
    return_deleted_object = True
    counts_generation = True
    columns = (
        NAME,
        Column(
            "Containers",
            lambda pod_template, now: cells.container_names(pod_template.template.spec.containers or ()),
            description="Names of each container in the template.",
        ),
        Column(
            "Images",
            lambda pod_template, now: cells.container_images(pod_template.template.spec.containers or ()),
            description="Images referenced by each container in the template.",
        ),
        Column(
            "Pod Labels",
            lambda pod_template, now: cells.pairs(pod_template.template.metadata.labels),
            description="The labels for the pod template.",
        ),
    )

    def spec_of(self, obj: PodTemplate) -> Any:
        return obj.template

    def default(self, obj: PodTemplate) -> None:
        default_template(obj.template)

    def validate_create(self, ctx: Context, obj: PodTemplate) -> Iterable[FieldError]:
        return validate_pod_template_spec(obj.template, NEW_TEMPLATE, "template")

    def validate_update(self, ctx: Context, obj: PodTemplate, old: PodTemplate) -> Iterable[FieldError]:
        options = PodValidationOptions(old.template.spec, old.template.metadata.annotations)
        return validate_pod_template_spec(obj.template, options, "template")

    def warnings(self, ctx: Context, obj: PodTemplate, old: PodTemplate | None) -> Iterable[str]:
        if old is not None and obj.template == old.template:
            return ()
        return warnings_for(obj.template.spec, obj.template.metadata, "template")


BEHAVIOR = ResourceBehavior(strategy=PodTemplateStrategy())
