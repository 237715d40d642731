"""The contract between the API server and the store that holds its data.

One revision counter orders all writes: each successful put or delete takes the next revision, which becomes the
object's resource version. Implementations: `memory`, `sqlite`, `etcd`. All pass `sampan.testing.backend_conformance`.

Rules for every implementation:

- A write returns only when it is durable; from then on every read and every watch shows it.
- If the store is in this process, watchers have received the event of a write before the write returns.
- A watch delivers every event after its start revision exactly once, in revision order, or ends with an error that
  states the reason (`Compacted`, `BackendClosed`); it never skips events. All events of one revision are in the same
  batch.
- A read at an old revision returns the state as of that revision, or raises `Compacted`; a revision in the future
  raises `FutureRevision`.
- Keys are compared as bytes; values are opaque.
- An empty store is at revision 1, because 0 has a special meaning to clients.

The implementations share `PendingWrite`, with the rule that decides whether it may be committed (`is_allowed`), and
`prefix_end`, by which the keys that start with a prefix are a half-open range. Python compares strings by code point,
which is the byte order of their UTF-8 encoding, so that ranges can be computed on strings.

`WrappedBackend` is the base of backends that show the values of another backend in another form. Keys, revisions and
the order of events are those of the inner backend, so that everything that does not concern values is passed on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, Self

from msgspec import Struct


class StorageError(Exception):
    """The base of all errors that a backend call may raise; the API server translates them in one place."""


class StoreConflict(StorageError):
    """A compare-and-swap failed; `current` is the current entry, or None if the key does not exist."""

    def __init__(self, key: str, current: KeyValue | None) -> None:
        super().__init__(f"{key}: is at revision {current.revision if current else 0}")
        self.key, self.current = key, current


class Compacted(StorageError):
    """The requested revision is older than the retained history, which starts after `compacted`."""

    def __init__(self, compacted: int, current: int) -> None:
        super().__init__(f"revisions before {compacted} have been compacted (current revision {current})")
        self.compacted, self.current = compacted, current


class FutureRevision(StorageError):
    """The requested revision has not been reached."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is ahead of {current}")
        self.revision, self.current = revision, current


class Unavailable(StorageError):
    """The store is unreachable or cannot write (disk full, no quorum).

    `may_have_happened` states whether the write may have taken effect nevertheless; it is never True for a read.
    """

    def __init__(self, message: str, *, may_have_happened: bool = False) -> None:
        super().__init__(message)
        self.may_have_happened = may_have_happened


class ConversionFailed(Unavailable):
    """A value could not be converted to the version in which it is read or stored."""


class BackendClosed(StorageError):
    """The backend was closed."""


class KeyValue(Struct, frozen=True, gc=False):
    key: str
    value: bytes
    revision: int
    """The revision in which this value was written: the object's resource version."""
    create_revision: int
    """The revision in which the key was created; it starts over when the key is deleted and created again."""


class StorePage(Struct, frozen=True):
    entries: Sequence[KeyValue]
    revision: int
    """The revision that the page reflects."""
    remaining: int
    """The number of keys in the range after the last entry."""


class StoreEvent(Struct, frozen=True, gc=False):
    revision: int
    key: str
    value: bytes | None
    """The new value, or None for a deletion."""
    create_revision: int
    """For a put, equal to `revision` if it created the key; 0 for a deletion."""

    @property
    def is_delete(self) -> bool:
        return self.value is None

    @property
    def is_create(self) -> bool:
        return self.value is not None and self.create_revision == self.revision


class EventBatch(Struct, frozen=True):
    """A non-empty sequence of events in revision order, or an empty one as a progress notification."""

    events: Sequence[StoreEvent]
    revision: int
    """Everything under the watched prefix up to this revision has been delivered."""


OnBatch = Callable[[EventBatch], None]


class StoreWatch(Protocol):
    """A watch, which starts when its `async with` block is entered and stops when the block is left.

    Iterate for batches; the iteration always ends by raising the error that ended the watch (`Compacted`,
    `BackendClosed`).

    With `on_batch` the batches go to that function instead. It is called on the event loop, one call at a time, in
    revision order, without waiting for an iteration; the iteration then yields nothing and only reports the end. If the
    store is in this process (`memory`, `sqlite`), the function has been called with the event of a write before the
    write returns, so that a cache filled by it always shows its owner's own writes. The function must be fast, and must
    neither await nor call the backend. An exception in it ends this watch and is raised by the iteration; writers and
    other watches are not affected.
    """

    async def __aenter__(self) -> StoreWatch: ...
    async def __aexit__(self, *exc: object) -> None: ...
    def __aiter__(self) -> AsyncIterator[EventBatch]: ...

    async def request_progress(self) -> None:
        """Request an empty batch at a revision that is at least the store's current one.

        If the store is in this process, `on_batch` has been called with it when this returns.
        """


