"""The scheduling queue of pending pods: active, in backoff, unschedulable or gated (`pkg/scheduler/backend/queue`).

- Active pods are ordered by priority, then by time in the queue.
- A pod that failed is unschedulable until an event that may help, according to the queueing hints of the plugins that
  rejected it; it then becomes active, or waits for the rest of its backoff. While no pod is active, pods in backoff are
  tried early, except those whose attempt failed with an error.
- A gated pod stays out of the queue until the PreEnqueue plugin that gates it admits it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.host.backoff import Backoff
from sampan.host.clock import Clock
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from sampan.scheduler.framework.contract import Status

ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, IN_FLIGHT = "active", "backoff", "unschedulable", "gated", "taken"

POD_ADDED = ClusterEvent(EventResource.POD, ActionType.ADD).label
POD_UPDATED = ClusterEvent(EventResource.POD, ActionType.UPDATE).label
ATTEMPT_FAILED, BACKOFF_COMPLETE, POPPED_EARLY = "ScheduleAttemptFailure", "BackoffComplete", "PopFromBackoffQ"
ACTIVATED, FLUSHED = "ForceActivate", "UnschedulableTimeout"
"""Names in metrics for moves that are not caused by cluster events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    first_backoff_s: float = 1.0
    max_backoff_s: float = 10.0
    flush_s: float = 300.0
    """How long a pod stays unschedulable before it is retried without an event, in seconds."""


@dataclass(slots=True, eq=False)
class QueuedPodInfo:
    info: PodInfo
    since: float
    """The monotonic time at which the pod was last added to the queue."""
    first: float
    """The wall clock time at which the pod was first added to the queue."""
    entered: float | None = None
    """The monotonic time at which the pod first became active."""
    attempts: int = 0
    began: float = 0.0
    """The start of the current attempt by `time.perf_counter()`."""
    failures: int = 0
    """The number of failed attempts, which determines the backoff."""
    plugins: frozenset[str] = frozenset()
    """The plugins that rejected the pod last; empty if there were no nodes or an error occurred."""
    gated_by: str = ""
    gate_message: str = ""
    where: str = ""
    moves: int = 0
    """The number of events that had moved pods when the attempt started."""
    is_error: bool = False
    is_flushed: bool = False
    """Whether the pod is retried because of its waiting time, without an event."""

    @property
    def uid(self) -> str:
        return self.info.uid


SortKey = Callable[[PodInfo, float], tuple[float, ...]]
Gate = Callable[[PodInfo], Status | None]
"""Returns why the pod may not enter the queue, or None if it may."""
Hints = Mapping[ClusterEvent, Sequence[tuple[str, QueueingHint | None]]]
Incoming = Callable[[str, str], None]
"""Called with the name of the sub-queue and of the event for every pod that enters a sub-queue."""
_CHANGED = -1
"""A value of `QueuedPodInfo.moves`: the pod itself changed since its attempt started."""


