"""Pure computation of the limits of a pod's cgroup."""

from __future__ import annotations

from dataclasses import replace

from sampan.api.pod_amounts import effective_limits, effective_requests
from sampan.api.pod_qos import BEST_EFFORT, GUARANTEED, qos_class
from sampan.api.types.core_v1 import Container, Pod
from sampan.kubelet.environment.amounts import quota, shares
from sampan.runtimes.config import Resources

_DIRECTORIES = {GUARANTEED: "", BEST_EFFORT: "besteffort/"}


def group_of(pod: Pod) -> str:
    """Return the path of the pod's cgroup relative to that of all pods."""
    qos = pod.status.qosClass or qos_class(pod.spec)
    return f"{_DIRECTORIES.get(qos, 'burstable/')}pod{pod.metadata.uid}"


def pod_limits(pod: Pod, *, pids: int = 0) -> Resources:
    """Return the limits of the pod. A resource is limited only if the pod or every container has a limit."""
    if qos_class(pod.spec) == BEST_EFFORT:
        return Resources(cpu_shares=shares(0), pids=pids)
    requests, limits = effective_requests(pod.spec), effective_limits(pod.spec)
    cpu = requests["cpu"].milli_value() if "cpu" in requests else 0
    has_cpu, has_memory = (_is_limited(pod, name) for name in ("cpu", "memory"))
    return Resources(
        cpu_shares=shares(cpu),
        cpu_quota=quota(limits["cpu"].milli_value()) if has_cpu else 0,
        memory_bytes=limits["memory"].value() if has_memory else 0,
        pids=pids,
    )


def wider(one: Resources, other: Resources) -> Resources:
    """Return the larger of the two limits for each resource; no limit is the largest."""
    return replace(
        other,
        cpu_shares=max(one.cpu_shares, other.cpu_shares),
        cpu_quota=max(one.cpu_quota, other.cpu_quota) if one.cpu_quota and other.cpu_quota else 0,
        memory_bytes=max(one.memory_bytes, other.memory_bytes) if one.memory_bytes and other.memory_bytes else 0,
    )


def _is_limited(pod: Pod, name: str) -> bool:
    if pod.spec.resources is not None and name in pod.spec.resources.limits:
        return True
    containers: list[Container] = [*(pod.spec.containers or ()), *pod.spec.initContainers]
    return all(name in container.resources.limits for container in containers)
