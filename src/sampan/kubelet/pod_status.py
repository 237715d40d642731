"""Pure computation of the pod status from its spec and the runtime report.

`generate_status` computes the current status. `merge_statuses` ensures that it never goes backwards: a terminal phase
is final, and is only reached once no container of the pod runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from sampan.api.semantics.pod_resources import qos_class
from sampan.api.semantics.pods import is_sidecar
from sampan.api.types.core_v1 import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    HostIP,
    Pod,
    PodIP,
    PodStatus,
    ResourceRequirements,
)
from sampan.api.values import times
from sampan.kubelet import pod_conditions
from sampan.kubelet.container_statuses import Waiting, container_statuses
from sampan.kubelet.pod_actions import may_restart_all
from sampan.kubelet.pod_conditions import FAILED, PENDING, RUNNING, SUCCEEDED, TERMINAL, pod_phase
from sampan.runtimes import contract
from sampan.runtimes.contract import PodReport

WHOLE_POD = ""
RESTARTING_ALL = "RestartingAllContainers"
_REMOVED = "The container is removed because RestartAllContainers in place"
_UNKNOWN = "ContainerStatusUnknown"
_NOT_FOUND = "The container could not be located when the pod was terminated"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFailure:
    """The reason why the kubelet fails a pod on its own: rejection, exceeded deadline, eviction, preemption, node
    shutdown.
    """

    reason: str
    message: str
    disruption: str = ""
    """Message of the condition DisruptionTarget; empty if the pod gets no such condition."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the corresponding event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusInputs:
    """Everything besides the spec that determines the status of a pod."""

    report: PodReport
    old: PodStatus
    """The last status of the pod."""
    waiting: Waiting = field(default_factory=dict)
    host_ips: Sequence[str] = ()
    is_terminal: bool = False
    """Whether no container of the pod will be started again."""
    failure: PodFailure | None = None
    actuated: Mapping[str, ResourceRequirements] = field(default_factory=dict)
    """Resources that containers actually run with, where they differ from the spec. WHOLE_POD is the key of pod-level
    resources.
    """
    resize: tuple[str, str, str] | None = None
    """Condition type, reason and message of a pending or ongoing resize."""
    is_restarting_all: bool = False
    """Whether all containers are being stopped in order to be restarted together."""


def generate_status(pod: Pod, inputs: StatusInputs, now: float) -> PodStatus:
    report, old, spec = inputs.report, inputs.old, pod.spec
    inits = container_statuses(
        pod, spec.initContainers, report, old.initContainerStatuses, inputs.waiting, inputs.actuated, is_init=True
    )
    mains = container_statuses(
        pod, spec.containers or (), report, old.containerStatuses, inputs.waiting, inputs.actuated
    )
    statuses = {status.name: status for status in (*inits, *mains)}
    phase = pod_phase(pod, statuses, is_terminal=inputs.is_terminal, has_started=_has_started(pod, report))
    reason, message = "", ""
    if (inputs.is_restarting_all and phase in TERMINAL) or (
        may_restart_all(spec) and old.phase == RUNNING and phase == PENDING
    ):
        phase = RUNNING
    if phase not in TERMINAL and old.phase in TERMINAL:
        phase = old.phase
    if phase == old.phase:
        reason, message = old.reason, old.message
    if inputs.failure is not None:
        phase, reason, message = FAILED, inputs.failure.reason, inputs.failure.message
    status = msgspec.structs.replace(
        pod.status,
        observedGeneration=max(pod.metadata.generation, old.observedGeneration),
        phase=phase,
        reason=reason,
        message=message,
        startTime=old.startTime or times.format_time(now),
        qosClass=old.qosClass or qos_class(spec),
        initContainerStatuses=inits,
        containerStatuses=mains,
    )
    if spec.ephemeralContainers:
        status.ephemeralContainerStatuses = container_statuses(
            pod, spec.ephemeralContainers, report, old.ephemeralContainerStatuses, inputs.waiting
        )
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        status.resources = inputs.actuated.get(WHOLE_POD, spec.resources)
        status.allocatedResources = status.resources.requests
    if inputs.is_restarting_all:
        _set_restarting(status, inputs)
    _set_addresses(status, pod, inputs)
    _set_conditions(status, pod, inputs, statuses, now)
    return status


def _set_restarting(status: PodStatus, inputs: StatusInputs) -> None:
    """Set containers that the runtime has already removed to waiting for their restart."""
    before = {
        container.name: container for container in (*inputs.old.initContainerStatuses, *inputs.old.containerStatuses)
    }
    for container in (*status.initContainerStatuses, *status.containerStatuses):
        last = before.get(container.name)
        if last is None or last.state.waiting is not None or inputs.report.container(container.name) is not None:
            continue
        ended = ContainerStateTerminated(reason=RESTARTING_ALL, message=_REMOVED, exitCode=137)
        container.lastState = ContainerState(terminated=ended)
        container.state = ContainerState(waiting=ContainerStateWaiting(reason=RESTARTING_ALL, message=_REMOVED))
        container.ready = container.started = False


def _has_started(pod: Pod, report: PodReport) -> bool:
    names = {container.name for container in pod.spec.containers or ()}
    return any(
        container_report.name in names and container_report.state != contract.CREATED
        for container_report in report.containers
    )


