"""Pure computation of a pod's phase and of the conditions that the kubelet sets (`pkg/kubelet/status/generate.go`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sampan.api.go_compat import gotext
from sampan.api.semantics.pods import is_sidecar, sidecars_of
from sampan.api.types.core_v1 import Container, ContainerStatus, Pod, PodCondition
from sampan.api.values import times
from sampan.kubelet.pod_actions import restarts
from sampan.runtimes.contract import PodReport

READY_TO_START, INITIALIZED, READY = "PodReadyToStartContainers", "Initialized", "Ready"
CONTAINERS_READY, SCHEDULED = "ContainersReady", "PodScheduled"
KUBELET_CONDITIONS = (READY_TO_START, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED)
"""Condition types that only the kubelet sets, on every pod, in the order in which it writes them."""

OPTIONAL_KUBELET_CONDITIONS = ("AllContainersRestarting",)
"""Condition types that only the kubelet sets, and only on pods that use the corresponding feature."""

TEMPORARY_CONDITIONS = ("PodResizePending", "PodResizeInProgress")
"""Condition types that the kubelet sets temporarily and removes again."""

NOT_READY, NOT_INITIALIZED, GATES_NOT_READY = "ContainersNotReady", "ContainersNotInitialized", "ReadinessGatesNotReady"
SANDBOX_NOT_READY = "PodSandboxNotReady"
COMPLETED, POD_FAILED, UNKNOWN = "PodCompleted", "PodFailed", "UnknownContainerStatuses"
TRUE, FALSE = "True", "False"

Statuses = Mapping[str, ContainerStatus]
ConditionValue = tuple[str, str, str]
"""Status, reason and message of a condition."""


def generate_conditions(pod: Pod, statuses: Statuses, phase: str, report: PodReport) -> dict[str, ConditionValue]:
    """Return the conditions that the kubelet sets on every pod, by type."""
    containers = generate_containers_ready_condition(pod, statuses, phase)
    return {
        READY_TO_START: generate_ready_to_start_condition(report),
        INITIALIZED: generate_initialized_condition(pod, statuses, phase),
        READY: generate_ready_condition(pod, containers),
        CONTAINERS_READY: containers,
        SCHEDULED: (TRUE, "", ""),
    }


def generate_ready_to_start_condition(report: PodReport) -> ConditionValue:
    if report.is_sandbox_ready:
        return TRUE, "", ""
    return FALSE, SANDBOX_NOT_READY, "pod sandbox is not ready" if report.sandboxes else "no pod sandbox exists"


def generate_containers_ready_condition(pod: Pod, statuses: Statuses, phase: str) -> ConditionValue:
    if not statuses:
        return FALSE, UNKNOWN, ""
    sidecars = [container.name for container in sidecars_of(pod.spec)]
    names = sidecars + [container.name for container in pod.spec.containers or ()]
    unknown = [name for name in names if name not in statuses]
    unready = [name for name in names if name in statuses and not statuses[name].ready]
    if phase == SUCCEEDED and not unknown:
        return FALSE, COMPLETED, ""
    if phase == FAILED:
        return FALSE, POD_FAILED, ""
    message = _message(unknown, "unready", unready)
    return (FALSE, NOT_READY, message) if message else (TRUE, "", "")


def generate_ready_condition(pod: Pod, containers: ConditionValue) -> ConditionValue:
    """Return the Ready condition, which combines ContainersReady with the readiness gates."""
    if containers[0] != TRUE or not pod.spec.readinessGates:
        return containers
    statuses = {condition.type: condition.status for condition in pod.status.conditions}
    closed = [
        _gate_message(gate.conditionType, statuses.get(gate.conditionType))
        for gate in pod.spec.readinessGates
        if statuses.get(gate.conditionType) != TRUE
    ]
    return (FALSE, GATES_NOT_READY, ", ".join(closed)) if closed else containers


def _gate_message(gate: str, status: str | None) -> str:
    name = gotext.quote(gate)
    if status is None:
        return f"corresponding condition of pod readiness gate {name} does not exist."
    return f'the status of pod readiness gate {name} is not "True", but {status}'


def generate_initialized_condition(pod: Pod, statuses: Statuses, phase: str) -> ConditionValue:
    inits = pod.spec.initContainers
    if not statuses and inits:
        return FALSE, UNKNOWN, ""
    unknown = [container.name for container in inits if container.name not in statuses]
    if phase == SUCCEEDED and not unknown:
        return TRUE, COMPLETED, ""
    if any(_has_started(statuses.get(container.name)) for container in pod.spec.containers or ()):
        return TRUE, "", ""
    incomplete = [
        container.name
        for container in inits
        if (status := statuses.get(container.name)) is not None
        and not (status.started if is_sidecar(container) else status.ready)
    ]
    message = _message(unknown, "incomplete", incomplete)
    return (FALSE, NOT_INITIALIZED, message) if message else (TRUE, "", "")


def _has_started(status: ContainerStatus | None) -> bool:
    return status is not None and (status.state.running is not None or status.state.terminated is not None)


def _message(unknown: Sequence[str], verb_text: str, others: Sequence[str]) -> str:
    parts = [f"containers with unknown status: [{' '.join(unknown)}]"] if unknown else []
    if others:
        parts.append(f"containers with {verb_text} status: [{' '.join(others)}]")
    return ", ".join(parts)


def merge_conditions(
    pod: Pod, old: Sequence[PodCondition], own_conditions: Mapping[str, ConditionValue], now: float
) -> list[PodCondition]:
    """Return the pod's conditions: those of other components unchanged, then the kubelet's own. The transition time of
    a condition is kept if its status did not change.
    """
    before = {condition.type: condition for condition in old}
    conditions = [
        condition
        for condition in pod.status.conditions
        if condition.type not in (*KUBELET_CONDITIONS, *OPTIONAL_KUBELET_CONDITIONS, *TEMPORARY_CONDITIONS)
    ]
    for type, (status, reason, message) in own_conditions.items():
        last = before.get(type)
        since = last.lastTransitionTime if last is not None and last.status == status else times.format_time(now)
        conditions.append(
            PodCondition(
                type=type,
                observedGeneration=pod.metadata.generation,
                status=status,
                reason=reason,
                message=message,
                lastTransitionTime=since,
            )
        )
    return conditions


# -- phase -----------------------------------------------------------------------------------------------------------

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL = frozenset({SUCCEEDED, FAILED})


@dataclass(slots=True)
class _ContainerCounts:
    initializing: int = 0
    """Number of init containers that have not completed yet."""
    sidecars_pending: int = 0
    unknown: int = 0
    running: int = 0
    waiting: int = 0
    stopped: int = 0
    stopped_for_good: int = 0
    succeeded: int = 0


def pod_phase(pod: Pod, statuses: Statuses, *, is_terminal: bool, has_started: bool) -> str:
    """Return the phase of the pod. `is_terminal` means that no container will be restarted; `has_started` means that
    one of the pod's regular containers has run.
    """
    if _has_failed_to_initialize(pod, statuses):
        return FAILED
    count = _count_containers(pod, statuses)
    if count.initializing or (count.sidecars_pending and not has_started) or count.waiting:
        return PENDING
    if count.running and not count.unknown:
        return RUNNING
    if count.stopped and not (count.running or count.unknown):
        return _terminal_phase(count, is_terminal)
    return PENDING


def _terminal_phase(count: _ContainerCounts, is_terminal: bool) -> str:
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


def _count_containers(pod: Pod, statuses: Statuses) -> _ContainerCounts:
    count = _ContainerCounts()
    for container in pod.spec.initContainers:
        status = statuses.get(container.name)
        if is_sidecar(container):
            _count_sidecar(count, status)
        elif status is None or _exit_code(status) is None:
            count.initializing += 1
    for container in pod.spec.containers or ():
        _count_container(count, pod, container, statuses.get(container.name))
    return count


def _count_sidecar(count: _ContainerCounts, status: ContainerStatus | None) -> None:
    if status is None:
        count.unknown += 1
    elif status.state.running is not None:
        count.running += 1
        count.sidecars_pending += not status.started
    elif _exit_code(status) is None:
        count.waiting += 1
        count.sidecars_pending += 1


def _count_container(count: _ContainerCounts, pod: Pod, container: Container, status: ContainerStatus | None) -> None:
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
