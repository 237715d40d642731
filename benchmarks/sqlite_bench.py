"""The SQLite store: durable writes by one and by many writers, their CPU time, and reads."""

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import uvloop

from benchmarks import Row
from sampan.host.clock import RealClock
from sampan.storage.backend import EventBatch
from sampan.storage.sqlite import SqliteBackend

T = TypeVar("T")
POD_SIZES = (1024, 3500)
KEYS = 10_000


class Written(NamedTuple):
    per_s: float
    cpu_us: float
    median_ms: float
    slowest_hundredth_ms: float


def rows() -> Iterator[Row]:
    for size in POD_SIZES:
        many = _run(partial(_write, writers=64, count=16_000, size=size))
        yield Row(f"sqlite: durable writes of {size} B", many.per_s, "writes/s", 4000, "64 writers; the disk matters")
        yield Row(f"sqlite: their 99th percentile, {size} B", many.slowest_hundredth_ms, "ms", None, "64 writers")
    some = _run(lambda backend: _write(backend, writers=16, count=8000, size=3500))
    yield Row("sqlite: CPU of a write of 3500 B", some.cpu_us, "us", 60, "16 writers, a watch on the prefix")
    one = _run(lambda backend: _write(backend, writers=1, count=1000, size=3500))
    yield Row("sqlite: one write after the other", one.median_ms, "ms", None, "median; one fsync each")
    get_us, range_ms = _run(_read)
    yield Row("sqlite: get", get_us, "us", None, "3500 B")
    yield Row("sqlite: range of 10,000", range_ms, "ms", None, "3500 B each, in a thread")


def _run(work: Callable[[SqliteBackend], Awaitable[T]]) -> T:
    async def on_a_fresh_store() -> T:
        with tempfile.TemporaryDirectory() as directory:
            async with SqliteBackend(path=Path(directory, "state.db"), clock=RealClock()) as backend:
                return await work(backend)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(on_a_fresh_store())


async def _write(backend: SqliteBackend, *, writers: int, count: int, size: int) -> Written:
    """Create objects as an API server does, while a watch follows."""
    value, times, followed = os.urandom(size), [], 0

    def follow(batch: EventBatch) -> None:
        nonlocal followed
        followed += len(batch.events)

    async def create(writer: int) -> None:
        for number in range(count // writers):
            start = time.perf_counter()
            await backend.put(f"/registry/pods/namespace-{writer}/pod-{number}", value, expected=0)
            times.append(time.perf_counter() - start)

    async with backend.watch("/registry/pods/", after=await backend.current_revision(), on_batch=follow):
        start, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(create(writer) for writer in range(writers)))
        elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu
    assert followed == len(times)
    times.sort()
    return Written(
        len(times) / elapsed,
        cpu / len(times) * 1e6,
        times[len(times) // 2] * 1e3,
        times[len(times) * 99 // 100] * 1e3,
    )


async def _read(backend: SqliteBackend) -> tuple[float, float]:
    """Return the microseconds of a get and the milliseconds of a range of everything."""
    value = os.urandom(3500)
    await asyncio.gather(*(backend.put(f"/registry/pods/default/pod-{i}", value) for i in range(KEYS)))
    start = time.perf_counter()
    for i in range(KEYS):
        await backend.get(f"/registry/pods/default/pod-{i}")
    get_s = (time.perf_counter() - start) / KEYS
    start = time.perf_counter()
    assert len((await backend.range("/registry/pods/")).entries) == KEYS
    return get_s * 1e6, (time.perf_counter() - start) * 1e3
