"""RuntimeClass: selects the container runtime configuration (handler) for pods."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types.core_v1 import ResourceRequirements, Toleration
from sampan.api.types.node_v1 import RuntimeClass
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec.node_selection import validate_tolerations
from sampan.apiserver.registry.podspec.resources import validate_resource_requirements
from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions
from sampan.apiserver.registry.podspec.warnings import DEPRECATED_NODE_LABELS
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_labels
from sampan.apiserver.tables.columns import AGE, NAME


class RuntimeClassStrategy(Strategy):
    allow_create_on_update = True
    allow_unconditional_update = False
    columns = (NAME, Column("Handler", lambda runtime_class, now: runtime_class.handler), AGE)

    def validate_create(self, ctx: Context, obj: RuntimeClass) -> Iterable[FieldError]:
        if obj.overhead is not None:
            requirements = ResourceRequirements(limits=obj.overhead.podFixed)
            yield from validate_resource_requirements(requirements, PodValidationOptions(), "overhead")
        if obj.scheduling is not None:
            yield from validate_labels(obj.scheduling.nodeSelector, "scheduling.nodeSelector")
            yield from _validate_toleration(obj.scheduling.tolerations, "scheduling.tolerations")

    def validate_update(self, ctx: Context, obj: RuntimeClass, old: RuntimeClass) -> Iterable[FieldError]:
        return self.validate_create(ctx, obj)

    def warnings(self, ctx: Context, obj: RuntimeClass, old: RuntimeClass | None) -> Iterable[str]:
        selector = obj.scheduling.nodeSelector if obj.scheduling is not None else {}
        for key in sorted(selector.keys() & DEPRECATED_NODE_LABELS.keys()):
            yield f"scheduling.nodeSelector: {DEPRECATED_NODE_LABELS[key]}"


def _validate_toleration(tolerations: list[Toleration], path: str) -> FieldErrors:
    yield from validate_tolerations(tolerations, path)
    keys: set[tuple[str, str, str, str]] = set()
    for index, toleration in enumerate(tolerations):
        key = (toleration.key, toleration.operator, toleration.value, toleration.effect)
        if key in keys:
            yield FieldError.duplicate(f"{path}[{index}]", encode_error_value(toleration))
        keys.add(key)


BEHAVIOR = ResourceBehavior(strategy=RuntimeClassStrategy())
