"""Conditions of nodes, and patches of pod conditions."""

from collections.abc import Mapping
from typing import Any, Final

from sampan.api import times
from sampan.api.types.core_v1 import Node, NodeCondition, Pod

READY: Final = "Ready"
TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
DISRUPTION_TARGET: Final = "DisruptionTarget"


def condition_of(node: Node, type: str) -> NodeCondition | None:
    for condition in node.status.conditions:
        if condition.type == type:
            return condition
    return None


def ready_status(node: Node) -> str:
    """Return "True", "False" or "Unknown", or an empty string if the node has no Ready condition."""
    condition = condition_of(node, READY)
    return condition.status if condition is not None else ""


def pod_condition_patch(pod: Pod, type: str, now: float, **fields: str | int) -> Mapping[str, Any] | None:
    """Return the status patch that sets these fields of a pod condition, or None if they are already set.

    lastTransitionTime is set if the status changes. The API server rejects the patch if the pod has been replaced
    (other UID).
    """
    present = next((condition for condition in pod.status.conditions if condition.type == type), None)
    if present is not None and all(getattr(present, key) == value for key, value in fields.items()):
        return None
    desired: dict[str, Any] = {"type": type, **fields}
    if present is None or present.status != fields["status"]:
        desired["lastTransitionTime"] = times.format_time(now)
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [desired]}}
