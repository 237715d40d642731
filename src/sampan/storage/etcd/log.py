"""The recent events of the store in memory, for watches that start slightly in the past."""

from collections import deque
from collections.abc import Iterator, Sequence

from sampan.storage.backend import Event


class EventLog:
    """Holds every event after revision `base` up to revision `position`, limited in number and size.

    Older events are dropped by whole revisions. Events share their bytes with others that reference them.
    """

    def __init__(self, *, position: int, max_events: int, max_bytes: int) -> None:
        self.base = self.position = position
        self._max_events, self._max_bytes = max_events, max_bytes
        self._events: deque[Event] = deque()
        self._bytes = 0

    def append(self, events: Sequence[Event], position: int) -> None:
        self._events.extend(events)
        self._bytes += sum(map(_weight, events))
        self.position = position
        while len(self._events) > self._max_events or self._bytes > self._max_bytes:
            self._forget_through(self._events[0].revision)

    def forget_before(self, revision: int) -> None:
        """Drop events before `revision`, which the store has compacted."""
        self._forget_through(min(revision - 1, self.position))

    def _forget_through(self, revision: int) -> None:
        while self._events and self._events[0].revision <= revision:
            self._bytes -= _weight(self._events.popleft())
        self.base = max(self.base, revision)

    def since(self, after: int) -> Iterator[Event]:
        """Return the events after a revision that the log reaches back to (`after >= base`)."""
        return reversed(list(self._newest(after)))

    def _newest(self, after: int) -> Iterator[Event]:
        for event in reversed(self._events):
            if event.revision <= after:
                return
            yield event


def _weight(event: Event) -> int:
    return len(event.key) + len(event.value or b"") + 100
