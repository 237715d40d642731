"""LoopThread holds an asynchronous context manager open in a thread."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sampan.testing.loop_thread import LoopThread


@asynccontextmanager
async def recorded_context(notes: list[str], *, fails: str = "") -> AsyncIterator[None]:
    if fails == "entering":
        raise KeyError(fails)
    notes.append("entered")
    try:
        yield
    finally:
        notes.append("left")
        if fails == "leaving":
            raise KeyError(fails)


async def thread_name() -> str:
    return threading.current_thread().name


def test_context_is_entered_used_and_exited() -> None:
    notes: list[str] = []
    thread = LoopThread("helper")
    thread.start(recorded_context(notes))
    assert notes == ["entered"]
    assert thread.run(thread_name(), 5) == "helper"
    thread.stop()
    assert notes == ["entered", "left"]
    with pytest.raises(RuntimeError, match="not running"):
        thread.run(thread_name(), 5)


def test_start_raises_the_exception_of_entering_the_context() -> None:
    thread = LoopThread("helper")
    with pytest.raises(KeyError, match="entering"):
        thread.start(recorded_context([], fails="entering"))
    assert "helper" not in {thread.name for thread in threading.enumerate()}


def test_stop_raises_the_exception_of_leaving_the_context() -> None:
    thread = LoopThread("helper")
    thread.start(recorded_context([], fails="leaving"))
    with pytest.raises(KeyError, match="leaving"):
        thread.stop()


def test_run_cancels_the_coroutine_after_the_timeout() -> None:
    thread, ended = LoopThread("helper"), threading.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    thread.start(recorded_context([]))
    with pytest.raises(TimeoutError):
        thread.run(endless(), 0.01)
    assert ended.wait(5)
    thread.stop()
