"""Waits for a condition that nothing announces: a file, another process, a thread that a virtual clock does not
know.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

_POLL_S = 0.01


async def eventually(
    holds: Callable[[], bool | Awaitable[bool]],
    *,
    timeout_s: float = 60.0,
    step: Callable[[], Awaitable[object]] | None = None,
) -> None:
    """Poll until the condition holds. `step` runs between two polls, for example to advance a virtual clock. Prefer an
    event of the component where there is one.
    """
    async with asyncio.timeout(timeout_s):
        while not await _result(holds()):
            if step is not None:
                await step()
            await asyncio.sleep(_POLL_S)


async def _result(value: bool | Awaitable[bool]) -> bool:
    return await value if inspect.isawaitable(value) else value


def wait_until(holds: Callable[[], bool], *, timeout_s: float = 60.0) -> None:
    """Poll until the condition holds, in a test without an event loop."""
    end = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"the condition did not hold within {timeout_s:g} s")
        time.sleep(_POLL_S)
