"""Events about pods in the form of events.k8s.io, sent concurrently with the scheduling loop."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from typing import Any

from sampan.api import times
from sampan.api.types.core_v1 import Pod
from sampan.api.types.events_v1 import Event, EventSeries
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery import errors
from sampan.machinery.activity import Activity
from sampan.machinery.client import Client, ConnectionFailed, PatchType
from sampan.machinery.clock import Clock
from sampan.machinery.events.recorder import reference

log = logging.getLogger(__name__)

NORMAL, WARNING = "Normal", "Warning"
_MOST_WAITING = 10_000
_SENDERS = 16
_REMEMBERED = 4096
_SERIES_S = 360.0
"""An equal event within this time, in seconds, extends the series of the first one."""
_LONGEST_NOTE = 1024


class PodEventRecorder:
    """`record` neither blocks nor raises, `run` sends; equal events about one pod become a series."""

    def __init__(self, *, client: Client, clock: Clock, host: str = "", activity: Activity | None = None) -> None:
        self._events, self._clock, self._host = client.of(Event), clock, host
        self._activity = activity or Activity()
        self._waiting: deque[tuple[tuple[str, ...], Event]] = deque()
        self._wakeup = asyncio.Event()
        self._recent: OrderedDict[tuple[str, ...], tuple[Event, int, float]] = OrderedDict()
        self._serial = 0
        self.dropped = 0

    def record(
        self, pod: Pod, type: str, reason: str, action: str, note: str, *, source: str, related: Any | None = None
    ) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            self.dropped += 1
            return
        key = (pod.metadata.uid, type, reason, action, note, source)
        self._waiting.append((key, self._new_event(pod, type, reason, action, note, source, related)))
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

    def _new_event(
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
            note=note if len(note) <= _LONGEST_NOTE else note[: _LONGEST_NOTE - 4] + " ...",
            type=type,
        )

    async def _send(self, key: tuple[str, ...], event: Event) -> None:
        try:
            if not await self._extend_series(key):
                self._remember(key, event, 1)
                await self._events.create(event)
        except (errors.ApiError, ConnectionFailed) as failure:
            quiet = isinstance(failure, errors.ApiError) and failure.has_cause("NamespaceTerminating")
            log.log(logging.DEBUG if quiet else logging.WARNING, "event %s: %s", event.reason, failure)
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
