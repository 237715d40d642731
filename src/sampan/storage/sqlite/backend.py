"""`SqliteBackend`: the `Backend` contract on one SQLite file.

Writes use group commit. A single key at the current revision is read on the event loop, which takes a few microseconds;
passing the read to a thread and back would take several times as long. All reads that may take long run in threads. A
store belongs to one process: file permissions and a lock (`StoreLock`) ensure it.
"""

import asyncio
import fcntl
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from sampan.host.clock import Clock
from sampan.host.worker_thread import WorkerThreads
from sampan.storage.backend import (
    BackendClosed,
    EventBatch,
    FutureRevision,
    KeyValue,
    OnBatch,
    PendingWrite,
    StorageError,
    StoreEvent,
    StorePage,
    StoreWatch,
    Unavailable,
)
from sampan.storage.expiry import KeyExpiry
from sampan.storage.sqlite.commits import GroupCommit
from sampan.storage.sqlite.log import Outcome, RevisionLog
from sampan.storage.sqlite.reader import ReaderPool
from sampan.storage.sqlite.schema import FIRST_REVISION, SqliteDriver, StandardDriver
from sampan.storage.sqlite.upkeep import StoreMaintenance
from sampan.storage.watch_hub import WatchHub


@dataclass(frozen=True, kw_only=True)
class SqliteConfig:
    compaction_interval_s: float = 300.0
    """The interval of compactions, in seconds: history covers between one and two intervals. 0 disables them."""
    max_bytes: int = 8 << 30
    """The size of the database above which only deletions are accepted."""
    is_synced: bool = True
    """Whether a write is acknowledged only when it is on disk. Otherwise it survives the end of the process, but not
    a crash of the machine."""
    reader_threads: int = 2
    """How many ranges and old revisions can be read concurrently."""


@dataclass(frozen=True, kw_only=True)
class _OpenStore:
    """The components of an open store."""

    commits: GroupCommit
    readers: ReaderPool
    upkeep: StoreMaintenance
    log: RevisionLog


