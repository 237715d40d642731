"""Graceful node shutdown (`pkg/kubelet/nodeshutdown`): terminates pods by ascending priority, each group within its own
grace period.
"""

from __future__ import annotations

from collections.abc import Sequence

from sampan.kubelet.agent.config import AgentConfig, ShutdownGroup
from sampan.kubelet.critical import CRITICAL
from sampan.kubelet.node_status import READY, Said
from sampan.kubelet.pod_status import Verdict
from sampan.kubelet.records import PodRecord, Records, Stage
from sampan.kubelet.sync_loop import SyncLoop
from sampan.machinery.clock import Clock

_TOLD = "Pod was terminated in response to imminent node shutdown."
SHUT_DOWN = Verdict(reason="Terminated", message=_TOLD, disruption=_TOLD)
NOT_READY: dict[str, Said] = {READY: ("False", "KubeletNotReady", "node is shutting down")}
REJECTED = Verdict(reason="NodeShutdown", message="Pod was rejected as the node is shutting down.")
_LOOK_S = 0.1
_OWN_S = 30


def groups_of(config: AgentConfig) -> list[ShutdownGroup]:
    """Return the groups by ascending priority; none if graceful shutdown is disabled. Pure."""
    if config.shutdown_groups:
        return sorted(config.shutdown_groups, key=lambda group: group.priority)
    usual_s = config.shutdown_grace_s - config.shutdown_grace_critical_s
    if config.shutdown_grace_s <= 0 or usual_s < 0:
        return []
    return [ShutdownGroup(0, usual_s), ShutdownGroup(CRITICAL, config.shutdown_grace_critical_s)]


def group_of(priority: int, groups: Sequence[ShutdownGroup]) -> ShutdownGroup:
    """Return the group with the highest priority not above that of the pod, or else the lowest group. Pure."""
    return next((group for group in reversed(groups) if group.priority <= priority), groups[0])


class Shutdown:
    def __init__(self, *, config: AgentConfig, records: Records, sync_loop: SyncLoop, clock: Clock) -> None:
        self._groups = groups_of(config)
        self._records, self._sync_loop, self._clock = records, sync_loop, clock
        self.is_under_way = False

    @property
    def grace_s(self) -> float:
        """Sum of the grace periods of all groups."""
        return sum(group.grace_s for group in self._groups)

    def begin(self) -> None:
        """Reject all pods from now on."""
        self.is_under_way = True

    async def run(self) -> None:
        """Terminate all pods, and return once they have terminated or their grace periods are over."""
        self.begin()
        for group in self._groups:
            await self._end([record for record in self._left() if self._group(record) is group], group.grace_s)

    def cancel(self) -> None:
        """Admit pods again because the shutdown was cancelled. Terminated pods stay terminated."""
        self.is_under_way = False

    def _group(self, record: PodRecord) -> ShutdownGroup:
        return group_of(record.pod.spec.priority or 0, self._groups)

    def _left(self) -> list[PodRecord]:
        return [record for record in self._records.values() if not record.is_finished]

    async def _end(self, records: Sequence[PodRecord], grace_s: float) -> None:
        now = self._clock.monotonic()
        for record in records:
            if record.stage is Stage.TERMINATED:
                continue
            own_s = record.pod.spec.terminationGracePeriodSeconds
            by = now + min(grace_s, own_s if own_s is not None else _OWN_S)
            self._sync_loop.end_pod(record, SHUT_DOWN, by)
        while self._clock.monotonic() < now + grace_s and not all(pod_record.is_finished for pod_record in records):
            await self._clock.sleep(_LOOK_S)
