"""Slow start."""

import asyncio

import pytest

from sampan.controllers.ownership.pods import all_at_once, slow_start


def run(count: int, first: int, failing: frozenset[int] = frozenset()) -> tuple[int, str, list[int]]:
    """Successes, the failure, and how many calls were under way together in each batch."""
    batches: list[int] = []
    under_way = 0

    async def step(at: int) -> None:
        nonlocal under_way
        if under_way == 0:
            batches.append(0)
        under_way += 1
        batches[-1] += 1
        await asyncio.sleep(0)
        under_way -= 1
        if at in failing:
            raise ValueError(f"call {at}")

    async def main() -> tuple[int, str, list[int]]:
        outcome = await slow_start(count, first, step)
        return outcome.successes, str(outcome.error or ""), batches

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("count", "first", "failing", "wanted"),
    [
        (0, 1, set(), (0, "", [])),
        (1, 1, set(), (1, "", [1])),
        (10, 1, set(), (10, "", [1, 2, 4, 3])),
        (10, 4, set(), (10, "", [4, 6])),
        (10, 1, {0}, (0, "call 0", [1])),
        (10, 1, {2}, (2, "call 2", [1, 2])),
        (10, 1, {4, 6}, (5, "call 4", [1, 2, 4])),
        (3, 9, {1}, (2, "call 1", [3])),
    ],
)
def test_batches_double_until_one_fails(
    count: int, first: int, failing: set[int], wanted: tuple[int, str, list[int]]
) -> None:
    assert run(count, first, frozenset(failing)) == wanted


def test_all_at_once_tries_every_call() -> None:
    seen: list[int] = []

    async def step(at: int) -> None:
        seen.append(at)
        if at in (1, 2):
            raise ValueError(f"call {at}")

    assert str(asyncio.run(all_at_once(4, step))) == "call 1"
    assert seen == [0, 1, 2, 3]
    assert asyncio.run(all_at_once(0, step)) is None
