"""Whose log is meant."""

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


_RUNS = ContainerState(running=ContainerStateRunning())


def _ended(id: str) -> ContainerState:
    return ContainerState(terminated=ContainerStateTerminated(containerID=id))


def _waits(reason: str) -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=reason))


@pytest.mark.parametrize(
    ("status", "is_previous", "id"),
    [
        (_status(_RUNS, "x://last"), False, "x://now"),
        (_status(_RUNS, "x://last"), True, "x://last"),
        (_status(_ended("x://end"), "x://last"), False, "x://end"),
        (_status(_ended(""), "x://last"), False, "x://last"),
        (_status(_waits("CrashLoopBackOff"), "x://last"), False, "x://last"),
    ],
)
def test_found(status: PodStatus, is_previous: bool, id: str) -> None:
    assert log_container("p", status, "c", is_previous=is_previous) == id


@pytest.mark.parametrize(
    ("status", "is_previous", "text"),
    [
        (PodStatus(), False, 'container "c" in pod "p" is not available'),
        (_status(_RUNS), True, 'previous terminated container "c" in pod "p" not found'),
        (
            _status(_waits("ErrImagePull")),
            False,
            'container "c" in pod "p" is waiting to start: image can\'t be pulled',
        ),
        (
            _status(_waits("ImagePullBackOff")),
            False,
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
        ),
        (
            _status(_waits("ContainerCreating")),
            False,
            'container "c" in pod "p" is waiting to start: ContainerCreating',
        ),
        (_status(_ended("")), False, 'container "c" in pod "p" is terminated'),
        (_status(ContainerState()), False, 'container "c" in pod "p" is waiting to start - no logs yet'),
    ],
)
def test_none(status: PodStatus, is_previous: bool, text: str) -> None:
    with pytest.raises(LogUnavailable) as refused:
        log_container("p", status, "c", is_previous=is_previous)
    assert str(refused.value) == text
