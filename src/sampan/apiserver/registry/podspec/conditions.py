"""Conditions in the status of a pod."""

from sampan.api.types.core_v1 import PodCondition, PodStatus


def set_condition(status: PodStatus, type: str, value: str, *, now: str, reason: str = "", message: str = "") -> None:
    """Set a condition, replacing one of the same type; its lastTransitionTime changes only with its status."""
    wanted = PodCondition(type=type, status=value, reason=reason, message=message, lastTransitionTime=now)
    for index, condition in enumerate(status.conditions):
        if condition.type == type:
            if condition.status == value:
                wanted.lastTransitionTime = condition.lastTransitionTime
            status.conditions[index] = wanted
            return
    status.conditions.append(wanted)


def is_true(status: PodStatus, type: str) -> bool:
    return any(condition.type == type and condition.status == "True" for condition in status.conditions)
