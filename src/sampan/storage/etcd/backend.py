"""`EtcdBackend`: composition and lifetime of the storage backend for an etcd cluster.

Closing the backend waits for writes in progress (`InFlightCounter`) and stops the tasks that run while it is open
(`running_jobs`)."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from sampan.host.clock import RealClock
from sampan.storage.backend import (
    BackendClosed,
    Compacted,
    FutureRevision,
    KeyValue,
    OnBatch,
    StorageError,
    StoreEvent,
    StorePage,
    Unavailable,
)
from sampan.storage.etcd.client import EtcdClient, EtcdError, EtcdTimeouts, FailureKind
from sampan.storage.etcd.compaction import SharedCompaction
from sampan.storage.etcd.endpoints import EtcdEndpoints, EtcdTlsFiles
from sampan.storage.etcd.feed import EventFeed
from sampan.storage.etcd.reader import EtcdReader, SharedRequest, probe_compaction
from sampan.storage.etcd.stream import WatchStream
from sampan.storage.etcd.watch import EtcdWatch
from sampan.storage.etcd.wire import KeyCodec
from sampan.storage.etcd.writer import EtcdWriter, LeasePool


@asynccontextmanager
async def running_jobs(*jobs: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run endless jobs for the duration of the block; a job that fails cancels the task that entered the block."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(job) for job in jobs]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


class InFlightCounter:
    """Counts the active `with` blocks; `wait_until_idle` returns when there are none."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    def __enter__(self) -> None:
        self._count += 1
        self._none.clear()

    def __exit__(self, *exc: object) -> None:
        self._count -= 1
        if not self._count:
            self._none.set()

    async def wait_until_idle(self) -> None:
        await self._none.wait()


class EtcdBackend:
    """A `Backend` on etcd.

    `endpoints` are URLs (`https://` for TLS, with `ca`, `cert` and `key` as PEM files). All keys are stored under
    `prefix`, which callers do not see. Opening raises `Unavailable` if no member responds within the request timeout; a
    backend can be opened only once. etcd is compacted every `compaction_interval_s`; 0 leaves that to others.

    etcd counts the time to live of keys in real time, so that there is no clock to inject.
    """

    def __init__(
        self,
        *,
        endpoints: Sequence[str],
        ca: Path | None = None,
        cert: Path | None = None,
        key: Path | None = None,
        prefix: str = "",
        compaction_interval_s: float = 0,
        timeouts: EtcdTimeouts | None = None,
    ) -> None:
        self._timeouts = timeouts or EtcdTimeouts()
        keys, tls = KeyCodec(prefix), EtcdTlsFiles(ca=ca, cert=cert, key=key)
        self._endpoints = EtcdEndpoints(urls=endpoints, tls=tls, connect_timeout_s=self._timeouts.connect_s)
        self._client = EtcdClient(endpoints=self._endpoints, timeouts=self._timeouts)
        self._stream = WatchStream(client=self._client, endpoints=self._endpoints, keys=keys)
        self._reader = EtcdReader(
            client=self._client,
            keys=keys,
            current_revision=self.current_revision,
            compaction_error=self._probe_compaction,
        )
        self._revision = SharedRequest(self._reader.revision)
        self._feed = EventFeed(stream=self._stream)
        self._leases = LeasePool(self._grant)
        self._writer = EtcdWriter(
            client=self._client,
            keys=keys,
            leases=self._leases,
            reached=lambda: self._feed.position,
            since=self._read_events_after,
        )
        self._compaction = SharedCompaction(backend=self, clock=RealClock(), interval_s=compaction_interval_s)
        self._writes = InFlightCounter()
        self._is_open = False
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> "EtcdBackend":
        self._is_open = True
        try:
            await self._resources.enter_async_context(self._endpoints)
            await self._resources.enter_async_context(running_jobs(self._revision.run()))
            self._feed.begin(await self.current_revision())
            await self._resources.enter_async_context(running_jobs(self._stream.run(), self._feed.run()))
            await self._wait_until_established()
            await self._resources.enter_async_context(running_jobs(self._compaction.run(), self._compaction.follow()))
        except BaseException:
            await self._release()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._is_open = False
        await self._writes.wait_until_idle()
        await self._release()

    async def _wait_until_established(self) -> None:
        try:
            async with asyncio.timeout(self._timeouts.request_s):
                await self._stream.wait_until_established()
        except TimeoutError as error:
            raise Unavailable("etcd: no member accepts a watch") from error
        self._feed.check()

    async def _release(self) -> None:
        self._is_open = False
        self._feed.close(_closed_error())
        self._revision.close()
        await self._resources.aclose()

    async def get(self, key: str, *, revision: int = 0) -> tuple[KeyValue | None, int]:
        self._check_open()
        return await self._reader.get(key, revision)

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> StorePage:
        self._check_open()
        return await self._reader.range(prefix, start, limit, revision)

    async def count(self, prefix: str) -> int:
        self._check_open()
        return await self._reader.count(prefix)

    async def put(self, key: str, value: bytes, *, expected: int | None = None, ttl_s: float | None = None) -> int:
        self._check_open()
        with self._writes:
            return await self._writer.put(key, value, expected, ttl_s)

    async def delete(self, key: str, *, expected: int | None = None) -> int:
        self._check_open()
        with self._writes:
            return await self._writer.delete(key, expected)

    def watch(self, prefix: str, *, after: int, on_batch: OnBatch | None = None) -> EtcdWatch:
        return EtcdWatch(
            source=self._feed,
            prefix=prefix,
            after=after,
            on_batch=on_batch,
            current_revision=self.current_revision,
        )

    async def current_revision(self) -> int:
        self._check_open()
        return await self._revision.ask()

    async def replay_start(self, revisions: int) -> int:
        return await self.current_revision()

    async def compact(self, revision: int) -> None:
        self._check_open()
        try:
            await self._client.call(self._client.compact, self._client.compact.request(revision=revision))
        except EtcdError as error:
            if error.kind is FailureKind.FUTURE:
                raise FutureRevision(revision, await self.current_revision()) from error
        self._feed.forget_before(revision)
        self._compaction.note(revision)

    @property
    def compacted_revision(self) -> int:
        return self._compaction.revision

    async def size(self) -> int:
        self._check_open()
        size: int = (await self._client.call(self._client.status, self._client.status.request())).dbSize
        return size

    async def idle(self) -> bool:
        return False

    @property
    def is_shared(self) -> bool:
        return True

    @property
    def kind(self) -> str:
        return "etcd"

    @property
    def write_failure(self) -> str:
        return self._writer.failure

    def _check_open(self) -> None:
        if not self._is_open:
            raise _closed_error()

    async def _grant(self, ttl_s: int) -> tuple[int, int]:
        response = await self._client.call(self._client.grant, self._client.grant.request(TTL=ttl_s))
        if response.error:
            raise StorageError(f"etcd did not grant a lease: {response.error}")
        return response.ID, response.TTL

    async def _probe_compaction(self, revision: int, current: int) -> Compacted:
        return await probe_compaction(self._stream, revision, current=current, timeout_s=self._timeouts.connect_s)

    async def _read_events_after(self, key: str, after: int) -> Sequence[StoreEvent] | None:
        try:
            async with asyncio.timeout(self._timeouts.request_s):
                await self._feed.wait_until_reached(await self._revision.ask())
        except (TimeoutError, StorageError):
            return None
        return self._feed.list_events_after(key, after)


def _closed_error() -> BackendClosed:
    return BackendClosed("the etcd backend was closed")
