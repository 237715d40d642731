"""Memory protection and throttling with cgroups of version 2, the feature MemoryQoS.

A throttling factor sets memory.high of containers and of pods with resources of their own: above it the kernel slows
them down. The policy TieredReservation protects the requested memory, that of guaranteed pods with memory.min and that
of burstable pods with memory.low.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sampan.api.semantics.pod_resources import BEST_EFFORT, GUARANTEED, effective_limits, effective_requests, qos_class
from sampan.api.types.core_v1 import Container, Pod
from sampan.api.values import quantity

MIN, LOW, HIGH = "memory.min", "memory.low", "memory.high"
NONE, TIERED_RESERVATION = "None", "TieredReservation"
UNPROTECTED: Final[Mapping[str, str]] = {MIN: "0", LOW: "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQos:
    """The settings of a node with cgroups of version 2. The methods are pure."""

    is_enabled: bool = True
    throttling_factor: float | None = None
    """The part of the memory between request and limit at which throttling begins; None for no throttling."""
    reserves: bool = False
    """Whether the requested memory is protected."""
    allocatable: int = 0
    """The memory of the node that pods can use, which takes the place of a limit."""

    def container_files(self, pod: Pod, container: Container) -> dict[str, str]:
        """Return the files of the container's cgroup."""
        if not self.is_enabled:
            return {HIGH: "max"}
        request, limit = (
            _bytes(amounts.get("memory")) for amounts in (container.resources.requests, container.resources.limits)
        )
        files = self._protection_files(pod, request) or dict(UNPROTECTED)
        if self.throttling_factor is not None and (not request or request != limit):
            whole = pod.spec.resources
            if limit or whole is None or not _bytes(whole.limits.get("memory")):
                files |= self._throttling_files(request, limit or self.allocatable, self.throttling_factor)
        return files

    def pod_files(self, pod: Pod) -> dict[str, str]:
        """Return the files of the pod's cgroup."""
        if not self.is_enabled:
            return {}
        request, limit = (
            int(amounts["memory"].value()) if "memory" in amounts else 0
            for amounts in (effective_requests(pod.spec), effective_limits(pod.spec))
        )
        files = self._protection_files(pod, request)
        whole, containers = pod.spec.resources, (*pod.spec.initContainers, *(pod.spec.containers or ()))
        if self.throttling_factor is None or whole is None or not (whole.limits or whole.requests):
            return files
        is_limited = _bytes(whole.limits.get("memory")) or all(
            _bytes(container.resources.limits.get("memory")) for container in containers
        )
        if is_limited and limit and request != limit:
            files |= self._throttling_files(request, limit, self.throttling_factor)
        return files

    def _protection_files(self, pod: Pod, request: int) -> dict[str, str]:
        qos = qos_class(pod.spec)
        if not request or not self.reserves or qos == BEST_EFFORT:
            return {}
        return {MIN if qos == GUARANTEED else LOW: str(request)}

    def _throttling_files(self, request: int, limit: int, factor: float) -> dict[str, str]:
        high = math.floor((request + (limit - request) * factor) / mmap.PAGESIZE) * mmap.PAGESIZE
        return {HIGH: str(high)} if high > request else {}


def _bytes(text: str | None) -> int:
    return int(quantity.parse(text).value()) if text else 0
