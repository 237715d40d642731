"""Long work on the event loop pauses, and one piece of it runs in each iteration of the loop."""

import asyncio

import pytest

from sampan.host import time_slice
from sampan.host.time_slice import TimeSlice


@pytest.fixture(autouse=True)
def no_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slice, "SLICE_S", -1.0)


async def test_one_piece_of_long_work_runs_in_each_iteration_of_the_loop() -> None:
    iterations, ran = 0, list[tuple[int, str]]()

    def count() -> None:
        nonlocal iterations
        iterations += 1
        asyncio.get_running_loop().call_soon(count)

    async def work(name: str) -> None:
        async for _ in TimeSlice().iterate(range(3)):
            ran.append((iterations, name))

    count()
    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(work(name))
    assert [name for _, name in ran] == list("abcabcabc")
    assert len({iteration for iteration, _ in ran}) == 9


async def test_cancelled_work_does_not_stop_the_rest() -> None:
    async def work() -> int:
        await TimeSlice().pause_if_used_up()
        return 1

    first, second = asyncio.create_task(work()), asyncio.create_task(work())
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 1
    assert first.cancelled()


async def test_work_within_its_slice_does_not_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slice, "SLICE_S", 3600.0)
    others: list[int] = []
    asyncio.get_running_loop().call_soon(others.append, 1)
    assert [item async for item in TimeSlice().iterate("ab")] == ["a", "b"]
    assert others == []
