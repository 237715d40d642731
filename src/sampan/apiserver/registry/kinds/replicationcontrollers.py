"""ReplicationController: maintains a number of identical pods, the predecessor of ReplicaSet."""

from collections.abc import Iterable

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import (
    Container,
    PodTemplateSpec,
    ReplicationController,
    ReplicationControllerSpec,
    ReplicationControllerStatus,
)
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec.defaults import default_template
from sampan.apiserver.registry.podspec.spec import validate_pod_template_spec
from sampan.apiserver.registry.podspec.validation_options import NEW_TEMPLATE, PodValidationOptions
from sampan.apiserver.registry.podspec.warnings import warnings_for
from sampan.apiserver.registry.scale import ScaleSubresource
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_non_negative
from sampan.apiserver.registry.workloads import container_columns
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_EXCEEDS_REPLICAS_ERROR = "cannot be greater than status.replicas"


def _containers(controller: ReplicationController) -> list[Container]:
    return list(controller.spec.template.spec.containers or ()) if controller.spec.template is not None else []


_COLUMNS = (
    NAME,
    Column("Desired", lambda controller, now: controller.spec.replicas or 0, type="integer", field="spec.replicas"),
    Column("Current", lambda controller, now: controller.status.replicas, type="integer", field="status.replicas"),
    Column(
        "Ready", lambda controller, now: controller.status.readyReplicas, type="integer", field="status.readyReplicas"
    ),
    AGE,
    *container_columns(_containers),
    Column("Selector", lambda controller, now: cells.pairs(controller.spec.selector), field="spec.selector", wide=True),
)


class ReplicationControllerStrategy(Strategy):
    columns = _COLUMNS
    counts_generation = True
    has_name_tag = True
    default_garbage_collection_policy = "Orphan"

    def default(self, obj: ReplicationController) -> None:
        spec = obj.spec
        if spec.replicas is None:
            spec.replicas = 1
        if spec.template is None:
            return
        labels = spec.template.metadata.labels
        if labels:
            spec.selector = spec.selector or dict(labels)
            obj.metadata.labels = obj.metadata.labels or dict(labels)
        default_template(spec.template)

    def prepare_for_create(self, ctx: Context, obj: ReplicationController) -> None:
        obj.status = ReplicationControllerStatus()

    def validate_create(self, ctx: Context, obj: ReplicationController) -> Iterable[FieldError]:
        return _validate_spec(obj.spec, NEW_TEMPLATE)

    def prepare_for_update(self, ctx: Context, obj: ReplicationController, old: ReplicationController) -> None:
        obj.status = old.status

    def validate_update(
        self, ctx: Context, obj: ReplicationController, old: ReplicationController
    ) -> Iterable[FieldError]:
        before = old.spec.template
        options = PodValidationOptions(before.spec, before.metadata.annotations) if before is not None else NEW_TEMPLATE
        return _validate_spec(obj.spec, options)

    def warnings(self, ctx: Context, obj: ReplicationController, old: ReplicationController | None) -> Iterable[str]:
        if old is None and (messages := names.dns1123_label(obj.metadata.name)):
            surprise = "this is used in Pod names and hostnames, which can result in surprising behavior"
            yield f"metadata.name: {surprise}; a DNS label is recommended: [{' '.join(messages)}]"
        template = obj.spec.template
        if template is not None and (old is None or obj.spec != old.spec):
            yield from warnings_for(template.spec, template.metadata, "spec.template")


class ReplicationControllerStatusStrategy(StatusStrategy):
    def validate_update(
        self, ctx: Context, obj: ReplicationController, old: ReplicationController
    ) -> Iterable[FieldError]:
        status = obj.status
        counted = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")
        for field in counted:
            yield from validate_non_negative(getattr(status, field), f"status.{field}")
        for field in counted[1:4]:
            if getattr(status, field) > status.replicas:
                yield FieldError.invalid(f"status.{field}", getattr(status, field), _EXCEEDS_REPLICAS_ERROR)
        if status.availableReplicas > status.readyReplicas:
            text = "cannot be greater than readyReplicas"
            yield FieldError.invalid("status.availableReplicas", status.availableReplicas, text)


def _validate_spec(spec: ReplicationControllerSpec, options: PodValidationOptions) -> FieldErrors:
    if not spec.selector:
        yield FieldError.required("spec.selector")
    if spec.template is None:
        yield FieldError.required("spec.template")
    else:
        yield from _validate_template(spec.template, spec.selector, options)


def _validate_template(
    template: PodTemplateSpec, selector: dict[str, str], options: PodValidationOptions
) -> FieldErrors:
    path, labels = "spec.template", template.metadata.labels
    if not selector.items() <= labels.items():
        text = "`selector` does not match template `labels`"
        yield FieldError.invalid(f"{path}.metadata.labels", labels or None, text)
    yield from validate_pod_template_spec(template, options, path)
    if template.spec.restartPolicy != "Always":
        yield FieldError.not_supported(f"{path}.spec.restartPolicy", template.spec.restartPolicy, ("Always",))
    if template.spec.activeDeadlineSeconds is not None:
        text = "activeDeadlineSeconds in ReplicationController is not Supported"
        yield FieldError.forbidden(f"{path}.spec.activeDeadlineSeconds", text)


# -- table columns -----------------------------------------------------------------------------------------------------


def _selector(controller: ReplicationController) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(controller.spec.selector.items()))


_strategy = ReplicationControllerStrategy()
_scaled = ScaleSubresource(strategy=_strategy, selector=_selector)
BEHAVIOR = ResourceBehavior(
    strategy=_strategy,
    views={"status": ReplicationControllerStatusStrategy(_strategy)},
)
HANDLERS: Handlers = {"scale": _scaled.serve}
