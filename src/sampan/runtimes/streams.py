"""A process that somebody is connected to: what exec and attach give."""

from __future__ import annotations

from typing import Protocol

STDOUT, STDERR = 1, 2


class ProcessStream(Protocol):
    """Of a process with a terminal everything it says is STDOUT. `close` lets go of it at any time; a process that was
    begun for this stream is killed then."""

    async def read(self) -> tuple[int, bytes] | None:
        """The next piece of output, and which of the two it is; None at the end of both."""

    async def write(self, data: bytes) -> None:
        """To its input; nothing happens where that is closed."""

    async def close_input(self) -> None:
        """There is no more input."""

    async def resize(self, width: int, height: int) -> None:
        """Of its terminal, in characters."""

    async def wait(self) -> int:
        """Until it has ended; its exit code. Of an attached container that goes on, until its output is at its end."""

    async def close(self) -> None: ...


async def collected(stream: ProcessStream, most: int = 16 << 20) -> tuple[int, bytes, bytes]:
    """Wait for the end: the exit code, and what was said, of which no more than `most` bytes are kept."""
    out: dict[int, bytearray] = {STDOUT: bytearray(), STDERR: bytearray()}
    try:
        while (piece := await stream.read()) is not None:
            channel, data = piece
            out[channel] += data[: max(most - len(out[channel]), 0)]
        code = await stream.wait()
    finally:
        await stream.close()
    return code, bytes(out[STDOUT]), bytes(out[STDERR])


__all__ = ["STDERR", "STDOUT", "ProcessStream", "collected"]
