"""The eviction manager (`pkg/kubelet/eviction`): evicts pods when the node runs short of a resource, or when they
exceed their limits of local storage.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.agent import blame, pressure, storage_limits
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.observing import observe_machine
from sampan.kubelet.agent.pressure import Observation, Shortage, Threshold
from sampan.kubelet.critical import is_critical
from sampan.kubelet.node_status import DISK_PRESSURE, Said
from sampan.kubelet.pod_status import Verdict
from sampan.kubelet.volumes.usage import VolumeUsage
from sampan.machinery.clock import Clock
from sampan.runtimes.contract import Runtime, RuntimeFailure, Usage

log = logging.getLogger(__name__)

_PATIENCE_S = 30.0
_AT_ONCE_S = 1.0
"""Grace period of an immediate eviction."""

Observe = Callable[[], dict[str, Observation]]
Evict = Callable[[Pod, Verdict, float], None]
"""Evict a pod within a grace period in seconds."""
Volumes = Callable[[Pod], Awaitable[Sequence[VolumeUsage]]]


class Eviction:
    def __init__(
        self,
        *,
        config: AgentConfig,
        runtime: Runtime,
        clock: Clock,
        pods: Callable[[], Sequence[Pod]],
        volumes: Volumes,
        evict: Evict,
        tell: Callable[[str], None],
        make_room: Callable[[str], Awaitable[None]],
        changed: Callable[[], None],
        has_ended: Callable[[Pod], bool],
        observe: Observe | None = None,
    ) -> None:
        """`tell` records an event about a reclaim attempt; `make_room` frees disk space for a signal without evicting;
        `changed` is called when the node's pressure conditions have changed; `has_ended` tells whether a pod no longer
        uses any resources.
        """
        self._config, self._runtime, self._clock = config, runtime, clock
        self._pods, self._volumes, self._has_ended = pods, volumes, has_ended
        self._evict, self._tell, self._make_room, self._changed = evict, tell, make_room, changed
        self._observe = observe or (lambda: observe_machine(config.root, config.images))
        self._thresholds = pressure.thresholds(config)
        self._met_at: dict[Threshold, float] = {}
        """Monotonic time since which each threshold has been met."""
        self._last: dict[str, float] = {}
        """Monotonic time at which each condition was last observed."""
        self._told: list[str] = []

    @property
    def types(self) -> list[str]:
        """Pressure conditions of the node, which persist for the pressure transition period after the last shortage."""
        now = self._clock.monotonic()
        return sorted(type for type, at in self._last.items() if now - at < self._config.pressure_transition_s)

    def conditions(self) -> dict[str, Said]:
        return pressure.conditions(self.types)

    async def run(self) -> None:
        while True:
            try:
                await self._ended(await self.look())
            except Exception:  # Keep the manager running, and retry after the next period.
                log.exception("eviction manager: cannot read the available resources of the node")
            await self._clock.sleep(self._config.eviction_period_s)

    async def _ended(self, pods: Sequence[Pod]) -> None:
        """Wait until the evicted pods have terminated. Their resources must be free before the next check, or further
        pods would be evicted for the same shortage.
        """
        until, pause_s = self._clock.monotonic() + _PATIENCE_S, min(self._config.eviction_period_s, 1.0)
        while self._clock.monotonic() < until and not all(self._has_ended(pod) for pod in pods):
            await self._clock.sleep(pause_s)

    async def look(self) -> list[Pod]:
        """Check once. Return the evicted pods: all that exceed their local storage limits, otherwise at most one to
        relieve a shortage.
        """
        before = self._told
        short = self._short(await asyncio.to_thread(self._observe))
        self._told = self.types
        if self._told != before:
            self._changed()
        if evicted := await self._end_excesses():
            return evicted
        return await self._relieve(short[0]) if short else []

    def _short(self, observed: dict[str, Observation]) -> list[Shortage]:
        """Return the shortages that have lasted for their grace period."""
        now = self._clock.monotonic()
        shortages = {
            threshold: short
            for threshold in self._thresholds
            if (short := pressure.shortage(threshold, observed, with_reclaim=self._is_due(threshold, now))) is not None
        }
        self._met_at = {threshold: self._met_at.get(threshold, now) for threshold in shortages}
        for short in shortages.values():
            self._last[short.condition] = now
        return [short for threshold, short in shortages.items() if self._is_due(threshold, now)]

    def _is_due(self, threshold: Threshold, now: float) -> bool:
        return threshold in self._met_at and now - self._met_at[threshold] >= threshold.grace_s

    # -- local storage limits ----------------------------------------------------------------------------------------

    async def _end_excesses(self) -> list[Pod]:
        evicted = []
        for pod in self._pods():
            if not storage_limits.has_limit(pod) or is_critical(pod):
                continue
            message = storage_limits.excess(pod, await self._usages(pod), await self._volumes(pod))
            if message is not None:
                self._evict(pod, Verdict(reason=pressure.EVICTED, message=message), _AT_ONCE_S)
                evicted.append(pod)
        return evicted

    # -- resource pressure -------------------------------------------------------------------------------------------

    async def _relieve(self, shortage: Shortage) -> list[Pod]:
        self._tell(f"Attempting to reclaim {shortage.resource}")
        if shortage.condition == DISK_PRESSURE and await self._has_made_room(shortage):
            return []
        on_disk = shortage.condition == DISK_PRESSURE
        rows = [(pod, [*await self._usages(pod), *(await self._kept(pod) if on_disk else ())]) for pod in self._pods()]
        for pod, usages in pressure.ranked(rows, shortage.resource)[:1]:
            verdict = blame.verdict(pod, usages, shortage)
            self._evict(pod, verdict, _AT_ONCE_S if shortage.is_hard else self._soft_grace_s(pod))
            return [pod]
        log.warning("eviction manager: node is under %s pressure, but no pod can be evicted", shortage.resource)
        return []

    async def _has_made_room(self, shortage: Shortage) -> bool:
        try:
            await self._make_room(shortage.signal)
        except (RuntimeFailure, OSError) as error:
            log.warning("eviction manager: cannot reclaim %s by garbage collection: %s", shortage.resource, error)
        observed = await asyncio.to_thread(self._observe)
        return not any(pressure.shortage(threshold, observed, with_reclaim=True) for threshold in self._thresholds)

    def _soft_grace_s(self, pod: Pod) -> float:
        most, own = self._config.eviction_max_pod_grace_s, pod.spec.terminationGracePeriodSeconds
        return float(most if own is None else min(most, own))

    async def _kept(self, pod: Pod) -> list[Usage]:
        """Return what the pod's volumes occupy on the node's disk."""
        volumes = storage_limits.counted(pod, await self._volumes(pod))
        size, inodes = sum(volume.used_bytes for volume in volumes), sum(volume.used_inodes for volume in volumes)
        return [Usage("", 0, 0, disk_bytes=size, inodes=inodes)]

    async def _usages(self, pod: Pod) -> Sequence[Usage]:
        try:
            return await self._runtime.stats(pod)
        except RuntimeFailure:
            return ()
