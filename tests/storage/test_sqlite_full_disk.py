"""A full disk: clear errors, no acknowledged write is lost, and writes succeed when there is space again."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from sampan.host.clock import VirtualClock
from sampan.storage.backend import EventBatch, Unavailable
from sampan.storage.sqlite import SqliteBackend, SqliteConfig
from tests.storage.crash_check import Acknowledged, check_file
from tests.storage.faulty_disk import Disk, FaultyDriver


class Client:
    """Writes values of 3 KB, sixteen at a time, and records acknowledged writes and the events of a watch."""

    def __init__(self, backend: SqliteBackend) -> None:
        self.backend = backend
        self.acknowledged: list[Acknowledged] = []
        self.revisions: list[int] = []
        self._number = 0

    def on_batch(self, batch: EventBatch) -> None:
        self.revisions += [event.revision for event in batch.events]

    async def write(self) -> list[BaseException]:
        """Write sixteen values at a time, and return the errors."""
        outcomes = await asyncio.gather(*(self._put() for _ in range(16)), return_exceptions=True)
        return [outcome for outcome in outcomes if outcome is not None]

    async def write_until_failure(self, rounds: int = 2000) -> list[BaseException]:
        for _ in range(rounds):
            if errors := await self.write():
                return errors
        raise AssertionError("the disk never ran full")

    async def _put(self) -> None:
        self._number += 1
        key, value = f"/registry/pods/{self._number}", os.urandom(3000)
        self.acknowledged.append(Acknowledged(await self.backend.put(key, value, expected=0), key, value))

    def check(self) -> None:
        assert self.revisions == sorted(ack.revision for ack in self.acknowledged)


@asynccontextmanager
async def _client(backend: SqliteBackend) -> AsyncIterator[Client]:
    async with backend:
        client = Client(backend)
        async with backend.watch("/", after=1, on_batch=client.on_batch):
            yield client


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 6 MB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(directory)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting is not allowed")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


def test_writes_fail_on_a_full_file_system_and_resume_when_there_is_space(small_disk: Path) -> None:
    path, ballast = small_disk / "state.db", small_disk / "ballast"
    ballast.write_bytes(bytes(3 << 20))

    async def work() -> list[Acknowledged]:
        async with _client(SqliteBackend(path=path, clock=VirtualClock())) as client:
            for error in await client.write_until_failure():
                assert isinstance(error, Unavailable)
                assert not error.may_have_happened
                assert str(path) in str(error)
            assert len(client.acknowledged) > 100
            assert await client.write(), "the disk is still full"
            client.check()
            page = await client.backend.range("/")
            assert {entry.key: entry.value for entry in page.entries} == {
                ack.key: ack.value for ack in client.acknowledged
            }
            ballast.unlink()
            for _ in range(5):
                assert not await client.write()
            client.check()
            return client.acknowledged

    check_file(path, asyncio.run(work()))


def _fill(directory: Path) -> None:
    """Use up the free space of a file system."""
    with (directory / "filler").open("ab") as filler:
        for size in (1 << 16, 1 << 12, 1):
            while True:
                try:
                    os.write(filler.fileno(), bytes(size))
                except OSError:
                    break


async def test_objects_can_be_deleted_on_a_full_disk(small_disk: Path) -> None:
    path = small_disk / "state.db"

    async with _client(SqliteBackend(path=path, clock=VirtualClock())) as client:
        for _ in range(10):
            assert not await client.write()
        _fill(small_disk)
        errors = await client.write_until_failure()
        assert {str(error) for error in errors} == {f"{path}: no space left on device"}
        assert client.backend.write_failure == f"{path}: no space left on device"
        for ack in client.acknowledged:
            await client.backend.delete(ack.key)
        assert (await client.backend.range("/")).entries == []
        assert await client.write(), "the disk is still full"


async def test_deletions_on_a_full_disk_free_space_for_writes(small_disk: Path) -> None:
    path = small_disk / "state.db"

    clock = VirtualClock()
    async with _client(SqliteBackend(path=path, clock=clock)) as client:
        await client.write_until_failure()
        for ack in client.acknowledged:
            await client.backend.delete(ack.key)
        for _ in range(20):
            await client.backend.idle()
            if not client.backend.write_failure:
                break
            await clock.advance(5)
        assert not await client.write()


_WRITER = """
import asyncio, os, signal, sys
from pathlib import Path
from sampan.host.clock import RealClock
from sampan.storage.sqlite import SqliteBackend

async def write() -> None:
    async with SqliteBackend(path=Path(sys.argv[1]), clock=RealClock()) as backend:
        for number in range(160):
            await backend.put(f"/registry/pods/{number:03}", b"%d" % number * 1000)
        if sys.argv[2] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(write())
