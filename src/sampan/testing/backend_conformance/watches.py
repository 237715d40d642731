"""watch: from the current, a past and a future revision; complete, ordered, without duplicates; iterated and by
`on_batch`."""

import asyncio
from itertools import chain

from sampan.storage.backend import Backend, EventBatch, StoreEvent
from sampan.testing.backend_conformance.subject import TIMEOUT_S, BackendSubject, Check, WatchReader, put_all, raises

_NAMES = ["pods/a", "podtemplates/a", "pods/b/c", "pod", "pods", "pods0", "po/ds/", "pods/"]
_UNDER_PREFIX = {
    "pods/": ["pods/a", "pods/b/c", "pods/"],
    "pods/b/": ["pods/b/c"],
    "pods": ["pods/a", "pods/b/c", "pods", "pods0", "pods/"],
    "podt": ["podtemplates/a"],
    "none/": [],
}


async def watch_from_the_current_revision(subject: BackendSubject) -> None:
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        start = await backend.put(key, b"before")
        async with backend.watch(subject.key("pods/"), after=start) as watch:
            reading = WatchReader(watch, after=start)
            updated = await backend.put(key, b"1")
            assert await reading.events(1) == [StoreEvent(updated, key, b"1", start)]
            deleted = await backend.delete(key)
            [event] = await reading.events(1)
            assert (event.revision, event.key, event.value, event.is_delete) == (deleted, key, None, True)
            assert not event.is_create
            created = await backend.put(key, b"2")
            [event] = await reading.events(1)
            assert event == StoreEvent(created, key, b"2", created)
            assert event.is_create
            assert not event.is_delete


