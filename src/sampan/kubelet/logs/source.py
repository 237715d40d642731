"""Pure choice of the container instance whose log is requested, based on the container status."""

from __future__ import annotations

from sampan.api.types.core_v1 import ContainerStatus, PodStatus

_PULLS = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class LogUnavailable(Exception):
    """There is no log to show; the message says why."""


def container_status(status: PodStatus, name: str) -> ContainerStatus | None:
    statuses = (*status.containerStatuses, *status.initContainerStatuses, *status.ephemeralContainerStatuses)
    return next((container for container in statuses if container.name == name), None)


def log_container(pod: str, status: PodStatus, name: str, *, is_previous: bool) -> str:
    """Return the ID of the container instance. Raise LogUnavailable if it has no log."""
    container = container_status(status, name)
    if container is None:
        raise LogUnavailable(f'container "{name}" in pod "{pod}" is not available')
    last, state = container.lastState.terminated, container.state
    last_id = last.containerID if last is not None else ""
    if is_previous:
        if not last_id:
            raise LogUnavailable(f'previous terminated container "{name}" in pod "{pod}" not found')
        return last_id
    if state.running is not None:
        return container.containerID
    if state.terminated is not None or last is not None:
        own = state.terminated.containerID if state.terminated is not None else ""
        if not (own or last_id):
            raise LogUnavailable(f'container "{name}" in pod "{pod}" is terminated')
        return own or last_id
    if state.waiting is not None:
        reason = state.waiting.reason
        raise LogUnavailable(f'container "{name}" in pod "{pod}" is waiting to start: {_PULLS.get(reason, reason)}')
    raise LogUnavailable(f'container "{name}" in pod "{pod}" is waiting to start - no logs yet')
