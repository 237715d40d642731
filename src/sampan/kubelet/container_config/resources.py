"""Pure conversion of a container's requests and limits to cgroup settings."""

from __future__ import annotations

from collections.abc import Mapping

from sampan.api.semantics.pod_resources import BEST_EFFORT, GUARANTEED, qos_class
from sampan.api.semantics.pods import is_sidecar
from sampan.api.types.core_v1 import Container, Pod
from sampan.api.values import quantity
from sampan.kubelet.container_config.memory_qos import MemoryQos
from sampan.runtimes.config import ContainerResources

_PERIOD = 100_000
_SMALLEST_QUOTA = 1000
_SHARES_PER_CORE = 1024
_MIN_SHARES, _MAX_SHARES = 2, 262_144
_SAFE, _FIRST = -997, 1000
"""OOM score adjustments of guaranteed pods, which the kernel kills last, and of best-effort pods, which it kills first.
"""
_CRITICAL = 2_000_001_000
"""Priority of system-node-critical pods."""


def container_resources(
    pod: Pod, container: Container, *, node_memory: int, memory_qos: MemoryQos | None = None
) -> ContainerResources:
    """Return the limits of a container. `memory_qos` is None on a node with cgroups of version 1."""
    requests, limits = container.resources.requests, _limits(pod, container)
    cpu_limit = _milli(limits.get("cpu"))
    cpu = _milli(requests["cpu"]) if "cpu" in requests else cpu_limit
    return ContainerResources(
        cpu_shares=shares(cpu),
        cpu_quota=quota(cpu_limit),
        cpu_period=_PERIOD,
        memory_bytes=_value(limits.get("memory")),
        cgroup_files=memory_qos.container_files(pod, container) if memory_qos is not None else {},
        oom_score_adjust=oom_score_adjust(pod, container, node_memory),
        huge_pages={
            name.removeprefix("hugepages-"): _value(text)
            for name, text in limits.items()
            if name.startswith("hugepages-")
        },
    )


def shares(milli: int) -> int:
    return min(max(milli * _SHARES_PER_CORE // 1000, _MIN_SHARES), _MAX_SHARES)


def quota(milli: int) -> int:
    """Return the CPU quota in microseconds per period; 0 for no limit."""
    return max(milli * _PERIOD // 1000, _SMALLEST_QUOTA) if milli else 0


def oom_score_adjust(pod: Pod, container: Container, node_memory: int) -> int:
    if (pod.spec.priority or 0) >= _CRITICAL:
        return _SAFE
    match qos_class(pod.spec):
        case value if value == GUARANTEED:
            return _SAFE
        case value if value == BEST_EFFORT:
            return _FIRST
    request = _value(container.resources.requests.get("memory"))
    if is_sidecar(container) and container in pod.spec.initContainers:
        request = max(
            request, min((_memory(main_container) for main_container in pod.spec.containers or ()), default=0)
        )
    score = 1000 - 1000 * request // max(node_memory, 1)
    return min(max(score, 1000 + _SAFE), _FIRST - 1)


def _limits(pod: Pod, container: Container) -> Mapping[str, str]:
    """Return the limits of the container. Where it has no limit for CPU or memory, the limit of the pod applies."""
    own = container.resources.limits
    whole = pod.spec.resources.limits if pod.spec.resources is not None else {}
    return {**{name: text for name, text in whole.items() if name in ("cpu", "memory")}, **own}


def _memory(container: Container) -> int:
    return _value(container.resources.requests.get("memory"))


def _milli(text: str | None) -> int:
    return quantity.parse(text).milli_value() if text else 0


def _value(text: str | None) -> int:
    return quantity.parse(text).value() if text else 0
