"""Predicates on the state of pods. Pure; `now` is in seconds since the epoch."""

from sampan.api.times import parse_time
from sampan.api.types.core_v1 import Pod, PodCondition

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
READY = "Ready"


def condition(pod: Pod, type: str) -> PodCondition | None:
    for candidate in pod.status.conditions:
        if candidate.type == type:
            return candidate
    return None


def is_true(pod: Pod, type: str) -> bool:
    """Whether the pod has the condition with status True."""
    pod_condition = condition(pod, type)
    return pod_condition is not None and pod_condition.status == "True"


def is_terminal(pod: Pod) -> bool:
    """Whether all containers have terminated and none will be restarted."""
    return pod.status.phase in (SUCCEEDED, FAILED)


def is_active(pod: Pod) -> bool:
    """Whether the pod is neither terminated nor being deleted."""
    return pod.metadata.deletionTimestamp is None and not is_terminal(pod)


def is_terminating(pod: Pod) -> bool:
    """Whether the pod is being deleted and has not terminated yet."""
    return pod.metadata.deletionTimestamp is not None and not is_terminal(pod)


def is_ready(pod: Pod) -> bool:
    return is_true(pod, READY)


def ready_since(pod: Pod) -> float | None:
    """Return since when the pod is ready, or None if it is not or the time is unknown."""
    ready = condition(pod, READY)
    if ready is None or ready.status != "True" or ready.lastTransitionTime is None:
        return None
    return parse_time(ready.lastTransitionTime)


def is_available(pod: Pod, min_ready_seconds: int, now: float) -> bool:
    """Whether the pod has been ready for at least `min_ready_seconds`."""
    if not is_ready(pod):
        return False
    if not min_ready_seconds:
        return True
    since = ready_since(pod)
    return since is not None and since + min_ready_seconds <= now


def available_in_s(pod: Pod, min_ready_seconds: int, now: float) -> float | None:
    """Return the seconds until a ready pod becomes available, or None if it already is or is not ready."""
    since = ready_since(pod) if min_ready_seconds > 0 else None
    if since is None:
        return None
    remaining_s = since + min_ready_seconds - now
    return remaining_s if remaining_s > 0 else None


def restarts(pod: Pod) -> tuple[int, int]:
    """Return the highest restart counts among the containers and among the sidecars."""
    status = pod.status
    plain = max((container_status.restartCount for container_status in status.containerStatuses), default=0)
    sidecars = {container.name for container in pod.spec.initContainers if container.restartPolicy == "Always"}
    of_sidecars = (
        container_status.restartCount
        for container_status in status.initContainerStatuses
        if container_status.name in sidecars
    )
    return plain, max(of_sidecars, default=0)
