"""Conditions in the status of a pod."""

from sampan.api.types.core_v1 import PodCondition, PodStatus


def set_condition(status: PodStatus, type: str, value: str, *, now: str, reason: str = "", message: str = "") -> None:
    """Set a condition, replacing one of the same type; its lastTransitionTime changes only with its status."""
    desired = PodCondition(type=type, status=value, reason=reason, message=message, lastTransitionTime=now)
    for index, condition in enumerate(status.conditions):
        if condition.type == type:
            if condition.status == value:
                desired.lastTransitionTime = condition.lastTransitionTime
            status.conditions[index] = desired
            return
    status.conditions.append(desired)


def is_true(status: PodStatus, type: str) -> bool:
    return any(condition.type == type and condition.status == "True" for condition in status.conditions)
