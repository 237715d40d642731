"""Output in CRI's form: a line is `TIME stdout|stderr F|P TEXT`, P for a part that goes on in the next."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

_LONGEST = 16 << 10
_NAMES = {1: b"stdout", 2: b"stderr"}


class LogWriter:
    """Appends to a file; whole lines are written at once, those that go on are kept until they end or are too long."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None
        self._open: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        self.reopen()

    def reopen(self) -> None:
        """Begin a new file of the same name, if the old one was moved away."""
        self.close_file()
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o755, exist_ok=True)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        except OSError:
            self._file = None

    def write(self, channel: int, data: bytes) -> None:
        kept = self._open[channel]
        kept += data
        lines = b"".join(self._lines(channel, kept))
        if lines:
            self._append(lines)

    def finish(self, channel: int) -> None:
        """The stream has ended; what it said last may have no end of line."""
        if kept := bytes(self._open[channel]):
            self._append(_line(channel, b"P", kept))
            self._open[channel].clear()

    def close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _lines(self, channel: int, kept: bytearray) -> Iterator[bytes]:
        done = 0
        while True:
            end = kept.find(b"\n", done)
            if end < 0 and len(kept) - done < _LONGEST:
                break
            if end < 0 or end - done > _LONGEST:
                yield _line(channel, b"P", kept[done : done + _LONGEST])
                done += _LONGEST
                continue
            yield _line(channel, b"F", kept[done:end])
            done = end + 1
        del kept[:done]

    def _append(self, data: bytes) -> None:
        """A full disk loses output; it never stops the container."""
        if self._file is None:
            return
        try:
            os.write(self._file, data)
        except OSError:
            return


def _line(channel: int, tag: bytes, text: bytes | bytearray) -> bytes:
    return b"%s %s %s %s\n" % (_stamp(), _NAMES[channel], tag, bytes(text))


def _stamp() -> bytes:
    now = time.time_ns()
    seconds, fraction = divmod(now, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % fraction


__all__ = ["LogWriter"]
