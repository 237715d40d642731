"""Container output in the CRI log format: `TIME stdout|stderr F|P TEXT`, where P marks a partial line."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

_MAX_LINE_BYTES = 16 << 10
_NAMES = {1: b"stdout", 2: b"stderr"}


class LogWriter:
    """Appends output to a log file. Complete lines are written at once; an incomplete line is buffered until it is
    complete or too long."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None
        self._open: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        self.reopen()

    def reopen(self) -> None:
        """Open the file again, which creates a new one after log rotation has renamed the old one."""
        self.close_file()
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o755, exist_ok=True)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        except OSError:
            self._file = None

    def write(self, channel: int, data: bytes) -> None:
        buffer = self._open[channel]
        buffer += data
        lines = b"".join(self._lines(channel, buffer))
        if lines:
            self._append(lines)

    def finish(self, channel: int) -> None:
        """Write the last line of a stream that has ended, which may lack a newline."""
        if buffer := bytes(self._open[channel]):
            self._append(_line(channel, b"P", buffer))
            self._open[channel].clear()

    def close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _lines(self, channel: int, buffer: bytearray) -> Iterator[bytes]:
        done = 0
        while True:
            end = buffer.find(b"\n", done)
            if end < 0 and len(buffer) - done < _MAX_LINE_BYTES:
                break
            if end < 0 or end - done > _MAX_LINE_BYTES:
                yield _line(channel, b"P", buffer[done : done + _MAX_LINE_BYTES])
                done += _MAX_LINE_BYTES
                continue
            yield _line(channel, b"F", buffer[done:end])
            done = end + 1
        del buffer[:done]

    def _append(self, data: bytes) -> None:
        """Append to the file, ignoring errors: output is lost if the disk is full, but the container is not blocked."""
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
