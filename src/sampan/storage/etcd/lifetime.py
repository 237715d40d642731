"""Tasks that run while the backend is open, and the writes that closing waits for."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running(*jobs: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run endless jobs for the duration of the block; a job that fails cancels the task that entered the block."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(job) for job in jobs]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


class UnderWay:
    """Counts the active `with` blocks; `finished` returns when there are none."""

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

    async def finished(self) -> None:
        await self._none.wait()
