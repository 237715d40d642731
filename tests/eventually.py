"""Polling for conditions without an event: a file, another process, a thread that a virtual clock does not know."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

_POLL_S = 0.01
_Value = TypeVar("_Value")


@overload
async def eventually(
    value: Callable[[], Awaitable[_Value]],
    *,
    timeout_s: float = ...,
    poll_s: float = ...,
    step: Callable[[], Awaitable[object]] | None = ...,
    ignore: tuple[type[Exception], ...] = ...,
) -> _Value: ...


@overload
async def eventually(
    value: Callable[[], _Value],
    *,
    timeout_s: float = ...,
    poll_s: float = ...,
    step: Callable[[], Awaitable[object]] | None = ...,
    ignore: tuple[type[Exception], ...] = ...,
) -> _Value: ...


async def eventually(
    value: Callable[[], object],
    *,
    timeout_s: float = 60.0,
    poll_s: float = _POLL_S,
    step: Callable[[], Awaitable[object]] | None = None,
    ignore: tuple[type[Exception], ...] = (),
) -> object:
    """Poll until the value is true, and return it. `step` runs between two polls, for example to advance a virtual
    clock. An exception of `ignore` counts as false. Prefer an event of the component where there is one.
    """
    async with asyncio.timeout(timeout_s):
        while True:
            try:
                result = value()
                if inspect.isawaitable(result):
                    result = await result
            except ignore:
                result = None
            if result:
                return result
            if step is not None:
                await step()
            await asyncio.sleep(poll_s)


def wait_until(
    value: Callable[[], _Value],
    *,
    timeout_s: float = 60.0,
    poll_s: float = _POLL_S,
    ignore: tuple[type[Exception], ...] = (),
    describe: Callable[[], object] = lambda: "the condition does not hold",
) -> _Value:
    """Poll until the value is true, and return it, in a test without an event loop. An exception of `ignore` counts as
    false. `describe` returns what the failure of the test shows.
    """
    end = time.monotonic() + timeout_s
    while True:
        try:
            if result := value():
                return result
        except ignore:
            if time.monotonic() > end:
                raise
        if time.monotonic() > end:
            raise TimeoutError(f"not within {timeout_s:g} s: {describe()}")
        time.sleep(poll_s)
