"""Run programs of the machine from a coroutine, so that none outlives its caller."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

_FINISH_S = 10.0
"""How long a program may go on after its caller was cancelled."""
_KILL_S = 2.0
"""How long to wait for a killed program. One that hangs in the kernel is not waited for any longer."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    code: int
    output: str
    errors: str
    """The text that the program wrote to standard error."""

    @property
    def last_error_line(self) -> str:
        return "".join(self.errors.strip().splitlines()[-1:])


async def run(*argv: str, timeout_s: float | None = None) -> ProgramResult:
    """Run a program without input. Raise OSError if it cannot be started, and TimeoutError if it was killed because it
    did not exit in time.

    If the caller is cancelled, the program may finish its work for a while: a mount or the deletion of a container is
    not cut off half-way.
    """
    process = await _start(argv)
    try:
        async with asyncio.timeout(timeout_s):
            output, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        raise
    finally:
        await _wait_for_exit(process)
    assert process.returncode is not None
    return ProgramResult(process.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))


async def _start(argv: Sequence[str]) -> asyncio.subprocess.Process:
    """Start a program. asyncio kills a program whose caller is cancelled before its pipes are connected, although the
    program may be at work already. This function lets it finish its work."""
    pipe = asyncio.subprocess.PIPE
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(*argv, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):
            await _wait_for_exit(await starting)
        raise


async def _wait_for_exit(process: asyncio.subprocess.Process) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_FINISH_S):
            await process.wait()
    if process.returncode is None:
        process.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(_KILL_S):
                await process.wait()
