"""Collects the usage of a machine and of all pods of a node, and caches it briefly."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sampan.api.types.core_v1 import Pod
from sampan.host.clock import Clock
from sampan.kubelet.volumes.usage import VolumeUsage, VolumeUsageCache
from sampan.runtimes.contract import (
    RUNNING,
    ContainerUsage,
    InterfaceCounters,
    PodReport,
    Runtime,
    RuntimeFailure,
)
from sampan.runtimes.usage import CpuRates, parse_interfaces

_PROC = Path("/proc")
_KIB = 1024
log = logging.getLogger(__name__)

_MAX_AGE_S = 2.0
_MAX_CONCURRENT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystem:
    capacity: int = 0
    available: int = 0
    used: int = 0
    inodes: int = 0
    inodes_free: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStats:
    at: float
    cores: int = 1
    cpu_s: float = 0.0
    """CPU seconds of all cores since boot."""
    cpu_cores: float = 0.0
    """Cores in use at the moment."""
    memory: int = 0
    memory_available: int = 0
    memory_used: int = 0
    working_set: int = 0
    rss: int = 0
    page_faults: int = 0
    major_page_faults: int = 0
    swap: int = 0
    swap_used: int = 0
    processes: int = 0
    max_processes: int = 0
    booted_at: float = 0.0
    root: FileSystem = field(default_factory=FileSystem)
    """File system of the kubelet's data."""
    interfaces: Sequence[InterfaceCounters] = ()


class MachineReader:
    """Reads the current usage of the machine at every call. The CPU usage is that since the last call; at the first
    call it is the average since the machine was booted."""

    def __init__(self, *, directory: Path, proc: Path = _PROC) -> None:
        self._directory, self._proc = directory, proc
        self._rates = CpuRates()

    def read(self, now: float) -> MachineStats:
        stat, memory, vmstat = self._stat(), self._pairs("meminfo"), self._pairs("vmstat")
        cpu_s, booted_at = _cpu_s(stat.get("cpu", [])), float(stat.get("btime", ["0"])[0])
        total, free = memory.get("MemTotal:", 0) * _KIB, memory.get("MemFree:", 0) * _KIB
        inactive = memory.get("Inactive(file):", 0) * _KIB
        working_set = max(total - free - inactive, 0)
        swap = memory.get("SwapTotal:", 0) * _KIB
        return MachineStats(
            at=now,
            cores=os.cpu_count() or 1,
            cpu_s=cpu_s,
            cpu_cores=self._rates.rate("machine", cpu_s, now, started_at=booted_at or None),
            memory=total,
            memory_used=total - free,
            memory_available=max(total - working_set, 0),
            working_set=working_set,
            rss=memory.get("AnonPages:", 0) * _KIB,
            page_faults=vmstat.get("pgfault", 0),
            major_page_faults=vmstat.get("pgmajfault", 0),
            swap=swap,
            swap_used=swap - memory.get("SwapFree:", 0) * _KIB,
            processes=sum(name.isdecimal() for name in os.listdir(self._proc)),
            max_processes=self._number("sys/kernel/pid_max"),
            booted_at=booted_at,
            root=file_system(self._directory),
            interfaces=parse_interfaces(self._text("net/dev")),
        )

    def _stat(self) -> Mapping[str, list[str]]:
        return {words[0]: words[1:] for line in self._text("stat").splitlines() if (words := line.split())}

    def _pairs(self, name: str) -> Mapping[str, int]:
        lines = (line.split() for line in self._text(name).splitlines())
        return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}

    def _number(self, name: str) -> int:
        text = self._text(name).strip()
        return int(text) if text.isdecimal() else 0

    def _text(self, name: str) -> str:
        try:
            return (self._proc / name).read_text()
        except OSError:
            return ""


def _cpu_s(ticks: Sequence[str]) -> float:
    """Return the CPU time except idle and I/O wait. Guest time is already included in user time."""
    numbers = [int(tick) for tick in ticks[:8]]
    busy = sum(numbers) - sum(numbers[3:5])
    return busy / os.sysconf("SC_CLK_TCK")


def file_system(directory: Path) -> FileSystem:
    try:
        status = os.statvfs(directory)
    except OSError:
        return FileSystem()
    return FileSystem(
        capacity=status.f_blocks * status.f_frsize,
        available=status.f_bavail * status.f_frsize,
        used=(status.f_blocks - status.f_bfree) * status.f_frsize,
        inodes=status.f_files,
        inodes_free=status.f_ffree,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStats:
    pod: Pod
    report: PodReport
    usages: Sequence[ContainerUsage]
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
        """`machine` returns the stats of the node at a wall-clock time."""
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

        async def collect_pod(pod: Pod) -> PodStats | None:
            async with limit:
                return await self._collect_pod(pod, now)

        pods = self._pods()
        if self._volumes is not None:
            self._volumes.keep_only({pod.metadata.uid for pod in pods})
        collected = await asyncio.gather(*(collect_pod(pod) for pod in pods))
        return NodeStats(
            node=self._node,
            machine=self._machine(now),
            pods=[pod_stats for pod_stats in collected if pod_stats is not None],
        )

    async def _collect_pod(self, pod: Pod, now: float) -> PodStats | None:
        report = self._runtime.pod_report(pod)
        if not any(container.state == RUNNING for container in report.containers):
            return None
        try:
            usages = await self._runtime.stats(pod)
        except RuntimeFailure as error:
            log.debug("no metrics for pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, error)
            return None
        volumes = await self._volumes.get(pod) if self._volumes is not None else ()
        return PodStats(pod=pod, report=report, usages=usages, at=now, volumes=volumes)
