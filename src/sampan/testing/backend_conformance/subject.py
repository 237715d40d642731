"""The backend under test, and helpers that the checks share."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sampan.storage.backend import Backend, EventBatch, StoreEvent, StoreWatch

TIMEOUT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class BackendSubject:
    """The backend under test, as the checks see it."""

    open: Callable[[], Backend]
    """Returns a backend that is not entered yet, on a store with nothing under `root`."""
    root: str = "/registry/"
    """The prefix of all keys that the checks write; it ends with a slash."""
    advance: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Advances the backend's clock by a number of seconds."""
    is_local: bool = False
    """Whether the backend is in this process: `on_batch` is called before the write returns."""

    def key(self, name: str) -> str:
        return self.root + name


Check = Callable[[BackendSubject], Coroutine[None, None, None]]


def run(check: Check, subject: BackendSubject, *, timeout_s: float = 150.0) -> None:
    """Run one check on a new event loop."""
    asyncio.run(asyncio.wait_for(check(subject), timeout_s))


E_co = TypeVar("E_co", bound=BaseException, covariant=True)


@dataclass
class CaughtError(Generic[E_co]):
    errors: list[E_co] = field(default_factory=list)

    @property
    def error(self) -> E_co:
        return self.errors[0]


@contextmanager
def raises(kind: type[E_co]) -> Iterator[CaughtError[E_co]]:
    """Fail unless the block raises `kind`; the error is in the yielded object."""
    caught: CaughtError[E_co] = CaughtError()
    try:
        yield caught
    except kind as error:
        caught.errors.append(error)
        return
    raise AssertionError(f"{kind.__name__} was not raised")


class WatchReader:
    """Reads a watch batch by batch and checks the invariants of every batch."""

    def __init__(self, watch: StoreWatch, *, after: int) -> None:
        self.revision = after
        self._last = after
        self._batches = aiter(watch)

    async def batch(self) -> EventBatch:
        batch = await asyncio.wait_for(anext(self._batches), TIMEOUT_S)
        self.check(batch)
        return batch

    def check(self, batch: EventBatch) -> None:
        revisions = [event.revision for event in batch.events]
        assert revisions == sorted(revisions), f"events out of order: {revisions}"
        if revisions:
            assert revisions[0] > self._last, f"event {revisions[0]} after {self._last}: repeated or out of order"
            assert batch.revision >= revisions[-1], f"batch at {batch.revision} has an event of {revisions[-1]}"
            self._last = revisions[-1]
        self.revision = max(self.revision, batch.revision)

    async def events(self, count: int) -> list[StoreEvent]:
        """Return the next `count` events; fail if a batch has more."""
        events: list[StoreEvent] = []
        while len(events) < count:
            events += (await self.batch()).events
        assert len(events) == count, f"{len(events) - count} events too many: {events[count:]}"
        return events

    async def read_until(self, revision: int) -> list[StoreEvent]:
        """Return all events up to and including that revision."""
        events: list[StoreEvent] = []
        while self.revision < revision:
            events += (await self.batch()).events
        return events


async def put_all(backend: Backend, items: dict[str, bytes]) -> dict[str, int]:
    """Put all items concurrently; return the revision of each."""
    revisions = await asyncio.gather(*(backend.put(key, value) for key, value in items.items()))
    return dict(zip(items, revisions, strict=True))
