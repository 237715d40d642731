"""The status of a StatefulSet, counted from its pods."""

from collections.abc import Iterable

from sampan.api.semantics.pods import RUNNING, is_available, is_ready
from sampan.api.types.apps_v1 import StatefulSet, StatefulSetStatus
from sampan.api.types.core_v1 import Pod
from sampan.controllers.workloads.statefulset.identity import replicas_of, revision_of

ROLLING_UPDATE, ON_DELETE = "RollingUpdate", "OnDelete"


def is_running_and_ready(pod: Pod) -> bool:
    return pod.status.phase == RUNNING and is_ready(pod)


def counted(
    sset: StatefulSet, pods: Iterable[Pod], *, current: str, update: str, collisions: int, now: float
) -> StatefulSetStatus:
    """Return the status; `current` and `update` are names of revisions."""
    status = StatefulSetStatus(
        observedGeneration=sset.metadata.generation,
        currentRevision=current,
        updateRevision=update,
        collisionCount=collisions,
    )
    for pod in pods:
        _count(status, pod, sset.spec.minReadySeconds, now)
    return status


def _count(status: StatefulSetStatus, pod: Pod, min_ready_seconds: int, now: float) -> None:
    status.replicas += 1
    if is_running_and_ready(pod):
        status.readyReplicas += 1
        status.availableReplicas += is_available(pod, min_ready_seconds, now)
    if pod.metadata.deletionTimestamp is None:
        revision = revision_of(pod)
        status.currentReplicas += revision == status.currentRevision
        status.updatedReplicas += revision == status.updateRevision


def complete(sset: StatefulSet, status: StatefulSetStatus) -> None:
    """Make the update revision the current one if the rolling update has reached every pod."""
    desired = replicas_of(sset)
    if sset.spec.updateStrategy.type == ROLLING_UPDATE and (
        status.updatedReplicas == status.readyReplicas == status.replicas == desired
    ):
        status.currentReplicas = status.updatedReplicas
        status.currentRevision = status.updateRevision


def is_news(status: StatefulSetStatus, known: StatefulSetStatus) -> bool:
    return status.observedGeneration > known.observedGeneration or _told(status) != _told(known)


def _told(status: StatefulSetStatus) -> tuple[object, ...]:
    return (
        status.replicas,
        status.currentReplicas,
        status.readyReplicas,
        status.updatedReplicas,
        status.availableReplicas,
        status.currentRevision,
        status.updateRevision,
    )
