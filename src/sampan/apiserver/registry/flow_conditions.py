"""The status subresource of FlowSchemas and PriorityLevelConfigurations, which consists of conditions only."""

from collections.abc import Iterable, Sequence
from typing import Any

from sampan.api.faults import FieldError
from sampan.api.types.flowcontrol_v1 import FlowSchemaCondition, PriorityLevelConfigurationCondition
from sampan.apiserver.registry import metadata
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_required, validate_unique
from sampan.apiserver.registry.strategy import Context, StatusStrategy

_AT = "status.conditions"


class FlowStatusStrategy(StatusStrategy):
    def prepare_for_update(self, ctx: Context, obj: Any, old: Any) -> None:
        super().prepare_for_update(ctx, obj, old)
        metadata.keep_all_but_managed_fields(obj.metadata, old.metadata)

    def validate_update(self, ctx: Context, obj: Any, old: Any) -> Iterable[FieldError]:
        return validate_conditions(obj.status.conditions)


def validate_conditions(conditions: Sequence[FlowSchemaCondition | PriorityLevelConfigurationCondition]) -> FieldErrors:
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        yield from validate_unique(condition.type, types, f"{_AT}[{index}].type")
        yield from validate_required(condition.type, f"{_AT}[{index}].type")
