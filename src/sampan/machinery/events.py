"""Events about objects, as shown by `kubectl describe`: recorded asynchronously, aggregated and rate-limited. The
Kubernetes counterpart is client-go's `tools/record`.

`EventRecorder` accepts events at any time without blocking, and sends them in the background. For each,
`EventCorrelator` decides without I/O whether it is created, added to the count of an existing one, or dropped:

- A repeated event increments the count of the first.
- Events that differ only in their message are aggregated from the tenth within ten minutes on.
- Events of one source about one object are rate-limited: a burst of 25, then one in five minutes.
"""

import asyncio
import itertools
import logging
from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from sampan.api.types.core_v1 import Event, EventSource, ObjectReference
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times
from sampan.host.activity import Activity
from sampan.host.bounded_cache import BoundedCache
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed

COMBINED = "(combined from similar events): "

log = logging.getLogger(__name__)

NORMAL, WARNING = "Normal", "Warning"
_MAX_QUEUED_EVENTS = 10_000
"""The maximum number of events that wait to be sent; more are dropped."""
_MAX_OBJECTS_IN_FLIGHT = 8
"""The maximum number of objects whose events are sent concurrently."""
_ATTEMPTS = 12
_RETRY_S = 10.0
_MAX_MESSAGE_LENGTH = 1024

_numbers = itertools.count()
"""Numbers the recorders of the process, so that two of them never generate the same event name."""


@dataclass(frozen=True, slots=True)
class CorrelatorConfig:
    similar: int = 10
    """The number of distinct messages from which on similar events are aggregated."""
    within_s: float = 600.0
    burst: int = 25
    per_s: float = 1 / 300
    remembered: int = 4096


@dataclass(frozen=True, slots=True)
class CorrelatedEvent:
    event: Event
    """The event to be stored; for an update it has the name of the existing event."""
    is_update: bool
    key: Hashable
    """The key with which to call `record_stored` after the event is stored."""


@dataclass(slots=True)
class _RecordedEvent:
    count: int
    name: str
    first: str | None


@dataclass(slots=True)
class _SimilarEvents:
    messages: OrderedDict[str, None]
    last: float


@dataclass(slots=True)
class _TokenBucket:
    tokens: float
    last: float


def _make_cache(max_entries: int) -> BoundedCache[Hashable, Any]:
    return BoundedCache(max_entries=max_entries, max_entry_bytes=32 << 10, max_bytes=16 << 20)


class EventCorrelator:
    def __init__(self, config: CorrelatorConfig | None = None) -> None:
        self._config = config or CorrelatorConfig()
        maximum = self._config.remembered
        self._recorded: BoundedCache[Hashable, _RecordedEvent] = _make_cache(maximum)
        self._similar: BoundedCache[Hashable, _SimilarEvents] = _make_cache(maximum)
        self._buckets: BoundedCache[Hashable, _TokenBucket] = _make_cache(maximum)

    def correlate(self, event: Event, now: float) -> CorrelatedEvent | None:
        """Return how to store the event: as a new one, or as an update of an existing one. Return None to drop it."""
        event, key = self._aggregate(event, now)
        event, is_update = self._count(event, key)
        if not self._take_token(event, now):
            return None
        return CorrelatedEvent(event, is_update, key)

    def record_stored(self, key: Hashable, event: Event) -> None:
        """Record the event as the server stored it."""
        self._recorded.keep(key, _RecordedEvent(event.count, event.metadata.name, event.firstTimestamp))

    def _aggregate(self, event: Event, now: float) -> tuple[Event, Hashable]:
        """Return the event, or its aggregate, and the key that identifies repetitions of it."""
        alike = _aggregate_key(event)
        similar = self._similar.get(alike)
        if similar is None or now - similar.last > self._config.within_s:
            similar = _SimilarEvents(OrderedDict(), now)
        similar.last = now
        similar.messages[event.message] = None
        self._similar.keep(alike, similar)
        if len(similar.messages) < self._config.similar:
            return event, (*alike, event.message)
        similar.messages.popitem(last=False)
        return msgspec.structs.replace(event, message=COMBINED + event.message), alike

    def _count(self, event: Event, key: Hashable) -> tuple[Event, bool]:
        last = self._recorded.get(key)
        if last is not None:
            metadata = msgspec.structs.replace(event.metadata, name=last.name)
            event = msgspec.structs.replace(event, metadata=metadata, count=last.count + 1, firstTimestamp=last.first)
        self._recorded.keep(key, _RecordedEvent(event.count, event.metadata.name, event.firstTimestamp))
        return event, last is not None

    def _take_token(self, event: Event, now: float) -> bool:
        """Take a token from the bucket of the source and object of the event; return whether the bucket had a token."""
        config, key = self._config, _source_and_object_key(event)
        bucket = self._buckets.get(key) or _TokenBucket(config.burst, now)
        self._buckets.keep(key, bucket)
        bucket.tokens = min(config.burst, bucket.tokens + (now - bucket.last) * config.per_s)
        bucket.last = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


def _source_and_object_key(event: Event) -> tuple[str, ...]:
    """Return the key that identifies the source and the object of an event."""
    source, ref = event.source, event.involvedObject
    return (source.component, source.host, ref.kind, ref.namespace, ref.name, ref.uid, ref.apiVersion)


def _aggregate_key(event: Event) -> tuple[str, ...]:
    """Return the key of an event that everything but its message determines."""
    return (*_source_and_object_key(event), event.type, event.reason, event.reportingComponent, event.reportingInstance)


