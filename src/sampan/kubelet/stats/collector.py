"""Collects the usage of all pods of a node, and caches them briefly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.stats.machine import MachineStats
from sampan.kubelet.volumes.usage import VolumeUsage, VolumeUsageCache
from sampan.machinery.clock import Clock
from sampan.runtimes.contract import RUNNING, PodReport, Runtime, RuntimeFailure, Usage

log = logging.getLogger(__name__)

_MAX_AGE_S = 2.0
_MAX_CONCURRENT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStats:
    pod: Pod
    report: PodReport
    usages: Sequence[Usage]
    at: float
    volumes: Sequence[VolumeUsage] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStats:
    node: str
    machine: MachineStats
    pods: Sequence[PodStats]


class StatsCollector:
    def __init__(
        self,
        *,
        node: str,
        runtime: Runtime,
        pods: Callable[[], Sequence[Pod]],
        machine: Callable[[float], MachineStats],
        clock: Clock,
        volumes: VolumeUsageCache | None = None,
    ) -> None:
        """`machine` returns the stats of the node at a time."""
        self._volumes = volumes
        self._node, self._runtime, self._pods, self._machine, self._clock = node, runtime, pods, machine, clock
        self._cached: NodeStats | None = None
        self._lock = asyncio.Lock()

    @property
    def latest(self) -> NodeStats | None:
        """The cached stats, without a new query."""
        return self._cached

    async def stats(self) -> NodeStats:
        async with self._lock:
            now = self._clock.now()
            if self._cached is None or not 0 <= now - self._cached.machine.at < _MAX_AGE_S:
                self._cached = await self._collect(now)
            return self._cached

    async def _collect(self, now: float) -> NodeStats:
        limit = asyncio.Semaphore(_MAX_CONCURRENT)

        async def of(pod: Pod) -> PodStats | None:
            async with limit:
                return await self._of(pod, now)

        pods = self._pods()
        if self._volumes is not None:
            self._volumes.keep_only({pod.metadata.uid for pod in pods})
        collected = await asyncio.gather(*(of(pod) for pod in pods))
        return NodeStats(
            node=self._node,
            machine=self._machine(now),
            pods=[pod_stats for pod_stats in collected if pod_stats is not None],
        )

    async def _of(self, pod: Pod, now: float) -> PodStats | None:
        report = self._runtime.pod_report(pod)
        if not any(container.state == RUNNING for container in report.containers):
            return None
        try:
            usages = await self._runtime.stats(pod)
        except RuntimeFailure as error:
            log.debug("no metrics for pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, error)
            return None
        volumes = await self._volumes.of(pod) if self._volumes is not None else ()
        return PodStats(pod=pod, report=report, usages=usages, at=now, volumes=volumes)
