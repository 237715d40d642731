"""The phase of a pod by the states of its containers."""

from collections.abc import Sequence

import pytest

from sampan.api.types.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodSpec,
)
from sampan.kubelet.pod_conditions import pod_phase

RUNNING, WAITING = "running", "waiting"


def status(name: str, message: str) -> ContainerStatus:
    """Return a status: `running`, `waiting`, `3` for exit code 3, `~3` for waiting after exit code 3."""
    status = ContainerStatus(name=name, state=state(message))
    if message.startswith("~"):
        status.lastState = state(message[1:])
    status.started = status.state.running is not None
    return status


def state(message: str) -> ContainerState:
    if message == RUNNING:
        return ContainerState(running=ContainerStateRunning())
    if message == WAITING or message.startswith("~"):
        return ContainerState(waiting=ContainerStateWaiting())
    return ContainerState(terminated=ContainerStateTerminated(exitCode=int(message)))


def phase(
    policy: str,
    mains: Sequence[str],
    inits: Sequence[str] = (),
    sidecars: Sequence[str] = (),
    *,
    is_terminal: bool = False,
) -> str:
    spec = PodSpec(
        restartPolicy=policy,
        initContainers=[Container(name=f"i{n}") for n in range(len(inits))]
        + [Container(name=f"s{n}", restartPolicy="Always") for n in range(len(sidecars))],
        containers=[Container(name=f"m{n}") for n in range(len(mains))],
    )
    states = [(f"i{n}", text) for n, text in enumerate(inits)]
    states += [(f"s{n}", text) for n, text in enumerate(sidecars)]
    states += [(f"m{n}", text) for n, text in enumerate(mains)]
    statuses = {name: status(name, text) for name, text in states if text}
    has_started = any(text and text != WAITING for text in mains)
    return pod_phase(Pod(spec=spec), statuses, is_terminal=is_terminal, has_started=has_started)


@pytest.mark.parametrize(
    ("policy", "mains", "expected"),
    [
        ("Always", [RUNNING], "Running"),
        ("Always", [RUNNING, WAITING], "Pending"),
        ("Always", [RUNNING, "0"], "Running"),
        ("Always", ["0"], "Running"),
        ("Always", ["1", "~1"], "Running"),
        ("Always", [""], "Pending"),
        ("Always", [RUNNING, ""], "Pending"),
        ("OnFailure", ["0"], "Succeeded"),
        ("OnFailure", ["1"], "Running"),
        ("OnFailure", ["0", "~1"], "Running"),
        ("Never", ["0", "0"], "Succeeded"),
        ("Never", ["0", "1"], "Failed"),
        ("Never", ["0", RUNNING], "Running"),
    ],
)
def test_pod_phase_by_containers(policy: str, mains: list[str], expected: str) -> None:
    assert phase(policy, mains) == expected


@pytest.mark.parametrize(
    ("policy", "inits", "sidecars", "mains", "expected"),
    [
        ("Always", [RUNNING], [], [WAITING], "Pending"),
        ("Always", ["0"], [], [RUNNING], "Running"),
        ("Always", ["1"], [], [WAITING], "Pending"),
        ("Never", ["1"], [], [WAITING], "Failed"),
        ("OnFailure", ["~1"], [], [WAITING], "Pending"),
        ("Always", [], [WAITING], [WAITING], "Pending"),
        ("Always", [], ["~1"], [RUNNING], "Running"),
        ("Never", [], [RUNNING], ["0"], "Running"),
        ("Never", [], ["143"], ["0"], "Succeeded"),
        ("Never", [], ["143"], ["2"], "Failed"),
    ],
)
def test_pod_phase_by_init_containers_and_sidecars(
    policy: str, inits: list[str], sidecars: list[str], mains: list[str], expected: str
) -> None:
    assert phase(policy, mains, inits, sidecars) == expected


@pytest.mark.parametrize(("mains", "expected"), [(["0"], "Succeeded"), (["143"], "Failed"), (["0", "1"], "Failed")])
def test_pod_phase_of_a_terminated_pod(mains: list[str], expected: str) -> None:
    assert phase("Always", mains, is_terminal=True) == expected
