"""The pod conditions that the scheduler writes."""

from __future__ import annotations

from typing import Any

from sampan.api.types.core_v1 import Pod, PodCondition

POD_SCHEDULED, DISRUPTION_TARGET = "PodScheduled", "DisruptionTarget"
UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"
PREEMPTED = "PreemptionByScheduler"


def status_patch(
    pod: Pod, *, type: str, status: str, reason: str, message: str, now: str, nominated: str | None = None
) -> dict[str, Any] | None:
    """Return the patch that sets the condition and the nominated node, or None if the pod already has both."""
    patch: dict[str, Any] = {}
    old = condition(pod, type)
    if old is None or (old.status, old.reason, old.message) != (status, reason, message):
        since = old.lastTransitionTime if old is not None and old.status == status else now
        patch["conditions"] = [
            {
                "type": type,
                "observedGeneration": pod.metadata.generation,
                "status": status,
                "lastProbeTime": None,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        ]
    if nominated is not None and nominated != pod.status.nominatedNodeName:
        patch["nominatedNodeName"] = nominated or None
    return {"status": patch} if patch else None


def condition(pod: Pod, type: str) -> PodCondition | None:
    return next((candidate for candidate in pod.status.conditions if candidate.type == type), None)
