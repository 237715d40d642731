"""Seats and queues of one priority level, and seats that it borrows from others."""

import asyncio
from collections.abc import Awaitable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.apiserver.flowcontrol.priority_level import (
    SAMPLES,
    PriorityLevel,
    PriorityLevelLimits,
    SeatBorrowing,
    SeatDemand,
    SeatRequest,
    allocate_seats,
    deal,
)
from sampan.machinery import errors


def test_level_without_queues_rejects_requests_beyond_its_seats() -> None:
    level = PriorityLevel("a", PriorityLevelLimits(2))
    assert level.enter("x") is None
    assert level.enter("x") is None
    with pytest.raises(errors.TooManyRequests) as caught:
        level.enter("x")
    assert caught.value.retry_after_s == 1
    level.leave()
    assert level.enter("y") is None


def start_waiting(waiting: Awaitable[None] | None) -> asyncio.Task[None]:
    assert waiting is not None

    async def wait() -> None:
        await waiting

    return asyncio.create_task(wait())


async def test_requests_beyond_the_queue_length_are_rejected() -> None:
    level = PriorityLevel("a", PriorityLevelLimits(1, queues=1, hand=1, queue_length=2))
    assert level.enter("x") is None
    first, second = start_waiting(level.enter("x")), start_waiting(level.enter("x"))
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


async def test_cancelled_requests_release_seats_and_queue_places() -> None:
    level = PriorityLevel("a", PriorityLevelLimits(1, queues=2, hand=2, queue_length=5))
    assert level.enter("x") is None
    early, late = start_waiting(level.enter("x")), start_waiting(level.enter("x"))
    await asyncio.sleep(0)
    early.cancel()
    await asyncio.wait([early])
    assert level.waiting == 1
    level.leave()
    late.cancel()  # The request has its seat, but its task has not run yet.
    await asyncio.wait([late])
    assert (level.seats_in_use, level.waiting) == (0, 0)


async def test_added_seats_dispatch_queued_requests() -> None:
    level = PriorityLevel("a", PriorityLevelLimits(0, queues=2, hand=1, queue_length=5))
    waiting = start_waiting(level.enter("x"))
    await asyncio.sleep(0)
    level.configure(PriorityLevelLimits(1))
    await waiting
    assert level.seats_in_use == 1


def test_each_flow_is_dealt_the_same_hand_of_queues() -> None:
    hands = [deal(f"flow {number}", 128, 6) for number in range(200)]
    assert all(len(set(hand)) == 6 and all(0 <= at < 128 for at in hand) for hand in hands)
    assert hands == [deal(f"flow {number}", 128, 6) for number in range(200)]
    assert len({tuple(sorted(hand)) for hand in hands}) == 200
    assert {at for hand in hands for at in hand} == set(range(128))


async def test_wide_request_waits_for_all_its_seats() -> None:
    """A request that is wider than the level runs alone."""

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


seat_request_lists = st.lists(
    st.builds(
        lambda least, more, target: SeatRequest(least, least + more, target),
        st.integers(0, 50),
        st.integers(0, 500),
        st.floats(0, 1000),
    ),
    min_size=1,
    max_size=8,
)


@given(seat_request_lists, st.integers(1, 600))
def test_allocated_seats_are_within_the_bounds(seat_requests: list[SeatRequest], seats: int) -> None:
    allocation = allocate_seats(seat_requests, seats)
    assert all(
        request.least <= allocated_seats <= request.most
        for request, allocated_seats in zip(seat_requests, allocation, strict=True)
    )
    least = sum(request.least for request in seat_requests)
    assert sum(allocation) <= max(seats, least) + len(seat_requests)  # Halves are rounded up.


def test_seats_are_allocated_in_proportion_to_demand() -> None:
    quiet, busy = SeatRequest(10, 100, 0), SeatRequest(10, 100, 80)
    assert allocate_seats([quiet, busy], 60) == [10, 50]
    assert allocate_seats([SeatRequest(0, 100, 30), SeatRequest(0, 100, 60)], 60) == [20, 40]


def test_demand_target_decays() -> None:
    demand = SeatDemand()
    demand.add_sample(40)
    assert demand.target(40) == 40
    later = [demand.target(0) for _ in range(100)]
    assert 38 < later[0] < 40
    assert later == sorted(later, reverse=True)
    assert later[-1] < 5


def test_busy_level_borrows_seats_and_returns_them() -> None:
    lender, borrower = (
        PriorityLevel("lender", PriorityLevelLimits(50, lendable=40)),
        PriorityLevel("borrower", PriorityLevelLimits(10, 1, 1, 100)),
    )
    levels, borrowing = {"lender": lender, "borrower": borrower}, SeatBorrowing(seats=60)
    for _ in range(10):
        borrower.enter("flow")
    borrower.seats_in_queue = 100  # as if requests for 100 seats were queued
    for _ in range(SAMPLES):
        borrowing.sample(levels)
    assert (lender.seats, borrower.seats) == (10, 50)
    borrower.seats_in_queue = 0
    for _ in range(40):
        lender.enter("other") if lender.seats_in_use < lender.seats else None
    lender.seats_in_queue = 40
    lender.peak_demand = 50
    for _ in range(SAMPLES):
        borrowing.sample(levels)
    assert lender.seats == 50, "a lender gets the seats that it needs back at once"


def test_level_with_borrowing_limit_zero_does_not_borrow() -> None:
    lender, strict = (
        PriorityLevel("lender", PriorityLevelLimits(50, lendable=50)),
        PriorityLevel("strict", PriorityLevelLimits(10, borrowable=0)),
    )
    levels, borrowing = {"lender": lender, "strict": strict}, SeatBorrowing(seats=60)
    strict.seats_in_queue = 100
    for _ in range(SAMPLES):
        borrowing.sample(levels)
    assert strict.seats == 10


def test_borrowing_counts_the_queued_requests_of_the_next_period() -> None:
    """The peak demand of a period starts with the requests that are executed or queued at its start."""
    lender = PriorityLevel("lender", PriorityLevelLimits(50, lendable=40))
    borrower = PriorityLevel("borrower", PriorityLevelLimits(10, 1, 1, 100))
    levels, borrowing = {"lender": lender, "borrower": borrower}, SeatBorrowing(seats=60)
    borrower.enter("flow")
    borrower.seats_in_queue = 30
    for _ in range(SAMPLES):
        borrowing.sample(levels)
    assert borrower.peak_demand == 31
    assert lender.peak_demand == 0
