"""Eviction: looks at what the machine has left, and ends pods where that is too little."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.agent import pressure
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.pressure import Observation, Shortage
from sampan.kubelet.node_status import DISK_PRESSURE, Said
from sampan.machinery.clock import Clock
from sampan.runtimes.contract import Runtime, RuntimeFailure, Usage

log = logging.getLogger(__name__)

PERIOD_S = 10.0

Observe = Callable[[], dict[str, Observation]]
Evict = Callable[[Pod, str, float], None]
"""Ends a pod, with a message and a grace."""


class Eviction:
    def __init__(
        self,
        *,
        config: AgentConfig,
        runtime: Runtime,
        clock: Clock,
        pods: Callable[[], Sequence[Pod]],
        evict: Evict,
        tell: Callable[[str], None],
        make_room: Callable[[], Awaitable[bool]],
        observe: Observe | None = None,
    ) -> None:
        """`tell` says what is tried to be had back; `make_room` frees disk without ending anything, and tells whether
        it did."""
        self._config, self._runtime, self._clock = config, runtime, clock
        self._pods, self._evict, self._tell, self._make_room = pods, evict, tell, make_room
        self._observe = observe or (lambda: observe_machine(config.root))
        self._met_at: dict[str, float] = {}
        """Since when a soft threshold is met."""
        self._last: dict[str, float] = {}
        """When a condition was last so."""

    @property
    def types(self) -> list[str]:
        """Conditions that the node is in, the older ones for some time after they ended."""
        now = self._clock.now()
        return sorted(type for type, at in self._last.items() if now - at < self._config.pressure_transition_s)

    def conditions(self) -> dict[str, Said]:
        return pressure.conditions(self.types)

    async def run(self) -> None:
        while True:
            await self.look()
            await self._clock.sleep(PERIOD_S)

    async def look(self) -> Pod | None:
        """The pod that was evicted, if one had to be."""
        observed, now, config = await asyncio.to_thread(self._observe), self._clock.now(), self._config
        hard = pressure.shortages(observed, config.eviction_hard)
        soft = pressure.shortages(observed, config.eviction_soft, is_hard=False)
        self._met_at = {each.signal: self._met_at.get(each.signal, now) for each in soft}
        due = [each for each in soft if now - self._met_at[each.signal] >= self._grace_s(each)]
        for each in (*hard, *due):
            self._last[each.condition] = now
        for each in (*hard, *due):
            return await self._relieve(each)
        return None

    def _grace_s(self, shortage: Shortage) -> float:
        return self._config.eviction_soft_grace_s.get(shortage.signal, 0.0)

    async def _relieve(self, shortage: Shortage) -> Pod | None:
        self._tell(f"Attempting to reclaim {shortage.resource}")
        if shortage.condition == DISK_PRESSURE and await self._make_room():
            return None
        rows = [(pod, await self._usages(pod)) for pod in self._pods()]
        for pod, usages in pressure.ranked(rows, shortage.resource)[:1]:
            grace_s = 0.0 if shortage.is_hard else float(self._config.eviction_max_pod_grace_s)
            self._evict(pod, pressure.message(pod, usages, shortage), grace_s)
            return pod
        log.warning("the node is short of %s, and no pod can be evicted", shortage.resource)
        return None

    async def _usages(self, pod: Pod) -> Sequence[Usage]:
        try:
            return await self._runtime.stats(pod)
        except RuntimeFailure:
            return ()


def observe_machine(root: Path) -> dict[str, Observation]:
    memory = _meminfo()
    disk = os.statvfs(root)
    blocks = Observation(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)
    inodes = Observation(disk.f_favail, disk.f_files)
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    found = {
        "memory.available": Observation(memory.get("MemAvailable", 0), memory.get("MemTotal", 0)),
        "nodefs.available": blocks,
        "imagefs.available": blocks,
        "pid.available": Observation(most - running, most),
    }
    if disk.f_files:  # some file systems make them as they need them
        found |= {"nodefs.inodesFree": inodes, "imagefs.inodesFree": inodes}
    return found


def _meminfo() -> dict[str, int]:
    rows = [line.split() for line in Path("/proc/meminfo").read_text().splitlines()]
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) > 1}


__all__ = ["PERIOD_S", "Eviction", "observe_machine"]
