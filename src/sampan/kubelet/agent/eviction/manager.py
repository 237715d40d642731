"""The eviction manager (`pkg/kubelet/eviction`): evicts pods when the node runs short of a resource, or when they
exceed their limits of local storage.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from sampan.api.types.core_v1 import Pod
from sampan.host.clock import Clock
from sampan.kubelet.admission import is_critical
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.eviction import rules
from sampan.kubelet.agent.eviction.rules import EvictionThreshold, SignalObservation, SignalShortage
from sampan.kubelet.metrics import STORAGE_LIMIT_SIGNAL, KubeletMetrics
from sampan.kubelet.node_status import DISK_PRESSURE, ConditionValue
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.pod_status import PodFailure
from sampan.kubelet.records import ACTIVE, NodeRecord, PodQueue, Records
from sampan.kubelet.volumes.usage import VolumeUsage
from sampan.machinery.events import WARNING
from sampan.runtimes.contract import ContainerUsage, Runtime, RuntimeFailure

log = logging.getLogger(__name__)

_TERMINATION_TIMEOUT_S = 30.0
IMMEDIATE_S = 1.0
"""Grace period of an immediate eviction."""

Observe = Callable[[], dict[str, SignalObservation]]
Evict = Callable[[Pod, PodFailure, float], None]
"""A function that evicts a pod with a failure and a grace period in seconds."""
Volumes = Callable[[Pod], Awaitable[Sequence[VolumeUsage]]]


class PodEvictor:
    """Evicts single pods of a node."""

    def __init__(self, *, node: NodeRecord, records: Records, queue: PodQueue, events: PodEvents, clock: Clock) -> None:
        self._node, self._records, self._queue = node, records, queue
        self._events, self._clock = events, clock

    def evict(self, pod: Pod, failure: PodFailure, grace_s: float = IMMEDIATE_S) -> None:
        """Evict the pod, unless it is critical or already terminating."""
        record = self._records.get(pod.metadata.uid)
        if is_critical(pod) or record is None or record.state not in ACTIVE or record.spec.failure is not None:
            return
        self._events.record_pod_event(self._node, pod, WARNING, failure.reason, failure.message, failure.annotations)
        self._queue.terminate(record, failure, self._clock.monotonic() + grace_s)


class EvictionManager:
    def __init__(
        self,
        *,
        config: AgentConfig,
        runtime: Runtime,
        clock: Clock,
        pods: Callable[[], Sequence[Pod]],
        volumes: Volumes,
        files: Callable[[Pod], ContainerUsage],
        evict: Evict,
        record_event: Callable[[str], None],
        reclaim_disk: Callable[[str], Awaitable[None]],
        on_change: Callable[[], None],
        has_terminated: Callable[[Pod], bool],
        observe: Observe | None = None,
        metrics: KubeletMetrics | None = None,
    ) -> None:
        """`files` measures the files of a pod outside of volumes and containers, in a thread; `record_event` records an
        event about a reclaim attempt; `reclaim_disk` frees disk space for a signal without evicting; `on_change` is
        called when the node's pressure conditions have changed; `has_terminated` tells whether a pod no longer uses any
        resources.
        """
        self._config, self._runtime, self._clock = config, runtime, clock
        self._pods, self._volumes, self._has_terminated = pods, volumes, has_terminated
        self._files = files
        self._file_usages: dict[str, ContainerUsage] = {}
        """The usage of each pod's files outside of volumes and containers at the last check."""
        self._evict, self._record_event, self._reclaim_disk, self._on_change = (
            evict,
            record_event,
            reclaim_disk,
            on_change,
        )
        self._observe = observe or (lambda: observe_machine(config.root, config.images))
        self._thresholds = rules.thresholds(config)
        self._metrics = metrics or KubeletMetrics()
        self._met_at: dict[EvictionThreshold, float] = {}
        """Monotonic time since which each threshold has been met."""
        self._last: dict[str, float] = {}
        """Monotonic time at which each condition was last observed."""
        self._published: list[str] = []
        """Pressure conditions of which `on_change` was last notified."""

    @property
    def types(self) -> list[str]:
        """Pressure conditions of the node, which persist for the pressure transition period after the last shortage."""
        now = self._clock.monotonic()
        return sorted(
            type for type, observed_at in self._last.items() if now - observed_at < self._config.pressure_transition_s
        )

    def conditions(self) -> dict[str, ConditionValue]:
        return rules.conditions(self.types)

    async def run(self) -> None:
        while True:
            try:
                await self._wait_for_termination(await self.check())
            except Exception:  # Keep the manager running, and retry after the next period.
                log.exception("eviction manager: cannot read the available resources of the node")
            await self._clock.sleep(self._config.eviction_period_s)

    async def _wait_for_termination(self, pods: Sequence[Pod]) -> None:
        """Wait until the evicted pods have terminated. Their resources must be free before the next check, or further
        pods would be evicted for the same shortage.
        """
        until, pause_s = self._clock.monotonic() + _TERMINATION_TIMEOUT_S, min(self._config.eviction_period_s, 1.0)
        while self._clock.monotonic() < until and not all(self._has_terminated(pod) for pod in pods):
            await self._clock.sleep(pause_s)

    async def check(self) -> list[Pod]:
        """Check the limits of local storage and the eviction thresholds once. Return the evicted pods: all that exceed
        their local storage limits, otherwise at most one to relieve a shortage.
        """
        before = self._published
        short = self._update_shortages(await asyncio.to_thread(self._observe))
        self._published = self.types
        if self._published != before:
            self._on_change()
        self._file_usages = await asyncio.to_thread(self._measure_files, self._pods())
        if evicted := await self._evict_for_storage_limits():
            return evicted
        return await self._relieve(short[0]) if short else []

    def _measure_files(self, pods: Sequence[Pod]) -> dict[str, ContainerUsage]:
        return {pod.metadata.uid: self._files(pod) for pod in pods}

    def _update_shortages(self, observed: dict[str, SignalObservation]) -> list[SignalShortage]:
        """Return the shortages that have lasted for their grace period."""
        now = self._clock.monotonic()
        shortages = {
            threshold: short
            for threshold in self._thresholds
            if (short := rules.shortage(threshold, observed, with_reclaim=self._is_due(threshold, now))) is not None
        }
        self._met_at = {threshold: self._met_at.get(threshold, now) for threshold in shortages}
        for short in shortages.values():
            self._last[short.condition] = now
        return [short for threshold, short in shortages.items() if self._is_due(threshold, now)]

    def _is_due(self, threshold: EvictionThreshold, now: float) -> bool:
        return threshold in self._met_at and now - self._met_at[threshold] >= threshold.grace_s

    # -- local storage limits ----------------------------------------------------------------------------------------

    async def _evict_for_storage_limits(self) -> list[Pod]:
        evicted = []
        for pod in self._pods():
            if not rules.has_storage_limit(pod) or is_critical(pod):
                continue
            message = rules.storage_excess(pod, await self._usages(pod), await self._volumes(pod))
            if message is not None:
                self._evict(pod, PodFailure(reason=rules.EVICTED, message=message), IMMEDIATE_S)
                self._metrics.record_eviction(STORAGE_LIMIT_SIGNAL)
                evicted.append(pod)
        return evicted

    # -- resource pressure -------------------------------------------------------------------------------------------

    async def _relieve(self, shortage: SignalShortage) -> list[Pod]:
        self._record_event(f"Attempting to reclaim {shortage.resource}")
        if shortage.condition == DISK_PRESSURE and await self._reclaim(shortage):
            return []
        on_disk = shortage.condition == DISK_PRESSURE
        rows = [
            (pod, [*await self._usages(pod), *(await self._volume_usage(pod) if on_disk else ())])
            for pod in self._pods()
        ]
        for pod, usages in rules.rank_pods(rows, shortage.resource)[:1]:
            failure = rules.eviction_failure(pod, usages, shortage)
            self._evict(pod, failure, IMMEDIATE_S if shortage.is_hard else self._soft_grace_s(pod))
            self._metrics.record_eviction(shortage.signal)
            return [pod]
        log.warning("eviction manager: node is under %s pressure, but no pod can be evicted", shortage.resource)
        return []

    async def _reclaim(self, shortage: SignalShortage) -> bool:
        """Free disk space without evicting pods. Return whether all thresholds are respected again."""
        try:
            await self._reclaim_disk(shortage.signal)
        except (RuntimeFailure, OSError) as error:
            log.warning("eviction manager: cannot reclaim %s by garbage collection: %s", shortage.resource, error)
        observed = await asyncio.to_thread(self._observe)
        return not any(rules.shortage(threshold, observed, with_reclaim=True) for threshold in self._thresholds)

    def _soft_grace_s(self, pod: Pod) -> float:
        maximum, own = self._config.eviction_max_pod_grace_s, pod.spec.terminationGracePeriodSeconds
        return float(maximum if own is None else min(maximum, own))

    async def _volume_usage(self, pod: Pod) -> list[ContainerUsage]:
        """Return the disk usage of those volumes of the pod that are on the node's disk."""
        volumes = rules.counted_volumes(pod, await self._volumes(pod))
        size, inodes = sum(volume.used_bytes for volume in volumes), sum(volume.used_inodes for volume in volumes)
        return [ContainerUsage("", 0, 0, disk_bytes=size, inodes=inodes)]

    async def _usages(self, pod: Pod) -> Sequence[ContainerUsage]:
        own = self._file_usages.get(pod.metadata.uid)
        try:
            return [*await self._runtime.stats(pod), *([own] if own is not None else ())]
        except RuntimeFailure:
            return ()


