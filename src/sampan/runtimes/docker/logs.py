"""Convert the output of a container from the format of the Docker Engine to the CRI log format.

Entries have timestamps. A restarted kubelet continues after the timestamp of the last line in the file.
"""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

from sampan.runtimes.docker.streaming import Pieces
from sampan.runtimes.streams import STDERR, STDOUT

_LARGEST = 16 << 10
"""The maximum text of an entry; the engine splits longer lines."""
_TIME = 30
"""The length of a timestamp with all nanosecond digits."""
_TAIL = 64 << 10


class Entry(NamedTuple):
    time: str
    channel: int
    text: bytes
    is_whole: bool
    """Whether this entry ends the line."""


class Entries:
    """Splits a log stream of the engine into entries."""

    def __init__(self, *, has_tty: bool) -> None:
        self._has_tty = has_tty
        self._pieces, self._data = Pieces(), b""

    def feed(self, data: bytes) -> list[Entry]:
        if self._has_tty:
            self._data += data
            return list(self._plain())
        return [_entry(channel, piece) for channel, piece in self._pieces.feed(data)]

    def _plain(self) -> Iterator[Entry]:
        """Yield the entries of a container with a terminal. Such a stream has no framing: an entry ends at a newline or
        at the maximum length."""
        while len(self._data) > _TIME:
            end = self._data.find(b"\n", _TIME + 1, _TIME + 1 + _LARGEST)
            size = end + 1 if end >= 0 else _TIME + 1 + _LARGEST
            if len(self._data) < size:
                return
            yield _entry(STDOUT, self._data[:size])
            self._data = self._data[size:]


def _entry(channel: int, piece: bytes) -> Entry:
    time, _, text = piece.partition(b" ")
    is_whole = text.endswith(b"\n")
    return Entry(time.decode("ascii", "replace"), channel, text[:-1] if is_whole else text, is_whole)


def line(entry: Entry) -> bytes:
    name, mark = "stderr" if entry.channel == STDERR else "stdout", "F" if entry.is_whole else "P"
    return f"{entry.time} {name} {mark} ".encode() + entry.text + b"\n"


class LogFile:
    """The log file of one container."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        _cut(path)
        self.since, self._count = _last(path)
        """The timestamp of the last entry written, and the number of entries with that timestamp."""
        self._known = self._count
        """How many entries with that timestamp are still to be skipped, as the engine sends them again."""
        self._file = self._opened()

    def _opened(self) -> io.FileIO:
        return open(self._path, "ab", buffering=0)

    def write(self, entries: list[Entry]) -> None:
        new = [line(entry) for entry in entries if self._is_new(entry)]
        if new:
            self._file.write(b"".join(new))

    def _is_new(self, entry: Entry) -> bool:
        if entry.time < self.since or (entry.time == self.since and self._known):
            self._known -= entry.time == self.since
            return False
        self._count = self._count + 1 if entry.time == self.since else 1
        self.since, self._known = entry.time, 0
        return True

    def again(self) -> None:
        """Prepare for a new stream that starts with the entries of the last timestamp."""
        self._known = self._count

    def reopen(self) -> None:
        self._file.close()
        self._file = self._opened()

    def close(self) -> None:
        self._file.close()


async def follow(pieces: AsyncIterator[bytes], file: LogFile, *, has_tty: bool) -> None:
    """Copy the stream to the file until it ends."""
    entries = Entries(has_tty=has_tty)
    async for data in pieces:
        file.write(entries.feed(data))


def _last(path: Path) -> tuple[str, int]:
    for file in (path, *_moved(path)):
        times = [row.split(b" ", 1)[0].decode("ascii", "replace") for row in _tail(file)]
        if times:
            return times[-1], times.count(times[-1])
    return "", 0


def _moved(path: Path) -> list[Path]:
    """Return the rotated files of the log that are not compressed, the latest first."""
    try:
        names = [name for name in os.listdir(path.parent) if name.startswith(f"{path.name}.")]
    except OSError:
        return []
    return [path.parent / name for name in sorted(names, reverse=True) if not name.endswith(".gz")]


def _tail(path: Path) -> list[bytes]:
    """Return the last complete lines of a file."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _TAIL, 0))
            rows = file.read().split(b"\n")
    except OSError:
        return []
    return rows[1 if size > _TAIL else 0 : -1]


def _cut(path: Path) -> None:
    """Cut off an incomplete last line; the engine sends that entry again."""
    try:
        with open(path, "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            start = file.seek(max(size - _TAIL, 0))
            file.truncate(start + file.read().rfind(b"\n") + 1)
    except OSError:
        return
