"""Writers and watchers that record what they write and see while etcd is disturbed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from sampan.storage.backend import EventBatch, KeyValue, StoreEvent, Unavailable
from sampan.storage.etcd import EtcdBackend


class Traffic:
    """Each writer increments its own key by compare-and-swap, and sometimes deletes and creates it. No other writer
    changes that key: a conflict means that the store and the writer disagree about what was acknowledged."""

    def __init__(self, backend: EtcdBackend, *, root: str) -> None:
        self._backend, self.root = backend, root
        self.acknowledged: dict[int, StoreEvent] = {}
        """Acknowledged writes by revision."""
        self.uncertain = 0
        self._more = asyncio.Event()

    @asynccontextmanager
    async def flowing(self, *, writers: int) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._count(f"{self.root}{i}")) for i in range(writers)]
            try:
                yield
            finally:
                for task in running:
                    task.cancel()

    async def wait_for_writes(self, count: int) -> None:
        """Wait until `count` more writes have been acknowledged."""
        goal = len(self.acknowledged) + count
        while len(self.acknowledged) < goal:
            self._more.clear()
            await self._more.wait()

    async def _count(self, key: str) -> None:
        at = number = 0
        while True:
            number += 1
            value = None if at and number % 7 == 0 else str(number).encode()
            try:
                at = await self._write(key, value, at)
            except Unavailable as error:
                if error.may_have_happened:
                    self.uncertain += 1
                    entry, _ = await self._get_with_retries(key)
                    at = entry.revision if entry else 0

    async def _write(self, key: str, value: bytes | None, at: int) -> int:
        if value is None:
            self._acknowledge(await self._backend.delete(key, expected=at), key, None)
            return 0
        revision = await self._backend.put(key, value, expected=at)
        self._acknowledge(revision, key, value)
        return revision

    async def _get_with_retries(self, key: str) -> tuple[KeyValue | None, int]:
        while True:
            try:
                return await self._backend.get(key)
            except Unavailable:
                continue

    def _acknowledge(self, revision: int, key: str, value: bytes | None) -> None:
        assert revision not in self.acknowledged, f"two writes have revision {revision}"
        self.acknowledged[revision] = StoreEvent(revision, key, value, 0)
        self._more.set()


class Observer:
    """The events of a watch, whose order is checked on arrival."""

    def __init__(self, after: int) -> None:
        self.events: list[StoreEvent] = []
        self.revision = after
        self._more = asyncio.Event()

    def __call__(self, batch: EventBatch) -> None:
        for event in batch.events:
            assert event.revision > self.revision, f"event {event.revision} arrived after {self.revision}"
            self.events.append(event)
            self.revision = event.revision
        assert batch.revision >= self.revision, f"progress {batch.revision} arrived after {self.revision}"
        self.revision = batch.revision
        self._more.set()

    def list_events_up_to(self, revision: int) -> list[StoreEvent]:
        return [event for event in self.events if event.revision <= revision]

    async def wait_for_revision(self, revision: int) -> None:
        while self.revision < revision:
            self._more.clear()
            await self._more.wait()


@asynccontextmanager
async def open_observers(backend: EtcdBackend, *, root: str, after: int, count: int) -> AsyncIterator[list[Observer]]:
    """Open watches, alternately with a callback and with an iterator."""
    observers = [Observer(after) for _ in range(count)]

    async def iterate(observer: Observer) -> None:
        async with backend.watch(root, after=after) as watch:
            async for batch in watch:
                observer(batch)

    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for observer in observers[::2]:
            await stack.enter_async_context(backend.watch(root, after=after, on_batch=observer))
        iterating = [tasks.create_task(iterate(observer)) for observer in observers[1::2]]
        try:
            yield observers
        finally:
            for task in iterating:
                task.cancel()


async def check(url: str, *, start: int, traffic: Traffic, observers: list[Observer]) -> None:
    """Compare acknowledged writes and observed events with those that a new client reads, up to the current revision.
    A request of a cancelled writer may still arrive later."""
    async with EtcdBackend(endpoints=[url]) as backend:
        end = await backend.current_revision()
        reference = Observer(start)
        async with backend.watch(traffic.root, after=start, on_batch=reference) as watch:
            await watch.request_progress()
            await reference.wait_for_revision(end)
        page = await backend.range(traffic.root, revision=end)
    history = reference.list_events_up_to(end)
    events = {event.revision: event for event in history}
    for revision, written in traffic.acknowledged.items():
        event = events.get(revision)
        assert event is not None, f"the acknowledged write {revision} of {written.key} is lost"
        assert (event.key, event.value) == (written.key, written.value)
    for observer in observers:
        async with asyncio.timeout(60):
            await observer.wait_for_revision(end)
        assert observer.list_events_up_to(end) == history
    assert {entry.key: entry.value for entry in page.entries} == _state(history)


def _state(events: list[StoreEvent]) -> dict[str, bytes]:
    state: dict[str, bytes] = {}
    for event in events:
        if event.value is None:
            del state[event.key]
        else:
            state[event.key] = event.value
    return state
