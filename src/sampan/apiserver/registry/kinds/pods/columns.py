"""The table columns of pods."""

from collections.abc import Iterator, Sequence

from sampan.api.semantics import pods
from sampan.api.semantics.conditions import is_true
from sampan.api.types.core_v1 import ContainerStateTerminated, ContainerStatus, Pod
from sampan.api.values import ages
from sampan.apiserver.registry.strategy import Column
from sampan.apiserver.tables.cells import NONE
from sampan.apiserver.tables.columns import AGE, NAME

_UNREACHABLE = "NodeLost"
_GATED = "SchedulingGated"


def _sidecars(pod: Pod) -> set[str]:
    return {container.name for container in pods.sidecars_of(pod.spec)}


def _ready(pod: Pod, now: float) -> str:
    sidecars = _sidecars(pod)
    total = len(pod.spec.containers or ()) + len(sidecars)
    return f"{sum(_list_readiness(pod, sidecars))}/{total}"


def _list_readiness(pod: Pod, sidecars: set[str]) -> Iterator[bool]:
    for status in pod.status.initContainerStatuses:
        if _allows_next_container(status, sidecars):
            yield status.name in sidecars and status.started is True and status.ready and not _has_succeeded(status)
        else:
            break
    if _find_starting_init_container(pod, sidecars) is None or is_true(pod.status.conditions, "Initialized"):
        for status in pod.status.containerStatuses:
            is_other = status.state.terminated is not None or _waits_for_a_reason(status)
            yield status.ready and status.state.running is not None and not is_other


def _has_succeeded(status: ContainerStatus) -> bool:
    return status.state.terminated is not None and status.state.terminated.exitCode == 0


def _allows_next_container(status: ContainerStatus, sidecars: set[str]) -> bool:
    """Whether the init container has completed or, as a sidecar, started, so that the next container may start."""
    return _has_succeeded(status) or (status.name in sidecars and status.started is True)


def _find_starting_init_container(pod: Pod, sidecars: set[str]) -> tuple[int, ContainerStatus] | None:
    """Return index and status of the first init container that has not completed or, as a sidecar, started."""
    for index, status in enumerate(pod.status.initContainerStatuses):
        if not _allows_next_container(status, sidecars):
            return index, status
    return None


def _waits_for_a_reason(status: ContainerStatus) -> bool:
    return status.state.waiting is not None and bool(status.state.waiting.reason)


def _status(pod: Pod, now: float) -> str:
    status = pod.status
    is_ended = status.phase in ("Failed", "Succeeded")
    if pod.metadata.deletionTimestamp is not None and status.reason == _UNREACHABLE:
        return "Unknown"
    if pod.metadata.deletionTimestamp is not None and not is_ended:
        return "Terminating"
    reason = status.reason or status.phase
    if any(condition.type == "PodScheduled" and condition.reason == _GATED for condition in status.conditions):
        reason = _GATED
    starting = _find_starting_init_container(pod, _sidecars(pod))
    if starting is not None:
        reason = _init_reason(*starting, total=len(pod.spec.initContainers))
    if starting is None or is_true(status.conditions, "Initialized"):
        reason = _container_reason(pod, reason)
    return reason


def _init_reason(index: int, status: ContainerStatus, *, total: int) -> str:
    state = status.state
    if state.terminated is not None:
        return f"Init:{_end_reason(state.terminated)}"
    if state.waiting is not None and state.waiting.reason not in ("", "PodInitializing"):
        return f"Init:{state.waiting.reason}"
    return f"Init:{index}/{total}"


def _end_reason(ended: ContainerStateTerminated) -> str:
    if ended.reason:
        return ended.reason
    return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exitCode}"


def _container_reason(pod: Pod, reason: str) -> str:
    """Return the reason for the Status column from the containers, else `reason`.

    The first container that is waiting with a reason or has terminated decides. Completed is replaced by Running or
    NotReady if another container still runs, or by the reason of a failed one.
    """
    error, is_running = "", False
    for status in reversed(pod.status.containerStatuses):
        state = status.state
        if state.waiting is not None and state.waiting.reason:
            reason = state.waiting.reason
        elif state.terminated is not None:
            reason = _end_reason(state.terminated)
            error = reason if state.terminated.exitCode != 0 else error
        elif status.ready and state.running is not None:
            is_running = True
    if reason != "Completed":
        return reason
    if is_running and is_true(pod.status.conditions, "Ready"):
        return "Running"
    return error or ("NotReady" if is_running else reason)


def _restarts(pod: Pod, now: float) -> str:
    sidecars = _sidecars(pod)
    starting = _find_starting_init_container(pod, sidecars)
    counted: list[ContainerStatus] = []
    if starting is None or is_true(pod.status.conditions, "Initialized"):
        counted += [status for status in _statuses_up_to(pod, starting) if status.name in sidecars]
        counted += pod.status.containerStatuses
    else:
        counted += _statuses_up_to(pod, starting)
    count = sum(status.restartCount for status in counted)
    ends = [status.lastState.terminated for status in counted]
    last = max((end.finishedAt for end in ends if end is not None and end.finishedAt), default=None)
    return f"{count} ({ages.age(last, now)} ago)" if count and last else str(count)


def _statuses_up_to(pod: Pod, starting: tuple[int, ContainerStatus] | None) -> Sequence[ContainerStatus]:
    statuses = pod.status.initContainerStatuses
    return statuses if starting is None else statuses[: starting[0] + 1]


def _address(pod: Pod, now: float) -> str:
    return (pod.status.podIPs[0].ip if pod.status.podIPs else "") or NONE


def _node(pod: Pod, now: float) -> str:
    return pod.spec.nodeName or NONE


def _nominated_node(pod: Pod, now: float) -> str:
    return pod.status.nominatedNodeName or NONE


def _gates(pod: Pod, now: float) -> str:
    gates = pod.spec.readinessGates
    if not gates:
        return NONE
    return f"{sum(is_true(pod.status.conditions, gate.conditionType) for gate in gates)}/{len(gates)}"


def row_conditions(pod: Pod) -> list[dict[str, str]]:
    """Return the condition that marks the row of a terminated pod, so that clients can filter it."""
    messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    phase = pod.status.phase
    if phase not in messages:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]}]


COLUMNS = (
    NAME,
    Column("Ready", _ready, description="The aggregate readiness state of this pod for accepting traffic."),
    Column("Status", _status, description="The aggregate status of the containers in this pod."),
    Column(
        "Restarts",
        _restarts,
        description="The number of times the containers in this pod have been restarted and when the last container in "
        "this pod has restarted.",
    ),
    AGE,
    Column("IP", _address, wide=True, field="status.podIP"),
    Column("Node", _node, wide=True, field="spec.nodeName"),
    Column("Nominated Node", _nominated_node, wide=True, field="status.nominatedNodeName"),
    Column("Readiness Gates", _gates, wide=True, field="spec.readinessGates"),
)
