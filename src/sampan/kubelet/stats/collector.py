"""Collects the usage figures of all pods of a node, and caches them briefly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.stats.machine import MachineFigures
from sampan.kubelet.volumes.usage import VolumeUsage, VolumeUsageCache
from sampan.machinery.clock import Clock
from sampan.runtimes.contract import RUNNING, PodReport, Runtime, RuntimeFailure, Usage

log = logging.getLogger(__name__)

_KEPT_S = 2.0
_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFigures:
    pod: Pod
    report: PodReport
    usages: Sequence[Usage]
    at: float
    volumes: Sequence[VolumeUsage] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFigures:
    node: str
    machine: MachineFigures
    pods: Sequence[PodFigures]


class StatsCollector:
    def __init__(
        self,
        *,
        node: str,
        runtime: Runtime,
        pods: Callable[[], Sequence[Pod]],
        machine: Callable[[float], MachineFigures],
        clock: Clock,
        volumes: VolumeUsageCache | None = None,
    ) -> None:
        """`machine` returns the figures of the node at a time."""
        self._volumes = volumes
        self._node, self._runtime, self._pods, self._machine, self._clock = node, runtime, pods, machine, clock
        self._kept: NodeFigures | None = None
        self._asking = asyncio.Lock()

    @property
    def latest(self) -> NodeFigures | None:
        """The cached figures, without a new query."""
        return self._kept

    async def figures(self) -> NodeFigures:
        async with self._asking:
            now = self._clock.now()
            if self._kept is None or not 0 <= now - self._kept.machine.at < _KEPT_S:
                self._kept = await self._collected(now)
            return self._kept

    async def _collected(self, now: float) -> NodeFigures:
        limit = asyncio.Semaphore(_AT_ONCE)

        async def of(pod: Pod) -> PodFigures | None:
            async with limit:
                return await self._of(pod, now)

        pods = self._pods()
        if self._volumes is not None:
            self._volumes.keep_only({pod.metadata.uid for pod in pods})
        collected = await asyncio.gather(*(of(pod) for pod in pods))
        return NodeFigures(
            node=self._node, machine=self._machine(now), pods=[figures for figures in collected if figures is not None]
        )

    async def _of(self, pod: Pod, now: float) -> PodFigures | None:
        report = self._runtime.pod_report(pod)
        if not any(container.state == RUNNING for container in report.containers):
            return None
        try:
            usages = await self._runtime.stats(pod)
        except RuntimeFailure as error:
            log.debug("no metrics for pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, error)
            return None
        volumes = await self._volumes.of(pod) if self._volumes is not None else ()
        return PodFigures(pod=pod, report=report, usages=usages, at=now, volumes=volumes)
