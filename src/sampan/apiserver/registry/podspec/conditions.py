"""Conditions in a pod's status."""

from sampan.api.types.core_v1 import PodCondition, PodStatus


def set_condition(status: PodStatus, type: str, value: str, *, now: str, reason: str = "", message: str = "") -> None:
    """Put a condition in, in the place of an older one of its type; its time moves only with its value."""
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