class SqliteBackend:
    """The SQLite backend, which can be entered once.

    Entering raises `InUse` if another process has the store open, and `FormatError` for a file of a newer format.
    """

    def __init__(
        self, *, path: Path, clock: Clock, config: SqliteConfig | None = None, driver: SqliteDriver | None = None
    ) -> None:
        self._path = path
        self._clock = clock
        self._config = config or SqliteConfig()
        self._driver = driver or StandardDriver()
        self._hub = WatchHub(revision=FIRST_REVISION, read_log=self._read_log)
        self._expiry = KeyExpiry(clock=clock, remove=lambda key, revision: self.delete(key, expected=revision))
        self._parts: _OpenStore | None = None
        self._running = AsyncExitStack()

    async def __aenter__(self) -> "SqliteBackend":
        async with AsyncExitStack() as running:
            owner = StoreLock(self._path)
            running.callback(owner.release)
            owner.acquire()
            self._parts = await self._open(running)
            running.push_async_callback(self._finish)
            tasks = await running.enter_async_context(asyncio.TaskGroup())
            for background in (self._expiry.run(), self._parts.upkeep.run(), self._parts.upkeep.run_recovery()):
                running.callback(tasks.create_task(background).cancel)
            self._running = running.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    async def idle(self) -> bool:
        """Wait until nothing is written, deleted or compacted, for a virtual clock; return whether anything was."""
        if (parts := self._parts) is None:
            return False
        return any([await self._expiry.idle(), await parts.upkeep.idle(), await parts.commits.idle()])

    async def get(self, key: str, *, revision: int = 0) -> tuple[KeyValue | None, int]:
        parts, shown = self._open_parts(), self._resolve_revision(revision)
        if shown < self._hub.revision:
            return await parts.readers.read(lambda reader: reader.get(key, shown)), shown
        if parts.commits.is_idle:
            return parts.readers.quick.get_newest(key), shown
        return parts.readers.quick.get(key, shown), shown

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> StorePage:
        parts, shown = self._open_parts(), self._resolve_revision(revision)
        return await parts.readers.read(lambda reader: reader.range(prefix, start, limit, shown))

    async def count(self, prefix: str) -> int:
        parts, shown = self._open_parts(), self._resolve_revision(0)
        return await parts.readers.read(lambda reader: reader.count(prefix, shown))

    async def put(self, key: str, value: bytes, *, expected: int | None = None, ttl_s: float | None = None) -> int:
        expires = None if ttl_s is None else self._clock.now() + ttl_s
        return await self._open_parts().commits.write(PendingWrite(key, value, expected, expires))

    async def delete(self, key: str, *, expected: int | None = None) -> int:
        return await self._open_parts().commits.write(PendingWrite(key, None, expected))

    def watch(self, prefix: str, *, after: int, on_batch: OnBatch | None = None) -> StoreWatch:
        return self._hub.watch(prefix, after=after, on_batch=on_batch)

    async def current_revision(self) -> int:
        self._open_parts()
        return self._hub.revision

    async def replay_start(self, revisions: int) -> int:
        parts, shown = self._open_parts(), self._resolve_revision(0)
        compacted = await parts.readers.read(lambda reader: reader.read_compacted_revision())
        return max(shown - revisions, compacted, FIRST_REVISION)

    async def compact(self, revision: int) -> None:
        upkeep = self._open_parts().upkeep
        if revision > self._hub.revision:
            raise FutureRevision(revision, self._hub.revision)
        await upkeep.compact(revision)

    @property
    def compacted_revision(self) -> int:
        return self._parts.log.compacted if self._parts is not None else 0

    @property
    def is_shared(self) -> bool:
        return False

    @property
    def kind(self) -> str:
        return "sqlite"

    @property
    def write_failure(self) -> str:
        return self._parts.log.write_failure if self._parts is not None else ""

    async def size(self) -> int:
        self._open_parts()
        files = [self._path, self._path.with_name(self._path.name + "-wal")]
        return sum(file.stat().st_size for file in files if file.exists())

    async def _open(self, running: AsyncExitStack) -> _OpenStore:
        worker = WorkerThreads(name=f"sqlite writer {self._path.name}")
        running.push_async_callback(worker.stop)
        config = self._config
        log = RevisionLog(driver=self._driver, path=self._path, max_bytes=config.max_bytes, is_synced=config.is_synced)
        running.push_async_callback(worker.call, log.close)
        opened = await worker.call(log.open)
        for key, expires, revision in opened.expiring:
            self._expiry.note(key, expires, revision)
        self._hub.revision = log.revision
        readers = ReaderPool(driver=self._driver, path=self._path, threads=self._config.reader_threads)
        running.push_async_callback(readers.close)
        commits = GroupCommit(worker=worker, log=log, publish=self._publish, on_failure=self._on_failure)
        upkeep = StoreMaintenance(
            clock=self._clock,
            log=log,
            commits=commits,
            mark=opened.mark,
            compaction_interval_s=self._config.compaction_interval_s,
        )
        return _OpenStore(commits=commits, readers=readers, upkeep=upkeep, log=log)

    def _on_failure(self) -> None:
        if self._parts is not None:
            self._parts.upkeep.note_failure()

    async def _finish(self) -> None:
        """Reject new requests, finish those in progress, then close the watches, which still receive their events."""
        commits, self._parts = self._open_parts().commits, None
        try:
            await commits.idle()
        finally:
            self._hub.close()

    def _open_parts(self) -> _OpenStore:
        if self._parts is None:
            raise BackendClosed(f"{self._path} is closed")
        return self._parts

    def _resolve_revision(self, revision: int) -> int:
        """Return the revision that a read at `revision` reflects; raise `FutureRevision`."""
        if revision > self._hub.revision:
            raise FutureRevision(revision, self._hub.revision)
        return revision or self._hub.revision

    def _publish(self, writes: Sequence[PendingWrite], outcomes: Sequence[Outcome]) -> None:
        events = []
        for write, outcome in zip(writes, outcomes, strict=True):
            if isinstance(outcome, StoreEvent):
                events.append(outcome)
                self._expiry.note(write.key, write.expires, outcome.revision)
        if events:
            self._hub.publish(events, events[-1].revision)
            if self._parts is not None:
                self._parts.upkeep.note(events[-1].revision)

    async def _read_log(self, prefix: str, after: int, through: int) -> EventBatch:
        readers = self._open_parts().readers
        return await readers.read(lambda reader: reader.log(prefix, after, through))


class InUse(StorageError):
    """Another process has the store open."""


class StoreLock:
    """Holds a lock on a file beside the store; the kernel releases it when the process ends for any reason."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock_path = path.with_name(path.name + ".lock")
        self._lock: int | None = None

    def acquire(self) -> None:
        """Ensure that the store's file exists and is accessible by its owner only, and take the lock."""
        try:
            self._acquire()
        except OSError as error:
            raise Unavailable(f"{self._path}: {os.strerror(error.errno or 0).lower()}") from error

    def _acquire(self) -> None:
        _make_directory(self._path.parent)
        lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise InUse(f"{self._path} is in use by another process (pid {holder})") from None
        self._lock = lock
        with suppress(OSError):  # the disk may be full; the PID is only informative
            os.pwrite(lock, f"{os.getpid():<31}\n".encode(), 0)
        _make_file(self._path)

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _make_directory(directory: Path) -> None:
    if directory.is_dir():
        return
    _make_directory(directory.parent)
    directory.mkdir(mode=0o700, exist_ok=True)
    _sync_directory(directory.parent)


def _make_file(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """Sync a directory; otherwise the name of a new file may be lost after a power failure even if its contents were
    synced.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
