"""A store beside a model of it, which is a list of writes. Hypothesis searches for operations after which they differ.

A subclass of `StoreMachine` opens the store; see test_backend_model.py.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sampan.storage.backend import (
    Backend,
    Compacted,
    EventBatch,
    KeyValue,
    StoreConflict,
    StoreEvent,
    StorePage,
    StoreWatch,
)

T = TypeVar("T")

NAMES = ["pods/a", "pods/a/b", "pods/b", "pods", "podtemplates/a", "secrets/é", "secrets/😀"]
PREFIXES = ["", "pods/", "pods", "podt", "secrets/", "none/", "pods/a"]
names = st.sampled_from(NAMES)
prefixes = st.sampled_from(PREFIXES)
values = st.binary(max_size=8)
writes_ago = st.integers(0, 12)
"""A number of writes before the current revision, so that small numbers stay interesting."""


@dataclass
class Model:
    """All writes since the start, and the compacted revision."""

    first: int
    """The revision before the first write."""
    log: list[StoreEvent] = field(default_factory=list)
    compacted: int = 0

    @property
    def revision(self) -> int:
        return self.log[-1].revision if self.log else self.first

    def revision_before(self, writes: int) -> int:
        """Return the revision before the last `writes` writes."""
        return self.log[-1 - writes].revision if writes < len(self.log) else self.first

    def state(self, revision: int) -> dict[str, KeyValue]:
        state: dict[str, KeyValue] = {}
        for event in self.log:
            if event.revision > revision:
                break
            if event.value is None:
                del state[event.key]
            else:
                state[event.key] = KeyValue(event.key, event.value, event.revision, event.create_revision)
        return state

    def write(self, revision: int, key: str, value: bytes | None) -> None:
        assert revision > self.revision
        before = self.state(self.revision).get(key)
        created = 0 if value is None else before.create_revision if before else revision
        self.log.append(StoreEvent(revision, key, value, created))

    def page(self, prefix: str, start: str, limit: int, revision: int) -> StorePage:
        entries = [
            entry for key, entry in sorted(self.state(revision).items()) if key.startswith(prefix) and key >= start
        ]
        shown = entries[:limit] if limit else entries
        return StorePage(shown, revision, len(entries) - len(shown))

    def events(self, prefix: str, after: int) -> list[StoreEvent]:
        return [event for event in self.log if event.revision > after and event.key.startswith(prefix)]


@dataclass
class OpenWatch:
    watch: StoreWatch
    prefix: str
    after: int
    events: list[StoreEvent] = field(default_factory=list)
    revision: int = 0
    has_callback: bool = False

    def take(self, batch: EventBatch) -> None:
        assert not batch.events or batch.revision >= batch.events[-1].revision
        self.events += batch.events
        self.revision = batch.revision


class StoreMachine(RuleBasedStateMachine):
    is_durable: ClassVar[bool] = False
    """Whether data survive when the store is closed and opened again."""
    root: str = "/registry/"

    def open(self) -> Backend:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.watches: list[OpenWatch] = []
        self._start()
        self.model = Model(self.run(self.backend.current_revision()))

    def run(self, work: Awaitable[T]) -> T:
        async def run_with_timeout() -> T:
            return await asyncio.wait_for(work, 60)

        return self.runner.run(run_with_timeout())

    def key(self, name: str) -> str:
        return self.root + name

    def _start(self) -> None:
        """Enter the store in a task that outlives this call, as the background tasks of the store do."""
        self.backend = self.open()
        self._leave: asyncio.Event = asyncio.Event()
        self._host = self.run(self._start_host())

    async def _start_host(self) -> "asyncio.Task[None]":
        entered = asyncio.Event()

        async def host() -> None:
            async with self.backend:
                entered.set()
                await self._leave.wait()

        task = asyncio.ensure_future(host())
        waiting = asyncio.ensure_future(entered.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        if not entered.is_set():
            waiting.cancel()
            await task
        return task

    def _stop(self) -> None:
        for open_watch in self.watches:
            self.run(open_watch.watch.__aexit__(None, None, None))
        self.watches.clear()
        self._leave.set()
        self.run(self._host)

    def teardown(self) -> None:
        try:
            self._stop()
        finally:
            self.runner.close()

    @initialize(first=values)
    def put_first_key(self, first: bytes) -> None:
        self.put("pods/a", first)

    @rule(name=names, value=values)
    def put(self, name: str, value: bytes) -> None:
        self.model.write(self.run(self.backend.put(self.key(name), value)), self.key(name), value)

    @rule(name=names, value=values, is_stale=st.booleans(), ago=writes_ago)
    def compare_and_swap(self, name: str, value: bytes, is_stale: bool, ago: int) -> None:
        expected = self.model.revision_before(ago) if is_stale else self._revision_of(name)
        self._attempt(name, value, expected, lambda: self.backend.put(self.key(name), value, expected=expected))

    @rule(name=names, is_checked=st.booleans(), ago=writes_ago)
    def delete(self, name: str, is_checked: bool, ago: int) -> None:
        expected = self.model.revision_before(ago) if is_checked else None
        self._attempt(name, None, expected, lambda: self.backend.delete(self.key(name), expected=expected))

    @rule(writes=st.lists(st.tuples(names, values), min_size=2, max_size=12))
    def put_concurrently(self, writes: list[tuple[str, bytes]]) -> None:
        async def gather_puts() -> list[int]:
            return list(await asyncio.gather(*(self.backend.put(self.key(name), value) for name, value in writes)))

        for revision, (name, value) in sorted(zip(self.run(gather_puts()), writes, strict=True)):
            self.model.write(revision, self.key(name), value)

    @rule(name=names, ago=writes_ago)
    def get(self, name: str, ago: int) -> None:
        revision = self.model.revision_before(ago)
        expected = self.model.state(revision).get(self.key(name))
        self._read(revision, self.backend.get(self.key(name), revision=revision), (expected, revision))

    @rule(prefix=prefixes, start=st.none() | names, limit=st.integers(0, 5), ago=writes_ago)
    def range(self, prefix: str, start: str | None, limit: int, ago: int) -> None:
        first = "" if start is None else self.key(start)
        revision = self.model.revision_before(ago)
        expected = self.model.page(self.key(prefix), first, limit, revision)
        work = self.backend.range(self.key(prefix), start=first, limit=limit, revision=revision)
        self._read(revision, work, expected)

    @rule(ago=writes_ago)
    def compact(self, ago: int) -> None:
        revision = self.model.revision_before(ago)
        self.run(self.backend.compact(revision))
        self.model.compacted = max(self.model.compacted, revision)

    @precondition(lambda self: len(self.watches) < 4)
    @rule(prefix=prefixes, ago=writes_ago, has_callback=st.booleans())
    def watch(self, prefix: str, ago: int, has_callback: bool) -> None:
        after = self.model.revision_before(ago)
        watches: list[OpenWatch] = []
        watch = self.backend.watch(
            self.key(prefix), after=after, on_batch=(lambda batch: watches[0].take(batch)) if has_callback else None
        )
        watches.append(OpenWatch(watch, self.key(prefix), after, has_callback=has_callback))
        self.run(watch.__aenter__())
        if after < self.model.compacted:
            self._check_compacted(watches[0])
        else:
            self.watches.append(watches[0])
            self._catch_up(watches[0])

    @precondition(lambda self: self.watches)
    @rule()
    def catch_up(self) -> None:
        for open_watch in self.watches:
            self._catch_up(open_watch)

    @precondition(lambda self: self.watches)
    @rule()
    def close_watch(self) -> None:
        self.run(self.watches.pop(0).watch.__aexit__(None, None, None))

    @precondition(lambda self: self.is_durable)
    @rule()
    def reopen(self) -> None:
        self._stop()
        self._start()

    @invariant()
    def current_state_matches_the_model(self) -> None:
        assert self.run(self.backend.current_revision()) == self.model.revision
        assert self.run(self.backend.range(self.root)) == self.model.page(self.root, "", 0, self.model.revision)
        assert self.run(self.backend.count(self.key("pods"))) == len(
            self.model.page(self.key("pods"), "", 0, self.model.revision).entries
        )

    def _revision_of(self, name: str) -> int:
        entry = self.model.state(self.model.revision).get(self.key(name))
        return entry.revision if entry else 0

    def _attempt(
        self, name: str, value: bytes | None, expected: int | None, work: Callable[[], Awaitable[int]]
    ) -> None:
        current = self.model.state(self.model.revision).get(self.key(name))
        revision = current.revision if current else 0
        is_allowed = (expected is None or expected == revision) and (value is not None or current is not None)
        if is_allowed:
            self.model.write(self.run(work()), self.key(name), value)
        else:
            with pytest.raises(StoreConflict) as caught:
                self.run(work())
            assert caught.value.current == current

    def _read(self, revision: int, work: Awaitable[Any], expected: object) -> None:
        if revision >= self.model.compacted:
            assert self.run(work) == expected
        else:
            with pytest.raises(Compacted):
                self.run(work)

    def _catch_up(self, open_watch: OpenWatch) -> None:
        async def read_until_current() -> None:
            await open_watch.watch.request_progress()
            batches = aiter(open_watch.watch)
            while open_watch.revision < self.model.revision:
                if open_watch.has_callback:
                    await asyncio.sleep(0)
                else:
                    open_watch.take(await anext(batches))

        self.run(read_until_current())
        assert open_watch.events == self.model.events(open_watch.prefix, open_watch.after)

    def _check_compacted(self, open_watch: OpenWatch) -> None:
        async def end() -> None:
            async with AsyncExitStack() as left:
                left.push_async_exit(open_watch.watch.__aexit__)
                await anext(aiter(open_watch.watch))

        try:
            self.run(end())
        except Compacted:
            return
        # a store may still have the event at the compacted revision
        assert open_watch.after == self.model.compacted - 1, "a watch from before the compaction was accepted"
