"""Seats that one level does not use, and another has."""

from hypothesis import given
from hypothesis import strategies as st

from sampan.apiserver.flowcontrol.priority_level import (
    SAMPLES,
    Demand,
    PriorityLevel,
    PriorityLevelLimits,
    SeatBorrowing,
    SeatRequest,
    allocate_seats,
)

wants = st.lists(
    st.builds(
        lambda least, more, target: SeatRequest(least, least + more, target),
        st.integers(0, 50),
        st.integers(0, 500),
        st.floats(0, 1000),
    ),
    min_size=1,
    max_size=8,
)


@given(wants, st.integers(1, 600))
def test_bounds_hold(seat_requests: list[SeatRequest], seats: int) -> None:
    given_out = allocate_seats(seat_requests, seats)
    assert all(want.least <= got <= want.most for want, got in zip(seat_requests, given_out, strict=True))
    least = sum(want.least for want in seat_requests)
    assert sum(given_out) <= max(seats, least) + len(seat_requests)  # a half is rounded up


def test_who_wants_more_has_more() -> None:
    quiet, busy = SeatRequest(10, 100, 0), SeatRequest(10, 100, 80)
    assert allocate_seats([quiet, busy], 60) == [10, 50]
    assert allocate_seats([SeatRequest(0, 100, 30), SeatRequest(0, 100, 60)], 60) == [20, 40]


def test_demand_fades() -> None:
    demand = Demand()
    demand.add_sample(40)
    assert demand.target(40) == 40
    later = [demand.target(0) for _ in range(100)]
    assert 38 < later[0] < 40
    assert later == sorted(later, reverse=True)
    assert later[-1] < 5


def test_a_busy_level_borrows_and_gives_back() -> None:
    lender, borrower = (
        PriorityLevel("lender", PriorityLevelLimits(50, lendable=40)),
        PriorityLevel("borrower", PriorityLevelLimits(10, 1, 1, 100)),
    )
    levels, borrowing = {"lender": lender, "borrower": borrower}, SeatBorrowing(seats=60)
    for _ in range(10):
        borrower.enter("flow")
    borrower.seats_in_queue = 100  # as if so many were waiting
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
    assert lender.seats == 50, "what it needs of its own it has back at once"


def test_a_level_that_may_not_borrow() -> None:
    lender, strict = (
        PriorityLevel("lender", PriorityLevelLimits(50, lendable=50)),
        PriorityLevel("strict", PriorityLevelLimits(10, borrowable=0)),
    )
    levels, borrowing = {"lender": lender, "strict": strict}, SeatBorrowing(seats=60)
    strict.seats_in_queue = 100
    for _ in range(SAMPLES):
        borrowing.sample(levels)
    assert strict.seats == 10
