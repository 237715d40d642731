"""The container whose log a request for logs refers to."""

import pytest

from sampan.api.types.core_v1 import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodStatus,
)
from sampan.kubelet.server.logs import LogUnavailable, log_container


def _status(state: ContainerState, last: str | None = None, id: str = "x://now") -> PodStatus:
    ended = ContainerState(terminated=ContainerStateTerminated(containerID=last)) if last is not None else None
    status = ContainerStatus(name="c", containerID=id, state=state, lastState=ended or ContainerState())
    return PodStatus(containerStatuses=[status])


_RUNNING = ContainerState(running=ContainerStateRunning())


def _terminated_state(id: str) -> ContainerState:
    return ContainerState(terminated=ContainerStateTerminated(containerID=id))


def _waiting_state(reason: str) -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=reason))


@pytest.mark.parametrize(
    ("status", "is_previous", "id"),
    [
        (_status(_RUNNING, "x://last"), False, "x://now"),
        (_status(_RUNNING, "x://last"), True, "x://last"),
        (_status(_terminated_state("x://end"), "x://last"), False, "x://end"),
        (_status(_terminated_state(""), "x://last"), False, "x://last"),
        (_status(_waiting_state("CrashLoopBackOff"), "x://last"), False, "x://last"),
    ],
)
def test_log_container(status: PodStatus, is_previous: bool, id: str) -> None:
    assert log_container("p", status, "c", is_previous=is_previous) == id


@pytest.mark.parametrize(
    ("status", "is_previous", "text"),
    [
        (PodStatus(), False, 'container "c" in pod "p" is not available'),
        (_status(_RUNNING), True, 'previous terminated container "c" in pod "p" not found'),
        (
            _status(_waiting_state("ErrImagePull")),
            False,
            'container "c" in pod "p" is waiting to start: image can\'t be pulled',
        ),
        (
            _status(_waiting_state("ImagePullBackOff")),
            False,
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
        ),
        (
            _status(_waiting_state("ContainerCreating")),
            False,
            'container "c" in pod "p" is waiting to start: ContainerCreating',
        ),
        (_status(_terminated_state("")), False, 'container "c" in pod "p" is terminated'),
        (_status(ContainerState()), False, 'container "c" in pod "p" is waiting to start - no logs yet'),
    ],
)
def test_log_container_errors(status: PodStatus, is_previous: bool, text: str) -> None:
    with pytest.raises(LogUnavailable) as raised:
        log_container("p", status, "c", is_previous=is_previous)
    assert str(raised.value) == text
