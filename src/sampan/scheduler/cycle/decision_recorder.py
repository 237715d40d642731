"""Records scheduling decisions: events, the flight recorder, and the most recent decisions for `sampan why`.

Events about pods have the form of events.k8s.io and are sent concurrently with the scheduling loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any

from sampan.api.types.core_v1 import Pod
from sampan.api.types.events_v1 import Event, EventSeries
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times
from sampan.host.activity import Activity
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, PatchType
from sampan.machinery.events import reference
from sampan.machinery.telemetry.flight_recorder import QUEUE as QUEUE_PART
from sampan.machinery.telemetry.flight_recorder import FlightRecorder
from sampan.scheduler.cache.pod_info import DEFAULT_SCHEDULER, PodInfo
from sampan.scheduler.framework.contract import ScheduleResult
from sampan.scheduler.framework.diagnosis import Diagnosis
from sampan.scheduler.scheduling_queue import QueuedPodInfo

log = logging.getLogger(__name__)

NORMAL, WARNING = "Normal", "Warning"
_MAX_QUEUED_EVENTS = 10_000
_SENDERS = 16
_REMEMBERED = 4096
_SERIES_S = 360.0
"""An equal event within this time, in seconds, extends the series of the first one."""
_MAX_NOTE_LENGTH = 1024


class PodEventRecorder:
    """Records events about pods. `record` neither blocks nor raises, and `run` sends the events. Equal events about one
    pod become a series."""

    def __init__(self, *, client: Client, clock: Clock, host: str = "", activity: Activity | None = None) -> None:
        self._events, self._clock, self._host = client.for_kind(Event), clock, host
        self._activity = activity or Activity()
        self._waiting: deque[tuple[tuple[str, ...], Event]] = deque()
        self._wakeup = asyncio.Event()
        self._recent: OrderedDict[tuple[str, ...], tuple[Event, int, float]] = OrderedDict()
        self._serial = 0
        self.dropped = 0

    def record(
        self, pod: Pod, type: str, reason: str, action: str, note: str, *, source: str, related: Any | None = None
    ) -> None:
        if len(self._waiting) >= _MAX_QUEUED_EVENTS:
            self.dropped += 1
            return
        key = (pod.metadata.uid, type, reason, action, note, source)
        self._waiting.append((key, self._make_event(pod, type, reason, action, note, source, related)))
        self._activity.step()
        self._wakeup.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(_SENDERS):
                group.create_task(self._send_all())

    async def _send_all(self) -> None:
        while True:
            while self._waiting:
                await self._send(*self._waiting.popleft())
            self._wakeup.clear()
            await self._wakeup.wait()

    def _make_event(
        self, pod: Pod, type: str, reason: str, action: str, note: str, source: str, related: Any | None
    ) -> Event:
        now = self._clock.now()
        self._serial += 1
        stamp = int(now * 1e9) + self._serial % 1000
        name, namespace = f"{pod.metadata.name}.{stamp:x}", pod.metadata.namespace
        return Event(
            metadata=ObjectMeta(name=name, namespace=namespace or "default"),
            eventTime=times.format_micro_time(now),
            reportingController=source,
            reportingInstance=f"{source}-{self._host}" if self._host else source,
            action=action,
            reason=reason,
            regarding=reference(pod),
            related=reference(related) if related is not None else None,
            note=note if len(note) <= _MAX_NOTE_LENGTH else note[: _MAX_NOTE_LENGTH - 4] + " ...",
            type=type,
        )

    async def _send(self, key: tuple[str, ...], event: Event) -> None:
        try:
            if not await self._extend_series(key):
                self._remember(key, event, 1)
                await self._events.create(event)
        except (errors.ApiError, ConnectionFailed) as failure:
            quiet = isinstance(failure, errors.ApiError) and failure.has_cause("NamespaceTerminating")
            log.log(logging.DEBUG if quiet else logging.WARNING, "cannot send pod event %s: %s", event.reason, failure)
            self.dropped += 1

    async def _extend_series(self, key: tuple[str, ...]) -> bool:
        """Increment the series of an equal event that was sent recently; return whether there was one."""
        entry = self._recent.get(key)
        if entry is None or self._clock.monotonic() - entry[2] > _SERIES_S:
            return False
        first, count, _ = entry
        self._remember(key, first, count + 1)
        series = EventSeries(count=count + 1, lastObservedTime=times.format_micro_time(self._clock.now()))
        patch = {"series": {"count": series.count, "lastObservedTime": series.lastObservedTime}}
        try:
            await self._events.patch(first.metadata.name, patch, first.metadata.namespace, type=PatchType.STRATEGIC)
        except errors.NotFound:
            return False
        return True

    def _remember(self, key: tuple[str, ...], event: Event, count: int) -> None:
        self._recent[key] = (event, count, self._clock.monotonic())
        self._recent.move_to_end(key)
        if len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)


COMPONENT = "kube-scheduler"


class DecisionRecorder:
    def __init__(
        self, *, events: PodEventRecorder, history: DecisionHistory, clock: Clock, recorder: FlightRecorder | None
    ) -> None:
        self._events, self._history, self._clock, self._recorder = events, history, clock, recorder

    def record_selected_node(self, queued: QueuedPodInfo, node_selected: ScheduleResult, node: str) -> None:
        info = queued.info
        self._history.put(
            SchedulingDecision(
                info.uid,
                info.full_name,
                self._clock.now(),
                queued.attempts,
                node=node,
                feasible=node_selected.feasible,
                score=node_selected.score,
            )
        )
        took_s = time.perf_counter() - queued.began
        queued_s = max(0.0, self._clock.now() - took_s - queued.first)
        queue = f"{QUEUE_PART}={-round(queued_s * 1e6)}+{round(queued_s * 1e6)}"
        self._record_flight(info, "schedule", node, took_s=took_s, parts=queue)

    def record_unschedulable(
        self, queued: QueuedPodInfo, diagnosis: Diagnosis, names: tuple[str, ...], nominated: str
    ) -> None:
        """Record a pod that fits no node; `names` are the node names by row."""
        self._history.put(
            SchedulingDecision(
                queued.uid,
                queued.info.full_name,
                self._clock.now(),
                queued.attempts,
                message=diagnosis.message,
                diagnosis=diagnosis,
                names=names,
                nominated=nominated,
            )
        )

    def record_failure(self, info: PodInfo, message: str) -> None:
        self.publish_event(info, WARNING, "FailedScheduling", "Scheduling", message)
        self._record_flight(info, "schedule", message)

    def record_skip(self, info: PodInfo) -> None:
        note = f"skip schedule deleting pod: {info.full_name}"
        self.publish_event(info, WARNING, "FailedScheduling", "Scheduling", note)

    def record_binding(self, info: PodInfo, node: str, *, took_s: float) -> None:
        self._record_flight(info, "bind", node, took_s=took_s)
        self.publish_event(info, NORMAL, "Scheduled", "Binding", f"Successfully assigned {info.full_name} to {node}")

    def _record_flight(self, info: PodInfo, action: str, outcome: str, *, took_s: float = 0.0, parts: str = "") -> None:
        if self._recorder is not None:
            subject = f"pods/{info.full_name}"
            self._recorder.note(COMPONENT, action, subject, uid=info.uid, outcome=outcome, took_s=took_s, parts=parts)

    def publish_event(self, info: PodInfo, type: str, reason: str, action: str, note: str) -> None:
        self._events.record(
            info.pod, type, reason, action, note, source=info.pod.spec.schedulerName or DEFAULT_SCHEDULER
        )


_MAX_DECISIONS = 2000
_MAX_DETAILED_DECISIONS = 200
"""How many failed decisions keep the rejection of every node."""


@dataclass(frozen=True, slots=True)
class SchedulingDecision:
    uid: str
    pod: str
    """The pod as `namespace/name`."""
    time: float
    attempt: int
    node: str = ""
    feasible: int = 0
    score: int = 0
    message: str = ""
    diagnosis: Diagnosis | None = None
    names: tuple[str, ...] = ()
    """The node names by row that the diagnosis refers to."""
    nominated: str = ""


class DecisionHistory:
    def __init__(self) -> None:
        self._by_uid: OrderedDict[str, SchedulingDecision] = OrderedDict()
        self._detailed: OrderedDict[str, None] = OrderedDict()

    def put(self, decision: SchedulingDecision) -> None:
        self._by_uid[decision.uid] = decision
        self._by_uid.move_to_end(decision.uid)
        if len(self._by_uid) > _MAX_DECISIONS:
            oldest, _ = self._by_uid.popitem(last=False)
            self._detailed.pop(oldest, None)
        if decision.diagnosis is not None:
            self._keep_detail(decision.uid)

    def get(self, uid: str) -> SchedulingDecision | None:
        return self._by_uid.get(uid)

    def list_decisions(self) -> list[SchedulingDecision]:
        return list(self._by_uid.values())

    def _keep_detail(self, uid: str) -> None:
        self._detailed[uid] = None
        self._detailed.move_to_end(uid)
        if len(self._detailed) > _MAX_DETAILED_DECISIONS:
            old, _ = self._detailed.popitem(last=False)
            decision = self._by_uid.get(old)
            if decision is not None:
                self._by_uid[old] = SchedulingDecision(
                    decision.uid,
                    decision.pod,
                    decision.time,
                    decision.attempt,
                    message=decision.message,
                    nominated=decision.nominated,
                )