class Backend(Protocol):
    async def __aenter__(self) -> Backend:
        """Open the store and start its tasks."""

    async def __aexit__(self, *exc: object) -> None:
        """Finish writes in progress, end all watches with `BackendClosed` and release all resources."""

    async def get(self, key: str, *, revision: int = 0) -> tuple[KeyValue | None, int]:
        """Return the entry as of `revision` (0: now, linearizable), and the revision that the result reflects."""

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> StorePage:
        """Return entries whose keys start with `prefix`, in key order, from `start` (inclusive) on.

        Return at most `limit` entries (0: all) as of `revision` (0: now, linearizable).
        """

    async def count(self, prefix: str) -> int:
        """Return the current number of keys that start with `prefix`."""

    async def put(self, key: str, value: bytes, *, expected: int | None = None, ttl_s: float | None = None) -> int:
        """Write the value and return the new revision.

        `expected` is the revision that the key must be at, 0 for a key that must not exist, None for no check; raise
        `StoreConflict` otherwise. With `ttl_s` the key expires that many seconds (or slightly more) after this write; a
        later put without it makes the key permanent.
        """

    async def delete(self, key: str, *, expected: int | None = None) -> int:
        """Delete the key and return the revision of the deletion.

        `expected` is as in `put`. Raise `StoreConflict` with `current` None if the key does not exist.
        """

    def watch(self, prefix: str, *, after: int, on_batch: OnBatch | None = None) -> StoreWatch:
        """Return a watch of the events after revision `after` of keys that start with `prefix`.

        The watch raises `Compacted` if some of those events are no longer available. `after` may be in the future. See
        `StoreWatch` for `on_batch`.
        """

    async def current_revision(self) -> int:
        """Return the current revision, linearizable: at least that of any write acknowledged to any client before the
        call.

        Every consistent read calls this: a store that has to send a request shares it between concurrent callers.
        """

    async def replay_start(self, revisions: int) -> int:
        """Return the oldest revision, at most `revisions` before the current one, at which a range and a watch can
        start cheaply.

        A store outside of this process returns its current revision.
        """

    async def compact(self, revision: int) -> None:
        """Discard the history before `revision`; the state as of `revision` stays readable.

        Compacting to a revision that is already compacted does nothing; a future revision raises `FutureRevision`.
        """

    @property
    def compacted_revision(self) -> int:
        """The revision before which history was discarded, as far as this process knows; 0 if none was."""

    async def size(self) -> int:
        """Return the size of the store in bytes."""

    async def idle(self) -> bool:
        """Wait until nothing is written, deleted or compacted, for a virtual clock; return whether anything was. A
        store outside of this process has a clock of its own, so nothing is waited for."""

    @property
    def is_shared(self) -> bool:
        """Whether other processes can use the same store."""

    @property
    def kind(self) -> str:
        """The kind of store, for people: sqlite, memory or etcd."""

    @property
    def write_failure(self) -> str:
        """Why writes other than deletions are currently rejected, as far as known; empty if they are not."""


class PendingWrite(Struct, frozen=True, gc=False):
    key: str
    value: bytes | None
    """The value to put, or None to delete the key."""
    expected: int | None = None
    """The expected revision, as in `Backend.put`."""
    expires: float | None = None
    """When the key expires, in seconds since the epoch; None for never."""


def is_allowed(write: PendingWrite, revision: int) -> bool:
    """Whether the write is allowed if its key is at revision `revision` (0: does not exist)."""
    if write.value is None and not revision:
        return False
    return write.expected is None or write.expected == revision


_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def prefix_end(prefix: str) -> str | None:
    """Return the smallest string after every string that starts with `prefix`, or None if there is none."""
    stem = prefix.rstrip(chr(_LAST))
    if not stem:
        return None
    after = ord(stem[-1]) + 1
    return stem[:-1] + chr(_SURROGATES.stop if after in _SURROGATES else after)


class WrappedBackend:
    def __init__(self, inner: Backend) -> None:
        self._inner = inner

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._inner.__aexit__(*exc)

    async def count(self, prefix: str) -> int:
        return await self._inner.count(prefix)

    async def current_revision(self) -> int:
        return await self._inner.current_revision()

    async def replay_start(self, revisions: int) -> int:
        return await self._inner.replay_start(revisions)

    async def compact(self, revision: int) -> None:
        await self._inner.compact(revision)

    @property
    def compacted_revision(self) -> int:
        return self._inner.compacted_revision

    async def size(self) -> int:
        return await self._inner.size()

    async def idle(self) -> bool:
        return await self._inner.idle()

    @property
    def is_shared(self) -> bool:
        return self._inner.is_shared

    @property
    def kind(self) -> str:
        return self._inner.kind

    @property
    def write_failure(self) -> str:
        return self._inner.write_failure
