"""The conditions of a HorizontalPodAutoscaler."""

from sampan.api.times import format_time
from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus

ABLE, ACTIVE, LIMITED, SCALED_TO_ZERO = "AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"


def set_condition(
    status: HorizontalPodAutoscalerStatus, type: str, is_true: bool, reason: str, message: str, now: float
) -> None:
    value = "True" if is_true else "False"
    condition = next((candidate for candidate in status.conditions if candidate.type == type), None)
    if condition is None:
        condition = HorizontalPodAutoscalerCondition(type=type)
        status.conditions.append(condition)
    if condition.status != value:
        condition.lastTransitionTime = format_time(now)
    condition.status, condition.reason, condition.message = value, reason, message


def remove_condition(status: HorizontalPodAutoscalerStatus, type: str) -> None:
    status.conditions = [condition for condition in status.conditions if condition.type != type]
