"""Running an operation on many items with bounded concurrency, where one failure does not stop the others."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def for_each(items: Iterable[T], act: Callable[[T], Awaitable[None]], *, workers: int = 8) -> list[Exception]:
    """Call `act` on every item and return the exceptions that were raised."""
    return [error for _, error in await try_each(items, act, workers=workers)]


async def try_each(
    items: Iterable[T], act: Callable[[T], Awaitable[None]], *, workers: int = 8
) -> list[tuple[T, Exception]]:
    """Call `act` on every item and return the items for which an exception was raised, each with the exception."""
    waiting, failures = list(reversed(list(items))), list[tuple[T, Exception]]()

    async def work() -> None:
        while waiting:
            item = waiting.pop()
            try:
                await act(item)
            except Exception as error:
                failures.append((item, error))

    if len(waiting) <= 1:
        await work()
        return failures
    async with asyncio.TaskGroup() as group:
        for _ in range(min(workers, len(waiting))):
            group.create_task(work())
    return failures


def raise_first(failures: list[Exception]) -> None:
    if failures:
        raise failures[0]
