"""Pure evaluation of eviction thresholds and ranking of pods for eviction (`pkg/kubelet/eviction/helpers.go`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sampan.api.semantics.pod_qos import BEST_EFFORT, qos_class
from sampan.api.semantics.pod_resources import effective_requests
from sampan.api.semantics.taints import MEMORY_PRESSURE as MEMORY_PRESSURE_TAINT
from sampan.api.semantics.taints import NO_SCHEDULE, is_tolerated
from sampan.api.types.core_v1 import Pod, Taint
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.machine import threshold_value
from sampan.kubelet.critical import is_critical
from sampan.kubelet.node_status import DISK_PRESSURE, MEMORY_PRESSURE, PID_PRESSURE, Said
from sampan.kubelet.pod_status import Verdict
from sampan.runtimes.contract import Usage

EVICTED = "Evicted"
_RESOURCES = {
    "memory.available": ("memory", MEMORY_PRESSURE),
    "nodefs.available": ("ephemeral-storage", DISK_PRESSURE),
    "nodefs.inodesFree": ("inodes", DISK_PRESSURE),
    "imagefs.available": ("ephemeral-storage", DISK_PRESSURE),
    "imagefs.inodesFree": ("inodes", DISK_PRESSURE),
    "pid.available": ("pids", PID_PRESSURE),
}
_TOLD: dict[str, Said] = {
    MEMORY_PRESSURE: ("True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    DISK_PRESSURE: ("True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
    PID_PRESSURE: ("True", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
}
_MEMORY_TAINT = Taint(key=MEMORY_PRESSURE_TAINT, effect=NO_SCHEDULE)


@dataclass(frozen=True, slots=True)
class Observation:
    available: int
    capacity: int


@dataclass(frozen=True, slots=True)
class Threshold:
    signal: str
    limit: str
    """An amount or a percentage."""
    grace_s: float = 0.0
    is_hard: bool = True
    reclaim: str = ""
    """Amount beyond the limit that must be available before the shortage counts as resolved."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A signal below its threshold."""

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


def thresholds(config: AgentConfig) -> list[Threshold]:
    """Return the thresholds in the order of their priority: memory first, hard before soft ones."""
    reclaim, grace_s = config.eviction_minimum_reclaim, config.eviction_soft_grace_s
    result = []
    for signal in _RESOURCES:
        more = reclaim.get(signal, "")
        if signal in config.eviction_hard:
            result.append(Threshold(signal, config.eviction_hard[signal], reclaim=more))
        if signal in config.eviction_soft:
            limit = config.eviction_soft[signal]
            result.append(Threshold(signal, limit, grace_s.get(signal, 0.0), is_hard=False, reclaim=more))
    return result


def shortage(threshold: Threshold, observed: Mapping[str, Observation], *, with_reclaim: bool) -> Shortage | None:
    """Return the shortage, if any. `with_reclaim` also requires the minimum reclaim, as after an earlier shortage."""
    now = observed.get(threshold.signal)
    if now is None:
        return None
    limit = threshold_value(threshold.limit, now.capacity)
    least = limit + (threshold_value(threshold.reclaim, now.capacity) if with_reclaim and threshold.reclaim else 0)
    if limit <= 0 or now.available >= least:
        return None
    return Shortage(threshold.signal, limit, now.available, threshold.is_hard)


def conditions(types: Sequence[str]) -> dict[str, Said]:
    return {type: _TOLD[type] for type in types}


def refused(pod: Pod, types: Sequence[str]) -> Verdict | None:
    """Return the rejection of the pod by a node with these pressure conditions, or None."""
    if not types or is_critical(pod):
        return None
    if list(types) == [MEMORY_PRESSURE] and (
        qos_class(pod.spec) != BEST_EFFORT or is_tolerated(_MEMORY_TAINT, pod.spec.tolerations)
    ):
        return None
    return Verdict(reason=EVICTED, message=f"The node had condition: [{' '.join(types)}]. ")


def ranked(pods: Sequence[tuple[Pod, Sequence[Usage]]], resource: str) -> list[tuple[Pod, Sequence[Usage]]]:
    """Return the pods in the order of their eviction: those that exceed their requests first, then by lower priority,
    then by the amount in excess. Process IDs cannot be requested, so for them exceeding the request does not count.
    """

    def key(row: tuple[Pod, Sequence[Usage]]) -> tuple[bool, int, int]:
        pod, usages = row
        over = total(usages, resource) - requested(pod, resource)
        return over <= 0 and resource != "pids", pod.spec.priority or 0, -over

    return sorted((row for row in pods if not is_critical(row[0])), key=key)


def total(usages: Sequence[Usage], resource: str) -> int:
    """Return the usage of the pod, for memory and processes as measured for the whole pod if available. Disk usage is
    always the sum, because the entry of the pod excludes its containers.
    """
    whole = [used(usage, resource) for usage in usages if not usage.name and resource in ("memory", "pids")]
    return whole[0] if whole and whole[0] else sum(used(usage, resource) for usage in usages)


def used(usage: Usage, resource: str) -> int:
    match resource:
        case "memory":
            return usage.memory_bytes
        case "ephemeral-storage":
            return (usage.disk_bytes or 0) + (usage.log_bytes or 0)
        case "inodes":
            return usage.inodes or 0
        case _:
            return usage.processes or 0


def requested(pod: Pod, resource: str) -> int:
    amounts = effective_requests(pod.spec)
    return int(amounts[resource].value()) if resource in amounts else 0
