"""The contract of a stream that shares a connection with others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Stream(Protocol):
    """A stream whose two directions are closed independently."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that it was opened with; names in lower case."""

    async def read(self) -> bytes:
        """Return the received data; empty when the other side has closed its direction."""

    async def write(self, data: bytes) -> None:
        """Write data. Raise ConnectionError if the stream or the connection is closed."""

    async def close(self) -> None:
        """Close this side's direction; reading is still possible."""

    async def reset(self) -> None:
        """Abort both directions at once."""


STREAM_TYPE, PORT, REQUEST_ID = "streamtype", "port", "requestid"
"""Headers of streams."""
STDIN, STDOUT, STDERR, ERROR, RESIZE, DATA = "stdin", "stdout", "stderr", "error", "resize", "data"
"""Types of streams."""
