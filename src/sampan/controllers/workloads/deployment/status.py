"""The status of a Deployment: counters, conditions, and whether there was progress (`progress.go`, `sync.go`). Pure."""

from collections.abc import Iterable

import msgspec

from sampan.api.go_compat.gotext import quote
from sampan.api.semantics.conditions import FALSE, TRUE, UNKNOWN, find_condition, without_condition
from sampan.api.semantics.workloads import desired_replicas
from sampan.api.types.apps_v1 import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from sampan.api.values.times import format_time, parse_time
from sampan.controllers.workloads.deployment.replicasets import (
    ReplicaSets,
    deadline_s,
    max_unavailable,
    total_actual_replicas,
    total_available,
    total_replicas,
    total_terminating,
)

Conditions = list[DeploymentCondition]

AVAILABLE, PROGRESSING, REPLICA_FAILURE = "Available", "Progressing", "ReplicaFailure"

CREATED, NEW_REPLICA_SET_FOUND, CREATE_ERROR = "NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetCreateError"
UPDATED, COMPLETE, TIMED_OUT = "ReplicaSetUpdated", "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"
MINIMUM_REPLICAS_AVAILABLE, MINIMUM_REPLICAS_UNAVAILABLE = "MinimumReplicasAvailable", "MinimumReplicasUnavailable"


def condition(type: str, status: str, reason: str, message: str, stamp: str) -> DeploymentCondition:
    return DeploymentCondition(
        type=type, status=status, reason=reason, message=message, lastUpdateTime=stamp, lastTransitionTime=stamp
    )


def set_deployment_condition(conditions: Conditions, new: DeploymentCondition) -> Conditions:
    """Return the conditions with the new one, unless its status and reason are unchanged."""
    present = find_condition(conditions, new.type)
    if present is not None and present.status == new.status:
        if present.reason == new.reason:
            return conditions
        new = msgspec.structs.replace(new, lastTransitionTime=present.lastTransitionTime)
    return [*without_condition(conditions, new.type), new]


def refresh_condition(conditions: Conditions, new: DeploymentCondition) -> Conditions:
    """Return the conditions with the new one, keeping lastTransitionTime if the status was already True."""
    present = find_condition(conditions, new.type)
    if present is not None and present.status == TRUE:
        new = msgspec.structs.replace(new, lastTransitionTime=present.lastTransitionTime)
    return [*without_condition(conditions, new.type), new]


def failure_of(new: ReplicaSet | None, replica_sets: Iterable[ReplicaSet]) -> DeploymentCondition | None:
    """Return the ReplicaFailure condition of a ReplicaSet, that of the new one first, or None."""
    for rs in (*((new,) if new is not None else ()), *replica_sets):
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


def calculate_status(deployment: Deployment, sets: ReplicaSets, now: float) -> DeploymentStatus:
    """Return the status with the totals of the ReplicaSets and the Available condition."""
    all_sets = sets.all
    available = total_available(all_sets)
    if available >= desired_replicas(deployment) - max_unavailable(deployment):
        availability = (TRUE, MINIMUM_REPLICAS_AVAILABLE, "Deployment has minimum availability.")
    else:
        availability = (FALSE, MINIMUM_REPLICAS_UNAVAILABLE, "Deployment does not have minimum availability.")
    return DeploymentStatus(
        observedGeneration=deployment.metadata.generation,
        replicas=total_actual_replicas(all_sets),
        updatedReplicas=sets.new.status.replicas if sets.new is not None else 0,
        readyReplicas=sum(rs.status.readyReplicas for rs in all_sets),
        availableReplicas=available,
        unavailableReplicas=max(total_replicas(all_sets) - available, 0),
        terminatingReplicas=total_terminating(all_sets),
        collisionCount=deployment.status.collisionCount,
        conditions=set_deployment_condition(
            deployment.status.conditions, condition(AVAILABLE, *availability, format_time(now))
        ),
    )