def observe_machine(root: Path, images: Path | None = None) -> dict[str, SignalObservation]:
    """Return an observation per eviction signal. `root` is the directory of the kubelet's data; `images` is the
    directory of images and containers if it is a different one.
    """
    memory = _read_meminfo()
    maximum = int(Path("/proc/sys/kernel/pid_max").read_text())
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    observations = {
        "memory.available": SignalObservation(memory.get("MemAvailable", 0), memory.get("MemTotal", 0)),
        "pid.available": SignalObservation(maximum - running, maximum),
    }
    for name, path in (("nodefs", root), ("imagefs", images if images is not None and images.exists() else root)):
        disk = os.statvfs(path)
        observations[f"{name}.available"] = SignalObservation(
            disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        )
        if disk.f_files:  # Some file systems allocate inodes dynamically and report none.
            observations[f"{name}.inodesFree"] = SignalObservation(disk.f_favail, disk.f_files)
    return observations


def has_separate_image_disk(root: Path, images: Path | None) -> bool:
    """Whether images are on another file system than the kubelet's data."""
    return images is not None and images.exists() and os.stat(images).st_dev != os.stat(root).st_dev


def _read_meminfo() -> dict[str, int]:
    rows = [line.split() for line in Path("/proc/meminfo").read_text().splitlines()]
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) > 1}
