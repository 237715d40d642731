"""Pure computation of the pod conditions that the kubelet sets (`pkg/kubelet/status/generate.go`)."""

from collections.abc import Mapping, Sequence

from sampan.api import gotext, times
from sampan.api.semantics.pods import is_sidecar, sidecars_of
from sampan.api.types.core_v1 import ContainerStatus, Pod, PodCondition
from sampan.kubelet.phase import FAILED, SUCCEEDED

READY_TO_START, INITIALIZED, READY = "PodReadyToStartContainers", "Initialized", "Ready"
CONTAINERS_READY, SCHEDULED = "ContainersReady", "PodScheduled"
OWN = (READY_TO_START, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED)
"""Condition types that only the kubelet sets, in the order in which it writes them."""

OWN_TOO = ("AllContainersRestarting",)
"""Condition types that only the kubelet sets, but only for pods that use the corresponding feature."""

PASSING = ("PodResizePending", "PodResizeInProgress")
"""Condition types that the kubelet sets temporarily and removes again."""

NOT_READY, NOT_INITIALIZED, GATES_NOT_READY = "ContainersNotReady", "ContainersNotInitialized", "ReadinessGatesNotReady"
COMPLETED, POD_FAILED, UNKNOWN = "PodCompleted", "PodFailed", "UnknownContainerStatuses"
TRUE, FALSE = "True", "False"

Statuses = Mapping[str, ContainerStatus]
ConditionValue = tuple[str, str, str]
"""Status, reason and message of a condition."""


def own_conditions(pod: Pod, statuses: Statuses, phase: str, *, has_sandbox: bool) -> dict[str, ConditionValue]:
    """Return the conditions that the kubelet sets on every pod, by type."""
    containers = containers_ready(pod, statuses, phase)
    return {
        READY_TO_START: (TRUE if has_sandbox else FALSE, "", ""),
        INITIALIZED: initialized(pod, statuses, phase),
        READY: ready(pod, containers),
        CONTAINERS_READY: containers,
        SCHEDULED: (TRUE, "", ""),
    }


def containers_ready(pod: Pod, statuses: Statuses, phase: str) -> ConditionValue:
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


def ready(pod: Pod, containers: ConditionValue) -> ConditionValue:
    """Return the Ready condition, which combines ContainersReady with the readiness gates."""
    if containers[0] != TRUE or not pod.spec.readinessGates:
        return containers
    statuses = {condition.type: condition.status for condition in pod.status.conditions}
    closed = [
        _closed(gate.conditionType, statuses.get(gate.conditionType))
        for gate in pod.spec.readinessGates
        if statuses.get(gate.conditionType) != TRUE
    ]
    return (FALSE, GATES_NOT_READY, ", ".join(closed)) if closed else containers


def _closed(gate: str, status: str | None) -> str:
    name = gotext.quote(gate)
    if status is None:
        return f"corresponding condition of pod readiness gate {name} does not exist."
    return f'the status of pod readiness gate {name} is not "True", but {status}'


def initialized(pod: Pod, statuses: Statuses, phase: str) -> ConditionValue:
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


def _message(unknown: Sequence[str], what: str, others: Sequence[str]) -> str:
    parts = [f"containers with unknown status: [{' '.join(unknown)}]"] if unknown else []
    if others:
        parts.append(f"containers with {what} status: [{' '.join(others)}]")
    return ", ".join(parts)


def merged(
    pod: Pod, old: Sequence[PodCondition], own_conditions: Mapping[str, ConditionValue], now: float
) -> list[PodCondition]:
    """Return the pod's conditions: those of other writers unchanged, then the kubelet's own. The transition time is
    kept where the status did not change.
    """
    before = {condition.type: condition for condition in old}
    conditions = [condition for condition in pod.status.conditions if condition.type not in (*OWN, *OWN_TOO, *PASSING)]
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