class EventRecorder:
    """`event(...)` never blocks and never raises; `run()` must be running for events to be sent."""

    def __init__(
        self,
        *,
        client: Client,
        clock: Clock,
        component: str,
        host: str = "",
        activity: Activity | None = None,
        config: CorrelatorConfig | None = None,
    ) -> None:
        self._events, self._clock = client.for_kind(Event), clock
        self._component, self._host = component, host
        self._activity = activity or Activity()
        self._correlator = EventCorrelator(config)
        self._waiting: deque[Event] = deque()
        self._busy: dict[Hashable, deque[Event]] = {}
        """The objects whose events are being sent, with their pending events: events of one object are sent in
        order."""
        self._held = 0
        """The number of events in `_waiting` and `_busy`."""
        self._more = asyncio.Event()
        self._number, self._serial = next(_numbers), 0
        self.dropped = 0

    def event(
        self,
        obj: Any,
        type: str,
        reason: str,
        message: str,
        *,
        annotations: Mapping[str, str] | None = None,
        host: str = "",
    ) -> None:
        """Record an event about an object. `type` is NORMAL or WARNING, `reason` one word for machines. `host` is the
        host of the source, if it differs from the recorder's."""
        if self._held >= _MAX_QUEUED_EVENTS:
            self.dropped += 1
            return
        try:
            self._waiting.append(self._build_event(obj, type, reason, message, annotations or {}, host or self._host))
        except Exception:
            log.exception("cannot record an Event with reason %s", reason)
            return
        self._held += 1
        self._activity.step()
        self._more.set()

    async def run(self) -> None:
        """Send recorded events until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                while self._waiting and len(self._busy) < _MAX_OBJECTS_IN_FLIGHT:
                    event = self._waiting.popleft()
                    key = _object_key(event)
                    if key in self._busy:
                        self._busy[key].append(event)
                    else:
                        self._busy[key] = deque((event,))
                        group.create_task(self._send_all(key))
                self._more.clear()
                await self._more.wait()

    async def _send_all(self, key: Hashable) -> None:
        """Send the events of one object in order until none is left."""
        events = self._busy[key]
        try:
            while events:
                self._activity.step()
                await self._send(events.popleft())
                self._held -= 1
        finally:
            del self._busy[key]
            self._more.set()

    def _build_event(
        self, obj: Any, type: str, reason: str, message: str, annotations: Mapping[str, str], host: str
    ) -> Event:
        now, ref = self._clock.now(), reference(obj)
        self._serial += 1
        stamp = int(now * 1e9) & ~0xFFFFFFF | (self._number & 0xFFFF) << 12 | self._serial & 0xFFF
        meta = ObjectMeta(
            name=f"{ref.name}.{stamp:x}", namespace=ref.namespace or "default", annotations=dict(annotations)
        )
        return Event(
            metadata=meta,
            involvedObject=ref,
            reason=reason,
            message=message[:_MAX_MESSAGE_LENGTH],
            source=EventSource(component=self._component, host=host),
            firstTimestamp=times.format_time(now),
            lastTimestamp=times.format_time(now),
            count=1,
            type=type,
            reportingComponent=self._component,
            reportingInstance=host,
        )

    async def _send(self, event: Event) -> None:
        correlated = self._correlator.correlate(event, self._clock.monotonic())
        if correlated is None:
            self.dropped += 1
            return
        for _ in range(_ATTEMPTS):
            try:
                self._correlator.record_stored(correlated.key, await self._write(correlated))
                return
            except ConnectionFailed as failure:
                log.debug("cannot record an Event with reason %s: %s", event.reason, failure)
                await self._clock.sleep(_RETRY_S)
            except errors.ApiError as error:
                level = logging.DEBUG if error.has_cause("NamespaceTerminating") else logging.WARNING
                log.log(level, "event %s about %s is refused: %s", event.reason, event.involvedObject.name, error)
                return
        self.dropped += 1

    async def _write(self, correlated: CorrelatedEvent) -> Event:
        event = correlated.event
        if correlated.is_update:
            patch = {"count": event.count, "lastTimestamp": event.lastTimestamp, "message": event.message}
            try:
                return await self._events.patch(event.metadata.name, patch, event.metadata.namespace)
            except errors.NotFound:
                pass  # the stored event has expired: create a new one
        for _ in range(_ATTEMPTS):
            try:
                return await self._events.create(event)
            except errors.AlreadyExists:  # recorders of two processes chose the same name at the same moment
                event = _rename_event(event)
        return await self._events.create(event)


def _object_key(event: Event) -> Hashable:
    ref = event.involvedObject
    return (ref.kind, ref.namespace, ref.name, ref.uid)


def _rename_event(event: Event) -> Event:
    name, _, stamp = event.metadata.name.rpartition(".")
    metadata = msgspec.structs.replace(event.metadata, name=f"{name}.{int(stamp, 16) + 1:x}")
    return msgspec.structs.replace(event, metadata=metadata)


def reference(obj: Any, field_path: str = "") -> ObjectReference:
    """Return a reference to the object, for an event's `involvedObject`."""
    if isinstance(obj, ObjectReference):
        return obj
    meta = obj.metadata
    return ObjectReference(
        kind=obj.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        apiVersion=obj.apiVersion,
        resourceVersion=meta.resourceVersion,
        fieldPath=field_path,
    )
