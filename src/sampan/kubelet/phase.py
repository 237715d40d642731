"""Pure computation of the pod phase from container statuses."""

from collections.abc import Mapping
from dataclasses import dataclass

from sampan.api.semantics.pods import is_sidecar
from sampan.api.types.core_v1 import Container, ContainerStatus, Pod
from sampan.kubelet.pod_actions import restarts

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL = frozenset({SUCCEEDED, FAILED})


@dataclass(slots=True)
class _Count:
    initializing: int = 0
    """Number of init containers that have not completed yet."""
    sidecars_pending: int = 0
    unknown: int = 0
    running: int = 0
    waiting: int = 0
    stopped: int = 0
    stopped_for_good: int = 0
    succeeded: int = 0


Statuses = Mapping[str, ContainerStatus]


def pod_phase(pod: Pod, statuses: Statuses, *, is_terminal: bool, has_started: bool) -> str:
    """Return the phase. `is_terminal` means that no container will be restarted; `has_started` that one of the pod's
    regular containers has run.
    """
    if _has_failed_to_initialize(pod, statuses):
        return FAILED
    count = _counted(pod, statuses)
    if count.initializing or (count.sidecars_pending and not has_started) or count.waiting:
        return PENDING
    if count.running and not count.unknown:
        return RUNNING
    if count.stopped and not (count.running or count.unknown):
        return _ended(count, is_terminal)
    return PENDING


def _ended(count: _Count, is_terminal: bool) -> str:
    if not is_terminal and count.stopped != count.stopped_for_good:
        return RUNNING  # Some containers are about to be restarted.
    return SUCCEEDED if count.stopped == count.succeeded else FAILED


def _exit_code(status: ContainerStatus) -> int | None:
    """Return the exit code of the last run, or None if the container is running or has never run."""
    ended = status.state.terminated
    if ended is None and status.state.waiting is not None:
        ended = status.lastState.terminated
    return ended.exitCode if ended is not None else None


def _has_failed_to_initialize(pod: Pod, statuses: Statuses) -> bool:
    for container in pod.spec.initContainers:
        status = None if is_sidecar(container) else statuses.get(container.name)
        code = _exit_code(status) if status is not None else None
        if code and not restarts(container, pod.spec, code):
            return True
    return False


def _counted(pod: Pod, statuses: Statuses) -> _Count:
    count = _Count()
    for container in pod.spec.initContainers:
        status = statuses.get(container.name)
        if is_sidecar(container):
            _count_sidecar(count, status)
        elif status is None or _exit_code(status) is None:
            count.initializing += 1
    for container in pod.spec.containers or ():
        _count_container(count, pod, container, statuses.get(container.name))
    return count


def _count_sidecar(count: _Count, status: ContainerStatus | None) -> None:
    if status is None:
        count.unknown += 1
    elif status.state.running is not None:
        count.running += 1
        count.sidecars_pending += not status.started
    elif _exit_code(status) is None:
        count.waiting += 1
        count.sidecars_pending += 1


def _count_container(count: _Count, pod: Pod, container: Container, status: ContainerStatus | None) -> None:
    if status is None:
        count.unknown += 1
    elif status.state.running is not None:
        count.running += 1
    elif (code := _exit_code(status)) is not None:
        count.stopped += 1
        count.stopped_for_good += not restarts(container, pod.spec, code)
        count.succeeded += code == 0 and status.state.terminated is not None
    elif status.state.waiting is not None:
        count.waiting += 1
    else:
        count.unknown += 1
