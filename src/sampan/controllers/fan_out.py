"""Running an operation on many items with bounded concurrency, where one failure does not stop the others."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def for_each(items: Iterable[T], act: Callable[[T], Awaitable[None]], *, workers: int = 8) -> list[Exception]:
    """Call `act` on every item and return the exceptions that were raised."""
    waiting, failures = list(reversed(list(items))), list[Exception]()

    async def work() -> None:
        while waiting:
            try:
                await act(waiting.pop())
            except Exception as error:
                failures.append(error)

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