"""


@pytest.mark.parametrize("end", ["closed", "killed"])
def test_a_store_opens_on_a_full_disk(small_disk: Path, end: str) -> None:
    path = small_disk / "state.db"
    subprocess.run([sys.executable, "-c", _WRITER, str(path), end])
    _fill(small_disk)

    async def check() -> None:
        async with SqliteBackend(path=path, clock=VirtualClock()) as backend:
            page = await backend.range("/")
            assert [entry.value for entry in page.entries] == [b"%d" % number * 1000 for number in range(160)]
            with pytest.raises(Unavailable, match="no space left on device"):
                await _put_many(backend)
            for entry in page.entries:
                await backend.delete(entry.key)

    asyncio.run(check())
    asyncio.run(_check_only_prefix(path, "/other/"))


async def _put_many(backend: SqliteBackend) -> None:
    for number in range(2000):
        await backend.put(f"/other/{number}", os.urandom(3000))


async def _check_only_prefix(path: Path, prefix: str) -> None:
    async with SqliteBackend(path=path, clock=VirtualClock()) as backend:
        page = await backend.range("/")
        assert all(entry.key.startswith(prefix) for entry in page.entries)


def remount_read_only(directory: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(directory)], check=True)


async def test_read_only_file_system_raises_unavailable(small_disk: Path) -> None:
    remount_read_only(small_disk)
    with pytest.raises(Unavailable, match=r"state\.db: read-only file system"):
        await SqliteBackend(path=small_disk / "state.db", clock=VirtualClock()).__aenter__()


def test_sqlite_full_error_fails_a_batch_as_a_whole(tmp_path: Path) -> None:
    """The disk reports SQLITE_FULL at some writes, at any place of a transaction."""
    disk, writes = Disk(), 0

    def fail_some_writes(operation: str, name: str) -> None:
        nonlocal writes
        writes += operation == "write"
        if operation == "write" and writes % 97 == 0:
            raise apsw.exception_for(apsw.SQLITE_FULL)

    async def work() -> list[Acknowledged]:
        backend = SqliteBackend(path=tmp_path / "state.db", clock=VirtualClock(), driver=FaultyDriver(disk))
        async with _client(backend) as client:
            disk.before_operation = fail_some_writes
            failed = 0
            for _ in range(40):
                errors = await client.write()
                assert len(errors) in (0, 16), "a batch fails as a whole"
                failed += bool(errors)
                for error in errors:
                    assert isinstance(error, Unavailable)
                    assert not error.may_have_happened
                    assert "no space left" in str(error)
            assert 0 < failed < 40
            client.check()
            return client.acknowledged

    check_file(tmp_path / "state.db", asyncio.run(work()))


def test_acknowledged_writes_survive_io_errors(tmp_path: Path) -> None:
    """Writes that were rejected for certain are not stored."""
    disk, operations = Disk(), 0

    def fail_some_operations(operation: str, name: str) -> None:
        nonlocal operations
        operations += 1
        if operations % 89 == 0:
            code = {"write": apsw.SQLITE_IOERR_WRITE, "sync": apsw.SQLITE_IOERR_FSYNC}
            raise apsw.exception_for(code.get(operation, apsw.SQLITE_IOERR_TRUNCATE))

    async def work() -> list[Acknowledged]:
        backend = SqliteBackend(path=tmp_path / "state.db", clock=VirtualClock(), driver=FaultyDriver(disk))
        async with _client(backend) as client:
            disk.before_operation = fail_some_operations
            failures = [errors for _ in range(60) if (errors := await client.write())]
            disk.before_operation = lambda operation, name: None
            assert 0 < len(failures) < 60
            assert all(isinstance(error, Unavailable) for errors in failures for error in errors)
            client.check()
            assert not await client.write()
            return client.acknowledged

    check_file(tmp_path / "state.db", asyncio.run(work()))


async def test_store_above_max_bytes_accepts_only_deletes(tmp_path: Path) -> None:
    config = SqliteConfig(max_bytes=500_000)
    async with _client(SqliteBackend(path=tmp_path / "state.db", clock=VirtualClock(), config=config)) as client:
        backend = client.backend
        for error in await client.write_until_failure():
            assert isinstance(error, Unavailable)
            assert "database space exceeded" in str(error)
            assert not error.may_have_happened
        assert 100 < len(client.acknowledged) < 200
        for ack in client.acknowledged[:120]:
            await backend.delete(ack.key)
        assert await client.write(), "the history still takes up the space"
        await backend.compact(await backend.current_revision())
        assert not await client.write()
