"""A backend whose watch events are delayed: writes return immediately, but caches receive their events late, as with
a store on another machine."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from sampan.storage.backend import Backend, EventBatch, OnBatch, StoreWatch
from sampan.storage.memory import MemoryBackend


class LaggingBackend:
    """Delivers watch batches in order, each `lag_s` late, and none while `held` is set."""

    def __init__(self, inner: MemoryBackend, *, lag_s: float = 0.0) -> None:
        self._inner, self._lag_s = inner, lag_s
        self._pending: deque[Callable[[], None]] = deque()
        self.held = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def watch(self, prefix: str, *, after: int, on_batch: OnBatch | None = None) -> StoreWatch:
        def delay(batch: EventBatch) -> None:
            assert on_batch is not None
            self._pending.append(lambda: on_batch(batch))
            asyncio.get_running_loop().call_later(self._lag_s, self._deliver_next)

        return self._inner.watch(prefix, after=after, on_batch=delay if on_batch is not None else None)

    def release(self) -> None:
        self.held = False
        while self._pending:
            self._pending.popleft()()

    def _deliver_next(self) -> None:
        if not self.held and self._pending:
            self._pending.popleft()()


@asynccontextmanager
async def open_lagging_backend(lag_s: float, memory: MemoryBackend) -> AsyncIterator[Backend]:
    async with memory as inner:
        assert isinstance(inner, MemoryBackend)
        yield LaggingBackend(inner, lag_s=lag_s)
