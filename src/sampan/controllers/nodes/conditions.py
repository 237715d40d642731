"""Conditions of nodes, patches of pod conditions, and the deprecated labels that mirror the current ones."""

from collections.abc import Mapping
from typing import Any, Final

from sampan.api import times
from sampan.api.semantics.conditions import READY, condition_status, find_condition
from sampan.api.types.core_v1 import Node, Pod

_OLD_NAMES: Final[Mapping[str, str]] = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}


def missing_labels(node: Node) -> dict[str, str]:
    """Return the deprecated labels that are absent or differ."""
    present = node.metadata.labels
    return {old: present[new] for new, old in _OLD_NAMES.items() if new in present and present.get(old) != present[new]}


DISRUPTION_TARGET: Final = "DisruptionTarget"


def ready_status(node: Node) -> str:
    """Return "True", "False" or "Unknown", or an empty string if the node has no Ready condition."""
    return condition_status(node.status.conditions, READY)


def pod_condition_patch(pod: Pod, type: str, now: float, **fields: str | int) -> Mapping[str, Any] | None:
    """Return the status patch that sets these fields of a pod condition, or None if they are already set.

    lastTransitionTime is set if the status changes. The API server rejects the patch if the pod has been replaced
    (other UID).
    """
    present = find_condition(pod.status.conditions, type)
    if present is not None and all(getattr(present, key) == value for key, value in fields.items()):
        return None
    desired: dict[str, Any] = {"type": type, **fields}
    if present is None or present.status != fields["status"]:
        desired["lastTransitionTime"] = times.format_time(now)
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [desired]}}
