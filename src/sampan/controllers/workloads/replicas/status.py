"""The status of a ReplicaSet or ReplicationController. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from sampan.api import times
from sampan.api.semantics.conditions import find_condition, without_condition
from sampan.api.semantics.pods import available_in_s, is_available, is_ready
from sampan.api.types.core_v1 import Pod
from sampan.controllers.workloads.replicas.kind import ReplicaKind, wanted_replicas

REPLICA_FAILURE = "ReplicaFailure"


def status_of(
    kind: ReplicaKind, owner: Any, active: Sequence[Pod], terminating: int, failure: Exception | None, now: float
) -> Any:
    """Return the status. `failure` is the error in creating or deleting pods, if any."""
    labels = owner.spec.template.metadata.labels.items()
    least_s = owner.spec.minReadySeconds
    changes: dict[str, Any] = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(1 for pod in active if labels <= pod.metadata.labels.items()),
        "readyReplicas": sum(1 for pod in active if is_ready(pod)),
        "availableReplicas": sum(1 for pod in active if is_available(pod, least_s, now)),
        "observedGeneration": owner.metadata.generation,
        "conditions": _conditions(kind, owner, len(active), failure, now),
    }
    if kind.has_terminating:
        changes["terminatingReplicas"] = terminating
    return msgspec.structs.replace(owner.status, **changes)


def _conditions(kind: ReplicaKind, owner: Any, active: int, failure: Exception | None, now: float) -> list[Any]:
    """Return the conditions; an existing ReplicaFailure condition is not updated."""
    present: list[Any] = owner.status.conditions
    has_failed = find_condition(present, REPLICA_FAILURE) is not None
    if (failure is not None) == has_failed:
        return present
    if failure is None:
        return without_condition(present, REPLICA_FAILURE)
    is_short = active < wanted_replicas(owner)
    failed = kind.condition(
        type=REPLICA_FAILURE,
        status="True",
        lastTransitionTime=times.format_time(now),
        reason="FailedCreate" if is_short else "FailedDelete",
        message=str(failure) if is_short else f"unable to delete pods: {failure}",
    )
    return [*present, failed]


def next_look_s(active: Sequence[Pod], min_ready_seconds: int, now: float) -> float | None:
    """Return the seconds until a ready pod becomes available."""
    waits = (available_in_s(pod, min_ready_seconds, now) for pod in active)
    return min((wait for wait in waits if wait is not None), default=None)
