"""The backends of auditing, and the bounded buffer between requests and a backend."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from sampan.apiserver.audit.event import AuditEntry
from sampan.machinery.telemetry.metrics import Metrics

MAX_ENTRIES = 10_000
_MAX_BYTES = 64 << 20


class AuditBackend(Protocol):
    """Where audit events go. `put` never waits; `run` passes entries on until it is cancelled, and then the remaining
    ones."""

    def put(self, entry: AuditEntry) -> None: ...

    async def run(self) -> None: ...


class AuditBackends:
    """Passes each entry to all backends."""

    def __init__(self, *, backends: Sequence[AuditBackend], metrics: Metrics) -> None:
        self._backends = backends
        self._events = metrics.counter(
            "apiserver_audit_event_total", "Audit events generated and passed to the audit backends."
        ).labels()

    def put(self, entry: AuditEntry) -> None:
        self._events.inc()
        for backend in self._backends:
            backend.put(entry)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for backend in self._backends:
                group.create_task(backend.run())


class AuditBuffer:
    """Accepts entries without waiting, or drops and counts them."""

    def __init__(
        self, *, plugin: str, metrics: Metrics, max_entries: int = MAX_ENTRIES, batch_entries: int, batch_bytes: int
    ) -> None:
        self._max_entries, self._batch_entries, self._batch_bytes = max_entries, batch_entries, batch_bytes
        self._waiting: deque[AuditEntry] = deque()
        self._bytes = 0
        self.is_filled = asyncio.Event()
        """Set while there is an entry."""
        self.has_batch = asyncio.Event()
        """Set while there are enough entries for a batch."""
        self._lost = metrics.counter(
            "apiserver_audit_error_total", "Audit events that could not be written.", ("plugin",)
        ).labels(plugin)

    def put(self, entry: AuditEntry) -> None:
        if len(self._waiting) >= self._max_entries or self._bytes + entry.size > _MAX_BYTES:
            self.count_lost(1)
            return
        self._waiting.append(entry)
        self._bytes += entry.size
        self._set_events()

    def take(self) -> list[AuditEntry]:
        """Remove and return the first batch: at least one entry, unless the buffer is empty."""
        batch: list[AuditEntry] = []
        size = 0
        while self._waiting and len(batch) < self._batch_entries:
            size += self._waiting[0].size
            if batch and size > self._batch_bytes:
                break
            batch.append(self._waiting.popleft())
        self._bytes -= sum(entry.size for entry in batch)
        self._set_events()
        return batch

    def count_lost(self, count: int) -> None:
        self._lost.inc(count)

    def _set_events(self) -> None:
        has_batch = len(self._waiting) >= self._batch_entries or self._bytes >= self._batch_bytes
        for event, is_set in ((self.is_filled, bool(self._waiting)), (self.has_batch, has_batch)):
            if is_set:
                event.set()
            else:
                event.clear()
