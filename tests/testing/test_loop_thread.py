"""A context manager held open in a thread."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sampan.testing.loop_thread import LoopThread


@asynccontextmanager
async def noting(notes: list[str], *, fails: str = "") -> AsyncIterator[None]:
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


def test_entered_used_and_left() -> None:
    notes: list[str] = []
    thread = LoopThread("helper")
    thread.start(noting(notes))
    assert notes == ["entered"]
    assert thread.run(thread_name(), 5) == "helper"
    thread.stop()
    assert notes == ["entered", "left"]
    with pytest.raises(RuntimeError, match="not running"):
        thread.run(thread_name(), 5)


def test_what_goes_wrong_at_the_start_is_raised() -> None:
    thread = LoopThread("helper")
    with pytest.raises(KeyError, match="entering"):
        thread.start(noting([], fails="entering"))
    assert "helper" not in {thread.name for thread in threading.enumerate()}


def test_what_goes_wrong_at_the_end_is_raised() -> None:
    thread = LoopThread("helper")
    thread.start(noting([], fails="leaving"))
    with pytest.raises(KeyError, match="leaving"):
        thread.stop()


def test_work_that_takes_too_long_is_cancelled() -> None:
    thread, ended = LoopThread("helper"), threading.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    thread.start(noting([]))
    with pytest.raises(TimeoutError):
        thread.run(endless(), 0.01)
    assert ended.wait(5)
    thread.stop()
