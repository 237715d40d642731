"""Event correlation: an event is created, added to the count of an existing one, or dropped. No I/O; state in memory.

- A repeated event increments the count of the first.
- Events that differ only in their message are aggregated from the tenth within ten minutes on.
- Events of one source about one object are rate-limited: a burst of 25, then one in five minutes.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from sampan.api.types.core_v1 import Event

V = TypeVar("V")

COMBINED = "(combined from similar events): "


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
    """The key to pass to `stored`."""


@dataclass(slots=True)
class _RecordedEvent:
    count: int
    name: str
    first: str | None


@dataclass(slots=True)
class _Similar:
    messages: OrderedDict[str, None]
    last: float


@dataclass(slots=True)
class _Bucket:
    tokens: float
    last: float


class _Memory(Generic[V]):
    """A bounded LRU dictionary."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: Hashable, value: V) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._most:
            self._values.popitem(last=False)


class Correlator:
    def __init__(self, config: CorrelatorConfig | None = None) -> None:
        self._config = config or CorrelatorConfig()
        self._recorded: _Memory[_RecordedEvent] = _Memory(self._config.remembered)
        self._similar: _Memory[_Similar] = _Memory(self._config.remembered)
        self._buckets: _Memory[_Bucket] = _Memory(self._config.remembered)

    def judge(self, event: Event, now: float) -> CorrelatedEvent | None:
        """Return what to do with the event, or None to drop it."""
        event, key = self._combined(event, now)
        event, is_update = self._counted(event, key)
        if not self._take_token(event, now):
            return None
        return CorrelatedEvent(event, is_update, key)

    def stored(self, key: Hashable, event: Event) -> None:
        """Record the event as the server stored it."""
        self._recorded.put(key, _RecordedEvent(event.count, event.metadata.name, event.firstTimestamp))

    def _combined(self, event: Event, now: float) -> tuple[Event, Hashable]:
        """Return the event, or its aggregate, and the key that identifies repetitions of it."""
        alike = _alike(event)
        similar = self._similar.get(alike)
        if similar is None or now - similar.last > self._config.within_s:
            similar = _Similar(OrderedDict(), now)
        similar.last = now
        similar.messages[event.message] = None
        self._similar.put(alike, similar)
        if len(similar.messages) < self._config.similar:
            return event, (*alike, event.message)
        similar.messages.popitem(last=False)
        return msgspec.structs.replace(event, message=COMBINED + event.message), alike

    def _counted(self, event: Event, key: Hashable) -> tuple[Event, bool]:
        last = self._recorded.get(key)
        if last is not None:
            metadata = msgspec.structs.replace(event.metadata, name=last.name)
            event = msgspec.structs.replace(event, metadata=metadata, count=last.count + 1, firstTimestamp=last.first)
        self._recorded.put(key, _RecordedEvent(event.count, event.metadata.name, event.firstTimestamp))
        return event, last is not None

    def _take_token(self, event: Event, now: float) -> bool:
        """Take a token of the bucket of the source and object of the event; return whether there was one."""
        config, key = self._config, _about(event)
        bucket = self._buckets.get(key) or _Bucket(config.burst, now)
        self._buckets.put(key, bucket)
        bucket.tokens = min(config.burst, bucket.tokens + (now - bucket.last) * config.per_s)
        bucket.last = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


def _about(event: Event) -> tuple[str, ...]:
    """Return the key of the source and the object of an event."""
    source, ref = event.source, event.involvedObject
    return (source.component, source.host, ref.kind, ref.namespace, ref.name, ref.uid, ref.apiVersion)


def _alike(event: Event) -> tuple[str, ...]:
    """Return a key of everything but the message."""
    return (*_about(event), event.type, event.reason, event.reportingComponent, event.reportingInstance)
