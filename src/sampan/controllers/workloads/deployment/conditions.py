"""The conditions of a Deployment. Pure; times are API timestamps."""

from collections.abc import Iterable

import msgspec

from sampan.api.semantics.conditions import TRUE, find_condition, without_condition
from sampan.api.types.apps_v1 import DeploymentCondition, ReplicaSet

Conditions = list[DeploymentCondition]

AVAILABLE, PROGRESSING, REPLICA_FAILURE = "Available", "Progressing", "ReplicaFailure"

CREATED, FOUND, CREATE_ERROR = "NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetCreateError"
UPDATED, COMPLETE, TIMED_OUT = "ReplicaSetUpdated", "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"
ENOUGH, TOO_FEW = "MinimumReplicasAvailable", "MinimumReplicasUnavailable"


def condition(type: str, status: str, reason: str, message: str, stamp: str) -> DeploymentCondition:
    return DeploymentCondition(
        type=type, status=status, reason=reason, message=message, lastUpdateTime=stamp, lastTransitionTime=stamp
    )


def put(conditions: Conditions, new: DeploymentCondition) -> Conditions:
    """Return the conditions with the new one, unless its status and reason are unchanged."""
    present = find_condition(conditions, new.type)
    if present is not None and present.status == new.status:
        if present.reason == new.reason:
            return conditions
        new = msgspec.structs.replace(new, lastTransitionTime=present.lastTransitionTime)
    return [*without_condition(conditions, new.type), new]


def refreshed(conditions: Conditions, new: DeploymentCondition) -> Conditions:
    """Return the conditions with the new one, keeping lastTransitionTime if the status was already True."""
    present = find_condition(conditions, new.type)
    if present is not None and present.status == TRUE:
        new = msgspec.structs.replace(new, lastTransitionTime=present.lastTransitionTime)
    return [*without_condition(conditions, new.type), new]


def failure_of(new: ReplicaSet | None, found: Iterable[ReplicaSet]) -> DeploymentCondition | None:
    """Return the ReplicaFailure condition of a ReplicaSet, that of the new one first, or None."""
    for rs in (*((new,) if new is not None else ()), *found):
        for failure in rs.status.conditions:
            if failure.type == REPLICA_FAILURE:
                stamp = failure.lastTransitionTime
                return DeploymentCondition(
                    type=failure.type,
                    status=failure.status,
                    reason=failure.reason,
                    message=failure.message,
                    lastUpdateTime=stamp,
                    lastTransitionTime=stamp,
                )
    return None
