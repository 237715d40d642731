"""put and delete: compare-and-swap, sequentially and concurrently."""

import asyncio

from sampan.storage.backend import Backend, KeyValue, StoreConflict
from sampan.testing.backend_conformance.subject import BackendSubject, Check, WatchReader, raises


async def write_is_visible_when_it_returns(subject: BackendSubject) -> None:
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        for i in range(50):
            revision = await backend.put(key, str(i).encode())
            assert await backend.current_revision() >= revision
            entry, shown = await backend.get(key)
            assert entry is not None
            assert (entry.value, entry.revision) == (str(i).encode(), revision)
            assert shown >= revision
            page = await backend.range(subject.key("pods/"))
            assert [listed.revision for listed in page.entries] == [revision]


async def every_write_increments_the_revision(subject: BackendSubject) -> None:
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        start = await backend.current_revision()
        revisions = [await backend.put(key, b"same") for _ in range(5)]
        revisions.append(await backend.delete(key))
        assert revisions == sorted(set(revisions))
        assert revisions[0] > start


async def failed_write_leaves_the_revision_unchanged(subject: BackendSubject) -> None:
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        revision = await backend.put(key, b"1")
        for write in (backend.put(key, b"2", expected=0), backend.delete(key, expected=revision - 1)):
            with raises(StoreConflict):
                await write
        assert await backend.current_revision() == revision
        assert (await backend.get(key))[0] == KeyValue(key, b"1", revision, revision)


async def put_compares_the_expected_revision(subject: BackendSubject) -> None:
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        with raises(StoreConflict) as absent:
            await backend.put(key, b"1", expected=7)
        assert (absent.error.key, absent.error.current) == (key, None)
        first = await backend.put(key, b"1", expected=0)
        with raises(StoreConflict) as exists:
            await backend.put(key, b"2", expected=0)
        assert exists.error.current == KeyValue(key, b"1", first, first)
        second = await backend.put(key, b"2", expected=first)
        with raises(StoreConflict) as stale:
            await backend.put(key, b"3", expected=first)
        assert stale.error.current == KeyValue(key, b"2", second, first)
        await backend.put(key, b"3")
        await backend.delete(key)
        await backend.put(key, b"4", expected=0)


async def delete_compares_the_expected_revision(subject: BackendSubject) -> None:
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        for expected in (None, 0, 7):
            with raises(StoreConflict) as absent:
                await backend.delete(key, expected=expected)
            assert absent.error.current is None
        first = await backend.put(key, b"1")
        for expected in (0, first - 1, first + 1):
            with raises(StoreConflict) as stale:
                await backend.delete(key, expected=expected)
            assert stale.error.current == KeyValue(key, b"1", first, first)
        deleted = await backend.delete(key, expected=first)
        assert deleted > first
        assert (await backend.get(key))[0] is None
        with raises(StoreConflict):
            await backend.delete(key)
        await backend.put(key, b"2")
        assert await backend.delete(key) > deleted


async def one_of_many_conflicting_puts_succeeds(subject: BackendSubject) -> None:
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        revision = 0
        for turn in range(20):
            writes = [backend.put(key, f"{turn} {i}".encode(), expected=revision) for i in range(16)]
            outcomes = await asyncio.gather(*writes, return_exceptions=True)
            won = [(i, outcome) for i, outcome in enumerate(outcomes) if isinstance(outcome, int)]
            lost = [outcome for outcome in outcomes if isinstance(outcome, StoreConflict)]
            assert (len(won), len(lost)) == (1, 15), outcomes
            [(winner, revision)] = won
            entry, _ = await backend.get(key)
            assert entry is not None
            assert (entry.value, entry.revision) == (f"{turn} {winner}".encode(), revision)


async def no_increment_of_a_shared_counter_is_lost(subject: BackendSubject) -> None:
    key, writers, turns = subject.key("counters/a"), 12, 8
    async with subject.open() as backend:
        await backend.put(key, b"0")
        await asyncio.gather(*(_count_up(backend, key, turns) for _ in range(writers)))
        entry, _ = await backend.get(key)
        assert entry is not None
        assert int(entry.value) == writers * turns


async def one_of_many_conflicting_deletes_succeeds(subject: BackendSubject) -> None:
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        for _ in range(10):
            revision = await backend.put(key, b"x")
            outcomes = await asyncio.gather(
                *(backend.delete(key, expected=revision) for _ in range(8)), return_exceptions=True
            )
            assert sum(isinstance(outcome, int) for outcome in outcomes) == 1
            assert sum(isinstance(outcome, StoreConflict) for outcome in outcomes) == 7


async def conflict_does_not_affect_other_writes(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        revision = await backend.put(subject.key("taken"), b"x")
        writes = [backend.put(subject.key("taken" if i % 3 == 0 else f"free{i}"), b"y", expected=0) for i in range(30)]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        for i, outcome in enumerate(outcomes):
            assert isinstance(outcome, StoreConflict if i % 3 == 0 else int), f"write {i}: {outcome!r}"
        assert (await backend.get(subject.key("taken")))[0] == KeyValue(subject.key("taken"), b"x", revision, revision)
        assert await backend.count(subject.key("free")) == 20


async def concurrent_writes_have_distinct_revisions(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        start = await backend.current_revision()
        revisions = await asyncio.gather(*(backend.put(subject.key(f"k{i % 10}"), b"x") for i in range(100)))
        assert len(set(revisions)) == 100
        assert min(revisions) > start
        assert max(revisions) <= await backend.current_revision()


async def cancelled_write_is_never_partial(subject: BackendSubject) -> None:
    """A cancelled write is never partial: reads and watches agree, and the backend continues to work."""
    async with subject.open() as backend:
        start = await backend.current_revision()
        for i in range(30):
            others = [asyncio.ensure_future(backend.put(subject.key(f"other{i}"), b"x")) for _ in range(2)]
            write = asyncio.ensure_future(backend.put(subject.key(f"cancelled{i}"), b"x"))
            for _ in range(i % 4):
                await asyncio.sleep(0)
            write.cancel()
            await asyncio.gather(write, return_exceptions=True)
            await asyncio.gather(*others)
        last = await backend.put(subject.key("last"), b"x")
        async with backend.watch(subject.root, after=start) as watch:
            keys = {event.key for event in await WatchReader(watch, after=start).read_until(last)}
        page = await backend.range(subject.root, revision=last)
        assert {entry.key for entry in page.entries} == keys
        assert len([key for key in keys if "other" in key]) == 30


async def _count_up(backend: Backend, key: str, turns: int) -> None:
    while turns:
        entry, _ = await backend.get(key)
        assert entry is not None
        try:
            await backend.put(key, str(int(entry.value) + 1).encode(), expected=entry.revision)
            turns -= 1
        except StoreConflict:
            pass


CHECKS: tuple[Check, ...] = (
    write_is_visible_when_it_returns,
    every_write_increments_the_revision,
    failed_write_leaves_the_revision_unchanged,
    put_compares_the_expected_revision,
    delete_compares_the_expected_revision,
    one_of_many_conflicting_puts_succeeds,
    no_increment_of_a_shared_counter_is_lost,
    one_of_many_conflicting_deletes_succeeds,
    conflict_does_not_affect_other_writes,
    concurrent_writes_have_distinct_revisions,
    cancelled_write_is_never_partial,
)
