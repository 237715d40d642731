"""One of the streams that share a connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Stream(Protocol):
    """Either direction ends by itself."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What it was opened with; names in lower case."""

    async def read(self) -> bytes:
        """What has come; empty when the other side has ended."""

    async def write(self, data: bytes) -> None:
        """ConnectionError if the stream, or all of the connection, is gone."""

    async def close(self) -> None:
        """Nothing more is written; reading goes on."""

    async def reset(self) -> None:
        """End it at once in both directions."""


STREAM_TYPE, PORT, REQUEST_ID = "streamtype", "port", "requestid"
"""Headers."""
STDIN, STDOUT, STDERR, ERROR, RESIZE, DATA = "stdin", "stdout", "stderr", "error", "resize", "data"
"""Types of streams."""

__all__ = ["DATA", "ERROR", "PORT", "REQUEST_ID", "RESIZE", "STDERR", "STDIN", "STDOUT", "STREAM_TYPE", "Stream"]
