"""An in-memory backend for tests and for servers whose objects need not survive them."""

import asyncio
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from sampan.host.clock import Clock
from sampan.storage.backend import (
    BackendClosed,
    Compacted,
    EventBatch,
    FutureRevision,
    KeyValue,
    OnBatch,
    PendingWrite,
    StoreConflict,
    StoreEvent,
    StorePage,
    StoreWatch,
    is_allowed,
    prefix_end,
)
from sampan.storage.expiry import KeyExpiry
from sampan.storage.watch_hub import WatchHub

_FIRST_REVISION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryContent:
    """The content of a memory backend at one revision, from which another backend can start. Events are immutable, so
    that both backends share them."""

    revision: int = _FIRST_REVISION
    compacted: int = 0
    log: Sequence[StoreEvent] = ()
    """All events after `compacted`, in revision order."""
    histories: Mapping[str, Sequence[StoreEvent]] = field(default_factory=dict)
    """The events of each key, oldest first; never empty."""
    deadlines: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    """For each expiring key, its deadline in monotonic time and the revision that set it."""


class MemoryBackend:
    """The history is compacted every `compaction_interval_s`, and complete if that is 0.

    A backend starts with `content`, which another backend returned. Its clock must then have the monotonic time of the
    clock of that backend.
    """

    def __init__(self, *, clock: Clock, compaction_interval_s: float = 0, content: MemoryContent | None = None) -> None:
        content = content or MemoryContent()
        self._clock = clock
        self._compaction_interval_s = compaction_interval_s
        self._compacted = content.compacted
        self._histories = {key: list(events) for key, events in content.histories.items()}
        self._keys = sorted(self._histories)
        """The keys of `_histories`, sorted."""
        self._log = list(content.log)
        self._hub = WatchHub(revision=content.revision, read_log=self._read_log)
        self._expiry = KeyExpiry(
            clock=clock,
            remove=lambda key, revision: self.delete(key, expected=revision),
            deadlines=content.deadlines,
        )
        self._wrote = asyncio.Event()
        """Set by a write; without writes there is nothing to compact, and the task does not wake up."""
        self._running = AsyncExitStack()
        self._is_open = False

    async def __aenter__(self) -> "MemoryBackend":
        tasks = await self._running.enter_async_context(asyncio.TaskGroup())
        self._running.callback(tasks.create_task(self._expiry.run()).cancel)
        if self._compaction_interval_s:
            self._running.callback(tasks.create_task(self._compact_periodically()).cancel)
        self._is_open = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()
        self._is_open = False
        self._hub.close()

    def content(self) -> MemoryContent:
        """Return a copy of everything that is stored."""
        return MemoryContent(
            revision=self._hub.revision,
            compacted=self._compacted,
            log=tuple(self._log),
            histories={key: tuple(events) for key, events in self._histories.items()},
            deadlines=self._expiry.deadlines(),
        )

    async def idle(self) -> bool:
        """Wait until all expired keys are deleted, for a virtual clock; return whether there were any."""
        return await self._expiry.idle()

    async def get(self, key: str, *, revision: int = 0) -> tuple[KeyValue | None, int]:
        shown = self._resolve_revision(revision)
        return self._entry(key, shown), shown

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> StorePage:
        shown = self._resolve_revision(revision)
        entries = list(self._entries(prefix, start, shown))
        returned = entries[:limit] if limit else entries
        return StorePage(returned, shown, len(entries) - len(returned))

    async def count(self, prefix: str) -> int:
        return sum(1 for _ in self._entries(prefix, "", self._resolve_revision(0)))

    async def put(self, key: str, value: bytes, *, expected: int | None = None, ttl_s: float | None = None) -> int:
        expires = None if ttl_s is None else self._clock.now() + ttl_s
        return await self._write(PendingWrite(key, value, expected, expires))

    async def delete(self, key: str, *, expected: int | None = None) -> int:
        return await self._write(PendingWrite(key, None, expected))

    def watch(self, prefix: str, *, after: int, on_batch: OnBatch | None = None) -> StoreWatch:
        return self._hub.watch(prefix, after=after, on_batch=on_batch)

    async def current_revision(self) -> int:
        return self._resolve_revision(0)

    async def replay_start(self, revisions: int) -> int:
        return max(self._resolve_revision(0) - revisions, self._compacted, _FIRST_REVISION)

    async def compact(self, revision: int) -> None:
        if revision > self._resolve_revision(0):
            raise FutureRevision(revision, self._hub.revision)
        if revision <= self._compacted:
            return
        self._compacted = revision
        self._log = self._log[bisect_left(self._log, revision + 1, key=lambda event: event.revision) :]
        for key in list(self._keys):
            self._forget(key, revision)
        self._keys = [key for key in self._keys if key in self._histories]

    @property
    def compacted_revision(self) -> int:
        return self._compacted

    async def _compact_periodically(self) -> None:
        """Compact to a past revision, so that the history covers between one and two intervals."""
        while True:
            await self._wrote.wait()
            self._wrote.clear()
            revision = self._hub.revision
            await self._clock.sleep(self._compaction_interval_s)
            await self.compact(revision)

    async def size(self) -> int:
        self._resolve_revision(0)
        return sum(len(event.value or b"") for history in self._histories.values() for event in history)

    @property
    def is_shared(self) -> bool:
        return False

    @property
    def kind(self) -> str:
        return "memory"

    @property
    def write_failure(self) -> str:
        return ""

    async def _write(self, write: PendingWrite) -> int:
        await asyncio.sleep(0)  # yield to other tasks, as every real store does
        current = self._entry(write.key, self._resolve_revision(0))
        if not is_allowed(write, current.revision if current else 0):
            raise StoreConflict(write.key, current)
        revision = self._hub.revision + 1
        created = 0 if write.value is None else current.create_revision if current else revision
        self._commit(StoreEvent(revision, write.key, write.value, created))
        self._expiry.note(write.key, write.expires, revision)
        self._wrote.set()
        return revision

    def _commit(self, event: StoreEvent) -> None:
        if event.key not in self._histories:
            insort(self._keys, event.key)
        self._histories.setdefault(event.key, []).append(event)
        self._log.append(event)
        self._hub.publish((event,), event.revision)

    def _resolve_revision(self, revision: int) -> int:
        """Return the revision that a read at `revision` reflects; raise if it is compacted or in the future."""
        if not self._is_open:
            raise BackendClosed("the store is closed")
        if revision > self._hub.revision:
            raise FutureRevision(revision, self._hub.revision)
        if revision and revision < self._compacted:
            raise Compacted(self._compacted, self._hub.revision)
        return revision or self._hub.revision

    def _entry(self, key: str, revision: int) -> KeyValue | None:
        for event in reversed(self._histories.get(key, ())):
            if event.revision <= revision:
                if event.value is None:
                    return None
                return KeyValue(key, event.value, event.revision, event.create_revision)
        return None

    def _entries(self, prefix: str, start: str, revision: int) -> Iterator[KeyValue]:
        end = prefix_end(prefix)
        first = bisect_left(self._keys, max(prefix, start))
        last = len(self._keys) if end is None else bisect_left(self._keys, end)
        for key in self._keys[first:last]:
            if (entry := self._entry(key, revision)) is not None:
                yield entry

    def _forget(self, key: str, revision: int) -> None:
        """Drop the events of a key that no read at `revision` or later can see."""
        history = self._histories[key]
        later = bisect_left(history, revision + 1, key=lambda event: event.revision)
        failures = history[max(later - 1, 0) :]
        if failures and failures[0].value is None and failures[0].revision <= revision:
            failures = failures[1:]
        if failures:
            self._histories[key] = failures
        else:
            del self._histories[key]

    async def _read_log(self, prefix: str, after: int, through: int) -> EventBatch:
        if after < self._compacted:
            raise Compacted(self._compacted, self._hub.revision)
        first = bisect_left(self._log, after + 1, key=lambda event: event.revision)
        last = bisect_left(self._log, through + 1, key=lambda event: event.revision)
        return EventBatch([event for event in self._log[first:last] if event.key.startswith(prefix)], through)
