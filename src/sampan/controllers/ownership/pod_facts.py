"""What a pod's state says to those who manage pods. Pure; `now` is seconds since the epoch."""

from sampan.api.times import parse_time
from sampan.api.types.core_v1 import Pod, PodCondition

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
READY = "Ready"


def condition(pod: Pod, type: str) -> PodCondition | None:
    for found in pod.status.conditions:
        if found.type == type:
            return found
    return None


def is_true(pod: Pod, type: str) -> bool:
    """The pod has the condition, and it is True."""
    found = condition(pod, type)
    return found is not None and found.status == "True"


def is_terminal(pod: Pod) -> bool:
    """All containers have ended, and none will start again."""
    return pod.status.phase in (SUCCEEDED, FAILED)


def is_active(pod: Pod) -> bool:
    """Runs, or will, and is meant to."""
    return pod.metadata.deletionTimestamp is None and not is_terminal(pod)


def is_terminating(pod: Pod) -> bool:
    """Is being deleted and has not ended yet."""
    return pod.metadata.deletionTimestamp is not None and not is_terminal(pod)


def is_ready(pod: Pod) -> bool:
    return is_true(pod, READY)


def ready_since(pod: Pod) -> float | None:
    """Since when the pod is ready; None if it is not, or that is not known."""
    found = condition(pod, READY)
    if found is None or found.status != "True" or found.lastTransitionTime is None:
        return None
    return parse_time(found.lastTransitionTime)


def is_available(pod: Pod, min_ready_seconds: int, now: float) -> bool:
    """Has been ready for that long."""
    if not is_ready(pod):
        return False
    if not min_ready_seconds:
        return True
    since = ready_since(pod)
    return since is not None and since + min_ready_seconds <= now


def available_in_s(pod: Pod, min_ready_seconds: int, now: float) -> float | None:
    """After how long the pod, ready now, will be available; None if it is so already, or time alone does not do it."""
    since = ready_since(pod) if min_ready_seconds > 0 else None
    if since is None:
        return None
    left = since + min_ready_seconds - now
    return left if left > 0 else None


def restarts(pod: Pod) -> tuple[int, int]:
    """The most restarts of a container, and of a sidecar."""
    status = pod.status
    plain = max((found.restartCount for found in status.containerStatuses), default=0)
    sidecars = {container.name for container in pod.spec.initContainers if container.restartPolicy == "Always"}
    of_sidecars = (found.restartCount for found in status.initContainerStatuses if found.name in sidecars)
    return plain, max(of_sidecars, default=0)


__all__ = [
    "FAILED",
    "PENDING",
    "READY",
    "RUNNING",
    "SUCCEEDED",
    "available_in_s",
    "condition",
    "is_active",
    "is_available",
    "is_ready",
    "is_terminal",
    "is_terminating",
    "is_true",
    "ready_since",
    "restarts",
]
