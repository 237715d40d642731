"""Tasks that run beside their owner, and end with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class BackgroundTasks:
    """Tasks that belong to a block: the first one that fails cancels the block, and the end of the block cancels the
    tasks, including those that are started during the shutdown."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_over = False

    async def __aenter__(self) -> BackgroundTasks:
        self._group = await asyncio.TaskGroup().__aenter__()
        self._is_over = False
        return self

    def start(self, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        if self._group is None:
            work.close()
            raise RuntimeError("tasks can only be started within the block of their owner")
        task = self._group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._is_over:
            task.cancel()
        return task

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._group is not None
        self._is_over = True
        for task in list(self._tasks):
            task.cancel()
        try:
            await self._group.__aexit__(None, None, None)
        finally:
            self._group = None


class DetachedTasks:
    """Tasks of an owner that has no block of its own: `stop` cancels them. The failure of one is logged, and does not
    concern the others."""

    def __init__(self, owner: str) -> None:
        """`owner` is named in the log, as in "a background task of the container runtime failed"."""
        self._owner = owner
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[None]) -> None:
        """Log the exception of a failed task, which would be lost otherwise: no caller awaits the task."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a background task of %s failed", self._owner, exc_info=error)

    async def stop(self) -> None:
        while self._tasks:  # a cancelled task may start another one
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
