"""The contract between the API server and what keeps its data.

One revision counter orders all writes: each successful put or delete takes the next revision (etcd may leave none out
either), and that number is the object's resource version. Implementations: `memory`, `sqlite`, `etcd`. All pass
`sampan.testing.backend_conformance`.

Rules that every implementation keeps:

- A write returns only when it is durable; from then on every read and every watch shows it.
- Where the store lives in this process, watchers have been handed a write's event before its writer is answered.
- A watch delivers every event after its start revision exactly once, in revision order, or ends with an error that says
  why (`Compacted`, `Closed`); it never skips. All events of one revision arrive in the same batch.
- Reads at an old revision answer as of that revision, or raise `Compacted`; a revision not reached yet raises
  `FutureRevision`.
- Keys are compared as bytes; values are opaque.
- An empty store is at revision 1, since 0 has a meaning of its own to clients.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from msgspec import Struct


class StorageError(Exception):
    """What any backend call may raise; the API server translates it in one place."""


class Conflict(StorageError):
    """A compare-and-swap found another state. `current` is what is there now, None if nothing."""

    def __init__(self, key: str, current: "Entry | None") -> None:
        super().__init__(f"{key}: is at revision {current.revision if current else 0}")
        self.key, self.current = key, current


class Compacted(StorageError):
    """The revision asked for is older than the history that is kept, which begins after `compacted`."""

    def __init__(self, compacted: int, current: int) -> None:
        super().__init__(f"history before revision {compacted} is gone (now at {current})")
        self.compacted, self.current = compacted, current


class FutureRevision(StorageError):
    """The revision asked for has not been reached."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is ahead of {current}")
        self.revision, self.current = revision, current


class Unavailable(StorageError):
    """The store cannot be reached or cannot write now (disk full, no quorum). `may_have_happened` tells whether a write
    could be in the store all the same; never True for a read."""

    def __init__(self, message: str, *, may_have_happened: bool = False) -> None:
        super().__init__(message)
        self.may_have_happened = may_have_happened


class Closed(StorageError):
    """The backend was closed."""


class Entry(Struct, frozen=True, gc=False):
    key: str
    value: bytes
    revision: int
    """When this value was written: the object's resource version."""
    create_revision: int
    """When the key was created, since it last did not exist."""


class Page(Struct, frozen=True):
    entries: Sequence[Entry]
    revision: int
    """The revision that the page shows."""
    remaining: int
    """How many more keys of the range lie after the last entry."""


class Event(Struct, frozen=True, gc=False):
    revision: int
    key: str
    value: bytes | None
    """The new value, None for a deletion."""
    create_revision: int
    """For a put: equal to `revision` when it created the key. 0 for a deletion."""

    @property
    def is_delete(self) -> bool:
        return self.value is None

    @property
    def is_create(self) -> bool:
        return self.value is not None and self.create_revision == self.revision


class Batch(Struct, frozen=True):
    """Events in revision order, at least one; or none and a progress mark."""

    events: Sequence[Event]
    revision: int
    """Everything under the watched prefix up to this revision has been delivered."""


OnBatch = Callable[[Batch], None]


class Watch(Protocol):
    """A watch begins when its `async with` block is entered and ends when the block is left.

    Iterate for batches; the iteration ends by raising what ended the watch (`Compacted`, `Closed`), never quietly.

    With `on_batch` the batches go to that function instead, called on the event loop, one call at a time, in revision
    order, without waiting for anyone to iterate; the iteration then yields nothing and only reports the end. Where the
    store lives in this process (`memory`, `sqlite`) the function has been called with a write's event before the writer
    is answered, so a cache filled by it always shows its owner's own writes. It must be quick, may not await, and does
    not call the backend. An exception it raises ends this watch, and is what the iteration raises; it harms no writer
    and no other watch.
    """

    async def __aenter__(self) -> "Watch": ...
    async def __aexit__(self, *exc: object) -> None: ...
    def __aiter__(self) -> AsyncIterator[Batch]: ...

    async def request_progress(self) -> None:
        """Ask for an (empty) batch at a revision no older than the store's present one, soon; where the store lives in
        this process, `on_batch` has been called with it when this returns."""


class Backend(Protocol):
    async def __aenter__(self) -> "Backend":
        """Open the store and start what it needs."""

    async def __aexit__(self, *exc: object) -> None:
        """Finish writes under way, end all watches with `Closed`, release everything."""

    async def get(self, key: str, *, revision: int = 0) -> tuple[Entry | None, int]:
        """The entry as of `revision` (0: now, linearizable), and the revision that the answer shows."""

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Page:
        """Entries whose keys begin with `prefix`, in key order, from `start` (inclusive, if given) on, at most `limit`
        (0: all), as of `revision` (0: now, linearizable)."""

    async def count(self, prefix: str) -> int:
        """How many keys begin with `prefix` now."""

    async def put(self, key: str, value: bytes, *, expected: int | None = None, ttl_s: float | None = None) -> int:
        """Write and return the new revision. `expected` is the revision that the key must be at, 0 for a key that must
        not exist, None for no check; otherwise `Conflict`. With `ttl_s` the key goes away by itself that many seconds
        (or a little more) after this write; a later put without it makes the key permanent."""

    async def delete(self, key: str, *, expected: int | None = None) -> int:
        """Remove and return the revision of the removal. A key that does not exist is a `Conflict` with current None;
        `expected` as for put."""

    def watch(self, prefix: str, *, after: int, on_batch: OnBatch | None = None) -> Watch:
        """Events of keys that begin with `prefix` with a revision greater than `after`. The watch raises `Compacted` if
        some of those are gone. `after` may lie ahead of the current revision. See `Watch` for `on_batch`."""

    async def current_revision(self) -> int:
        """The store's revision now, linearizable: no smaller than that of any write acknowledged by anyone before the
        call."""

    async def replay_start(self, revisions: int) -> int:
        """The oldest revision, at most so many before the present one, from which a range and a watch can begin at
        little cost. A store outside of this process gives its present revision."""

    async def compact(self, revision: int) -> None:
        """Forget history before `revision`; the state as of `revision` stays readable. Compacting what is compacted
        already does nothing; a revision that is not reached yet raises `FutureRevision`."""

    async def size(self) -> int:
        """Bytes the store takes up."""

    @property
    def write_failure(self) -> str:
        """Why writes other than deletions are refused at present, as far as is known; empty if they are not."""
