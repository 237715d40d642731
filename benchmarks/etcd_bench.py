"""The etcd store: puts per second and their cost in this process, and the delivery of events to watches."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import Row
from sampan.storage.backend import EventBatch
from sampan.storage.etcd import EtcdBackend
from tests.storage.etcd_server import find, running_member

WRITERS, PUTS = 64, 3000
VALUE = b"x" * 1000
WATCHES = 50
TIMEOUT_S = 60


def rows() -> Iterator[Row]:
    """With fsync off in etcd: the figures are about this side of the connection, not about the disk. No rows where
    there is no etcd."""
    if find("etcd") is None:
        return
    with tempfile.TemporaryDirectory() as directory, running_member(Path(directory)) as member:
        yield from asyncio.run(_rows(member.client_url))


async def _rows(url: str) -> list[Row]:
    note = f"1 KB values, {WRITERS} writers, etcd without fsync on the same cores"
    async with asyncio.timeout(TIMEOUT_S), EtcdBackend(endpoints=[url]) as backend:
        await _write(backend, "/registry/warm/", 500)
        start = await backend.current_revision()
        rate, cpu_us, latencies_ms = await _write(backend, "/registry/pods/", PUTS)
        alone = (await _write(backend, "/registry/alone/", 300, writers=1))[2]
        fan_out, delivered_us = await _watch(backend, start, WATCHES)
    async with asyncio.timeout(TIMEOUT_S), EtcdBackend(endpoints=[url]) as backend:
        received, received_us = await _watch(backend, start, 1)
    return [
        Row("etcd put", rate, "puts/s", note=note),
        Row("etcd put and its event, CPU of this process", cpu_us, "us", goal=250, note=note),
        Row("etcd put, latency, median", statistics.median(latencies_ms), "ms", note=note),
        Row("etcd put, latency, one writer, median", statistics.median(alone), "ms"),
        Row("etcd events received by one watch", received, "events/s", note="from the past, over the wire"),
        Row("etcd event received, CPU of this process", received_us, "us"),
        Row("etcd watch deliveries", fan_out, "events/s", note=f"{WATCHES} watches of one prefix, from kept events"),
        Row("etcd watch delivery, CPU of this process", delivered_us, "us"),
    ]


async def _write(
    backend: EtcdBackend, prefix: str, count: int, *, writers: int = WRITERS
) -> tuple[float, float, list[float]]:
    """Return puts per second, CPU microseconds of a put, and latencies in milliseconds."""
    numbers = iter(range(count))
    latencies: list[float] = []

    async def write() -> None:
        for number in numbers:
            start = time.perf_counter()
            await backend.put(f"{prefix}default/pod-{number:06}", VALUE, expected=0)
            latencies.append((time.perf_counter() - start) * 1000)

    start, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(write() for _ in range(writers)))
    elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu
    return count / elapsed, cpu / count * 1e6, latencies


async def _watch(backend: EtcdBackend, after: int, count: int) -> tuple[float, float]:
    """Return deliveries per second to watches that start before all puts, and CPU microseconds of each."""
    total, delivered, done = PUTS * count, 0, asyncio.Event()

    def on_batch(batch: EventBatch) -> None:
        nonlocal delivered
        delivered += len(batch.events)
        if delivered >= total:
            done.set()

    start, cpu = time.perf_counter(), time.process_time()
    watches = [backend.watch("/registry/pods/", after=after, on_batch=on_batch) for _ in range(count)]
    for watch in watches:
        await watch.__aenter__()
    await done.wait()
    elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu
    for watch in watches:
        await watch.__aexit__()
    return total / elapsed, cpu / total * 1e6
