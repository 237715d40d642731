"""The sqlite store: the conformance suite, file permissions, restarts, group commit, compaction and file size."""

import asyncio
import sqlite3
import stat
from pathlib import Path

import pytest

pytest.register_assert_rewrite("sampan.testing.backend_conformance")

from sampan.host.clock import VirtualClock  # noqa: E402
from sampan.storage.backend import Compacted  # noqa: E402
from sampan.storage.sqlite import InUse, SqliteBackend, SqliteConfig  # noqa: E402
from sampan.testing.backend_conformance import CHECKS, BackendSubject, Check, run  # noqa: E402
from tests.storage.faulty_disk import Disk, FaultyDriver  # noqa: E402


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Check, tmp_path: Path) -> None:
    clock = VirtualClock()
    path = tmp_path / "state.db"
    run(check, BackendSubject(open=lambda: SqliteBackend(path=path, clock=clock), advance=clock.advance, is_local=True))


async def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data" / "state.db"

    async with SqliteBackend(path=path, clock=VirtualClock()) as backend:
        await backend.put("/a", b"secret")
        files = list(path.parent.iterdir())
        assert {file.name for file in files} >= {"state.db", "state.db-wal", "state.db-shm"}
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        for directory in (path.parent, path.parent.parent):
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700


async def test_second_backend_on_a_file_raises_in_use(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async with SqliteBackend(path=path, clock=VirtualClock()) as first:
        with pytest.raises(InUse, match=f"{path} is in use by another process"):
            await SqliteBackend(path=path, clock=VirtualClock()).__aenter__()
        await first.put("/a", b"x")
    async with SqliteBackend(path=path, clock=VirtualClock()) as second:
        assert await second.count("/") == 1


async def test_data_and_history_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async with SqliteBackend(path=path, clock=VirtualClock()) as backend:
        first = await backend.put("/a", b"1")
        await backend.put("/a", b"2")
        await backend.put("/b", b"1")
        last = await backend.delete("/b")
        page = await backend.range("/")
        await backend.compact(first)
    async with SqliteBackend(path=path, clock=VirtualClock()) as backend:
        assert await backend.current_revision() == last
        assert await backend.range("/") == page
        assert (await backend.get("/b", revision=last - 1))[0] is not None
        with pytest.raises(Compacted):
            await backend.get("/a", revision=first - 1)
        async with backend.watch("/", after=first) as watch:
            batch = await anext(aiter(watch))
            assert [event.revision for event in batch.events] == [first + 1, first + 2, last]
        assert await backend.put("/c", b"1") == last + 1


async def test_keys_expire_after_a_restart(tmp_path: Path) -> None:
    path, clock = tmp_path / "state.db", VirtualClock()

    async def list_deleted_keys(backend: SqliteBackend) -> list[str]:
        await clock.settle()
        return [key for key in ("/soon", "/late", "/never") if (await backend.get(key))[0] is None]

    async with SqliteBackend(path=path, clock=clock) as backend:
        clock.on_idle(backend.idle)
        await backend.put("/soon", b"x", ttl_s=10)
        await backend.put("/late", b"x", ttl_s=100)
        await backend.put("/never", b"x")
    await clock.advance(50)
    async with SqliteBackend(path=path, clock=clock) as backend:
        clock.on_idle(backend.idle)
        assert await list_deleted_keys(backend) == ["/soon"], "the key expired while the store was closed"
        await clock.advance(60)
        assert await list_deleted_keys(backend) == ["/soon", "/late"]


async def test_concurrent_writes_share_one_sync(tmp_path: Path) -> None:
    disk, synced = Disk(), []
    disk.before_operation = lambda operation, name: synced.append(name) if operation == "sync" else None

    driver, clock = FaultyDriver(disk), VirtualClock()
    async with SqliteBackend(path=tmp_path / "state.db", clock=clock, driver=driver) as backend:
        clock.on_idle(backend.idle)
        await backend.put("/a", b"x")
        await clock.settle()
        synced.clear()
        await asyncio.gather(*(backend.put(f"/{i}", b"x") for i in range(100)))
        assert synced == ["state.db-wal"], "writes of one iteration of the event loop share a transaction"
        await backend.put("/a", b"x")
        assert synced == ["state.db-wal"] * 2
        with pytest.raises(Exception, match="is at revision"):
            await backend.put("/a", b"x", expected=0)
        assert len(synced) == 2, "a conflict writes nothing"


async def test_history_is_compacted_automatically(tmp_path: Path) -> None:
    clock = VirtualClock()
    config = SqliteConfig(compaction_interval_s=300)

    async with SqliteBackend(path=tmp_path / "state.db", clock=clock, config=config) as backend:
        clock.on_idle(backend.idle)
        early = [await backend.put("/a", b"x") for _ in range(50)]
        await clock.advance(299)
        await backend.get("/a", revision=early[0])
        late = [await backend.put("/a", b"x") for _ in range(5)]
        await clock.advance(2)
        await backend.get("/a", revision=early[0])
        await clock.advance(300)
        with pytest.raises(Compacted) as caught:
            await backend.get("/a", revision=early[0])
        assert early[-1] <= caught.value.compacted <= late[-1]
        assert backend.compacted_revision == caught.value.compacted
        await backend.get("/a", revision=caught.value.compacted)
        await clock.advance(300)
        assert clock.next_wake() is None, "a store without writes has no timer"


def test_history_is_compacted_across_short_lived_processes(tmp_path: Path) -> None:
    path, clock = tmp_path / "state.db", VirtualClock()
    config = SqliteConfig(compaction_interval_s=300)

    async def run_short_process() -> int:
        """Write, stop before compaction is due, and return the compacted revision at the start."""
        async with SqliteBackend(path=path, clock=clock, config=config) as backend:
            clock.on_idle(backend.idle)
            await clock.advance(100)
            try:
                await backend.get("/a", revision=1)
            except Compacted as error:
                return error.compacted
            finally:
                await backend.put("/a", b"x")
                await clock.advance(10)
        return 0

    compacted = [asyncio.run(run_short_process()) for _ in range(8)]
    assert compacted == [0, 0, 0, 2, 2, 2, 5, 5]


async def test_an_interval_of_zero_disables_compaction(tmp_path: Path) -> None:
    clock, config = VirtualClock(), SqliteConfig(compaction_interval_s=0)
    async with SqliteBackend(path=tmp_path / "state.db", clock=clock, config=config) as backend:
        first = await backend.put("/a", b"x")
        await backend.put("/a", b"y")
        await clock.advance(3600)
        assert (await backend.get("/a", revision=first))[0] is not None


def test_compaction_deletes_all_rows_except_those_of_live_keys(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def work() -> None:
        async with SqliteBackend(path=path, clock=VirtualClock()) as backend:
            await asyncio.gather(*(backend.put(f"/{i % 10}", b"x") for i in range(2500)))
            for i in range(5):
                await backend.delete(f"/{i}")
            last = await backend.put("/last", b"x")
            await backend.compact(last)
            await backend.compact(last)

    asyncio.run(work())
    with sqlite3.connect(path) as connection:
        for table in ("live", "revisions", "bodies"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(6,)], table
    connection.close()


async def test_file_shrinks_after_deletion_and_compaction(tmp_path: Path) -> None:
    path, clock = tmp_path / "state.db", VirtualClock()
    config = SqliteConfig(compaction_interval_s=10)

    async with SqliteBackend(path=path, clock=clock, config=config) as backend:
        clock.on_idle(backend.idle)
        await asyncio.gather(*(backend.put(f"/{i}", b"x" * 100_000) for i in range(150)))
        large = await backend.size()
        assert large > 15_000_000
        await asyncio.gather(*(backend.delete(f"/{i}") for i in range(149)))
        await clock.advance(21)
        assert await backend.size() < 3_000_000
        assert path.with_name("state.db-wal").stat().st_size == 0, "the write-ahead log is emptied when idle"
        entry, _ = await backend.get("/149")
        assert entry is not None
        assert entry.value == b"x" * 100_000


async def test_the_write_ahead_log_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async with SqliteBackend(path=path, clock=VirtualClock()) as backend:
        for _ in range(8):
            await asyncio.gather(*(backend.put(f"/{i}", b"x" * 50_000) for i in range(50)))
        assert await backend.size() > 20_000_000
        assert path.with_name("state.db-wal").stat().st_size < 8_000_000


async def test_long_range_does_not_block_the_event_loop(tmp_path: Path) -> None:
    async with SqliteBackend(path=tmp_path / "state.db", clock=VirtualClock()) as backend:
        await asyncio.gather(*(backend.put(f"/{i}", b"x" * 1000) for i in range(5000)))
        reading = asyncio.ensure_future(backend.range("/"))
        iterations = 0
        while not reading.done():
            await asyncio.sleep(0)
            iterations += 1
        assert len((await reading).entries) == 5000
        assert iterations > 10
