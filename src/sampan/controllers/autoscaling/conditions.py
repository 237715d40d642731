"""The conditions of a HorizontalPodAutoscaler."""

from sampan.api.times import format_time
from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus

ABLE, ACTIVE, LIMITED, SCALED_TO_ZERO = "AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"


def set_condition(
    status: HorizontalPodAutoscalerStatus, type: str, is_true: bool, reason: str, message: str, now: float
) -> None:
    value = "True" if is_true else "False"
    found = next((each for each in status.conditions if each.type == type), None)
    if found is None:
        found = HorizontalPodAutoscalerCondition(type=type)
        status.conditions.append(found)
    if found.status != value:
        found.lastTransitionTime = format_time(now)
    found.status, found.reason, found.message = value, reason, message


def remove_condition(status: HorizontalPodAutoscalerStatus, type: str) -> None:
    status.conditions = [each for each in status.conditions if each.type != type]


__all__ = ["ABLE", "ACTIVE", "LIMITED", "SCALED_TO_ZERO", "remove_condition", "set_condition"]
