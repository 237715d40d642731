"""Checks of opening and closing a backend, and of its size."""

import asyncio
from collections.abc import Awaitable, Callable

from sampan.storage.backend import Backend, BackendClosed, EventBatch, Unavailable
from sampan.testing.backend_conformance.subject import TIMEOUT_S, BackendSubject, Check, WatchReader, raises

_CALLS: dict[str, Callable[[Backend, str], Awaitable[object]]] = {
    "get": lambda backend, key: backend.get(key),
    "range": lambda backend, key: backend.range(key),
    "count": lambda backend, key: backend.count(key),
    "put": lambda backend, key: backend.put(key, b"x"),
    "delete": lambda backend, key: backend.delete(key),
    "current_revision": lambda backend, key: backend.current_revision(),
    "compact": lambda backend, key: backend.compact(1),
    "size": lambda backend, key: backend.size(),
}


async def closed_backend_raises_closed(subject: BackendSubject) -> None:
    backend = subject.open()
    async with backend:
        await backend.put(subject.key("a"), b"x")
    for name, call in _CALLS.items():
        try:
            await asyncio.wait_for(call(backend, subject.key("a")), TIMEOUT_S)
        except BackendClosed:
            continue
        raise AssertionError(f"{name} on a closed store did not raise Closed")
    with raises(BackendClosed):
        async with backend.watch(subject.root, after=1) as watch:
            await asyncio.wait_for(anext(aiter(watch)), TIMEOUT_S)


async def closing_the_backend_ends_watches(subject: BackendSubject) -> None:
    """Events that were delivered before closing can still be read; then the end is reported."""
    backend = subject.open()
    batches: list[EventBatch] = []
    async with backend:
        start = await backend.current_revision()
        iterated = backend.watch(subject.root, after=start)
        called = backend.watch(subject.root, after=start, on_batch=batches.append)
        await iterated.__aenter__()
        await called.__aenter__()
        await backend.put(subject.key("a"), b"x")
        reading = WatchReader(iterated, after=start)
        assert len(await reading.events(1)) == 1
        waiting = asyncio.ensure_future(anext(aiter(called)))
        await asyncio.sleep(0)
    with raises(BackendClosed):
        await reading.batch()
    with raises(BackendClosed):
        await asyncio.wait_for(waiting, TIMEOUT_S)
    await iterated.__aexit__(None, None, None)
    await called.__aexit__(None, None, None)


async def pending_writes_finish_or_fail_on_close(subject: BackendSubject) -> None:
    backend = subject.open()
    async with backend:
        writes = [asyncio.ensure_future(backend.put(subject.key(f"k{i}"), b"x")) for i in range(20)]
        for _ in range(3):
            await asyncio.sleep(0)
    outcomes = await asyncio.wait_for(asyncio.gather(*writes, return_exceptions=True), TIMEOUT_S)
    for outcome in outcomes:
        assert isinstance(outcome, int | BackendClosed | Unavailable), repr(outcome)


async def size_is_reported(subject: BackendSubject) -> None:
    async with subject.open() as backend:
        await backend.put(subject.key("a"), b"x" * 100_000)
        assert await backend.size() > 0


CHECKS: tuple[Check, ...] = (
    closed_backend_raises_closed,
    closing_the_backend_ends_watches,
    pending_writes_finish_or_fail_on_close,
    size_is_reported,
)