class SchedulingQueue:
    def __init__(
        self,
        *,
        clock: Clock,
        sort_key: SortKey,
        gate: Gate,
        hints: Hints,
        plugins_without_hints: frozenset[str] = frozenset(),
        config: QueueConfig | None = None,
        incoming: Incoming = lambda queue, event: None,
    ) -> None:
        """Create the queue; any event may help pods that one of `plugins_without_hints` rejected."""
        self._clock, self._sort_key, self._gate, self._hints = clock, sort_key, gate, hints
        self._plugins_without_hints, self._incoming = plugins_without_hints, incoming
        self._config = config or QueueConfig()
        self._pods: dict[str, QueuedPodInfo] = {}
        """Every pending pod by UID, including pods in a scheduling attempt."""
        self._active: list[tuple[tuple[float, ...], int, QueuedPodInfo]] = []
        self._backoff: list[tuple[float, int, QueuedPodInfo]] = []
        self._errors: list[tuple[float, int, QueuedPodInfo]] = []
        """Pods in backoff whose attempt failed with an error."""
        self._unschedulable: dict[str, QueuedPodInfo] = {}
        """Unschedulable pods, longest waiting first."""
        self._gated: dict[str, QueuedPodInfo] = {}
        self._order = itertools.count()
        self._changed = asyncio.Event()
        self._move_count = 0

    # -- reading -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> QueuedPodInfo | None:
        return self._pods.get(uid)

    def counts(self) -> dict[str, int]:
        counts = dict.fromkeys((ACTIVE, BACKOFF, UNSCHEDULABLE, GATED), 0)
        for queued in self._pods.values():
            if queued.where in counts:
                counts[queued.where] += 1
        return counts

    def list_pending_pods(self) -> Iterable[QueuedPodInfo]:
        return list(self._pods.values())

    # -- adding and removing -----------------------------------------------------------------------------------------

    def add(self, info: PodInfo) -> None:
        """Add a new pending pod."""
        queued = self._pods[info.uid] = QueuedPodInfo(info, since=self._clock.monotonic(), first=self._clock.now())
        self._enter(queued, POD_ADDED)

    def update(self, info: PodInfo) -> QueuedPodInfo | None:
        """Store a newer version of a pending pod; return None if the pod is not in the queue."""
        queued = self._pods.get(info.uid)
        if queued is None:
            return None
        queued.info = info
        if queued.where == GATED and self._gate(info) is None:
            self._enter(queued, POD_UPDATED)
        return queued

    def renew(self, queued: QueuedPodInfo, info: PodInfo) -> None:
        """Store the version of a pod at the end of its attempt, and note whether it changed during the attempt."""
        old, new = queued.info.pod.metadata, info.pod.metadata
        if (old.generation, old.labels) != (new.generation, new.labels):
            queued.moves = _CHANGED
        queued.info = info

    def remove(self, uid: str) -> None:
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._unschedulable.pop(uid, None)
            self._gated.pop(uid, None)
            queued.where = ""

    def pop(self) -> QueuedPodInfo | None:
        """Return the next pod to try, or None; end the attempt with `done`, `requeue_unschedulable` or
        `requeue_after_error`."""
        self._flush()
        queued = self._pop_active() or self._pop_backoff()
        return None if queued is None else self._start_attempt(queued)

    def pop_pods(self, uids: Iterable[str]) -> list[QueuedPodInfo]:
        """Take those of the pods that are in the queue out of turn and start their attempts."""
        pods = []
        for uid in uids:
            queued = self._pods.get(uid)
            if queued is not None and queued.where in (ACTIVE, BACKOFF, UNSCHEDULABLE):
                self._unschedulable.pop(uid, None)
                pods.append(self._start_attempt(queued))
        return pods

    def _start_attempt(self, queued: QueuedPodInfo) -> QueuedPodInfo:
        queued.where = IN_FLIGHT
        queued.attempts += 1
        queued.moves = self._move_count
        return queued

    def done(self, uid: str) -> None:
        """Remove a pod that was scheduled."""
        self._pods.pop(uid, None)

    def requeue_unschedulable(self, queued: QueuedPodInfo, plugins: Iterable[str]) -> None:
        """Requeue a pod that fits no node because these plugins rejected it.

        If an event moved pods or the pod changed during the attempt, that may have made the pod schedulable without the
        attempt seeing it; the pod then goes to backoff instead of becoming unschedulable.
        """
        queued.plugins, queued.is_error = frozenset(plugins), False
        self._requeue(queued, may_have_missed_event=queued.moves != self._move_count)

    def requeue_after_error(self, queued: QueuedPodInfo) -> None:
        """Requeue a pod whose attempt failed with an error; it is retried after its backoff."""
        queued.plugins, queued.is_error = frozenset(), True
        self._requeue(queued, may_have_missed_event=True)

    def _requeue(self, queued: QueuedPodInfo, *, may_have_missed_event: bool) -> None:
        if self._pods.get(queued.uid) is not queued:
            return
        queued.failures += 1
        queued.since = self._clock.monotonic()
        queued.is_flushed = False
        if may_have_missed_event or (not queued.plugins and queued.is_error):
            self._back_off(queued, ATTEMPT_FAILED)
        else:
            queued.where = UNSCHEDULABLE
            self._unschedulable[queued.uid] = queued
            self._incoming(UNSCHEDULABLE, ATTEMPT_FAILED)
            self._changed.set()  # the time of the next flush may have changed

    # -- events ------------------------------------------------------------------------------------------------------

    def on_event(self, event: ClusterEvent, old: Any | None, new: Any | None, *, except_uid: str = "") -> int:
        """Requeue the pods that the event may help, except the one with the UID `except_uid`; return how many."""
        hints = self._hints.get(event, ())
        if not hints and not self._plugins_without_hints:
            return 0
        self._move_count += 1
        if self._gated:
            self._retry_gated(event, hints, old, new)
        if not self._unschedulable:
            return 0
        is_node = event.resource is EventResource.NODE
        moved = [
            queued
            for queued in self._unschedulable.values()
            if queued.uid != except_uid
            and ((is_node and not queued.plugins) or self._may_help(queued, hints, old, new))
        ]
        for queued in moved:
            self._move_to_active_or_backoff(queued, event.label)
        return len(moved)

    def on_pod_change(self, queued: QueuedPodInfo, events: Sequence[ClusterEvent], old: Any, new: Any) -> None:
        """Handle a change of a pending pod: requeue it if that may make it schedulable."""
        if queued.where == IN_FLIGHT and events:
            queued.moves = _CHANGED
        if queued.where != UNSCHEDULABLE:
            return
        for event in events:
            if self._may_help(queued, self._hints.get(event, ()), old, new):
                self._move_to_active_or_backoff(queued, event.label)
                return

    def _may_help(
        self, queued: QueuedPodInfo, hints: Sequence[tuple[str, QueueingHint | None]], old: Any | None, new: Any | None
    ) -> bool:
        if not queued.plugins.isdisjoint(self._plugins_without_hints):
            return True
        return any(plugin in queued.plugins and (hint is None or hint(queued.info, old, new)) for plugin, hint in hints)

    def _retry_gated(
        self, event: ClusterEvent, hints: Sequence[tuple[str, QueueingHint | None]], old: Any, new: Any
    ) -> None:
        """Run PreEnqueue again for gated pods that the event may help."""
        for queued in list(self._gated.values()):
            if queued.gated_by in self._plugins_without_hints or any(
                plugin == queued.gated_by and (not hint or hint(queued.info, old, new)) for plugin, hint in hints
            ):
                self._enter(queued, event.label)

    def activate(self, uid: str) -> None:
        """Make the pod active regardless of its backoff."""
        queued = self._pods.get(uid)
        if queued is not None and queued.where in (UNSCHEDULABLE, BACKOFF):
            self._unschedulable.pop(uid, None)
            self._push_active(queued, ACTIVATED)

    def _move_to_active_or_backoff(self, queued: QueuedPodInfo, event: str) -> None:
        self._unschedulable.pop(queued.uid, None)
        if self._backoff_end(queued) > self._clock.monotonic():
            self._back_off(queued, event)
        else:
            self._push_active(queued, event)

    # -- time --------------------------------------------------------------------------------------------------------

    async def wait(self) -> None:
        """Wait until there may be a pod to try."""
        self._changed.clear()
        if self._active:
            return
        due = self._next_due()
        if due is None:
            await self._changed.wait()
            return
        async with asyncio.TaskGroup() as group:
            sleeping = group.create_task(self._clock.sleep_monotonic(due))
            sleeping.add_done_callback(lambda _: self._changed.set())
            await self._changed.wait()
            sleeping.cancel()

    def _next_due(self) -> float | None:
        times = [heap[0][0] for heap in (self._backoff, self._errors) if heap]
        if self._unschedulable:
            times.append(next(iter(self._unschedulable.values())).since + self._config.flush_s)
        return min(times, default=None)

    def _flush(self) -> None:
        """Make pods active whose backoff or maximum waiting time has passed."""
        now = self._clock.monotonic()
        for heap in (self._backoff, self._errors):
            while heap and (heap[0][0] <= now or heap[0][2].where != BACKOFF):
                queued = heapq.heappop(heap)[2]
                if queued.where == BACKOFF:
                    self._push_active(queued, BACKOFF_COMPLETE)
        while self._unschedulable:
            queued = next(iter(self._unschedulable.values()))
            if now - queued.since < self._config.flush_s:
                break
            queued.is_flushed = True
            self._move_to_active_or_backoff(queued, FLUSHED)

    def _backoff_end(self, queued: QueuedPodInfo) -> float:
        config = self._config
        if not queued.failures:
            return queued.since
        backoff = Backoff(config.first_backoff_s, config.max_backoff_s)
        return queued.since + backoff.delay_after(queued.failures - 1)

    # -- parts -------------------------------------------------------------------------------------------------------

    def _enter(self, queued: QueuedPodInfo, event: str) -> None:
        status = self._gate(queued.info)
        if status is None:
            self._gated.pop(queued.uid, None)
            queued.gated_by = queued.gate_message = ""
            self._push_active(queued, event)
            return
        if queued.where != GATED:
            self._incoming(UNSCHEDULABLE, event)
        self._gated[queued.uid] = queued
        queued.where, queued.gated_by, queued.gate_message = GATED, status.plugin, status.message

    def _push_active(self, queued: QueuedPodInfo, event: str) -> None:
        queued.where = ACTIVE
        if queued.entered is None:
            queued.entered = self._clock.monotonic()
        key = self._sort_key(queued.info, queued.since)
        heapq.heappush(self._active, (key, next(self._order), queued))
        self._incoming(ACTIVE, event)
        self._changed.set()

    def _back_off(self, queued: QueuedPodInfo, event: str) -> None:
        queued.where = BACKOFF
        heap = self._errors if queued.is_error else self._backoff
        heapq.heappush(heap, (self._backoff_end(queued), next(self._order), queued))
        self._incoming(BACKOFF, event)
        self._changed.set()

    def _pop_active(self) -> QueuedPodInfo | None:
        while self._active:
            queued = heapq.heappop(self._active)[2]
            if queued.where == ACTIVE and self._pods.get(queued.uid) is queued:
                return queued
        return None

    def _pop_backoff(self) -> QueuedPodInfo | None:
        while self._backoff:
            queued = heapq.heappop(self._backoff)[2]
            if queued.where == BACKOFF and self._pods.get(queued.uid) is queued:
                self._incoming(ACTIVE, POPPED_EARLY)
                return queued
        return None
