"""Seats and queues of one level."""

import asyncio
from collections.abc import Awaitable

import pytest

from sampan.apiserver.flowcontrol.priority_level import PriorityLevel, PriorityLevelLimits, deal
from sampan.machinery import errors


def test_seats_without_queues() -> None:
    level = PriorityLevel("a", PriorityLevelLimits(2))
    assert level.enter("x") is None
    assert level.enter("x") is None
    with pytest.raises(errors.TooManyRequests) as caught:
        level.enter("x")
    assert caught.value.retry_after_s == 1
    level.leave()
    assert level.enter("y") is None


def begun(waiting: Awaitable[None] | None) -> asyncio.Task[None]:
    assert waiting is not None

    async def wait() -> None:
        await waiting

    return asyncio.create_task(wait())


async def test_queue_and_its_length() -> None:
    level = PriorityLevel("a", PriorityLevelLimits(1, queues=1, hand=1, queue_length=2))
    assert level.enter("x") is None
    first, second = begun(level.enter("x")), begun(level.enter("x"))
    await asyncio.sleep(0)
    with pytest.raises(errors.TooManyRequests):
        level.enter("x")
    level.leave()
    await first
    assert not second.done()
    level.leave()
    await second
    level.leave()
    assert (level.seats_in_use, level.waiting) == (0, 0)


async def test_a_small_flow_is_not_held_up_by_a_large_one() -> None:
    level = PriorityLevel("a", PriorityLevelLimits(1, queues=64, hand=1, queue_length=50))
    large, small = "a", next(name for name in "bcdefg" if deal(name, 64, 1) != deal("a", 64, 1))
    order: list[str] = []
    assert level.enter(large) is None

    async def visit(flow: str) -> None:
        waiting = level.enter(flow)
        assert waiting is not None
        await waiting
        order.append(flow)
        level.leave()

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(visit(large))
        await asyncio.sleep(0)
        for _ in range(3):
            group.create_task(visit(small))
        await asyncio.sleep(0)
        level.leave()
    assert [at for at, flow in enumerate(order) if flow == small][-1] <= 6


async def test_who_gives_up_leaves_nothing() -> None:
    level = PriorityLevel("a", PriorityLevelLimits(1, queues=2, hand=2, queue_length=5))
    assert level.enter("x") is None
    early, late = begun(level.enter("x")), begun(level.enter("x"))
    await asyncio.sleep(0)
    early.cancel()
    await asyncio.wait([early])
    assert level.waiting == 1
    level.leave()
    late.cancel()  # it has its seat, but has not noticed
    await asyncio.wait([late])
    assert (level.seats_in_use, level.waiting) == (0, 0)


async def test_more_seats_serve_those_who_wait() -> None:
    level = PriorityLevel("a", PriorityLevelLimits(0, queues=2, hand=1, queue_length=5))
    waiting = begun(level.enter("x"))
    await asyncio.sleep(0)
    level.configure(PriorityLevelLimits(1))
    await waiting
    assert level.seats_in_use == 1


def test_hands() -> None:
    hands = [deal(f"flow {number}", 128, 6) for number in range(200)]
    assert all(len(set(hand)) == 6 and all(0 <= at < 128 for at in hand) for hand in hands)
    assert hands == [deal(f"flow {number}", 128, 6) for number in range(200)]
    assert len({tuple(sorted(hand)) for hand in hands}) == 200
    assert {at for hand in hands for at in hand} == set(range(128))


async def test_wide_calls() -> None:
    """They take their seats together; one that is wider than the level has it to itself."""

    level = PriorityLevel("level", PriorityLevelLimits(4, 1, 1, 10))
    assert level.enter("a", 3) is None
    wide = level.enter("b", 10)
    assert wide is not None
    waiting = asyncio.ensure_future(wide)
    await asyncio.sleep(0)
    assert (level.seats_in_use, level.waiting, level.seats_in_queue) == (3, 1, 10)
    level.leave(3)
    await waiting
    assert (level.seats_in_use, level.waiting, level.seats_in_queue) == (10, 0, 0)
    level.leave(10)
    assert (level.seats_in_use, level.executing, level.dispatched) == (0, 0, 2)
