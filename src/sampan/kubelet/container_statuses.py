"""Pure conversion of runtime reports to container statuses."""

from collections.abc import Mapping, Sequence

from sampan.api.semantics.pods import is_sidecar
from sampan.api.types.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    ContainerUser,
    EphemeralContainer,
    LinuxContainerUser,
    Pod,
    ResourceRequirements,
    VolumeMountStatus,
)
from sampan.api.values import times
from sampan.kubelet.pod_actions import restarts
from sampan.runtimes import contract
from sampan.runtimes.contract import ContainerReport, PodReport

CONTAINER_CREATING, POD_INITIALIZING = "ContainerCreating", "PodInitializing"

EMPTY_RESOURCES: Mapping[str, ResourceRequirements] = {}
Waiting = Mapping[str, tuple[str, str]]
"""Reason and message of containers that could not be started at the last attempt, by name."""


def container_statuses(
    pod: Pod,
    containers: Sequence[Container | EphemeralContainer],
    report: PodReport,
    old: Sequence[ContainerStatus],
    waiting: Waiting,
    actuated: Mapping[str, ResourceRequirements] = EMPTY_RESOURCES,
    *,
    is_init: bool = False,
) -> list[ContainerStatus]:
    """Return the statuses in the order of `containers`."""
    before = {status.name: status for status in old}
    statuses = []
    for container in containers:
        status = _status(pod, container, report, before.get(container.name), actuated.get(container.name))
        if (why := waiting.get(container.name)) is not None and _is_to_start(pod, container, report):
            _wait(status, why)
        _set_readiness(status, container, report.container(container.name), is_init=is_init)
        statuses.append(status)
    return statuses


def _status(
    pod: Pod,
    container: Container | EphemeralContainer,
    report: PodReport,
    old: ContainerStatus | None,
    actuated: ResourceRequirements | None,
) -> ContainerStatus:
    present = report.container(container.name)
    status = _waiting_status(pod, container)
    if present is None:
        if old is not None and old.state.terminated is not None:
            status.state, status.containerID, status.imageID = old.state, old.containerID, old.imageID
        if old is not None:
            status.restartCount, status.lastState = old.restartCount, old.lastState
        return status
    status.restartCount = present.attempt
    if present.state == contract.CREATED:
        _set_last_state(status, report, old)
        return status
    status.imageID, status.containerID = present.image_ref, present.id
    present_resources = actuated if actuated is not None else container.resources
    status.resources, status.allocatedResources = present_resources, present_resources.requests
    status.user = _user(present)
    status.state = _state(present)
    _set_last_state(status, report, old)
    return status


def _set_last_state(status: ContainerStatus, report: PodReport, old: ContainerStatus | None) -> None:
    """Set `lastState` to how the previous instance of the container terminated."""
    previous = report.previous(status.name)
    if previous is not None:
        status.lastState = _state(previous)
    elif old is not None:
        is_other = old.state.terminated is not None and old.restartCount < status.restartCount
        status.lastState = old.state if is_other else old.lastState


def _waiting_status(pod: Pod, container: Container | EphemeralContainer) -> ContainerStatus:
    reason = POD_INITIALIZING if pod.spec.initContainers else CONTAINER_CREATING
    status = ContainerStatus(
        name=container.name,
        image=container.image,
        state=ContainerState(waiting=ContainerStateWaiting(reason=reason)),
    )
    if container.volumeMounts:
        status.volumeMounts = [
            VolumeMountStatus(
                name=mount.name,
                mountPath=mount.mountPath,
                readOnly=mount.readOnly,
                recursiveReadOnly="Disabled" if mount.readOnly else None,
            )
            for mount in container.volumeMounts
        ]
    return status


def _user(report: ContainerReport) -> ContainerUser | None:
    user = report.user
    if user is None:
        return None
    return ContainerUser(linux=LinuxContainerUser(uid=user.uid, gid=user.gid, supplementalGroups=list(user.groups)))


def _state(report: ContainerReport) -> ContainerState:
    began = times.format_time(report.started_at)
    if report.state == contract.RUNNING:
        return ContainerState(running=ContainerStateRunning(startedAt=began))
    return ContainerState(
        terminated=ContainerStateTerminated(
            exitCode=report.exit_code,
            reason=report.reason,
            message=report.message,
            startedAt=began,
            finishedAt=times.format_time(report.finished_at),
            containerID=report.id,
        )
    )


def _is_to_start(pod: Pod, container: Container | EphemeralContainer, report: PodReport) -> bool:
    present = report.container(container.name)
    if pod.metadata.deletionTimestamp is not None:
        return False
    if present is None:
        return True
    return (
        present.state == contract.EXITED
        and isinstance(container, Container)
        and restarts(container, pod.spec, present.exit_code)
    )


def _wait(status: ContainerStatus, why: tuple[str, str]) -> None:
    if status.state.terminated is not None:
        status.lastState = status.state
    status.state = ContainerState(waiting=ContainerStateWaiting(reason=why[0], message=why[1]))


def _set_readiness(
    status: ContainerStatus,
    container: Container | EphemeralContainer,
    report: ContainerReport | None,
    *,
    is_init: bool,
) -> None:
    """Set `started` and `ready`. An init container that is no sidecar is ready once it has completed successfully."""
    is_running = status.state.running is not None and report is not None
    status.started = is_running and report is not None and report.is_started
    if isinstance(container, EphemeralContainer):
        status.started = None
        return
    if is_init and not is_sidecar(container):
        ended = status.state.terminated
        status.ready = ended is not None and ended.exitCode == 0
    else:
        status.ready = bool(status.started and report is not None and report.is_ready)
