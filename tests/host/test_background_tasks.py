"""Owners of background tasks: failures, shutdown, and tasks that start others."""

import asyncio
import logging

import pytest

from sampan.host.background_tasks import BackgroundTasks, DetachedTasks


async def fail() -> None:
    raise ValueError("broken")


async def wait_forever(ended: list[str], name: str) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append(name)


async def test_end_of_the_block_cancels_the_tasks() -> None:
    ended: list[str] = []
    async with BackgroundTasks() as tasks:
        tasks.start(wait_forever(ended, "first"))
        tasks.start(wait_forever(ended, "second"))
        await asyncio.sleep(0)
        assert ended == []
    assert sorted(ended) == ["first", "second"]


async def test_failure_of_a_task_ends_the_block() -> None:
    ended: list[str] = []

    async def run() -> None:
        async with BackgroundTasks() as tasks:
            tasks.start(wait_forever(ended, "other"))
            await asyncio.sleep(0)
            tasks.start(fail())
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as raised:
        await run()
    assert [str(error) for error in raised.value.exceptions] == ["broken"]
    assert ended == ["other"]


async def test_failure_of_an_awaited_task_is_reported_once() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with BackgroundTasks() as tasks:
            await tasks.start(fail())
    assert [str(error) for error in raised.value.exceptions] == ["broken"]
    await asyncio.sleep(0)  # the block left no cancellation behind


async def test_error_of_the_block_is_raised_as_it_is() -> None:
    ended: list[str] = []

    async def run() -> None:
        async with BackgroundTasks() as tasks:
            tasks.start(wait_forever(ended, "task"))
            await asyncio.sleep(0)
            raise KeyError

    with pytest.raises(KeyError):
        await run()
    assert ended == ["task"]


async def test_task_that_is_started_during_the_shutdown_is_cancelled() -> None:
    started: list[asyncio.Task[None]] = []
    ended: list[str] = []

    async def start_another() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            started.append(tasks.start(wait_forever(ended, "late")))

    async with BackgroundTasks() as tasks:
        tasks.start(start_another())
        await asyncio.sleep(0)
    assert [task.cancelled() for task in started] == [True]


async def test_owner_can_run_again_and_refuses_tasks_in_between() -> None:
    tasks = BackgroundTasks()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="within the block"):
            tasks.start(fail())
        async with tasks:
            assert await tasks.start(asyncio.sleep(0, result=5)) == 5


async def test_failure_of_a_detached_task_is_logged_and_leaves_the_others(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[str] = []
    tasks = DetachedTasks("the test")
    tasks.start(wait_forever(ended, "other"))
    with caplog.at_level(logging.ERROR):
        failed = tasks.start(fail())
        await asyncio.wait((failed,))
    await asyncio.sleep(0)
    assert ended == []
    assert [record.getMessage() for record in caplog.records] == ["a background task of the test failed"]
    await tasks.stop()
    assert ended == ["other"]


async def test_stop_cancels_detached_tasks_that_others_start() -> None:
    ended: list[str] = []

    async def start_another() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            tasks.start(wait_forever(ended, "late"))
            ended.append("first")

    tasks = DetachedTasks("the test")
    tasks.start(start_another())
    await asyncio.sleep(0)
    await tasks.stop()
    assert ended[0] == "first"
    await tasks.stop()
