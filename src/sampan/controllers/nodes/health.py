"""Health of nodes as this controller observes it: heartbeats are timed with its own clock, never with that of the
node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sampan.api.semantics.conditions import READY, UNKNOWN, condition_status, find_condition
from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import Node, NodeCondition
from sampan.api.values import times
from sampan.machinery.copies import copy_of

_KUBELET_CONDITIONS: Final = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that the kubelet reports. NetworkUnavailable is not among them, because the control plane sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """The last observation of a node."""

    seen_at: float
    """Monotonic time of the last heartbeat."""
    has_ready: bool
    heartbeat: str | None
    """lastHeartbeatTime of the Ready condition."""
    renewed: str | None
    """renewTime of the node lease."""


def ready_status(node: Node) -> str:
    """Return "True", "False" or "Unknown", or an empty string if the node has no Ready condition."""
    return condition_status(node.status.conditions, READY)


def observe(
    last: NodeHealth | None, node: Node, lease: Lease | None, *, now: float, wall_offset: float = 0.0
) -> NodeHealth:
    """Return the updated health from the node and its lease. `now` is monotonic time."""
    ready = find_condition(node.status.conditions, READY)
    heartbeat = ready.lastHeartbeatTime if ready is not None else None
    renewed = lease.spec.renewTime if lease is not None else None
    if last is None:
        seen_at = created_at(node, now, wall_offset) if ready is None and renewed is None else now
        return NodeHealth(seen_at=seen_at, has_ready=ready is not None, heartbeat=heartbeat, renewed=renewed)
    # Any change counts, also a step back of the node's clock.
    is_renewed = renewed is not None and renewed != last.renewed
    has_posted = last.has_ready != (ready is not None) or heartbeat != last.heartbeat
    if not is_renewed and not has_posted:
        return last
    renewed = renewed if is_renewed else last.renewed
    return NodeHealth(seen_at=now, has_ready=ready is not None, heartbeat=heartbeat, renewed=renewed)


def with_heartbeat(health: NodeHealth, now: float) -> NodeHealth:
    """Return the health as if the node had just sent a heartbeat."""
    return replace(health, seen_at=now)


def mark_unknown(node: Node, now: float) -> Node | None:
    """Return a copy with all kubelet conditions Unknown, or None if the Ready condition already is."""
    ready = find_condition(node.status.conditions, READY)
    if ready is not None and ready.status == UNKNOWN:
        return None
    marked, stamp = copy_of(node), times.format_time(now)
    for type in _KUBELET_CONDITIONS:
        condition = find_condition(marked.status.conditions, type)
        if condition is None:
            marked.status.conditions.append(_never_posted(type, node, stamp))
        elif condition.status != UNKNOWN:
            condition.status, condition.lastTransitionTime = UNKNOWN, stamp
            condition.reason, condition.message = "NodeStatusUnknown", "Kubelet stopped posting node status."
    return marked


def created_at(node: Node, now: float, wall_offset: float = 0.0) -> float:
    """Return the creation time of the node on the time scale of `now`."""
    created = node.metadata.creationTimestamp
    return times.parse_time(created) - wall_offset if created else now


def _never_posted(type: str, node: Node, stamp: str) -> NodeCondition:
    return NodeCondition(
        type=type,
        status=UNKNOWN,
        reason="NodeStatusNeverUpdated",
        message="Kubelet never posted node status.",
        lastHeartbeatTime=node.metadata.creationTimestamp,
        lastTransitionTime=stamp,
    )
