"""Compaction: which revisions stay readable, which are rejected, and that a watch is never incomplete."""

import asyncio

from sampan.storage.backend import Backend, Compacted, FutureRevision
from sampan.testing.backend_conformance.subject import BackendSubject, Check, WatchReader, raises


async def reads_of_compacted_revisions_are_rejected(subject: BackendSubject) -> None:
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        revisions = [await backend.put(key, str(i).encode()) for i in range(6)]
        await backend.compact(revisions[3])
        assert backend.compacted_revision >= revisions[3]
        for old in revisions[:3]:
            with raises(Compacted) as caught:
                await backend.get(key, revision=old)
            assert caught.error.compacted >= revisions[3]
            with raises(Compacted):
                await backend.range(subject.root, revision=old)
        for i, revision in enumerate(revisions[3:], 3):
            entry, _ = await backend.get(key, revision=revision)
            assert entry is not None
            assert entry.value == str(i).encode()
            page = await backend.range(subject.root, revision=revision)
            assert [listed.value for listed in page.entries] == [str(i).encode()]


async def compaction_keeps_the_current_state(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        for i in range(30):
            await backend.put(subject.key(f"pods/{i % 10}"), str(i).encode())
        for i in range(0, 10, 3):
            await backend.delete(subject.key(f"pods/{i}"))
        before = await backend.range(subject.root)
        await backend.compact(before.revision)
        after = await backend.range(subject.root)
        assert after == before
        assert await backend.range(subject.root, revision=before.revision) == before
        assert await backend.count(subject.root) == 6
        for entry in before.entries:
            assert (await backend.get(entry.key))[0] == entry


async def compaction_is_idempotent(subject: BackendSubject) -> None:
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        revisions = [await backend.put(key, str(i).encode()) for i in range(4)]
        await backend.compact(revisions[2])
        await backend.compact(revisions[2])
        await backend.compact(revisions[0])
        entry, _ = await backend.get(key, revision=revisions[2])
        assert entry is not None
        assert entry.value == b"2"
        with raises(FutureRevision):
            await backend.compact(revisions[-1] + 1000)
        assert await backend.current_revision() == revisions[-1]


async def revisions_increase_after_compaction(subject: BackendSubject) -> None:
    """Revisions continue to increase after a compaction, even if the last write was a deletion that was compacted
    away."""
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        await backend.put(key, b"1")
        deleted = await backend.delete(key)
        await backend.compact(deleted)
        assert await backend.current_revision() == deleted
        assert (await backend.get(key))[0] is None
        assert await backend.put(key, b"2", expected=0) > deleted


async def continued_range_is_rejected_after_compaction(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        for i in range(10):
            await backend.put(subject.key(f"pods/{i}"), b"x")
        page = await backend.range(subject.root, limit=4)
        await backend.put(subject.key("pods/9"), b"y")
        await backend.compact(await backend.current_revision())
        with raises(Compacted):
            await backend.range(subject.root, start=page.entries[-1].key + "\0", limit=4, revision=page.revision)


async def watch_from_a_compacted_revision_is_rejected(subject: BackendSubject) -> None:
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        revisions = [await backend.put(key, str(i).encode()) for i in range(6)]
        await backend.compact(revisions[3])
        for old in revisions[:2]:
            with raises(Compacted):
                async with backend.watch(subject.root, after=old) as watch:
                    await WatchReader(watch, after=old).batch()
        async with backend.watch(subject.root, after=revisions[3]) as watch:
            events = await WatchReader(watch, after=revisions[3]).events(2)
            assert [event.revision for event in events] == revisions[4:]


async def synced_watch_survives_compaction(subject: BackendSubject) -> None:
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        start = await backend.put(key, b"0")
        async with backend.watch(subject.root, after=start) as watch:
            reading = WatchReader(watch, after=start)
            for i in range(5):
                revision = await backend.put(key, str(i).encode())
                assert [event.revision for event in await reading.events(1)] == [revision]
                await backend.compact(revision)


async def watches_have_no_gap_during_compaction(subject: BackendSubject) -> None:
    """Watchers resume at random old revisions while others write and compact: each gets all events, or `Compacted`."""
    async with subject.open() as backend:
        written = [await backend.put(subject.key("pods/first"), b"x")]
        resumed: list[tuple[int, int, list[int]]] = []
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(_write_and_compact(backend, subject, written))
            while not writing.done():
                resumed += await _resume(backend, subject, written[-15:][0])
                await asyncio.sleep(0)
        assert resumed, "every watch was refused"
        for after, end, revisions in resumed:
            assert revisions == [revision for revision in written if after < revision <= end]


async def _resume(backend: Backend, subject: BackendSubject, after: int) -> list[tuple[int, int, list[int]]]:
    """Open a watch at a revision. Return the revision at which it started, the revision up to which it was read, and
    the revisions of its events; an empty list if the watch was rejected."""
    try:
        async with backend.watch(subject.root, after=after) as watch:
            reading = WatchReader(watch, after=after)
            revisions = [event.revision for event in await reading.read_until(await backend.current_revision())]
            return [(after, reading.revision, revisions)]
    except Compacted:
        return []


async def _write_and_compact(backend: Backend, subject: BackendSubject, written: list[int]) -> None:
    for i in range(150):
        written.append(await backend.put(subject.key(f"pods/{i % 7}"), str(i).encode()))
        if i % 10 == 9:
            await backend.compact(written[-1 - i % 3])


CHECKS: tuple[Check, ...] = (
    reads_of_compacted_revisions_are_rejected,
    compaction_keeps_the_current_state,
    compaction_is_idempotent,
    revisions_increase_after_compaction,
    continued_range_is_rejected_after_compaction,
    watch_from_a_compacted_revision_is_rejected,
    synced_watch_survives_compaction,
    watches_have_no_gap_during_compaction,
)
