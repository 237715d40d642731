"""Pure filter from lines of the log file to the bytes for the client."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sampan.kubelet.logs.lines import BadLine, parse

ALL = "All"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    is_following: bool = False
    is_previous: bool = False
    tail_lines: int | None = None
    since_ns: int | None = None
    """Earliest time of the lines to show."""
    has_timestamps: bool = False
    limit_bytes: int | None = None
    stream: str = ALL
    """All, Stdout or Stderr."""


class Shown:
    """Lines must be passed in the order of the file."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit_bytes
        self._since = options.since_ns
        self._stream = "" if options.stream == ALL else options.stream.lower()
        self._is_new: dict[str, bool] = {}

    @property
    def is_full(self) -> bool:
        """Whether the byte limit has been reached."""
        return self._left is not None and self._left <= 0

    def feed(self, raw: Iterable[bytes]) -> bytes:
        out = b"".join(self._one(line) for line in raw)
        if self._left is not None:
            out = out[: self._left]
            self._left -= len(out)
        return out

    def _one(self, raw: bytes) -> bytes:
        try:
            line = parse(raw)
            if self._since is not None:
                if line.nanoseconds() < self._since:
                    return b""
                self._since = None  # All following lines are later.
        except BadLine:
            return b""
        if self._stream and line.stream != self._stream:
            return b""
        is_new, self._is_new[line.stream] = self._is_new.get(line.stream, True), not line.is_partial
        if self._options.has_timestamps and is_new:
            return line.time.encode() + b" " + line.text
        return line.text
