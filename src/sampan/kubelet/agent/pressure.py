"""When a node is short of something, and which of its pods has to go. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sampan.api.pod_amounts import effective_requests
from sampan.api.pod_qos import BEST_EFFORT, qos_class
from sampan.api.quantity import parse
from sampan.api.types.core_v1 import Pod, Taint
from sampan.kubelet.admission import tolerates
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
_MEMORY_TAINT = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class Observation:
    available: int
    capacity: int


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


def shortages(
    observed: Mapping[str, Observation], limits: Mapping[str, str], *, is_hard: bool = True
) -> list[Shortage]:
    """In the order in which they are to be met: memory first."""
    found = []
    for signal in _RESOURCES:
        if signal not in limits or signal not in observed:
            continue
        now = observed[signal]
        threshold = threshold_value(limits[signal], now.capacity)
        if threshold > 0 and now.available < threshold:
            found.append(Shortage(signal, threshold, now.available, is_hard))
    return found


def conditions(types: Sequence[str]) -> dict[str, Said]:
    return {type: _TOLD[type] for type in types}


def refused(pod: Pod, types: Sequence[str]) -> Verdict | None:
    """Whether a node under pressure takes the pod."""
    if not types or is_critical(pod):
        return None
    if list(types) == [MEMORY_PRESSURE] and (
        qos_class(pod.spec) != BEST_EFFORT or any(tolerates(each, _MEMORY_TAINT) for each in pod.spec.tolerations)
    ):
        return None
    return Verdict(reason=EVICTED, message=f"The node had condition: [{' '.join(types)}]. ")


def ranked(pods: Sequence[tuple[Pod, Sequence[Usage]]], resource: str) -> list[tuple[Pod, Sequence[Usage]]]:
    """Who has to go first: those who use more than they asked for, of lesser priority, by how much more."""

    def key(row: tuple[Pod, Sequence[Usage]]) -> tuple[bool, int, int]:
        pod, usages = row
        over = sum(used(each, resource) for each in usages) - requested(pod, resource)
        return over <= 0, pod.spec.priority or 0, -over

    return sorted((row for row in pods if not is_critical(row[0])), key=key)


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


def message(pod: Pod, usages: Sequence[Usage], shortage: Shortage) -> str:
    resource = shortage.resource
    parts = [
        f"The node was low on resource: {resource}. ",
        f"Threshold quantity: {_shown(shortage.threshold)}, available: {_shown(shortage.available)}. ",
    ]
    asked = {
        each.name: each.resources.requests.get(resource, "0")
        for each in (*(pod.spec.containers or ()), *pod.spec.initContainers)
    }
    for usage in usages:
        amount = used(usage, resource)
        if resource in ("memory", "ephemeral-storage") and usage.name in asked:
            text = asked[usage.name]
            if amount > parse(text).value():
                parts.append(
                    f"Container {usage.name} was using {_shown(amount)}, request is {text}, "
                    f"has larger consumption of {resource}. "
                )
    return "".join(parts)


def _shown(amount: int) -> str:
    for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if amount and amount % size == 0:
            return f"{amount // size}{unit}"
    return str(amount)


__all__ = [
    "EVICTED",
    "Observation",
    "Shortage",
    "conditions",
    "message",
    "ranked",
    "refused",
    "shortages",
]
