"""Containers, phase, readiness and grace period of pods (`pkg/api/v1/pod`, `k8s.io/kubectl/pkg/util/podutils`).

Times are in seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from sampan.api.semantics.conditions import READY, TRUE, find_condition, with_condition
from sampan.api.semantics.conditions import is_true as is_condition_true
from sampan.api.types.core_v1 import (
    Container,
    ContainerStatus,
    EphemeralContainer,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from sampan.api.values.times import parse_time

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
DEFAULT_GRACE_PERIOD_S = 30
ACCESS_VOLUME_PREFIX = "kube-api-access-"
"""The start of the name of the volume with a service account token that the API server adds to pods."""

AnyContainer = Container | EphemeralContainer


# -- containers


def init_and_main_containers(spec: PodSpec) -> list[Container]:
    """Return the init containers and then the containers: everything but ephemeral containers."""
    return [*spec.initContainers, *(spec.containers or ())]


def all_containers(spec: PodSpec) -> list[AnyContainer]:
    """Return the init containers, the containers and the ephemeral containers."""
    return [*spec.initContainers, *(spec.containers or ()), *spec.ephemeralContainers]


def containers_by_field(spec: PodSpec) -> Iterator[tuple[str, AnyContainer, int]]:
    """Yield each container with the field of the pod spec that lists it and its index there."""
    for index, container in enumerate(spec.initContainers):
        yield "initContainers", container, index
    for index, container in enumerate(spec.containers or ()):
        yield "containers", container, index
    for index, ephemeral in enumerate(spec.ephemeralContainers):
        yield "ephemeralContainers", ephemeral, index


def find_container(spec: PodSpec, name: str) -> AnyContainer | None:
    return next((container for container in all_containers(spec) if container.name == name), None)


def is_sidecar(container: Container) -> bool:
    """Whether the init container is restartable: it keeps running beside the containers."""
    return container.restartPolicy == "Always"


def sidecars_of(spec: PodSpec) -> list[Container]:
    return [container for container in spec.initContainers if is_sidecar(container)]


def long_running_containers(spec: PodSpec) -> list[Container]:
    """Return the containers that run at the same time once the pod is initialized: containers and sidecars."""
    return [*(spec.containers or ()), *sidecars_of(spec)]


def as_container(container: AnyContainer) -> Container:
    """Convert an ephemeral container to a container: it has the same fields, except for its target."""
    if isinstance(container, Container):
        return container
    fields = {name: getattr(container, name) for name in container.__struct_fields__ if name != "targetContainerName"}
    return Container(**fields)


# -- termination


def grace_period_s(spec: PodSpec) -> float:
    """Return the seconds between SIGTERM and SIGKILL that the spec allows."""
    grace_s = spec.terminationGracePeriodSeconds
    return float(grace_s if grace_s is not None else DEFAULT_GRACE_PERIOD_S)


def termination_grace_period_s(pod: Pod) -> float:
    """Return the grace period of the deletion if the pod is being deleted, else that of its spec."""
    grace_s = pod.metadata.deletionGracePeriodSeconds
    return float(grace_s) if grace_s is not None else grace_period_s(pod.spec)


# -- phase and conditions


def is_terminal(pod: Pod) -> bool:
    """Whether all containers have terminated and none will be restarted."""
    return pod.status.phase in (SUCCEEDED, FAILED)


def is_active(pod: Pod) -> bool:
    """Whether the pod is neither terminated nor being deleted."""
    return pod.metadata.deletionTimestamp is None and not is_terminal(pod)


def is_terminating(pod: Pod) -> bool:
    """Whether the pod is being deleted and has not terminated yet."""
    return pod.metadata.deletionTimestamp is not None and not is_terminal(pod)


def pod_condition(pod: Pod, type: str) -> PodCondition | None:
    return find_condition(pod.status.conditions, type)


def is_true(pod: Pod, type: str) -> bool:
    """Whether the pod has the condition with status True."""
    return is_condition_true(pod.status.conditions, type)


def set_pod_condition(
    status: PodStatus, type: str, value: str, *, now: str, reason: str = "", message: str = ""
) -> None:
    """Set a condition, replacing one of the same type. Its lastTransitionTime changes only with its status."""
    new = PodCondition(type=type, status=value, reason=reason, message=message, lastTransitionTime=now)
    status.conditions = with_condition(status.conditions, new)


def is_ready(pod: Pod) -> bool:
    return is_true(pod, READY)


def ready_since(pod: Pod) -> float | None:
    """Return since when the pod is ready, or None if it is not or the time is unknown."""
    ready = pod_condition(pod, READY)
    if ready is None or ready.status != TRUE or ready.lastTransitionTime is None:
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


_NORMAL_WAITS = ("", "ContainerCreating", "PodInitializing")
_MAX_DESCRIBED_CONTAINERS, _MAX_REASON = 3, 64


def describe_status(status: PodStatus) -> str:
    """Return the phase, whether the pod is ready, and the first containers that wait because of an error or have
    failed, such as `Running, ready` or `Pending, web: ErrImagePull`."""
    parts = [status.phase, *(["ready"] if is_condition_true(status.conditions, READY) else [])]
    parts += [status.reason[:_MAX_REASON]] if status.reason else []
    statuses = (*status.initContainerStatuses, *status.containerStatuses)
    problems = (f"{entry.name}: {reason}" for entry in statuses if (reason := _problem_of(entry)))
    return ", ".join([*parts, *islice(problems, _MAX_DESCRIBED_CONTAINERS)])


def _problem_of(container: ContainerStatus) -> str:
    waiting, terminated = container.state.waiting, container.state.terminated
    if waiting is not None and waiting.reason not in _NORMAL_WAITS:
        return waiting.reason[:_MAX_REASON]
    return (terminated.reason or "Error")[:_MAX_REASON] if terminated is not None and terminated.exitCode else ""


def restart_counts(pod: Pod) -> tuple[int, int]:
    """Return the highest restart counts among the containers and among the sidecars."""
    status, names = pod.status, {sidecar.name for sidecar in sidecars_of(pod.spec)}
    containers = max((entry.restartCount for entry in status.containerStatuses), default=0)
    restartable = (entry.restartCount for entry in status.initContainerStatuses if entry.name in names)
    return containers, max(restartable, default=0)
