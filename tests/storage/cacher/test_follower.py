"""Work that follows a resource: its calls, and how it goes on after errors."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from sampan.machinery import errors
from sampan.storage.cacher import Cacher, WatchClosed, Watcher
from sampan.storage.cacher.follower import follow_changes, follow_events
from tests.storage.cacher.cacher_store import open_pod_store, run_in_virtual_time

SYNC_FAILURES = [errors.conflict("pods", "a", "changed"), WatchClosed("closed")]


async def wait_until(is_done: Callable[[], bool]) -> None:
    while not is_done():  # noqa: ASYNC110 - the time is virtual
        await asyncio.sleep(0.01)


async def cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait((task,))


def follow(cacher: Cacher, sync: Callable[[], Awaitable[None]]) -> "asyncio.Task[None]":
    return asyncio.ensure_future(follow_changes(cacher, "pods", sync))


@run_in_virtual_time
async def test_sync_sees_the_state_at_the_start_and_after_each_change() -> None:
    states: list[set[str]] = []
    async with open_pod_store() as store:
        await store.put("a")

        async def sync() -> None:
            states.append({item.name for item in store.cacher.peek_all()})

        task = follow(store.cacher, sync)
        await wait_until(lambda: bool(states))
        await store.put("b")
        await wait_until(lambda: states[-1] == {"a", "b"})
        await store.delete("a")
        await wait_until(lambda: states[-1] == {"b"})
        await cancel(task)
    assert states[0] == {"a"}


@run_in_virtual_time
async def test_sync_is_called_again_after_the_watch_has_ended() -> None:
    calls: list[float] = []
    async with open_pod_store() as store:

        async def sync() -> None:
            calls.append(asyncio.get_running_loop().time())

        task = follow(store.cacher, sync)
        await wait_until(lambda: len(calls) == 1)
        store.cacher.end_watches()
        await wait_until(lambda: len(calls) == 2)
        await cancel(task)


@pytest.mark.parametrize("failure", SYNC_FAILURES, ids=["request", "cache"])
def test_errors_of_sync_are_logged_and_it_is_called_again(failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    @run_in_virtual_time
    async def run() -> None:
        async with open_pod_store() as store:

            async def sync() -> None:
                calls.append(1)
                if len(calls) == 1:
                    raise failure

            task = follow(store.cacher, sync)
            await wait_until(lambda: len(calls) >= 2)
            await cancel(task)

    with caplog.at_level(logging.WARNING):
        run()
    assert [record.getMessage() for record in caplog.records] == [f"cannot follow pods, retrying: {failure}"]


@run_in_virtual_time
async def test_unexpected_errors_end_the_work() -> None:
    async def fail(watcher: Watcher) -> None:
        raise KeyError("bug")

    async with open_pod_store() as store:
        with pytest.raises(KeyError):
            await follow_events(store.cacher, "pods", fail)