def _set_addresses(status: PodStatus, pod: Pod, inputs: StatusInputs) -> None:
    hosts, ips = inputs.host_ips, inputs.report.ips
    if hosts:
        status.hostIP, status.hostIPs = hosts[0], [HostIP(ip=ip) for ip in hosts]
        if pod.spec.hostNetwork:
            ips = hosts
    if ips:
        status.podIP, status.podIPs = ips[0], [PodIP(ip=ip) for ip in ips]
    elif inputs.old.podIP:
        status.podIP, status.podIPs = inputs.old.podIP, inputs.old.podIPs


def _set_conditions(
    status: PodStatus, pod: Pod, inputs: StatusInputs, statuses: dict[str, ContainerStatus], now: float
) -> None:
    own_conditions = pod_conditions.generate_conditions(pod, statuses, status.phase, inputs.report)
    if inputs.failure is not None and inputs.failure.disruption:
        own_conditions["DisruptionTarget"] = ("True", "TerminationByKubelet", inputs.failure.disruption)
    if may_restart_all(pod.spec):
        own_conditions["AllContainersRestarting"] = _generate_restarting_condition(
            status.phase, inputs.is_restarting_all
        )
    if inputs.resize is not None:
        own_conditions[inputs.resize[0]] = ("True", *inputs.resize[1:])
    status.conditions = pod_conditions.merge_conditions(pod, inputs.old.conditions, own_conditions, now)


def _generate_restarting_condition(phase: str, is_restarting_all: bool) -> tuple[str, str, str]:
    if phase in TERMINAL:
        return "False", "PodCompleted" if phase == SUCCEEDED else "PodFailed", ""
    if not is_restarting_all:
        return "False", "", ""
    return "True", "RestartAllContainersStarted", "container exited with restart policy rule"


def merge_statuses(old: PodStatus, new: PodStatus, *, may_run: bool) -> PodStatus:
    """Return the status to publish after `old`. A terminal phase is final. It is withheld while a container may run."""
    if old.phase in TERMINAL:
        return msgspec.structs.replace(new, phase=old.phase) if new.phase != old.phase else new
    if may_run and new.phase in TERMINAL:
        return msgspec.structs.replace(new, phase=old.phase or "Pending", reason=old.reason, message=old.message)
    return new


def final_status(pod: Pod, status: PodStatus) -> PodStatus:
    """Return the final status of a pod none of whose containers runs or will run. Its phase becomes terminal, and
    containers that the runtime has lost are reported as terminated.
    """
    if status.phase not in TERMINAL:
        status = msgspec.structs.replace(status, phase=FAILED)
    begun = 0
    for number, container in enumerate(status.initContainerStatuses, 1):
        begun = number if not _is_untouched(container) else begun
    inits = status.initContainerStatuses
    return msgspec.structs.replace(
        status,
        initContainerStatuses=[*(_as_terminated(container) for container in inits[:begun]), *inits[begun:]],
        containerStatuses=[_as_terminated(container) for container in status.containerStatuses]
        if _was_initialized(pod, status)
        else status.containerStatuses,
    )


def _is_untouched(status: ContainerStatus) -> bool:
    """Whether the container was never started."""
    return status.state.waiting is not None and status.lastState.terminated is None


def _was_initialized(pod: Pod, status: PodStatus) -> bool:
    if not pod.spec.initContainers or not all(_is_untouched(container) for container in status.containerStatuses):
        return True
    last = status.initContainerStatuses[-1]
    if is_sidecar(pod.spec.initContainers[-1]):
        return bool(last.started)
    ended = last.state.terminated or last.lastState.terminated
    return ended is not None and ended.exitCode == 0


def _as_terminated(status: ContainerStatus) -> ContainerStatus:
    if status.state.terminated is not None:
        return status
    unknown = ContainerStateTerminated(reason=_UNKNOWN, message=_NOT_FOUND, exitCode=137)
    return msgspec.structs.replace(status, state=ContainerState(terminated=unknown), ready=False, started=False)


def may_run(report: PodReport) -> bool:
    return any(container.state in (contract.RUNNING, contract.CREATED) for container in report.containers)


def rejected_status(pod: Pod, failure: PodFailure, now: float) -> PodStatus:
    """Return the status of a pod that the node rejects."""
    return msgspec.structs.replace(
        pod.status,
        observedGeneration=max(pod.metadata.generation, pod.status.observedGeneration),
        phase=FAILED,
        reason=failure.reason,
        message=f"Pod was rejected: {failure.message}",
        qosClass=pod.status.qosClass or qos_class(pod.spec),
        startTime=pod.status.startTime or times.format_time(now),
    )


DEADLINE_EXCEEDED = PodFailure(
    reason="DeadlineExceeded", message="Pod was active on the node longer than the specified deadline"
)


def deadline_left_s(pod: Pod, status: PodStatus, now: float) -> float | None:
    """Return the seconds until the pod exceeds its deadline, at most 0 once it has, or None without a deadline."""
    if pod.spec.activeDeadlineSeconds is None or status.startTime is None:
        return None
    return times.parse_time(status.startTime) + pod.spec.activeDeadlineSeconds - now
