"""Graceful node shutdown (`pkg/kubelet/nodeshutdown`): terminates pods by ascending priority, each group within its own
grace period.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sampan.host.clock import Clock
from sampan.kubelet.admission import CRITICAL
from sampan.kubelet.agent.config import AgentConfig, ShutdownGroup
from sampan.kubelet.agent.shutdown.logind import ShutdownInhibitor
from sampan.kubelet.node_status import READY, ConditionValue
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.pod_status import PodFailure
from sampan.kubelet.records import ENDED_STATES, NodeRecord, PodQueue, PodRecord, PodSyncState, Records

_MESSAGE = "Pod was terminated in response to imminent node shutdown."
SHUT_DOWN = PodFailure(reason="Terminated", message=_MESSAGE, disruption=_MESSAGE)
NOT_READY: dict[str, ConditionValue] = {READY: ("False", "KubeletNotReady", "node is shutting down")}
REJECTED = PodFailure(reason="NodeShutdown", message="Pod was rejected as the node is shutting down.")
_LOOK_S = 0.1
_DEFAULT_GRACE_S = 30


def groups_of(config: AgentConfig) -> list[ShutdownGroup]:
    """Return the shutdown groups by ascending priority; none if graceful shutdown is disabled. Pure."""
    if config.shutdown_groups:
        return sorted(config.shutdown_groups, key=lambda group: group.priority)
    usual_s = config.shutdown_grace_s - config.shutdown_grace_critical_s
    if config.shutdown_grace_s <= 0 or usual_s < 0:
        return []
    return [ShutdownGroup(0, usual_s), ShutdownGroup(CRITICAL, config.shutdown_grace_critical_s)]


def group_of(priority: int, groups: Sequence[ShutdownGroup]) -> ShutdownGroup:
    """Return the shutdown group of a pod with this priority: the one with the highest priority not above that of the
    pod, or else the lowest one. Pure.
    """
    return next((group for group in reversed(groups) if group.priority <= priority), groups[0])


class NodeShutdownManager:
    """Delays the shutdown of the machine until its pods have terminated. `run()` runs until cancelled."""

    def __init__(
        self,
        *,
        config: AgentConfig,
        node: NodeRecord,
        records: Records,
        queue: PodQueue,
        events: PodEvents,
        clock: Clock,
        status_due: asyncio.Event,
    ) -> None:
        """`status_due` is set when the node status must be written immediately."""
        self._groups = groups_of(config)
        self._node, self._records, self._queue = node, records, queue
        self._events, self._clock, self._status_due = events, clock, status_due
        self.is_under_way = False
        self.inhibitor = ShutdownInhibitor(
            delay_s=self.grace_s,
            clock=clock,
            on_shutdown=self._shut_down,
            on_cancel=self._cancel,
            address=config.system_bus,
            config_directory=config.logind_directory,
        )

    @property
    def grace_s(self) -> float:
        """Sum of the grace periods of all groups."""
        return sum(group.grace_s for group in self._groups)

    def conditions(self) -> dict[str, ConditionValue]:
        """Return the node conditions during a shutdown, which are empty at other times."""
        return dict(NOT_READY) if self.is_under_way else {}

    async def run(self) -> None:
        """Handle shutdowns of the machine until cancelled. Return at once if graceful shutdown is disabled."""
        if self.grace_s > 0:
            await self.inhibitor.run()

    async def _shut_down(self) -> None:
        """Reject new pods, report the node as not ready, and terminate its pods. Return once they have terminated or
        their grace periods are over.
        """
        self._events.record_node_event(self._node, "Shutdown", "Shutdown manager detected shutdown event")
        self.is_under_way = True
        self._status_due.set()
        for group in self._groups:
            records = [record for record in self._records.values() if record.state is not PodSyncState.FINISHED]
            await self._terminate([record for record in records if self._group(record) is group], group.grace_s)

    def _cancel(self) -> None:
        """Admit pods again because the shutdown was cancelled. Terminated pods stay terminated."""
        self._events.record_node_event(self._node, "Shutdown", "Shutdown manager detected shutdown cancellation")
        self.is_under_way = False
        self._status_due.set()

    def _group(self, record: PodRecord) -> ShutdownGroup:
        return group_of(record.pod.spec.priority or 0, self._groups)

    async def _terminate(self, records: Sequence[PodRecord], grace_s: float) -> None:
        now = self._clock.monotonic()
        for record in records:
            if record.state in ENDED_STATES:
                continue
            own_s = record.pod.spec.terminationGracePeriodSeconds
            by = now + min(grace_s, own_s if own_s is not None else _DEFAULT_GRACE_S)
            self._queue.terminate(record, SHUT_DOWN, by)
        while self._clock.monotonic() < now + grace_s and not all(_is_finished(record) for record in records):
            await self._clock.sleep(_LOOK_S)


def _is_finished(record: PodRecord) -> bool:
    return record.state in (PodSyncState.FINISHED, PodSyncState.REMOVED)
