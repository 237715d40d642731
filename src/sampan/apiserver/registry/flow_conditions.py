"""The status subresource of FlowSchemas and PriorityLevelConfigurations, which consists of conditions only."""

from collections.abc import Iterable, Sequence
from typing import Any

from sampan.api.faults import FieldError
from sampan.api.types.flowcontrol_v1 import FlowSchemaCondition, PriorityLevelConfigurationCondition
from sampan.apiserver.registry import metadata
from sampan.apiserver.registry.podspec.formats import Faults, given, repeated
from sampan.apiserver.registry.strategy import Context, StatusStrategy

_AT = "status.conditions"


class FlowStatusStrategy(StatusStrategy):
    def prepare_update(self, ctx: Context, obj: Any, old: Any) -> None:
        super().prepare_update(ctx, obj, old)
        metadata.keep_all_but_managed_fields(obj.metadata, old.metadata)

    def validate_update(self, ctx: Context, obj: Any, old: Any) -> Iterable[FieldError]:
        return condition_faults(obj.status.conditions)


def condition_faults(conditions: Sequence[FlowSchemaCondition | PriorityLevelConfigurationCondition]) -> Faults:
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        yield from repeated(condition.type, types, f"{_AT}[{index}].type")
        yield from given(condition.type, f"{_AT}[{index}].type")
