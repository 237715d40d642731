"""Pure decisions of the eviction manager (`pkg/kubelet/eviction/helpers.go`): thresholds, ranking, the message of an
eviction, and limits of local ephemeral storage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sampan.api.go_compat import gotext
from sampan.api.semantics.pod_resources import BEST_EFFORT, effective_limits, effective_requests, qos_class
from sampan.api.semantics.pods import init_and_main_containers, sidecars_of
from sampan.api.semantics.taints import MEMORY_PRESSURE as MEMORY_PRESSURE_TAINT
from sampan.api.semantics.taints import NO_SCHEDULE, is_tolerated
from sampan.api.types.core_v1 import Pod, Taint, Volume
from sampan.api.values.quantity import Format, Quantity, parse
from sampan.kubelet.admission import is_critical
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.machine import threshold_value
from sampan.kubelet.node_status import DISK_PRESSURE, MEMORY_PRESSURE, PID_PRESSURE, ConditionValue
from sampan.kubelet.pod_status import PodFailure
from sampan.kubelet.volumes.usage import VolumeUsage
from sampan.runtimes.contract import ContainerUsage

EVICTED = "Evicted"
_RESOURCES = {
    "memory.available": ("memory", MEMORY_PRESSURE),
    "nodefs.available": ("ephemeral-storage", DISK_PRESSURE),
    "nodefs.inodesFree": ("inodes", DISK_PRESSURE),
    "imagefs.available": ("ephemeral-storage", DISK_PRESSURE),
    "imagefs.inodesFree": ("inodes", DISK_PRESSURE),
    "pid.available": ("pids", PID_PRESSURE),
}
_PRESSURE_CONDITIONS: dict[str, ConditionValue] = {
    MEMORY_PRESSURE: ("True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    DISK_PRESSURE: ("True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
    PID_PRESSURE: ("True", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
}
_MEMORY_TAINT = Taint(key=MEMORY_PRESSURE_TAINT, effect=NO_SCHEDULE)


@dataclass(frozen=True, slots=True)
class SignalObservation:
    available: int
    capacity: int


@dataclass(frozen=True, slots=True)
class EvictionThreshold:
    signal: str
    limit: str
    """The threshold: an amount of the resource, or a percentage of its capacity."""
    grace_s: float = 0.0
    is_hard: bool = True
    reclaim: str = ""
    """Amount beyond the limit that must be available before the shortage counts as resolved."""


@dataclass(frozen=True, slots=True)
class SignalShortage:
    """An eviction signal that is below its threshold."""

    signal: str
    threshold: int
    available: int
    is_hard: bool = True

    @property
    def resource(self) -> str:
        return _RESOURCES[self.signal][0]

    @property
    def condition(self) -> str:
        return _RESOURCES[self.signal][1]


def thresholds(config: AgentConfig) -> list[EvictionThreshold]:
    """Return the thresholds in the order of their priority: memory first, hard before soft ones."""
    reclaim, grace_s = config.eviction_minimum_reclaim, config.eviction_soft_grace_s
    result = []
    for signal in _RESOURCES:
        more = reclaim.get(signal, "")
        if signal in config.eviction_hard:
            result.append(EvictionThreshold(signal, config.eviction_hard[signal], reclaim=more))
        if signal in config.eviction_soft:
            limit = config.eviction_soft[signal]
            result.append(EvictionThreshold(signal, limit, grace_s.get(signal, 0.0), is_hard=False, reclaim=more))
    return result


def shortage(
    threshold: EvictionThreshold, observed: Mapping[str, SignalObservation], *, with_reclaim: bool
) -> SignalShortage | None:
    """Return the shortage if the signal is below its threshold, or None. With `with_reclaim` the minimum reclaim must
    be available too, which is required for the end of an earlier shortage.
    """
    now = observed.get(threshold.signal)
    if now is None:
        return None
    limit = threshold_value(threshold.limit, now.capacity)
    minimum = limit + (threshold_value(threshold.reclaim, now.capacity) if with_reclaim and threshold.reclaim else 0)
    if limit <= 0 or now.available >= minimum:
        return None
    return SignalShortage(threshold.signal, limit, now.available, threshold.is_hard)


def conditions(types: Sequence[str]) -> dict[str, ConditionValue]:
    return {type: _PRESSURE_CONDITIONS[type] for type in types}


def admission_failure(pod: Pod, types: Sequence[str]) -> PodFailure | None:
    """Return the rejection of the pod by a node with these pressure conditions, or None."""
    if not types or is_critical(pod):
        return None
    if list(types) == [MEMORY_PRESSURE] and (
        qos_class(pod.spec) != BEST_EFFORT or is_tolerated(_MEMORY_TAINT, pod.spec.tolerations)
    ):
        return None
    return PodFailure(reason=EVICTED, message=f"The node had condition: [{' '.join(types)}]. ")


def rank_pods(
    pods: Sequence[tuple[Pod, Sequence[ContainerUsage]]], resource: str
) -> list[tuple[Pod, Sequence[ContainerUsage]]]:
    """Return the pods in the order of their eviction: those that exceed their requests first, then by lower priority,
    then by the amount in excess. Process IDs cannot be requested, so for them exceeding the request does not count.
    """

    def key(row: tuple[Pod, Sequence[ContainerUsage]]) -> tuple[bool, int, int]:
        pod, usages = row
        over = total_usage(usages, resource) - pod_request(pod, resource)
        return over <= 0 and resource != "pids", pod.spec.priority or 0, -over

    return sorted((row for row in pods if not is_critical(row[0])), key=key)


def total_usage(usages: Sequence[ContainerUsage], resource: str) -> int:
    """Return the usage of a resource by the pod. Memory and processes are those measured for the whole pod, if
    available. Disk usage is always the sum over all entries, because the entry of the pod excludes its containers.
    """
    whole = [container_usage(usage, resource) for usage in usages if not usage.name and resource in ("memory", "pids")]
    return whole[0] if whole and whole[0] else sum(container_usage(usage, resource) for usage in usages)


def container_usage(usage: ContainerUsage, resource: str) -> int:
    match resource:
        case "memory":
            return usage.memory_bytes
        case "ephemeral-storage":
            return (usage.disk_bytes or 0) + (usage.log_bytes or 0)
        case "inodes":
            return usage.inodes or 0
        case _:
            return usage.processes or 0


def pod_request(pod: Pod, resource: str) -> int:
    amounts = effective_requests(pod.spec)
    return int(amounts[resource].value()) if resource in amounts else 0


# -- the message of an eviction --------------------------------------------------------------------------------------

OFFENDERS, OFFENDERS_USAGE = "offending_containers", "offending_containers_usage"
POD, POD_USAGE = "offending_pod", "offending_pod_usage"
STARVED = "starved_resource"
_REQUESTABLE = ("memory", "ephemeral-storage")


def eviction_failure(pod: Pod, usages: Sequence[ContainerUsage], shortage: SignalShortage) -> PodFailure:
    """Return the failure of an evicted pod, whose message names the containers that exceed their requests if usage
    figures are available.
    """
    resource = shortage.resource
    available = Quantity(shortage.available, format=Format.BINARY_SI if resource in _REQUESTABLE else Format.DECIMAL_SI)
    text = f"The node was low on resource: {resource}. "
    text += f"Threshold quantity: {_bytes(shortage.threshold)}, available: {available}. "
    annotations: dict[str, str] = {}
    if usages:
        if (whole := _pod_usage(pod, usages, resource)) is not None:
            text += _excess_text("Pod", pod.metadata.name, *whole, resource)
            annotations |= {POD: pod.metadata.name, POD_USAGE: str(whole[0])}
        over = _containers_over_request(pod, usages, resource)
        text += "".join(_excess_text("Container", *row, resource) for row in over)
        annotations[OFFENDERS] = ",".join(name for name, _, _ in over)
        annotations[OFFENDERS_USAGE] = ",".join(str(amount) for _, amount, _ in over)
        annotations[STARVED] = resource
    return PodFailure(reason=EVICTED, message=text, disruption=text, annotations=annotations)


def _pod_usage(pod: Pod, usages: Sequence[ContainerUsage], resource: str) -> tuple[Quantity, Quantity] | None:
    """Return usage and request of the whole pod, or None without a pod-level memory request."""
    request = pod.spec.resources.requests.get(resource) if pod.spec.resources is not None else None
    if request is None or resource != "memory":
        return None
    return _bytes(total_usage(usages, resource)), parse(request)


def _containers_over_request(
    pod: Pod, usages: Sequence[ContainerUsage], resource: str
) -> list[tuple[str, Quantity, Quantity]]:
    """Return name, usage and request of each container that exceeds its request."""
    if resource not in _REQUESTABLE:
        return []
    containers = init_and_main_containers(pod.spec)
    requests = {container.name: parse(container.resources.requests.get(resource, "0")) for container in containers}
    rows = [
        (container.name, _bytes(container_usage(container, resource)), requests[container.name])
        for container in usages
        if container.name in requests
    ]
    return [row for row in rows if row[2] < row[1]]


def _excess_text(subject: str, name: str, amount: Quantity, request: Quantity, resource: str) -> str:
    return f"{subject} {name} was using {amount}, request is {request}, has larger consumption of {resource}. "


def _bytes(amount: int) -> Quantity:
    return Quantity(amount, format=Format.BINARY_SI)


# -- limits of local ephemeral storage -------------------------------------------------------------------------------

STORAGE = "ephemeral-storage"


def has_storage_limit(pod: Pod) -> bool:
    return STORAGE in effective_limits(pod.spec)


def storage_excess(pod: Pod, usages: Sequence[ContainerUsage], volumes: Sequence[VolumeUsage]) -> str | None:
    """Return the eviction message if the pod exceeds a limit of local ephemeral storage, or None. The pod's limit
    applies to its files, logs and volumes together, the limit of a container to its files and logs.
    """
    limit = effective_limits(pod.spec).get(STORAGE)
    if limit is None:
        return None
    total = sum(item.used_bytes for item in counted_volumes(pod, volumes))
    if total + sum(_written_bytes(item) for item in usages) > limit.value():
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
    containers = (*sidecars_of(pod.spec), *(pod.spec.containers or ()))
    own = {item.name: item.resources.limits.get(STORAGE) for item in containers}
    for usage in usages:
        maximum = own.get(usage.name)
        if maximum is not None and _written_bytes(usage) > parse(maximum).value() > 0:
            quoted = gotext.quote(str(parse(maximum)))
            return f"Container {usage.name} exceeded its local ephemeral storage limit {quoted}. "
    return None


def counted_volumes(pod: Pod, volumes: Sequence[VolumeUsage]) -> list[VolumeUsage]:
    """Return the volumes that are on the node's disk and live as long as the pod."""
    names = {volume.name for volume in pod.spec.volumes if _is_counted(volume)}
    return [volume for volume in volumes if volume.name in names]


def _is_counted(volume: Volume) -> bool:
    if volume.emptyDir is not None:
        return volume.emptyDir.medium != "Memory"
    return volume.configMap is not None


def _written_bytes(usage: ContainerUsage) -> int:
    return (usage.disk_bytes or 0) + (usage.log_bytes or 0)
