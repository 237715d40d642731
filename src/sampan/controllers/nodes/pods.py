"""Keys of nodes and of the pods on them, and patches of the conditions of a pod."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

from sampan.api.semantics.conditions import find_condition
from sampan.api.types.core_v1 import Pod
from sampan.api.values import times

DISRUPTION_TARGET: Final = "DisruptionTarget"


def by_node(pod: Any) -> Iterable[Hashable]:
    """Return the name of the node that the pod is bound to; empty for unbound pods."""
    name = pod.spec.nodeName
    return (name,) if name else ()


def node_name(node: Any) -> Iterable[Hashable]:
    return (node.metadata.name,)


def pod_condition_patch(pod: Pod, type: str, now: float, **fields: str | int) -> Mapping[str, Any] | None:
    """Return the status patch that sets these fields of a pod condition, or None if they are already set.

    lastTransitionTime is set if the status changes. The API server rejects the patch if another pod, with another UID,
    has the name by then.
    """
    present = find_condition(pod.status.conditions, type)
    if present is not None and all(getattr(present, key) == value for key, value in fields.items()):
        return None
    desired: dict[str, Any] = {"type": type, **fields}
    if present is None or present.status != fields["status"]:
        desired["lastTransitionTime"] = times.format_time(now)
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [desired]}}