def rollout_status(deployment: Deployment, sets: ReplicaSets, now: float) -> DeploymentStatus:
    """Return the status with the Progressing and ReplicaFailure conditions."""
    status = calculate_status(deployment, sets, now)
    if deadline_s(deployment) is None:
        status.conditions = without_condition(status.conditions, PROGRESSING)
    elif not _is_settled(deployment, status):
        status.conditions = _progress(deployment, status, sets.new, now)
    failure = failure_of(sets.new, sets.old)
    if failure is not None:
        status.conditions = set_deployment_condition(status.conditions, failure)
    else:
        status.conditions = without_condition(status.conditions, REPLICA_FAILURE)
    return status


def _is_settled(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether the last rollout is complete and no new one has started."""
    progressing = find_condition(deployment.status.conditions, PROGRESSING)
    return progressing is not None and progressing.reason == COMPLETE and status.replicas == status.updatedReplicas


def _progress(deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, now: float) -> Conditions:
    name, stamp = _subject(deployment, new), format_time(now)
    if is_complete(deployment, status):
        progress = (TRUE, COMPLETE, f"{name} has successfully progressed.")
        return set_deployment_condition(status.conditions, condition(PROGRESSING, *progress, stamp))
    if is_progressing(deployment.status, status):
        progress = (TRUE, UPDATED, f"{name} is progressing.")
        return refresh_condition(status.conditions, condition(PROGRESSING, *progress, stamp))
    if has_timed_out(deployment, status, now):
        progress = (FALSE, TIMED_OUT, f"{name} has timed out progressing.")
        return set_deployment_condition(status.conditions, condition(PROGRESSING, *progress, stamp))
    return status.conditions


def _subject(deployment: Deployment, new: ReplicaSet | None) -> str:
    subject = deployment if new is None else new
    return f"{subject.kind} {quote(subject.metadata.name)}"


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all desired pods are updated and available, and there are no others."""
    count = desired_replicas(deployment)
    is_whole = status.updatedReplicas == status.replicas == status.availableReplicas == count
    return is_whole and status.observedGeneration >= deployment.metadata.generation


def is_progressing(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    """Whether more pods are updated, ready or available than before, or fewer outdated ones are left."""
    return (
        new.updatedReplicas > old.updatedReplicas
        or new.replicas - new.updatedReplicas < old.replicas - old.updatedReplicas
        or new.readyReplicas > old.readyReplicas
        or new.availableReplicas > old.availableReplicas
    )


def has_timed_out(deployment: Deployment, status: DeploymentStatus, now: float) -> bool:
    progressing, limit_s = find_condition(status.conditions, PROGRESSING), deadline_s(deployment)
    if progressing is None or limit_s is None or progressing.reason == COMPLETE:
        return False
    return progressing.reason == TIMED_OUT or _parse_time_or_zero(progressing.lastUpdateTime) + limit_s < now


def next_check_s(deployment: Deployment, status: DeploymentStatus, now: float) -> float | None:
    """Return the seconds until a stalled rollout exceeds its progress deadline."""
    progressing, limit_s = find_condition(status.conditions, PROGRESSING), deadline_s(deployment)
    if progressing is None or limit_s is None or progressing.reason == TIMED_OUT or is_complete(deployment, status):
        return None
    return max(_parse_time_or_zero(progressing.lastUpdateTime) + limit_s - now, 0) + 1


def _parse_time_or_zero(stamp: str | None) -> float:
    return parse_time(stamp) if stamp else 0.0


def update_pause_condition(deployment: Deployment, now: float) -> Conditions:
    """Return the conditions with Progressing set to Unknown on pause and resume; that restarts the deadline."""
    present = deployment.status.conditions
    progressing = find_condition(present, PROGRESSING)
    if deadline_s(deployment) is None or (progressing is not None and progressing.reason == TIMED_OUT):
        return present
    is_paused = progressing is not None and progressing.reason == PAUSED
    if deployment.spec.paused == is_paused:
        return present
    words = (PAUSED, "Deployment is paused") if deployment.spec.paused else (RESUMED, "Deployment is resumed")
    return set_deployment_condition(present, condition(PROGRESSING, UNKNOWN, *words, format_time(now)))


def with_conditions(deployment: Deployment, conditions: Conditions) -> Deployment:
    """Return the Deployment with these conditions; the same object if nothing changes."""
    if conditions is deployment.status.conditions:
        return deployment
    status = msgspec.structs.replace(deployment.status, conditions=conditions)
    return msgspec.structs.replace(deployment, status=status)
