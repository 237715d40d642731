"""Power loss at any moment: unsynced writes are lost, kept or torn, but no acknowledged write may be lost."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from sampan.host.clock import VirtualClock
from sampan.storage.backend import Unavailable
from sampan.storage.sqlite import SqliteBackend, SqliteConfig
from tests.storage.crash_check import Acknowledged, check_file
from tests.storage.faulty_disk import Disk, FaultyDriver

WRITERS, STEPS, SNAPSHOTS = 6, 40, 60


class Snapshot(NamedTuple):
    """The files after a power loss at some moment, and the writes that had been acknowledged by then."""

    files: dict[str, bytes]
    acknowledged: list[Acknowledged]


class SnapshotRecorder:
    """Takes snapshots of the disk as after a power loss, at random disk operations and at all syncs."""

    def __init__(self, disk: Disk, acknowledged: list[Acknowledged], seed: int) -> None:
        self._disk = disk
        self._acknowledged = acknowledged
        self._chance = random.Random(seed)
        self.snapshots: list[Snapshot] = []
        self.pairs: set[tuple[str, str]] = set()

    def __call__(self, operation: str, name: str) -> None:
        self.pairs.add((operation, name))
        if operation == "sync" or self._chance.random() < 0.05:
            self.take()

    def take(self) -> None:
        self.snapshots.append(Snapshot(self._disk.simulate_power_loss(self._chance), list(self._acknowledged)))

    def sample(self, count: int) -> list[Snapshot]:
        return self._chance.sample(self.snapshots, min(count, len(self.snapshots)))


async def _work(path: Path, disk: Disk, acknowledged: list[Acknowledged]) -> None:
    """Write concurrently, and advance the clock so that history is compacted and the log is checkpointed."""
    clock = VirtualClock()
    config = SqliteConfig(compaction_interval_s=60)
    async with SqliteBackend(path=path, clock=clock, config=config, driver=FaultyDriver(disk)) as backend:
        clock.on_idle(backend.idle)

        async def write(writer: int) -> None:
            chance = random.Random(writer)
            key = f"/registry/pods/{writer}"
            for step in range(STEPS):
                value = None if step % 9 == 8 else chance.randbytes(chance.choice([10, 1000, 3500, 20_000]))
                revision = await (backend.delete(key) if value is None else backend.put(key, value))
                acknowledged.append(Acknowledged(revision, key, value))

        async def age() -> None:
            for _ in range(STEPS // 8):
                for _ in range(8):
                    await backend.put("/registry/tick", b"x")
                await clock.advance(61)

        await asyncio.gather(*(write(writer) for writer in range(WRITERS)), age())
        await clock.advance(61)


def _record(tmp_path: Path, disk: Disk, seed: int) -> SnapshotRecorder:
    acknowledged: list[Acknowledged] = []
    recorder = SnapshotRecorder(disk, acknowledged, seed)
    disk.before_operation = recorder
    asyncio.run(_work(tmp_path / "work" / "state.db", disk, acknowledged))
    return recorder


def _restore(snapshot: Snapshot, directory: Path) -> Path:
    directory.mkdir()
    for name, contents in snapshot.files.items():
        (directory / name).write_bytes(contents)
    return directory / "state.db"


@pytest.mark.parametrize("seed", range(2))
def test_acknowledged_writes_survive_power_loss(tmp_path: Path, seed: int) -> None:
    recorder = _record(tmp_path, Disk(), seed)
    assert ("write", "state.db") in recorder.pairs, "there was no checkpoint"
    for i, snapshot in enumerate(recorder.sample(SNAPSHOTS)):
        check_file(_restore(snapshot, tmp_path / str(i)), snapshot.acknowledged)


def test_check_detects_a_disk_that_ignores_syncs(tmp_path: Path) -> None:
    """The test above proves something only if the check can fail."""
    recorder = _record(tmp_path, Disk(is_syncing=False), 0)
    lost = 0
    for i, snapshot in enumerate(recorder.sample(10)):
        try:
            check_file(_restore(snapshot, tmp_path / str(i)), snapshot.acknowledged)
        except Exception:
            lost += 1
    assert lost > 5


class FailingSync:
    """Fails the next `left` syncs of the write-ahead log."""

    def __init__(self) -> None:
        self.left = 0

    def __call__(self, operation: str, name: str) -> None:
        if operation == "sync" and name.endswith("-wal") and self.left:
            self.left -= 1
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)


@pytest.mark.parametrize(("failures", "may_have_happened"), [(1, False), (2, True)])
def test_commit_with_failed_sync_is_undone_or_reported_as_uncertain(
    tmp_path: Path, failures: int, may_have_happened: bool
) -> None:
    """Only the sync failed, so the data could reappear after a crash. Another transaction undoes them; if its sync
    fails too, the error says that the write may have happened. In both cases the store stays usable and consistent."""
    disk, failing = Disk(), FailingSync()
    disk.before_operation = failing
    acknowledged: list[Acknowledged] = []
    snapshots: list[Snapshot] = []

    def take_snapshots() -> None:
        snapshots.extend(Snapshot(disk.simulate_power_loss(random.Random(i)), list(acknowledged)) for i in range(10))

    async def work() -> None:
        path, clock = tmp_path / "work" / "state.db", VirtualClock()
        async with SqliteBackend(path=path, clock=clock, driver=FaultyDriver(disk)) as backend:
            clock.on_idle(backend.idle)
            before = await backend.put("/a", b"1")
            await clock.settle()
            acknowledged.append(Acknowledged(before, "/a", b"1"))
            failing.left = failures
            with pytest.raises(Unavailable) as caught:
                await backend.put("/a", b"2")
            assert caught.value.may_have_happened is may_have_happened
            take_snapshots()
            assert await backend.current_revision() == before
            assert (await backend.get("/a"))[0] is not None
            after = await backend.put("/b", b"3", expected=0)
            acknowledged.append(Acknowledged(after, "/b", b"3"))
            assert after == before + 1
            entry, _ = await backend.get("/a")
            assert entry is not None
            assert (entry.value, entry.revision) == (b"1", before)
            take_snapshots()

    asyncio.run(work())
    for i, snapshot in enumerate(snapshots):
        path = _restore(snapshot, tmp_path / str(i))
        revision = check_file(path, snapshot.acknowledged)
        if not may_have_happened:
            assert revision == snapshot.acknowledged[-1].revision, (
                "a write that was rejected for certain has reappeared"
            )


def test_close_after_failed_syncs_leaves_a_consistent_file(tmp_path: Path) -> None:
    disk, failing = Disk(), FailingSync()
    disk.before_operation = failing

    async def work() -> None:
        path = tmp_path / "state.db"
        async with SqliteBackend(path=path, clock=VirtualClock(), driver=FaultyDriver(disk)) as backend:
            await backend.put("/a", b"1")
            failing.left = 1000
            with suppress(Unavailable):
                await backend.put("/a", b"2")

    asyncio.run(work())
    failing.left = 0
    check_file(tmp_path / "state.db", [])
