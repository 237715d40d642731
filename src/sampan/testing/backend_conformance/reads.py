"""get, range and count: current, at a revision, in pages, at the boundaries of a prefix."""

import asyncio

from sampan.storage.backend import Backend, FutureRevision, KeyValue
from sampan.testing.backend_conformance.subject import BackendSubject, Check, put_all, raises


async def get_of_a_missing_key_returns_none(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        entry, revision = await backend.get(subject.key("pods/default/none"))
        assert entry is None
        assert revision == await backend.current_revision() >= 1


async def get_returns_value_and_revisions(subject: BackendSubject) -> None:
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        first = await backend.put(key, b"one")
        assert (await backend.get(key))[0] == KeyValue(key, b"one", first, first)
        second = await backend.put(key, b"two")
        assert (await backend.get(key))[0] == KeyValue(key, b"two", second, first)
        await backend.delete(key)
        third = await backend.put(key, b"three")
        entry, revision = await backend.get(key)
        assert entry == KeyValue(key, b"three", third, third), "a deleted key can be created again"
        assert revision >= third


async def get_reads_every_past_revision(subject: BackendSubject) -> None:
    key, other = subject.key("pods/default/a"), subject.key("pods/default/b")
    async with subject.open() as backend:
        before = await backend.put(other, b"x")
        created = await backend.put(key, b"1")
        between = await backend.put(other, b"y")
        updated = await backend.put(key, b"2")
        deleted = await backend.delete(key)
        recreated = await backend.put(key, b"3")
        expected = {
            before: None,
            created: KeyValue(key, b"1", created, created),
            between: KeyValue(key, b"1", created, created),
            updated: KeyValue(key, b"2", updated, created),
            deleted: None,
            recreated: KeyValue(key, b"3", recreated, recreated),
        }
        for revision, entry in expected.items():
            assert await backend.get(key, revision=revision) == (entry, revision)


async def reads_of_future_revisions_are_rejected(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        ahead = await backend.put(subject.key("pods/default/a"), b"1") + 1000
        with raises(FutureRevision):
            await backend.get(subject.key("pods/default/a"), revision=ahead)
        with raises(FutureRevision):
            await backend.range(subject.key("pods/"), revision=ahead)


async def range_is_sorted_by_the_bytes_of_keys(subject: BackendSubject) -> None:
    names = ["a", "a-", "a0", "aa", "b", "é", "日本", "\uffee", "😀", "𐀀", "~", "A"]
    keys = {subject.key(f"pods/{name}"): name.encode() for name in names}
    async with subject.open() as backend:
        await put_all(backend, keys)
        page = await backend.range(subject.key("pods/"))
        assert [entry.key for entry in page.entries] == sorted(keys, key=str.encode)
        assert {entry.key: entry.value for entry in page.entries} == keys
        assert page.remaining == 0
        assert page.revision == await backend.current_revision()


async def range_returns_exactly_the_keys_with_the_prefix(subject: BackendSubject) -> None:
    keys = {subject.key(name): b"x" for name in ("pod", "pods", "pods/a", "pods/b/c", "pods0", "podtemplates/a", "po")}
    async with subject.open() as backend:
        await put_all(backend, keys)
        assert await _keys(backend, subject.key("pods/")) == [subject.key("pods/a"), subject.key("pods/b/c")]
        assert await _keys(backend, subject.key("pods/a")) == [subject.key("pods/a")]
        assert await _keys(backend, subject.key("podt")) == [subject.key("podtemplates/a")]
        assert await _keys(backend, subject.key("nothing/")) == []
        assert await _keys(backend, subject.root) == sorted(keys)


async def range_starts_at_the_start_key(subject: BackendSubject) -> None:
    prefix = subject.key("pods/")
    async with subject.open() as backend:
        await put_all(backend, {subject.key(name): b"x" for name in ("pods/a", "pods/b", "pods/c", "poda", "podz")})
        assert await _keys(backend, prefix, start=prefix + "b") == [prefix + "b", prefix + "c"]
        assert await _keys(backend, prefix, start=prefix + "b\0") == [prefix + "c"]
        assert await _keys(backend, prefix, start=subject.key("a")) == [prefix + "a", prefix + "b", prefix + "c"]
        assert await _keys(backend, prefix, start=subject.key("z")) == []


async def range_honours_limit_and_reports_remaining(subject: BackendSubject) -> None:
    prefix = subject.key("pods/")
    async with subject.open() as backend:
        await put_all(backend, {f"{prefix}{i:02}": b"x" for i in range(10)})
        page = await backend.range(prefix, limit=4)
        assert ([entry.key[-2:] for entry in page.entries], page.remaining) == (["00", "01", "02", "03"], 6)
        page = await backend.range(prefix, start=f"{prefix}08", limit=4)
        assert ([entry.key[-2:] for entry in page.entries], page.remaining) == (["08", "09"], 0)
        page = await backend.range(prefix, limit=10)
        assert (len(page.entries), page.remaining) == (10, 0)


async def range_reads_every_past_revision(subject: BackendSubject) -> None:
    prefix = subject.key("pods/")
    async with subject.open() as backend:
        states: dict[int, dict[str, bytes]] = {}
        state: dict[str, bytes] = {}
        for step in range(40):
            key = f"{prefix}{step * 7 % 5}"
            if step % 3 == 2 and key in state:
                del state[key]
                revision = await backend.delete(key)
            else:
                state[key] = str(step).encode()
                revision = await backend.put(key, state[key])
            states[revision] = dict(state)
        for revision, expected in states.items():
            page = await backend.range(prefix, revision=revision)
            assert {entry.key: entry.value for entry in page.entries} == expected
            assert page.revision == revision


async def pages_are_consistent_during_writes(subject: BackendSubject) -> None:
    prefix, size, limit = subject.key("pods/"), 60, 7
    async with subject.open() as backend:
        written = await put_all(backend, {f"{prefix}{i:03}": str(i).encode() for i in range(size)})
        snapshot = [KeyValue(key, str(i).encode(), written[key], written[key]) for i, key in enumerate(written)]
        async with asyncio.TaskGroup() as tasks:
            writer = tasks.create_task(_disturb(backend, prefix, size))
            page = await backend.range(prefix, limit=limit)
            if page.revision > max(written.values()):  # the writer was faster than the first page
                page = await backend.range(prefix, limit=limit, revision=max(written.values()))
            revision, entries = page.revision, list(page.entries)
            while page.remaining:
                assert page.remaining == size - len(entries)
                after = entries[-1].key + "\0"
                page = await backend.range(prefix, start=after, limit=limit, revision=revision)
                assert page.revision == revision
                entries += page.entries
            writer.cancel()
        assert entries == snapshot


async def reads_are_monotonic(subject: BackendSubject) -> None:
    """While a key is written, a read returns nothing newer than its own revision, and nothing older than any earlier
    call."""
    key = subject.key("pods/default/a")
    async with subject.open() as backend:
        latest = await backend.put(key, b"x")
        writers = [asyncio.ensure_future(_write_often(backend, key)) for _ in range(4)]
        while not all(writer.done() for writer in writers):
            entry, shown = await backend.get(key)
            now = await backend.current_revision()
            page = await backend.range(key)
            assert entry is not None
            assert entry.revision <= shown, "a read shows a write that is not there yet"
            assert latest <= shown <= now <= page.revision, "a later call returns an older revision"
            assert entry.revision <= page.entries[0].revision <= page.revision
            latest = page.revision
            await asyncio.sleep(0)
        await asyncio.gather(*writers)


async def count_returns_the_current_number_of_keys(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        assert await backend.count(subject.root) == 0
        await put_all(backend, {subject.key(f"pods/{i}"): b"x" for i in range(7)})
        await backend.put(subject.key("podtemplates/a"), b"x")
        await backend.put(subject.key("pods/0"), b"again")
        await backend.delete(subject.key("pods/1"))
        assert await backend.count(subject.key("pods/")) == 6
        assert await backend.count(subject.root) == 7


async def values_are_opaque(subject: BackendSubject) -> None:
    values = {
        "all": bytes(range(256)),
        "empty": b"",
        "zero": b"\0",
        "text": "ünïcode 😀".encode(),
        "big": b"\xff" * 1_000_000,
    }
    async with subject.open() as backend:
        for name, value in values.items():
            revision = await backend.put(subject.key(name), value)
            assert (await backend.get(subject.key(name)))[0] == KeyValue(subject.key(name), value, revision, revision)
        page = await backend.range(subject.root)
        assert {entry.key.removeprefix(subject.root): entry.value for entry in page.entries} == values


async def large_range_is_complete(subject: BackendSubject) -> None:
    prefix = subject.key("pods/")
    items = {f"{prefix}{i:04}": b"x" * 2000 for i in range(1500)}
    async with subject.open() as backend:
        written = await put_all(backend, items)
        page = await backend.range(prefix)
        assert {entry.key: entry.revision for entry in page.entries} == written
        assert len(page.entries) == len(items)


async def _keys(backend: Backend, prefix: str, *, start: str = "") -> list[str]:
    return [entry.key for entry in (await backend.range(prefix, start=start)).entries]


async def _write_often(backend: Backend, key: str) -> None:
    for i in range(25):
        await backend.put(key, str(i).encode())


async def _disturb(backend: Backend, prefix: str, size: int) -> None:
    """Update, delete and create keys all over the range until cancelled."""
    step = 0
    while True:
        step += 1
        key = f"{prefix}{step * 13 % size:03}"
        await backend.put(key, b"changed")
        await backend.delete(key)
        await backend.put(f"{key}-new", b"new")


CHECKS: tuple[Check, ...] = (
    get_of_a_missing_key_returns_none,
    get_returns_value_and_revisions,
    get_reads_every_past_revision,
    reads_of_future_revisions_are_rejected,
    range_is_sorted_by_the_bytes_of_keys,
    range_returns_exactly_the_keys_with_the_prefix,
    range_starts_at_the_start_key,
    range_honours_limit_and_reports_remaining,
    range_reads_every_past_revision,
    pages_are_consistent_during_writes,
    reads_are_monotonic,
    count_returns_the_current_number_of_keys,
    values_are_opaque,
    large_range_is_complete,
)
