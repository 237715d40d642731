"""The interface of a process with attached streams, as exec and attach return it."""

from __future__ import annotations

from typing import Protocol

STDOUT, STDERR = 1, 2


class ProcessStream(Protocol):
    """A process with attached streams. All output of a process with a terminal is STDOUT. `close` may be called at any
    time; it kills a process that was started for this stream."""

    async def read(self) -> tuple[int, bytes] | None:
        """Return the next piece of output with its channel, or None at the end of both channels."""

    async def write(self, data: bytes) -> None:
        """Write to stdin. Do nothing if stdin is closed."""

    async def close_input(self) -> None:
        """Signal the end of input."""

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal in characters."""

    async def wait(self) -> int:
        """Wait for the exit of the process, and return its exit code. For an attached container that keeps running,
        wait for the end of its output."""

    async def close(self) -> None: ...


async def collected(stream: ProcessStream, most: int = 16 << 20) -> tuple[int, bytes, bytes]:
    """Wait for the exit of the process, and return the exit code, stdout and stderr, of each no more than `most`
    bytes."""
    out: dict[int, bytearray] = {STDOUT: bytearray(), STDERR: bytearray()}
    try:
        while (piece := await stream.read()) is not None:
            channel, data = piece
            out[channel] += data[: max(most - len(out[channel]), 0)]
        code = await stream.wait()
    finally:
        await stream.close()
    return code, bytes(out[STDOUT]), bytes(out[STDERR])
