"""The conditions of a HorizontalPodAutoscaler."""

from sampan.api.semantics.conditions import find_condition, without_condition
from sampan.api.times import format_time
from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus

ABLE, ACTIVE, LIMITED, SCALED_TO_ZERO = "AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"


def set_condition(
    status: HorizontalPodAutoscalerStatus, type: str, is_true: bool, reason: str, message: str, now: float
) -> None:
    value = "True" if is_true else "False"
    condition = find_condition(status.conditions, type)
    if condition is None:
        condition = HorizontalPodAutoscalerCondition(type=type)
        status.conditions.append(condition)
    if condition.status != value:
        condition.lastTransitionTime = format_time(now)
    condition.status, condition.reason, condition.message = value, reason, message


def remove_condition(status: HorizontalPodAutoscalerStatus, type: str) -> None:
    status.conditions = without_condition(status.conditions, type)