async def watch_from_a_past_revision(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        start = await backend.current_revision()
        expected = await _history(backend, subject)
        async with backend.watch(subject.root, after=start) as watch:
            reading = WatchReader(watch, after=start)
            assert await reading.events(len(expected)) == expected
            later = await backend.put(subject.key("pods/later"), b"x")
            assert [event.revision for event in await reading.events(1)] == [later]


async def watch_from_a_future_revision(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        start = await backend.current_revision()
        async with backend.watch(subject.root, after=start + 3) as watch:
            revisions = [await backend.put(subject.key(f"pods/{i}"), b"x") for i in range(6)]
            due = [revision for revision in revisions if revision > start + 3]
            events = await WatchReader(watch, after=start + 3).events(len(due))
            assert [event.revision for event in events] == due


async def watch_resumes_after_any_event(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        start = await backend.current_revision()
        expected = await _history(backend, subject)
        for i, event in enumerate(expected):
            remaining = expected[i + 1 :]
            async with backend.watch(subject.root, after=event.revision) as watch:
                reading = WatchReader(watch, after=event.revision)
                assert await reading.events(len(remaining)) == remaining
        async with backend.watch(subject.root, after=start) as watch:
            assert await WatchReader(watch, after=start).events(len(expected)) == expected


async def watch_delivers_only_keys_with_its_prefix(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        for prefix, expected in _UNDER_PREFIX.items():
            start = await backend.current_revision()
            live = backend.watch(subject.key(prefix), after=start)
            past = backend.watch(subject.key(prefix), after=start)
            async with live:
                end = [await backend.put(subject.key(name), b"x") for name in _NAMES][-1]
                async with past:
                    for watch in (live, past):
                        reading = WatchReader(watch, after=start)
                        events = await reading.events(len(expected))
                        await watch.request_progress()
                        events += await reading.read_until(end)
                        assert [event.key for event in events] == [subject.key(name) for name in expected], prefix


async def watch_started_during_writes_is_complete(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        start = await backend.current_revision()
        writers = [asyncio.ensure_future(_write(backend, subject, i, 25)) for i in range(8)]
        watched = await asyncio.gather(*(_follow(backend, subject, start, 200, pause=i) for i in range(10)))
        written = sorted(chain(*await asyncio.gather(*writers)))
        for revisions in watched:
            assert revisions == written


async def watch_is_ordered_under_concurrent_writers(subject: BackendSubject) -> None:
    writers, turns = 32, 15
    async with subject.open() as backend:
        start = await backend.current_revision()
        async with backend.watch(subject.root, after=start) as watch:
            written = await asyncio.gather(*(_write(backend, subject, i, turns) for i in range(writers)))
            events = await WatchReader(watch, after=start).events(writers * turns)
        assert [event.revision for event in events] == sorted(chain(*written))
        for i, revisions in enumerate(written):
            assert revisions == sorted(revisions)
            own_events = [event for event in events if event.key == subject.key(f"pods/{i}")]
            assert [event.revision for event in own_events] == revisions
            assert [event.value for event in own_events] == [f"{i} {turn}".encode() for turn in range(turns)]


async def concurrent_watches_receive_the_same_events(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        start = await backend.current_revision()
        watchers = [asyncio.ensure_future(_follow(backend, subject, start, 20, pause=i % 5)) for i in range(100)]
        written = [await backend.put(subject.key(f"pods/{i % 3}"), b"x") for i in range(20)]
        for revisions in await asyncio.gather(*watchers):
            assert revisions == written


async def slow_watch_receives_every_event(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        start = await backend.current_revision()
        async with backend.watch(subject.root, after=start) as watch:
            written = await put_all(backend, {subject.key(f"pods/{i}"): b"x" * 1000 for i in range(600)})
            events = await WatchReader(watch, after=start).events(600)
            assert [event.revision for event in events] == sorted(written.values())
            assert {event.key: event.revision for event in events} == written


async def watch_reports_progress_on_request(subject: BackendSubject) -> None:
    """A watch without events under its own prefix can request progress and learn that it is current."""
    async with subject.open() as backend:
        start = await backend.current_revision()
        async with backend.watch(subject.key("pods/"), after=start) as watch:
            reading = WatchReader(watch, after=start)
            for i in range(3):
                elsewhere = await backend.put(subject.key("secrets/a"), str(i).encode())
                await watch.request_progress()
                assert await reading.read_until(elsewhere) == []
            revision = await backend.put(subject.key("pods/a"), b"x")
            assert [event.revision for event in await reading.read_until(revision)] == [revision]


async def event_values_match_their_revisions(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        start = await backend.current_revision()
        await _history(backend, subject)
        end = await backend.current_revision()
        async with backend.watch(subject.root, after=start) as watch:
            for event in await WatchReader(watch, after=start).read_until(end):
                entry, _ = await backend.get(event.key, revision=event.revision)
                if entry is None:
                    assert event.is_delete
                else:
                    actual = (event.value, event.revision, event.create_revision)
                    assert actual == (entry.value, entry.revision, entry.create_revision)


async def on_batch_receives_past_and_new_events(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        start = await backend.current_revision()
        expected = await _history(backend, subject)
        recorder = _Recorder(start)
        async with backend.watch(subject.root, after=start, on_batch=recorder) as watch:
            later = await backend.put(subject.key("pods/later"), b"x")
            await recorder.wait_for_revision(later)
            assert recorder.events[:-1] == expected
            assert recorder.events[-1].revision == later
            elsewhere = await backend.put("/" + subject.root.strip("/") + "-elsewhere", b"x")
            await watch.request_progress()
            if subject.is_local:
                assert recorder.revision >= elsewhere, (
                    "an in-process watch must receive the batch before the write is acknowledged"
                )
            await recorder.wait_for_revision(elsewhere)
            await backend.delete("/" + subject.root.strip("/") + "-elsewhere")
        await backend.put(subject.key("pods/after"), b"x")
        assert recorder.events[-1].revision == later, "a watch still receives events after its consumer has left it"


async def on_batch_is_called_before_the_write_returns(subject: BackendSubject) -> None:
    """For a backend in this process, every `on_batch` has been called with the event before the write returns."""
    async with subject.open() as backend:
        start = await backend.current_revision()
        recorder = _Recorder(start)
        async with backend.watch(subject.key("pods/"), after=start, on_batch=recorder):

            async def write(i: int) -> None:
                for turn in range(10):
                    revision = await backend.put(subject.key(f"pods/{i}"), str(turn).encode())
                    if subject.is_local:
                        assert recorder.revision >= revision, (
                            "the write was acknowledged before the batch was delivered"
                        )

            await asyncio.gather(*(write(i) for i in range(16)))
            await recorder.wait_for_revision(await backend.current_revision())
            assert len(recorder.events) == 160


async def on_batch_is_ordered_under_concurrent_writers(subject: BackendSubject) -> None:
    """Events that `on_batch` receives during concurrent writes are ordered, complete and without duplicates."""
    async with subject.open() as backend:
        start = await backend.current_revision()
        writers = [asyncio.ensure_future(_write(backend, subject, i, 25)) for i in range(8)]
        for _ in range(40):
            await asyncio.sleep(0)
        recorder = _Recorder(start)
        async with backend.watch(subject.root, after=start, on_batch=recorder):
            written = sorted(chain(*await asyncio.gather(*writers)))
            await recorder.wait_for_revision(written[-1])
            assert [event.revision for event in recorder.events] == written


async def failing_on_batch_ends_only_its_own_watch(subject: BackendSubject) -> None:
    def fail(batch: EventBatch) -> None:
        raise ZeroDivisionError

    async with subject.open() as backend:
        start = await backend.current_revision()
        recorder = _Recorder(start)
        async with (
            backend.watch(subject.root, after=start, on_batch=fail) as failing,
            backend.watch(subject.root, after=start, on_batch=recorder),
        ):
            first = await backend.put(subject.key("pods/a"), b"x")
            with raises(ZeroDivisionError):
                await asyncio.wait_for(anext(aiter(failing)), TIMEOUT_S)
            second = await backend.put(subject.key("pods/a"), b"y")
            await recorder.wait_for_revision(second)
            assert [event.revision for event in recorder.events] == [first, second]


class _Recorder:
    """An `on_batch` callback that records events, and can be awaited until it has received some."""

    def __init__(self, after: int) -> None:
        self.events: list[StoreEvent] = []
        self.revision = after
        self._more = asyncio.Event()

    def __call__(self, batch: EventBatch) -> None:
        for event in batch.events:
            assert not self.events or event.revision > self.events[-1].revision
            self.events.append(event)
        assert batch.revision >= self.revision
        self.revision = batch.revision
        self._more.set()

    async def wait_for_revision(self, revision: int) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while self.revision < revision:
                self._more.clear()
                await self._more.wait()


async def _history(backend: Backend, subject: BackendSubject) -> list[StoreEvent]:
    """Create, update and delete a few keys; return the resulting events."""
    events: list[StoreEvent] = []
    created: dict[str, int] = {}
    for step in range(24):
        key = subject.key(f"pods/{step * 5 % 7}")
        if step % 4 == 3 and key in created:
            del created[key]
            events.append(StoreEvent(await backend.delete(key), key, None, 0))
        else:
            revision = await backend.put(key, str(step).encode())
            events.append(StoreEvent(revision, key, str(step).encode(), created.setdefault(key, revision)))
    return events


async def _write(backend: Backend, subject: BackendSubject, i: int, turns: int) -> list[int]:
    return [await backend.put(subject.key(f"pods/{i}"), f"{i} {turn}".encode()) for turn in range(turns)]


async def _follow(backend: Backend, subject: BackendSubject, after: int, count: int, *, pause: int) -> list[int]:
    """Return the revisions of `count` events of a watch. The watch is opened after some turns of the event loop
    (`pause`)."""
    for _ in range(pause * 3):
        await asyncio.sleep(0)
    async with backend.watch(subject.root, after=after) as watch:
        return [event.revision for event in await WatchReader(watch, after=after).events(count)]


CHECKS: tuple[Check, ...] = (
    watch_from_the_current_revision,
    watch_from_a_past_revision,
    watch_from_a_future_revision,
    watch_resumes_after_any_event,
    watch_delivers_only_keys_with_its_prefix,
    watch_started_during_writes_is_complete,
    watch_is_ordered_under_concurrent_writers,
    concurrent_watches_receive_the_same_events,
    slow_watch_receives_every_event,
    watch_reports_progress_on_request,
    event_values_match_their_revisions,
    on_batch_receives_past_and_new_events,
    on_batch_is_called_before_the_write_returns,
    on_batch_is_ordered_under_concurrent_writers,
    failing_on_batch_ends_only_its_own_watch,
)
