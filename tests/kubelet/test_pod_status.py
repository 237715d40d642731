"""The status of a pod, and that it never regresses."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import (
    Container,
    ContainerPort,
    EphemeralContainer,
    LinuxContainerUser,
    Pod,
    PodCondition,
    PodReadinessGate,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    VolumeMount,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.kubelet.pod_status import PodFailure, StatusInputs, generate_status, may_run, merge_statuses
from sampan.runtimes.contract import CREATED, EXITED, RUNNING, ContainerReport, ContainerUser, PodReport

NOW = 1_767_225_600.0
TERMINAL = ("Succeeded", "Failed")


def report(name: str = "main", state: str = RUNNING, **fields: Any) -> ContainerReport:
    fields = {"is_started": state == RUNNING, "is_ready": state == RUNNING, "attempt": 0} | fields
    return ContainerReport(
        name=name, id=f"hollow://{name}", state=state, image="i", image_ref="i@x", started_at=NOW, **fields
    )


def pod(**spec: Any) -> Pod:
    containers = [Container(name="main", image="i")]
    spec = {"containers": containers, "restartPolicy": "Always"} | spec
    return Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u", generation=3), spec=PodSpec(**spec))


def status_of(pod: Pod, *reports: ContainerReport, has_sandbox: bool = True, **facts: Any) -> PodStatus:
    known = PodReport(is_sandbox_ready=has_sandbox, sandboxes=1, ips=("10.0.0.7",), containers=reports)
    return generate_status(pod, StatusInputs(report=known, old=pod.status, host_ips=("192.0.2.1",), **facts), NOW)


def condition_of(status: PodStatus, type: str) -> tuple[str, str, str]:
    return next(
        (condition.status, condition.reason, condition.message)
        for condition in status.conditions
        if condition.type == type
    )


def test_container_user_is_reported() -> None:
    with_user, without_user = status_of(pod(), report(user=ContainerUser(1, 2, (2, 3)))), status_of(pod(), report())
    user = with_user.containerStatuses[0].user
    assert user is not None
    assert user.linux == LinuxContainerUser(uid=1, gid=2, supplementalGroups=[2, 3])
    assert without_user.containerStatuses[0].user is None


def test_status_of_a_running_pod() -> None:
    status = status_of(pod(), report())
    assert (status.phase, status.podIP, status.hostIP, status.qosClass) == (
        "Running",
        "10.0.0.7",
        "192.0.2.1",
        "BestEffort",
    )
    assert status.observedGeneration == 3
    assert {condition.observedGeneration for condition in status.conditions} == {3}
    assert [condition.type for condition in status.conditions] == [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]


@pytest.mark.parametrize(
    ("report_", "expected"),
    [
        (report(is_ready=False), ("False", "ContainersNotReady", "containers with unready status: [main]")),
        (report(), ("True", "", "")),
    ],
    ids=["not ready", "ready"],
)
def test_ready_conditions(report_: ContainerReport, expected: tuple[str, str, str]) -> None:
    status = status_of(pod(), report_)
    assert condition_of(status, "Ready") == condition_of(status, "ContainersReady") == expected


def test_status_before_the_sandbox_exists() -> None:
    status = status_of(pod(), has_sandbox=False)
    assert status.phase == "Pending"
    not_ready = ("False", "PodSandboxNotReady", "pod sandbox is not ready")
    assert condition_of(status, "PodReadyToStartContainers") == not_ready
    assert status.containerStatuses[0].state.waiting is not None
    assert status.containerStatuses[0].state.waiting.reason == "ContainerCreating"
    assert (status.containerStatuses[0].ready, status.containerStatuses[0].started) == (False, False)


def test_initialized_condition() -> None:
    pod_ = pod(initContainers=[Container(name="first"), Container(name="side", restartPolicy="Always")])
    status = status_of(pod_, report("first"))
    assert condition_of(status, "Initialized") == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [first side]",
    )
    status = status_of(pod_, report("first", EXITED), report("side"), report())
    assert condition_of(status, "Initialized") == ("True", "", "")
    assert [status_.ready for status_ in status.initContainerStatuses] == [True, True]


def test_readiness_gates() -> None:
    pod_ = pod(readinessGates=[PodReadinessGate(conditionType="a/b"), PodReadinessGate(conditionType="a/c")])
    pod_.status.conditions = [PodCondition(type="a/c", status="False")]
    status = status_of(pod_, report())
    assert condition_of(status, "Ready") == (
        "False",
        "ReadinessGatesNotReady",
        'corresponding condition of pod readiness gate "a/b" does not exist., '
        'the status of pod readiness gate "a/c" is not "True", but False',
    )
    assert status.conditions[0].type == "a/c"


def test_unchanged_conditions_keep_their_transition_time() -> None:
    first = status_of(pod(), report(is_ready=False))
    later = pod()
    later.status = first
    known = PodReport(is_sandbox_ready=True, containers=(report(),))
    second = generate_status(later, StatusInputs(report=known, old=first), NOW + 60)
    times = {condition.type: condition.lastTransitionTime for condition in second.conditions}
    assert times["PodScheduled"] == "2026-01-01T00:00:00Z"
    assert times["Ready"] == "2026-01-01T00:01:00Z"


def test_host_network_pod_has_the_host_ip() -> None:
    status = status_of(pod(hostNetwork=True), report())
    assert (status.podIP, status.podIPs[0].ip) == ("192.0.2.1", "192.0.2.1")


def test_waiting_container_keeps_its_last_state() -> None:
    ended = report(state=EXITED, exit_code=1, reason="Error", finished_at=NOW, attempt=4)
    status = status_of(pod(), ended, waiting={"main": ("CrashLoopBackOff", "back-off")}).containerStatuses[0]
    assert status.state.waiting is not None
    assert (status.state.waiting.reason, status.restartCount) == ("CrashLoopBackOff", 4)
    assert status.lastState.terminated is not None
    assert status.lastState.terminated.exitCode == 1


def test_container_status_has_resources_and_volume_mounts() -> None:
    needs = ResourceRequirements(requests={"cpu": "1"}, limits={"cpu": "1"})
    mounts = [VolumeMount(name="v", mountPath="/v", readOnly=True)]
    container = Container(
        name="main", image="i", resources=needs, volumeMounts=mounts, ports=[ContainerPort(containerPort=1)]
    )
    status = status_of(pod(containers=[container]), report()).containerStatuses[0]
    assert (status.allocatedResources, status.resources) == ({"cpu": "1"}, needs)
    assert status.volumeMounts[0].recursiveReadOnly == "Disabled"


def test_ephemeral_containers_do_not_affect_phase_and_readiness() -> None:
    pod_ = pod(ephemeralContainers=[EphemeralContainer(name="debug", image="i")])
    status = status_of(pod_, report(), report("debug", EXITED, exit_code=1))
    assert status.phase == "Running"
    assert status.ephemeralContainerStatuses[0].state.terminated is not None
    assert condition_of(status, "Ready")[0] == "True"


def test_failed_phase_waits_until_no_container_runs() -> None:
    failure = PodFailure(reason="DeadlineExceeded", message="late")
    running = status_of(pod(), report(), failure=failure)
    assert (running.phase, running.reason) == ("Failed", "DeadlineExceeded")
    old = PodStatus(phase="Running")
    assert merge_statuses(old, running, may_run=True).phase == "Running"
    assert merge_statuses(old, running, may_run=True).reason == ""
    assert merge_statuses(old, running, may_run=False).reason == "DeadlineExceeded"


# -- regressions ------------------------------------------------------------------------------------------------------

states = st.sampled_from([None, CREATED, RUNNING, EXITED])


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[PodReport, bool, PodFailure | None]]:
    """Generate reports of a runtime in any order."""
    drawn = []
    for _ in range(draw(st.integers(1, 8))):
        reports = [
            report(name, state, exit_code=draw(st.integers(0, 1)), attempt=draw(st.integers(0, 3)), finished_at=NOW)
            for name in ("first", "side", "main", "other")
            if (state := draw(states)) is not None
        ]
        known = PodReport(is_sandbox_ready=draw(st.booleans()), containers=reports)
        failure = draw(st.none() | st.just(PodFailure(reason="Evicted", message="")))
        drawn.append((known, draw(st.booleans()), failure))
    return drawn


@given(steps(), st.sampled_from(["Always", "OnFailure", "Never"]))
def test_terminal_phase_never_changes(
    drawn_steps: list[tuple[PodReport, bool, PodFailure | None]], policy: str
) -> None:
    inits = [Container(name="first"), Container(name="side", restartPolicy="Always")]
    pod_ = pod(restartPolicy=policy, initContainers=inits, containers=[Container(name="main"), Container(name="other")])
    old = pod_.status
    for known, is_terminal, failure in drawn_steps:
        facts = StatusInputs(report=known, old=old, is_terminal=is_terminal, failure=failure)
        new = merge_statuses(old, generate_status(pod_, facts, NOW), may_run=may_run(known))
        if old.phase in TERMINAL:
            assert new.phase == old.phase
        elif new.phase in TERMINAL:
            assert not may_run(known)
            assert condition_of(new, "Ready")[0] == "False"
        assert new.startTime == (old.startTime or new.startTime)
        assert new.observedGeneration >= old.observedGeneration
        old = new
