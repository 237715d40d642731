"""The power fails at any moment; what was not synced is lost, kept or torn. Nothing acknowledged may be gone."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from sampan.machinery.clock import VirtualClock
from sampan.storage.backend import Unavailable
from sampan.storage.sqlite import SqliteBackend, SqliteConfig
from tests.storage.crash_check import Acknowledged, check_file
from tests.storage.faulty_disk import Disk, FaultyDriver

WRITERS, TURNS, MOMENTS = 6, 40, 60


class Moment(NamedTuple):
    """What a power loss at some moment leaves on disk, and what had been acknowledged by then."""

    files: dict[str, bytes]
    acknowledged: list[Acknowledged]


class Photographer:
    """Says of random disk operations what the disk would be found like if the power failed just then."""

    def __init__(self, disk: Disk, acknowledged: list[Acknowledged], seed: int) -> None:
        self._disk = disk
        self._acknowledged = acknowledged
        self._chance = random.Random(seed)
        self.moments: list[Moment] = []
        self.pairs: set[tuple[str, str]] = set()

    def __call__(self, operation: str, name: str) -> None:
        self.pairs.add((operation, name))
        if operation == "sync" or self._chance.random() < 0.05:
            self.take()

    def take(self) -> None:
        self.moments.append(Moment(self._disk.after_power_loss(self._chance), list(self._acknowledged)))

    def sample(self, count: int) -> list[Moment]:
        return self._chance.sample(self.moments, min(count, len(self.moments)))


async def _work(path: Path, disk: Disk, acknowledged: list[Acknowledged]) -> None:
    """Writers, and now and then the passing of so much time that history is compacted and the log checkpointed."""
    clock = VirtualClock()
    config = SqliteConfig(compaction_interval_s=60)
    async with SqliteBackend(path=path, clock=clock, config=config, driver=FaultyDriver(disk)) as backend:
        clock.on_idle(backend.idle)

        async def write(writer: int) -> None:
            chance = random.Random(writer)
            key = f"/registry/pods/{writer}"
            for turn in range(TURNS):
                value = None if turn % 9 == 8 else chance.randbytes(chance.choice([10, 1000, 3500, 20_000]))
                revision = await (backend.delete(key) if value is None else backend.put(key, value))
                acknowledged.append(Acknowledged(revision, key, value))

        async def age() -> None:
            for _ in range(TURNS // 8):
                for _ in range(8):
                    await backend.put("/registry/tick", b"x")
                await clock.advance(61)

        await asyncio.gather(*(write(writer) for writer in range(WRITERS)), age())
        await clock.advance(61)


def _photograph(tmp_path: Path, disk: Disk, seed: int) -> Photographer:
    acknowledged: list[Acknowledged] = []
    photographer = Photographer(disk, acknowledged, seed)
    disk.before_operation = photographer
    asyncio.run(_work(tmp_path / "work" / "state.db", disk, acknowledged))
    return photographer


def _develop(moment: Moment, directory: Path) -> Path:
    directory.mkdir()
    for name, contents in moment.files.items():
        (directory / name).write_bytes(contents)
    return directory / "state.db"


@pytest.mark.parametrize("seed", range(2))
def test_nothing_acknowledged_is_lost(tmp_path: Path, seed: int) -> None:
    photographer = _photograph(tmp_path, Disk(), seed)
    assert ("write", "state.db") in photographer.pairs, "there was no checkpoint"
    for i, moment in enumerate(photographer.sample(MOMENTS)):
        check_file(_develop(moment, tmp_path / str(i)), moment.acknowledged)


def test_a_disk_that_lies_is_found_out(tmp_path: Path) -> None:
    """Else the test above would prove nothing."""
    photographer = _photograph(tmp_path, Disk(is_syncing=False), 0)
    lost = 0
    for i, moment in enumerate(photographer.sample(10)):
        try:
            check_file(_develop(moment, tmp_path / str(i)), moment.acknowledged)
        except Exception:
            lost += 1
    assert lost > 5


class FailingSync:
    """Fails the next syncs of the write-ahead log, as many as it is told."""

    def __init__(self) -> None:
        self.left = 0

    def __call__(self, operation: str, name: str) -> None:
        if operation == "sync" and name.endswith("-wal") and self.left:
            self.left -= 1
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)


@pytest.mark.parametrize(("failures", "may_have_happened"), [(1, False), (2, True)])
def test_a_commit_whose_sync_fails(tmp_path: Path, failures: int, may_have_happened: bool) -> None:
    """The data are written, only the sync failed: after a crash they could come back. One more transaction settles it;
    if that fails as well, the writer is told that nobody knows. Either way the store goes on and agrees with itself."""
    disk, failing = Disk(), FailingSync()
    disk.before_operation = failing
    acknowledged: list[Acknowledged] = []
    moments: list[Moment] = []

    def look() -> None:
        moments.extend(Moment(disk.after_power_loss(random.Random(i)), list(acknowledged)) for i in range(10))

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
            look()
            assert await backend.current_revision() == before
            assert (await backend.get("/a"))[0] is not None
            after = await backend.put("/b", b"3", expected=0)
            acknowledged.append(Acknowledged(after, "/b", b"3"))
            assert after == before + 1
            entry, _ = await backend.get("/a")
            assert entry is not None
            assert (entry.value, entry.revision) == (b"1", before)
            look()

    asyncio.run(work())
    for i, moment in enumerate(moments):
        path = _develop(moment, tmp_path / str(i))
        revision = check_file(path, moment.acknowledged)
        if not may_have_happened:
            assert revision == moment.acknowledged[-1].revision, "a write that was refused for certain came back"


def test_closing_after_a_failure_is_clean(tmp_path: Path) -> None:
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
